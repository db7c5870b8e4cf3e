"""One factor against exact integration: scale, responsibilities and moments, for every pair and several α."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import temperance as tp
from temperance.families import Dirichlet
from temperance.inference.messages.projection import project
from temperance.models._factors import DirichletWeights, Factor, KnownWeights, is_proper, log_normaliser, naturals
from temperance.models.mixture.likelihoods import as_pair
from tests.exact import pairs
from tests.exact.pairs import Pair
from tests.tiers import with_slow

# Each pair is a compilation of seconds.
SLOW = (pairs.DIAGONAL, pairs.SPHERICAL, pairs.POISSON, pairs.BERNOULLI, pairs.CATEGORICAL, pairs.MULTINOMIAL)
PAIRS = (pairs.FULL, pairs.KNOWN, *(pytest.param(pair, marks=pytest.mark.slow) for pair in SLOW))


def two_components(pair: Pair, rng: np.random.Generator) -> tuple[tp.Mixture, list[Any], np.ndarray]:
    """A mixture whose components have priors of their own, with the arguments of each one's marginal likelihood."""
    hypers = [pair.hyper(rng) for _ in range(2)]
    if "covariance" in hypers[0]:
        hypers[1]["covariance"] = hypers[0]["covariance"]
    x = pair.rows(rng, 1)
    models = [pair.mixture(1, hyper).prepare(x)[0] for hyper in hypers]
    return models, hypers, x


@pytest.mark.parametrize("pair", with_slow(PAIRS, "known covariance", name=repr), ids=repr)
def test_one_factor_is_exact(pair: Pair) -> None:
    """S = Σ_k E[π_k] p_k(x), r_k the terms' shares, and the moments of q those of cavity × factor, which are the
    gradient of their log integral."""
    rng = np.random.default_rng(3)
    for _ in range(3):
        models, hypers, x = two_components(pair, rng)
        delta = 10 ** rng.uniform(-1, 1, 2)
        components = jax.tree.map(
            lambda a, b: jnp.concatenate([a, b]), models[0].prior["components"], models[1].prior["components"]
        )
        cavity = {"components": components, "weights": Dirichlet(delta)}
        factor = make_factor(models[0], x)
        terms = [
            np.log(share) + pair.marginal(hyper)(x) for share, hyper in zip(delta / delta.sum(), hypers, strict=True)
        ]
        found = exact(cavity, factor)
        assert float(found.log_scale) == pytest.approx(logsumexp(terms), abs=1e-10)
        np.testing.assert_allclose(found.responsibilities, np.exp(terms - logsumexp(terms)), atol=1e-10)
        moments = tilted_means(cavity, factor)
        for name, family in found.blocks.items():
            for ours, exactly in zip(jax.tree.leaves(family.mean()), jax.tree.leaves(moments[name]), strict=True):
                np.testing.assert_allclose(ours, exactly, rtol=1e-7, atol=1e-9)


def make_factor(model: tp.Mixture, x: np.ndarray) -> Factor:
    rows = jnp.asarray(model.new_rows(x))
    return jax.tree.map(lambda leaf: leaf[0], Factor(model.pair.statistics(rows), model.pair.log_base(rows)))


@jax.jit
def exact(cavity: Any, factor: Factor) -> Any:
    return project(1.0, DirichletWeights(), cavity, cavity, factor)


@jax.jit
def tilted_means(cavity: Any, factor: Factor) -> Any:
    def log_integral(natural: Any) -> Any:
        blocks = {name: family.with_natural(natural[name]) for name, family in cavity.items()}
        tilted = DirichletWeights().tilt(blocks, factor, 1.0)
        return tilted.value + jax.nn.logsumexp(tilted.log_terms)

    return jax.grad(log_integral)(naturals(cavity))


# The errata's cavity: δ = 1, v = ½, m = (0.4, −1), a = 1, B = 0.3, and x = 0.8.
CAVITY = {
    "components": tp.NormalWishart(mean=[[0.4], [-1.0]], pseudo_count=[0.5, 0.5], dof=2.0, scatter=[[0.6]]),
    "weights": Dirichlet([1.0, 1.0]),
}
GAUSSIAN = as_pair("gaussian", False)
DATUM = jax.tree.map(
    lambda leaf: leaf[0], Factor(GAUSSIAN.statistics(jnp.asarray([[0.8]])), GAUSSIAN.log_base(jnp.asarray([[0.8]])))
)


