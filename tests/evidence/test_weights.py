"""Estimates from independent weights of both directions, and the Pareto shape of their tail."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import genpareto, t

from temperance.diagnostics._arviz import smoothed_weights
from temperance.evidence.tempered import student
from temperance.evidence.weights import both_ways, downwards, effective_draws, pareto_khat, upwards

TRUE = 1.7


def weights(rng: np.random.Generator, n: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian work obeys Crooks's theorem: log w ~ N(log Z ∓ s²/2, s²) upwards and downwards."""
    noise = rng.normal(size=(2, n)) * spread
    return TRUE - spread**2 / 2 + noise[0], TRUE + spread**2 / 2 + noise[1]


def test_errors_are_calibrated_and_both_ways_is_best() -> None:
    rng = np.random.default_rng(0)
    found: dict[str, list[tuple[float, float]]] = {"up": [], "down": [], "both": []}
    for _ in range(500):
        forward, backward = weights(rng, 300)
        found["up"].append(upwards(forward))
        found["down"].append(downwards(backward))
        found["both"].append(both_ways(forward, backward))
    spread = {}
    for name, estimates in found.items():
        value, error = np.array(estimates).T
        z = (value - TRUE) / error
        spread[name] = value.std()
        assert abs(z.mean()) < 0.4, name
        assert 0.7 < z.var() < 1.5, name
    assert spread["both"] < 0.75 * min(spread["up"], spread["down"])


def test_bounds_are_on_their_sides() -> None:
    """With weights that vary a lot, few of them miss the average on the side that Jensen's inequality says."""
    rng = np.random.default_rng(0)
    forward, backward = np.array([weights(rng, 20, 3.0) for _ in range(300)]).swapaxes(0, 1)
    assert np.mean([upwards(row)[0] for row in forward]) < TRUE - 0.5
    assert np.mean([downwards(row)[0] for row in backward]) > TRUE + 0.5


def test_effective_draws() -> None:
    assert effective_draws(np.zeros(50)) == pytest.approx(50)
    assert effective_draws(np.array([0.0, -np.inf, -np.inf])) == pytest.approx(1)


@pytest.mark.parametrize("shape", [0.2, 0.6, 1.1])
def test_pareto_shape_is_found(shape: float) -> None:
    sizes = genpareto.rvs(shape, size=(40, 4000), random_state=1)
    found = [pareto_khat(np.log(row)) for row in sizes]
    assert np.mean(found) == pytest.approx(shape, abs=0.08)


@pytest.mark.filterwarnings("ignore")
def test_pareto_shape_is_that_of_arviz() -> None:
    import arviz

    error = 0.01 if hasattr(arviz, "psislw") else 0.05  # since 1.0 it fits the tail a little differently
    rng = np.random.default_rng(0)
    for scale in (0.5, 2.0, 5.0):
        log_weights = rng.normal(size=2000) * scale
        _, (khat,) = smoothed_weights(log_weights[:, None])
        assert pareto_khat(log_weights) == pytest.approx(khat, abs=error)


def test_weights_that_are_all_alike_have_no_tail() -> None:
    assert pareto_khat(np.zeros(100)) == -np.inf
    assert pareto_khat(np.zeros(4)) == np.inf  # too few to tell


def test_quantiles_of_student_leave_one_in_forty() -> None:
    """By SciPy's distribution function: its quantiles themselves were wrong by 4e-11 before SciPy 1.14."""
    dofs = [*range(1, 30), 99, 100, 1999, 2000, 2001, 2002, 999_999]
    np.testing.assert_allclose(t.sf([student(dof) for dof in dofs], dofs), 0.025, rtol=1e-11)


def annealed(rng: np.random.Generator, spread: float, particles: int = 200) -> tuple[Any, ...]:
    """Weights of particles on their way up and, resampled, down, as AIS has them: normal logs, of which a particle
    that goes back shares seven tenths of the variance with the one that it comes from. The log evidence is 0."""
    own = np.sqrt(0.7) * spread * rng.normal(size=particles)
    forward = own + np.sqrt(0.3) * spread * rng.normal(size=particles) - 0.5 * spread**2
    share = np.exp(forward - forward.max())
    places = (np.arange(particles) + rng.random()) / particles
    parents = np.minimum(np.searchsorted(np.cumsum(share / share.sum()), places), particles - 1)
    fresh = np.sqrt(0.3) * spread * rng.normal(size=particles) + 0.3 * spread**2
    return forward, own[parents] + fresh - 0.5 * spread**2, (np.arange(particles), parents)


@pytest.mark.parametrize("spread", [0.3, 0.6, 1.0, 1.5])
def test_cautious_errors_of_both_ways_hold_as_often_as_they_say(spread: float) -> None:
    """Of 1,500 runs; without caution 91% at the largest spread, nearly all that miss being too low."""
    rng = np.random.default_rng(0)
    found = [both_ways(*annealed(rng, spread), cautious=True) for _ in range(1500)]
    held = np.mean([abs(one.log_evidence) < 1.96 * one.standard_error for one in found])
    assert 0.94 < held < 0.985


def test_plain_errors_of_skewed_weights_are_too_small() -> None:
    rng = np.random.default_rng(0)
    found = [both_ways(*annealed(rng, 1.5)) for _ in range(1500)]
    z = np.array([one.log_evidence / one.standard_error for one in found])
    assert np.mean(np.abs(z) < 1.96) < 0.92
    assert np.mean(z < -1.96) > 2 * np.mean(z > 1.96)
