"""Monte Carlo moments against the mean, in standard errors that the Hessian of A gives exactly."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from tests.families.compiled import DRAWS, compiled, look
from tests.families.registry import EXAMPLES, PARAMETERS, Example
from tests.tiers import with_slow


@pytest.mark.parametrize(
    "example", with_slow(PARAMETERS, "NormalWishart-5", "Product", "Wishart-5", name=repr), ids=repr
)
def test_moments(example: Example) -> None:
    family = example.draw(np.random.default_rng(0), example.batch, False)
    if isinstance(family, tp.Beta):
        # A draw so close to 1 that it rounds to 1 has lost log(1 − p): with b = 0.1 one in forty does.
        family = tp.Beta(family.a + 0.5, family.b + 0.5)
    draws = compiled(example)["sample"](family, jax.random.key(1))
    first, second, doubt, finite = map(np.asarray, compiled(example)["moments"](family, draws))
    variance = np.diagonal(look(example, family)["hessian"], axis1=-2, axis2=-1)
    assert np.all(finite)
    assert np.max(np.abs(first) / np.sqrt(variance / DRAWS)) < 5, "E[t]"
    # The error of a variance is itself estimated, badly where the statistics have a long tail.
    assert np.mean(np.abs(second - variance) < 3 * doubt) > 0.97, "Var[t]"


# With dof just above d − 1 a precision matrix is singular in floating point, and the log determinant of its entries
# not finite. Draws of a Normal-Wishart keep what they were before rounding.
VECTORS = [
    example
    for example in EXAMPLES
    if example.name != "Product" and ("Wishart" not in example.name or example.name.startswith("NormalWishart"))
]


@pytest.mark.parametrize(
    "example", with_slow(VECTORS, "Dirichlet-30", "NormalWishart-30", "NormalWishart-5", name=repr), ids=repr
)
def test_extreme_draws_are_finite(example: Example) -> None:
    family = example.draw(np.random.default_rng(0), example.batch, True)
    draws = compiled(example)["sample"](family, jax.random.key(0))
    assert np.all(np.asarray(compiled(example)["moments"](family, draws)[-1]))


@pytest.mark.slow
def test_nearly_singular_precisions_keep_their_determinants() -> None:
    """A fifth of these draws is singular in floating point; E[log|Λ|] is a sum of digammas all the same."""
    family = tp.NormalWishart(mean=[1.0, -2.0], pseudo_count=0.5, dof=1.1, scatter=[[2.0, 0.5], [0.5, 1.0]])
    draws = jax.jit(jax.vmap(family.sample))(jax.random.split(jax.random.key(0), 4000))
    t = jax.jit(jax.vmap(family.statistics))(draws)
    assert (
        np.isnan(np.linalg.slogdet(draws.precision)[1]).any() or (np.linalg.eigvalsh(draws.precision)[:, 0] <= 0).any()
    )
    for name in ("dof", "count"):
        found = getattr(t, name)
        error = np.std(found) / np.sqrt(len(found))
        assert abs(np.mean(found) - getattr(family.mean(), name)) < 5 * error, name


def test_draws_differ_between_keys_and_members() -> None:
    family = tp.Gamma(np.full(3, 2.0), 1.0)
    one, two = (family.sample(jax.random.key(seed)) for seed in range(2))
    assert len(np.unique(np.concatenate([one, two]))) == 6


def test_small_concentrations_keep_their_logarithms() -> None:
    """E[log π] = ψ(δ) − ψ(Σδ) is about −1e6 here, far below the smallest number that π could be."""
    family = tp.Dirichlet(np.full(4, 1e-6))
    logs = jax.jit(jax.vmap(family.sample_log))(jax.random.split(jax.random.key(0), 2000))
    error = np.std(logs, axis=0) / np.sqrt(2000)
    assert np.all(np.abs(np.mean(logs, axis=0) - family.mean().log) < 5 * error)
    draw = jnp.exp(logs[0])
    np.testing.assert_allclose(np.sum(draw), 1.0)
    assert np.all(np.isfinite(family.statistics(draw).log))
