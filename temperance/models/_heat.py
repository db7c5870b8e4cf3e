"""Powers that each datum may have, for local variational tempering.

Every datum chooses between the same powers s_m, by what each costs it: the integral of its tempered density,

    r_m ∝ exp{s_m E log p(x_n | z_n, θ) − E log c_n(s_m)},      c(s) = ∫ p(x | z_n, θ)^s dx.

For Gaussian noise c is a volume and E[s] a function of the distance of the datum alone, which a table holds.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.special import softmax

_PLACES, _MIDDLE = 8192, 8.0  # entries of the table, and the distance (for each number) in the middle of it
_FARTHEST = 1e15  # the largest distance that is told from infinity


class Heat(eqx.Module):
    """The powers that each datum may have, and a table of what they cost."""

    powers: Float[Array, " m"]
    table: Float[Array, "..."]  # E[s] of a Gaussian by its distance; for words Γ(λ + s)/Γ(λ + 1) at a few powers
    nodes: Float[Array, "j m"] | None = None  # for words: from values at a few powers to all of them
    costs: Float[Array, "k m"] | None = None  # for words: of each topic at each power, given the topics
    hot: Bool[Array, ""] | bool = True  # otherwise every datum keeps the power it has


def gaussian_heat(powers: np.ndarray, width: int) -> Heat:
    """The table for data of `width` numbers with Gaussian noise."""
    # Equal steps of t/(8 + t), with t the distance for each number: far out E[s] is as 1/t, a straight line there.
    place = np.linspace(0.0, 1.0, _PLACES)[:-1]
    distance = _MIDDLE * width * place / (1.0 - place)
    # r_m ∝ s_m^(d/2) exp{−s_m M/2}, the tempered density: E[s] is a function of the distance M/2 alone.
    logits = 0.5 * width * np.log(powers) - distance[:, None] * powers
    table = np.append(softmax(logits, axis=1) @ powers, powers.min())
    return Heat(jnp.asarray(powers), jnp.asarray(table))


def expected_power(
    heat: Heat, distance: Float[Array, " n"], width: int, before: Float[Array, " n"]
) -> Float[Array, " n"]:
    """E[s] of each datum by its distance, interpolated in the table; the power it had where the heat is off."""
    distance = jnp.clip(distance, 0.0, _FARTHEST)
    place = (_PLACES - 1) * (distance / (distance + _MIDDLE * width))
    low = jnp.minimum(place.astype(jnp.int32), _PLACES - 2)
    below, above = (heat.table.at[low + i].get(mode="promise_in_bounds") for i in (0, 1))
    return jnp.where(heat.hot, below + (place - low) * (above - below), before)
