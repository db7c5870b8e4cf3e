"""What a temperature of its own costs a document: log Σ_v E β_kv^s of its topics, at each power s it may have."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaln

from .._heat import Heat

_ENTRIES = 8192  # of a table of concentrations
_NODES = 9  # powers at which a sum over all words is worked out
_LAMBDAS = (1e-8, 1e10)  # concentrations that the table holds
_STEP = np.log(_LAMBDAS[1] / _LAMBDAS[0]) / (_ENTRIES - 1)  # of their logarithms


def topic_heat(powers: np.ndarray) -> Heat:
    """The powers, with a table of Γ(λ + s)/Γ(λ + 1) at a few of them."""
    # In log s: Γ(λ + s) has its pole at s = −λ, close to small powers.
    half = 0.5 * -np.log(min(float(powers.min()), 0.5))
    nodes = np.exp(half * (np.cos(np.linspace(0.0, np.pi, _NODES)) - 1.0))
    fit, here = (np.polynomial.chebyshev.chebvander(np.log(s) / half + 1.0, _NODES - 1) for s in (nodes, powers))
    spread = np.linalg.solve(fit.T, here.T)
    lam = np.geomspace(*_LAMBDAS, _ENTRIES)[:, None]
    # The pole at 0 is that of 1/λ, which a power takes away: log Γ(λ + s) − log Γ(λ + 1), smooth in log λ.
    table = np.exp(gammaln(lam + nodes) - gammaln(lam + 1.0))
    return Heat(jnp.asarray(powers), jnp.asarray(table), jnp.asarray(spread))


def with_costs(heat: Heat, concentration: Float[Array, "k v"], on_host: bool) -> Heat:
    """The same with what its powers cost under these topics."""
    costs = topic_costs(heat, concentration, on_host)
    return eqx.tree_at(lambda heat: heat.costs, heat, costs, is_leaf=lambda leaf: leaf is None)


def topic_costs(heat: Heat, concentration: Float[Array, "k v"], on_host: bool) -> Float[Array, "k m"]:
    """c_k(s) = log Σ_v E β_kv^s of each topic at each power, for β ~ Dirichlet(λ):
    E β_v^s = Γ(λ_v + s) Γ(Λ) / (Γ(λ_v) Γ(Λ + s))."""
    assert heat.nodes is not None
    total = jnp.sum(concentration, axis=1)
    if on_host:
        shape = jax.ShapeDtypeStruct((len(total), _NODES), jnp.float64)
        sums = jax.pure_callback(_sums_on_host, shape, concentration, heat.table, vmap_method="sequential")
    else:
        columns = [jnp.sum(concentration * _look_up(heat.table[:, j], concentration), axis=1) for j in range(_NODES)]
        sums = jnp.stack(columns, axis=1)
    whole = jnp.stack([_look_up(heat.table[:, j], total) for j in range(_NODES)], axis=1)
    # The factor λ/Λ of both is what the table leaves out.
    return jnp.log(sums / (total[:, None] * whole)) @ heat.nodes


def _look_up(column: Float[Array, " e"], value: Float[Array, "..."]) -> Float[Array, "..."]:
    place = jnp.clip((jnp.log(value) - np.log(_LAMBDAS[0])) / _STEP, 0.0, _ENTRIES - 1.001)
    low = jnp.floor(place).astype(jnp.int32)
    return column[low] + (place - low) * (column[low + 1] - column[low])


def _sums_on_host(concentration: Array, table: Array) -> np.ndarray:
    from ...kernels.topics_powers import weighted_sums

    return weighted_sums(np.asarray(concentration), np.asarray(table), _LAMBDAS[0], _STEP)
