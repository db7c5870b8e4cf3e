"""Densities, entropies and divergences against SciPy and numerical integration."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln, log_expit

import temperance as tp
from tests.families import truth
from tests.families.compiled import compiled
from tests.families.registry import EXAMPLES, PARAMETERS, Example
from tests.tiers import with_slow

N = 12


def on_host(tree: Any) -> Any:
    """NumPy arrays, whose elements cost nothing to take out."""
    return jax.tree.map(np.asarray, tree)


@pytest.mark.parametrize(
    "example", with_slow(PARAMETERS, "NormalWishart-5", "Product", "Wishart-5", name=repr), ids=repr
)
def test_density_and_entropy(example: Example) -> None:
    family = example.draw(np.random.default_rng(0), example.batch, False)
    draw = jax.tree.map(lambda leaf: leaf[0], compiled(example)["sample"](family, jax.random.key(0)))
    found, entropies = on_host(compiled(example)["density"](family, draw))
    n = min(N, example.batch)
    members, draws = unstack(family, n), unstack(draw, n)
    exact = [truth.log_prob(member, one) for member, one in zip(members, draws, strict=True)]
    np.testing.assert_allclose(found[:n], np.asarray(exact, dtype=float), rtol=1e-10, atol=1e-10)
    exact = [truth.entropy(member) for member in members]
    np.testing.assert_allclose(entropies[:n], np.asarray(exact, dtype=float), rtol=1e-10, atol=1e-10)


def unstack(batch: Any, n: int) -> list[Any]:
    leaves, structure = jax.tree.flatten(on_host(batch))
    return [jax.tree.unflatten(structure, [leaf[i] for leaf in leaves]) for i in range(n)]


def gamma_line(shape: float, rate: float, u: np.ndarray) -> np.ndarray:
    return shape * (u + np.log(rate)) - rate * np.exp(np.minimum(u, 700)) - gammaln(shape)


# Log densities in a coordinate u that spreads the support over the real line: log-odds, logarithm, or x itself.
LINES = {
    "Beta": lambda q, u: q.a * log_expit(u) + q.b * log_expit(-u) - betaln(q.a, q.b),
    "Gamma": lambda q, u: gamma_line(q.shape, q.rate, u),
    "Wishart-1": lambda q, u: gamma_line(q.dof / 2, q.scatter[0, 0] / 2, u),
    "Normal-1": lambda q, u: stats.norm.logpdf(u, q.location[0], q.precision[0, 0] ** -0.5),
}


@pytest.mark.parametrize("name", LINES)
def test_divergence_is_an_integral(name: str) -> None:
    """KL(p‖q) = ∫ p log(p/q); on the whole line the trapezoidal rule converges like a spectral method."""
    (example,) = [e for e in EXAMPLES if e.name == name]
    rng = np.random.default_rng(1)
    family, other = (example.draw(rng, example.batch, False) for _ in range(2))
    divergences = np.asarray(compiled(example)["kl"](family, other))[:N]
    for p, q, found in zip(unstack(family, N), unstack(other, N), divergences, strict=True):
        u = np.linspace(-1000, 1000, 400_001)
        density = LINES[name](p, u)
        inside = u[density > density.max() - 50]
        u = np.linspace(inside[0] - 0.01, inside[-1] + 0.01, 100_001)
        density = LINES[name](p, u)
        assert np.isclose(np.trapezoid(np.exp(density), u), 1, rtol=1e-10)
        exact = np.trapezoid(np.exp(density) * (density - LINES[name](q, u)), u)
        np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_divergence_of_discrete_families_is_a_sum() -> None:
    p, q = np.array([0.2, 0.5, 0.3, 0.0]), np.array([0.1, 0.1, 0.4, 0.4])
    one, other = tp.CategoricalDistribution(p), tp.CategoricalDistribution(q)
    np.testing.assert_allclose(one.kl(other), stats.entropy(p, q), rtol=1e-13)
    assert other.kl(one) == np.inf
    one, other = tp.BernoulliDistribution(0.2), tp.BernoulliDistribution(0.7)
    np.testing.assert_allclose(one.kl(other), stats.entropy([0.2, 0.8], [0.7, 0.3]), rtol=1e-13)


def test_impossible_values_have_no_weight_and_no_probability() -> None:
    three = tp.CategoricalDistribution([0.25, 0.75, 0.0])
    np.testing.assert_allclose(three.log_prob(np.eye(3)), [np.log(0.25), np.log(0.75), -np.inf])
    np.testing.assert_allclose(three.entropy(), stats.entropy([0.25, 0.75]))
    assert three.kl(three) == 0
    certain = tp.BernoulliDistribution([0.0, 1.0])
    np.testing.assert_array_equal(certain.log_prob(np.array([0.0, 1.0])), [0.0, 0.0])
    np.testing.assert_array_equal(certain.log_prob(np.array([1.0, 0.0])), [-np.inf, -np.inf])
    np.testing.assert_array_equal(certain.entropy(), [0.0, 0.0])
    np.testing.assert_array_equal(certain.kl(certain), [0.0, 0.0])
    np.testing.assert_array_equal(certain.probability, [0.0, 1.0])
