"""The variational kernel: the Gaussian toy of thesis 5.4 in numbers, and mixtures against enumeration."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import temperance as tp
from temperance.errors import InvalidParameter
from temperance.inference.monte_carlo.variational_kernel import acceptance_at, variational_proposal
from temperance.numerics.autocorrelation import standard_error
from tests.inference.monte_carlo import tiny
from tests.inference.monte_carlo.gaussian_toy import PRECISION, RATIO, Toy, acceptance

MODEL, DATA = Toy().prepare(np.zeros(1))


def test_proposal_is_that_of_the_thesis() -> None:
    """q(θ | θ′) = N(rθ′, 1/ρ₁₁), (5.34)."""
    q = variational_proposal(MODEL, {"theta": jnp.asarray([1.3])}, DATA)["theta"]
    assert float(q.mode()[0]) == pytest.approx(RATIO * 1.3)
    assert float(q.covariance[0, 0]) == pytest.approx(1 / PRECISION)


def test_average_acceptance_is_that_of_figure_5_2() -> None:
    average = quad(lambda t: acceptance(t) * norm.pdf(t), -8, 8, limit=200)[0]
    assert average == pytest.approx(0.939, abs=5e-4)
    fit = tp.fit(Toy(), np.zeros(1), tp.VariationalKernel(draws=4000, warmup=100, walk=0.0), seed=0)
    series = fit.history["acceptance"].T
    assert series.mean() == pytest.approx(average, abs=4 * standard_error(series))


def test_acceptance_falls_to_nothing_in_the_tails() -> None:
    """Figure 5.3: beyond ten standard deviations the chain sticks."""
    at = jax.jit(lambda key, place: acceptance_at(key, MODEL, {"theta": place}, DATA, 4000))
    for place in (0.5, 2.0, 5.0):
        found = float(at(jax.random.key(0), jnp.asarray([place])))
        assert found == pytest.approx(acceptance(place), abs=0.02)
    assert acceptance(10.0) < 0.1
    assert acceptance(20.0) < 1e-3
    assert acceptance(40.0) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"walk": 0.5, "size": 0.6}, {"walk": 0.3, "size": 0.6, "cycle": True}],
    ids=["mixed", "cycled"],
)
def test_mixture_of_kernels_is_right(options: dict[str, Any]) -> None:
    """The posterior of θ is standard Normal."""
    fit = tp.fit(Toy(), np.zeros(1), tp.VariationalKernel(draws=4000, warmup=100, **options), seed=1)
    theta = np.asarray(fit.posterior["theta"])[..., 0]
    for series, exact in [(theta, 0.0), (theta**2, 1.0)]:
        assert series.mean() == pytest.approx(exact, abs=4 * standard_error(series))


def second_moment(r: float, width: float, stationary: float, size: float) -> float:
    """∫∫ p(θ)²/q(θ | θ′) π(θ′), up to a constant, over a square of this size (ρ₁₁ = 1): infinite in a larger one?

    `width` is the variance of q around rθ′, `stationary` the precision of the chain's own distribution π.
    """
    line = np.linspace(-size, size, 2001)
    here, before = line[:, None], line[None, :]
    exponent = (1 - r) * here**2 - 0.5 * (here - r * before) ** 2 / width + 0.5 * stationary * before**2
    return float(np.exp(-exponent).sum() * (line[1] - line[0]) ** 2)


@pytest.mark.parametrize(
    ("kernel", "limit"), [("variational", (17**0.5 - 1) / 8), ("exact", 0.5)], ids=["variational", "exact"]
)
def test_variance_of_importance_weights(kernel: str, limit: float) -> None:
    """(5.56): finite weights need r < (√17 − 1)/8 = 0.3904, and even with the exact kernel r < ½."""
    for r, finite in [(limit - 0.02, True), (limit + 0.02, False)]:
        width, stationary = (1.0, 1 - r**2) if kernel == "variational" else (1 + r, 1 - r)
        small, large = (second_moment(r, width, stationary, size) for size in (25.0, 50.0))
        assert (large / small < 1.05) == finite


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"walk": 0.0},
        {"walk": 0.5, "size": 0.3},
        {"walk": 0.0, "gibbs": 0.5},
        {"walk": 0.2, "gibbs": 0.2, "cycle": True},
    ],
    ids=["alone", "walk", "gibbs", "cycle"],
)
def test_expectations_are_those_of_enumeration(options: dict[str, Any]) -> None:
    fit = tp.fit(tiny.MODEL, tiny.X, tp.VariationalKernel(draws=20_000, warmup=500, **options), seed=2)
    exact = tiny.same_component()
    for i, j in tiny.PAIRS:
        series = tiny.together(fit, i, j)
        assert series.mean() == pytest.approx(exact[i, j], abs=4 * standard_error(series))


@pytest.mark.parametrize("arguments", [{"walk": 1.2}, {"gibbs": -0.1}, {"walk": 0.6, "gibbs": 0.6}, {"size": 0.0}])
def test_bad_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(arguments))):
        tp.VariationalKernel(**arguments)
