"""Annealed importance sampling, up and down, against enumeration."""

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from temperance.evidence.weights import both_ways, downwards, upwards
from tests.exact.enumeration import log_evidence
from tests.exact.pairs import BERNOULLI, FULL, KNOWN, POISSON, Pair
from tests.inference.monte_carlo import tiny
from tests.inference.monte_carlo.test_parallel_tempering import fitted as tempered
from tests.matrix import truths
from tests.tiers import with_slow

METHOD = tp.AIS(particles=100, temperatures=60)


@cache
def fitted() -> tp.Fit:
    return tp.fit(tiny.MODEL, tiny.X, METHOD, seed=0)


def test_evidence_and_bracket_are_those_of_enumeration() -> None:
    fit = fitted()
    for estimate in fit.details["estimates"].values():
        assert estimate.log_evidence == pytest.approx(tiny.LOG_EVIDENCE, abs=4 * estimate.standard_error)
    assert fit.bracket is not None
    assert fit.bracket[0] < tiny.LOG_EVIDENCE < fit.bracket[1] < fit.bracket[0] + 2
    assert 10 < fit.details["effective_draws"] <= 100
    assert fit.history["log_weight"].shape == (59, 100)


def test_the_upper_side_is_called_approximate_when_it_is() -> None:
    assert fitted().details["upper_is_approximate"]
    assert any("approximate" in note for note in fitted().notes)


@pytest.mark.parametrize("name", with_slow(["LDA", "FactorialMixture"], "LDA"))
def test_latents_of_their_own_are_carried_down_too(name: str) -> None:
    """Against every assignment enumerated; swept in the order of the way up, the upper estimate would be wrong."""
    problem = truths.PROBLEMS[name]
    exact = problem.evidence(problem.data)
    fit = tp.fit(problem.model(), problem.data, tp.AIS(particles=200, temperatures=60), seed=0)
    for estimate in fit.details["estimates"].values():
        assert estimate.log_evidence == pytest.approx(exact, abs=4 * estimate.standard_error)
        assert estimate.standard_error < 0.2
    assert fit.bracket is not None and fit.bracket[0] < exact < fit.bracket[1] < fit.bracket[0] + 1.0


@pytest.mark.slow
def test_draws_of_another_fit_start_the_way_down() -> None:
    method = tp.AIS(particles=100, temperatures=60, posterior=tempered())
    fit = tp.fit(tiny.MODEL, tiny.X, method, seed=0)
    assert not fit.details["upper_is_approximate"]
    above = fit.details["estimates"]["downwards"]
    assert above.log_evidence == pytest.approx(tiny.LOG_EVIDENCE, abs=4 * above.standard_error)
    bound = tp.fit(tiny.MODEL, tiny.X, tp.VB(restarts=5), seed=0)
    low, high = tp.bracket(bound, fit, tempered())
    assert bound.log_evidence <= low < tiny.LOG_EVIDENCE < high
    assert fit.bracket is not None and tempered().bracket is not None
    assert low == max(bound.log_evidence, fit.bracket[0], tempered().bracket[0])  # type: ignore[index]
    assert high == min(fit.bracket[1], tempered().bracket[1])  # type: ignore[index]
    # The way up is the same as without.
    np.testing.assert_array_equal(fit.details["log_weights"], fitted().details["log_weights"])


@pytest.mark.slow
def test_brackets_of_several_fits() -> None:
    low, high = tp.bracket(tempered(), fitted())
    assert low < tiny.LOG_EVIDENCE < high
    assert high - low <= fitted().bracket[1] - fitted().bracket[0]  # type: ignore[index]
    assert tp.bracket(tempered()) == tempered().bracket
    with pytest.raises(InvalidParameter, match="at least one fit"):
        tp.bracket()
    with pytest.raises(InvalidParameter, match="the same data"):
        tp.bracket(tempered(), tp.fit(tiny.MODEL, tiny.X + 1.0, tp.VB(), seed=0))


def test_weighted_draws_average_to_the_posterior() -> None:
    exact = tiny.same_component()
    together = tiny.together(fitted(), 0, 3)[0]
    share = np.exp(fitted().details["log_weights"] - np.logaddexp.reduce(fitted().details["log_weights"]))
    assert share @ together == pytest.approx(exact[0, 3], abs=0.1)
    assert fitted().posterior["weights"].shape == (1, 100, 2)
    assert fitted().log_predictive(tiny.X).shape == (6,)