def test_published_update() -> None:
    found = exact(CAVITY, DATUM)
    q, weights = found.blocks["components"], found.blocks["weights"]
    assert float(found.log_scale) == pytest.approx(-1.590787, abs=5e-7)
    np.testing.assert_allclose(found.responsibilities, [0.804819, 0.195181], atol=5e-7)
    np.testing.assert_allclose(weights.concentration, [1.352269, 0.917842], atol=5e-7)
    np.testing.assert_allclose(q.pseudo_count, [1.034932, 0.457887], atol=5e-7)
    np.testing.assert_allclose(q.location[:, 0], [0.626748, -0.862023], atol=5e-7)
    np.testing.assert_allclose(0.5 * q.dof, [1.340775, 1.021930], atol=5e-7)
    np.testing.assert_allclose(0.5 * q.scatter[:, 0, 0], [0.308493, 0.337130], atol=5e-7)


def test_log_scale_rises_with_alpha() -> None:
    """Theorem 1 of the thesis; at α = ½ and 0 the published values, at α = 1 the exact one."""
    alphas = (0.0, 0.5, 1.0)
    together = jax.jit(
        lambda: [project(alpha, DirichletWeights(), CAVITY, CAVITY, DATUM).log_scale for alpha in alphas]
    )
    scales = dict(zip(alphas, map(float, together()), strict=True))
    assert scales[0.5] == pytest.approx(-1.753559, abs=5e-7)
    assert scales[0.0] == pytest.approx(-1.807230, abs=5e-7)
    assert (np.diff(list(scales.values())) > 0).all()


# Figures 2.1 and 2.2: two unknown means, x = 0, π = ½, λ = 1, v₀ = 0.1.
MEANS = {"components": tp.Normal(mean=[[0.0], [0.0]], precision=[[[0.1]], [[0.1]]])}
KNOWN = tp.GaussianMixture(2, covariance=[[1.0]], weights=[0.5, 0.5], prior=tp.Normal([0.0], precision=[[0.1]]))
ZERO = make_factor(KNOWN.prepare(np.zeros((1, 1)))[0], np.zeros((1, 1)))
HALVES = KnownWeights(jnp.log(jnp.asarray([0.5, 0.5])))


def divergence(alpha: float, log_s: float, precision: float, share: float) -> float:
    """D_α(p(x, μ, z) ‖ s q(μ) q(z)) on a grid, μ₁ and μ₂ with the same variance and q(z) = (share, 1 − share)."""
    grid = np.linspace(-40, 40, 801)
    step = grid[1] - grid[0]
    normal = lambda m, v: -0.5 * v * m**2 + 0.5 * np.log(v / (2 * np.pi))  # noqa: E731
    prior = normal(grid, 0.1)[:, None] + normal(grid, 0.1)[None, :]
    likelihood = normal(grid, 1.0)
    q = normal(grid, precision)[:, None] + normal(grid, precision)[None, :]
    total = 0.0
    for first, log_share in ((True, np.log(share)), (False, np.log1p(-share))):
        p = prior + (likelihood[:, None] if first else likelihood[None, :]) + np.log(0.5)
        sq = log_s + q + log_share
        mixed = alpha * np.exp(p) + (1 - alpha) * np.exp(sq) - np.exp(alpha * p + (1 - alpha) * sq)
        total += mixed.sum() * step**2 / (alpha * (1 - alpha))
    return total


@pytest.mark.parametrize("alpha", [pytest.param(0.5, marks=pytest.mark.slow), 1.5])
def test_two_means_minimise_the_divergence(alpha: float) -> None:
    """The projection is a minimum of D_α over the scale, the variance and q(z), by integration on a grid."""
    found = jax.jit(lambda: project(alpha, HALVES, MEANS, MEANS, ZERO))()
    assert bool(found.exists) and bool(is_proper(found.blocks))
    log_s, precision = float(found.log_scale), float(found.blocks["components"].precision[0, 0, 0])
    least = divergence(alpha, log_s, precision, 0.5)
    for change in (-0.02, 0.02):
        assert divergence(alpha, log_s + change, precision, 0.5) > least
        assert divergence(alpha, log_s, precision * (1 + change), 0.5) > least
        assert divergence(alpha, log_s, precision, 0.5 + change) > least


def test_projection_above_one_may_not_exist() -> None:
    """η̂ = αη° + (1 − α)η leaves the domain when q is much narrower than the cavity: here the datum almost certainly
    belongs to the first component."""
    certain = KnownWeights(jnp.log(jnp.asarray([0.999, 0.001])))
    found = jax.jit(lambda: project(2.0, certain, MEANS, MEANS, ZERO))()
    assert not bool(found.exists)
    assert np.isfinite(float(log_normaliser(found.blocks)))
