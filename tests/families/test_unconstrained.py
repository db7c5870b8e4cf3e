"""Unconstrained coordinates: there and back, Jacobians against autodiff, and densities that integrate to one."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import temperance as tp
from temperance.errors import UnsupportedMethod
from temperance.families.unconstrained import chart, dimension
from tests.families.registry import EXAMPLES, Example

NAMES = {
    "Dirichlet-5": 4,
    "Beta": 1,
    "Gamma": 1,
    "Normal-5": 5,
    "NormalGamma": 2,
    "IsotropicNormalGamma-3": 4,
    "Wishart-5": 15,
    "NormalWishart-2": 5,
    "MatrixNormalWishart-2x3": 9,
    "Independent": 4,
    "Product": 5,
}


def free(draw: Any) -> jax.Array:
    """The entries of one θ with respect to which its density is defined."""
    if isinstance(draw, dict):
        return jnp.concatenate([free(draw[name]) for name in sorted(draw)])
    if isinstance(draw, tp.MeanAndPrecision):
        draw = draw[:2]
    if isinstance(draw, tuple):
        return jnp.concatenate([part.reshape(-1) if i == 0 else free(part) for i, part in enumerate(draw)])
    if draw.ndim == 2:
        return draw[np.tril_indices(draw.shape[0])]
    return draw.reshape(-1)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.name in NAMES], ids=repr)
def test_round_trip_jacobian_and_mode(example: Example) -> None:
    family = example.draw(np.random.default_rng(3), 4, False)
    simplex = example.name in ("Dirichlet-5", "Product")

    @jax.jit
    def study(key: jax.Array) -> tuple[Any, ...]:
        there = jax.random.normal(key, (4, NAMES[example.name]))
        draw = chart(family).from_line(there)
        back = chart(family).to_line(draw)
        vector, constant = chart(family).jacobian()
        claimed = vector.dot(family.statistics(draw)) + constant

        def theta(u: jax.Array, member: tp.Family) -> jax.Array:
            one = chart(member).from_line(u)
            if example.name == "Dirichlet-5":
                one = one[:-1]
            elif simplex:
                one = one | {"weights": one["weights"][:-1]}
            return free(one)

        slope = jax.vmap(lambda u, natural: jax.jacfwd(theta)(u, family.with_natural(natural)))(there, family.natural)
        # The mode of the density over u is that of the same family at η + J.
        moved = family.with_natural(family.natural + vector)

        def density(u: jax.Array) -> jax.Array:
            return jnp.sum(moved.natural.dot(family.statistics(chart(family).from_line(u))))

        top = chart(family).to_line(moved.mode())
        away = jax.random.normal(key, top.shape)
        return there, back, claimed, slope, jax.grad(density)(top), jax.grad(density)(top + away)

    there, back, claimed, slope, at_top, elsewhere = study(jax.random.key(0))
    assert dimension(family) == NAMES[example.name]
    np.testing.assert_allclose(back, there, atol=1e-10)
    assert slope.shape[-1] == slope.shape[-2]
    np.testing.assert_allclose(np.linalg.slogdet(slope)[1], claimed, atol=1e-8, rtol=1e-10)
    np.testing.assert_allclose(at_top, 0.0, atol=1e-6 * np.abs(elsewhere).max())


def over_line(family: tp.Family, u: jax.Array) -> jax.Array:
    """The log density over u."""
    draw = chart(family).from_line(u)
    vector, constant = chart(family).jacobian()
    return family.log_prob(draw) + vector.dot(family.statistics(draw)) + constant


@pytest.mark.parametrize("family", [tp.Beta(0.3, 2.0), tp.Gamma(0.4, 3.0)], ids=["Beta", "Gamma"])
def test_a_density_without_mode_has_one_over_the_line(family: tp.Family) -> None:
    density = eqx.filter_jit(lambda u: jnp.exp(over_line(family, u)))
    total, _ = quad(lambda u: float(density(jnp.asarray([u]))), -80, 30, limit=200, points=[-5, 0, 5])
    assert total == pytest.approx(1.0, abs=1e-6)


def test_a_matrix_density_integrates_to_one() -> None:
    family = tp.Wishart(40.0, [[2.0, 0.6], [0.6, 1.0]])
    centre = np.asarray(chart(family).to_line(family.mode()))
    axes = [centre[i] + np.linspace(-width, width, 40) for i, width in enumerate((1.2, 1.2, 2.5))]
    grid = jnp.asarray(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3))
    density = jax.jit(lambda grid: jax.vmap(lambda u: jnp.exp(over_line(family, u)))(grid))(grid)
    volume = np.prod([axis[1] - axis[0] for axis in axes])
    # The trapezoid rule is exact to rounding for densities that vanish at the edges.
    assert float(jnp.sum(density)) * volume == pytest.approx(1.0, abs=1e-6)


def test_a_family_without_coordinates_is_a_clear_error() -> None:
    with pytest.raises(UnsupportedMethod, match="BernoulliDistribution has no unconstrained coordinates"):
        chart(tp.BernoulliDistribution(0.5))