@pytest.mark.slow
def test_errors_are_calibrated_over_fifty_runs() -> None:
    """Particles are independent, so 50 runs of 100 are one run of 5000."""
    posterior = tp.fit(tiny.MODEL, tiny.X, tp.ParallelTempering(draws=5000, warmup=256, replicas=10), seed=0)
    fit = tp.fit(tiny.MODEL, tiny.X, tp.AIS(particles=5000, temperatures=200, posterior=posterior), seed=1)
    forward = fit.details["log_weights"].reshape(50, 100)
    backward = np.random.default_rng(0).permutation(fit.details["reverse_log_weights"]).reshape(50, 100)
    for name, found in {
        "up": [upwards(row) for row in forward],
        "down": [downwards(row) for row in backward],
        "both": [both_ways(*rows) for rows in zip(forward, backward, strict=True)],
    }.items():
        z = np.array([(one.log_evidence - tiny.LOG_EVIDENCE) / one.standard_error for one in found])
        assert np.abs(z).max() < 4, name
        assert 0.6 < z.var() < 1.6, name


@pytest.mark.slow
@pytest.mark.parametrize("pair", [FULL, KNOWN, POISSON, BERNOULLI], ids=repr)
def test_brackets_of_random_problems(pair: Pair) -> None:
    """Fifty problems of each kind: at least 97% of 200 brackets hold the truth, with a median width below 0.5."""
    rng = np.random.default_rng(0)
    held, width = [], []
    for number in range(50):
        hyper, x = pair.hyper(rng), pair.data(rng, 6)
        model = pair.mixture(2, hyper, concentration=[0.7, 0.7])
        fit = tp.fit(model, x, tp.AIS(particles=200, temperatures=300), seed=number)
        exact = log_evidence(x, pair.marginal(hyper), [0.7, 0.7])
        assert fit.bracket is not None
        held.append(fit.bracket[0] <= exact <= fit.bracket[1])
        width.append(fit.bracket[1] - fit.bracket[0])
    assert np.mean(held) >= 0.97
    assert np.median(width) < 0.5


@pytest.mark.slow
def test_data_simulated_with_a_draw_have_an_exact_start() -> None:
    """Both ends of the bracket are then exact; here for blocks that are coupled and take turns."""
    from tests.matrix.effects import Effects

    model = Effects(tp.Normal([0.0], [[1.0]]), tp.Normal([1.0], [[2.0]]))
    draw = model.sample_prior(jax.random.key(3))
    x = np.asarray(model.simulate(jax.random.key(4), draw, 6))
    method = tp.AIS(particles=200, temperatures=40, reference="prior", posterior=draw)
    fit = tp.fit(model, x, method, seed=0)
    # a + b ~ N(1, 3), so the data are jointly Gaussian.
    covariance = np.eye(6) + 3.0
    centred = x - 1.0
    exact = -0.5 * (centred @ np.linalg.solve(covariance, centred) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert not fit.details["upper_is_approximate"]
    for estimate in fit.details["estimates"].values():
        assert estimate.log_evidence == pytest.approx(exact, abs=4 * estimate.standard_error)
        assert estimate.standard_error < 0.15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"particles": 1}, "particles must be a whole number of at least 2"),
        ({"temperatures": 1}, "temperatures must be a whole number of at least 2"),
        ({"reverse": 1}, "reverse must be True or False"),
        ({"ladder": [0.1, 1.0]}, "ladder must be increasing numbers from 0 to 1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        tp.AIS(**arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (
            lambda: tp.fit(tiny.MODEL, tiny.X, tp.AIS(posterior="vb")),
            InvalidParameter,
            "posterior must be a fit by a method that draws",
        ),
        (
            lambda: tp.fit(tiny.MODEL, tiny.X * 2, tp.AIS(posterior=fitted())),
            InvalidParameter,
            "posterior must be a fit of the same data",
        ),
        (lambda: tp.fit(tp.GaussianMixture(2, weights="point"), tiny.X, tp.AIS()), UnsupportedMethod, "point estimate"),
    ],
)
def test_bad_posteriors(attempt: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        attempt()
