"""The exact posterior of a few data points of a mixture, by enumeration: a surrogate prior (thesis 4.7.2)."""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from ...errors import InvalidParameter, UnsupportedMethod
from ...families._family import Family
from ...models import Data, Model
from ...models._answers import Enumerable

MOST = 4096  # assignments that are enumerated


class Pinned(eqx.Module):
    """p(θ | a few data) as a mixture over their assignments to components."""

    mask: Bool[Array, " n"]  # the data that are pinned
    blocks: dict[str, Family]  # leading axis: assignments
    log_weights: Float[Array, " a"]  # log p(these data, assignment)

    @property
    def log_evidence(self) -> Float[Array, ""]:
        return jax.nn.logsumexp(self.log_weights)

    def sample(self, key: Key[Array, ""]) -> dict[str, Any]:
        key_pick, key_draw = jax.random.split(key)
        pick = jax.random.categorical(key_pick, self.log_weights)
        return {
            name: family[pick].sample(jax.random.fold_in(key_draw, number))
            for number, (name, family) in enumerate(self.blocks.items())
        }


def pin(model: Model, data: Data, index: tuple[int, ...]) -> Pinned:
    """Pin the data at `index`."""
    if not isinstance(model, Enumerable) or not model.one_by_one:
        raise UnsupportedMethod(
            f"only mixtures of fully observed data can be tempered from a few data points, not {type(model).__name__}"
        )
    index = tuple(int(i) for i in index)
    if not index or len(set(index)) < len(index) or min(index) < 0 or max(index) >= data.size:
        raise InvalidParameter(f"reference must name different data from 0 to {data.size - 1}, got {list(index)}")
    if model.n_components ** len(index) > MOST:
        raise InvalidParameter(
            f"reference names {len(index)} data, which have {model.n_components}^{len(index)} assignments; "
            f"at most {MOST} are enumerated, so name fewer"
        )
    everyone = list(itertools.product(range(model.n_components), repeat=len(index)))
    mask = jnp.zeros(data.weights.shape, dtype=bool).at[jnp.asarray(index)].set(True)
    return Pinned(mask, *_enumerate(model, data, jnp.asarray(index), jnp.asarray(np.array(everyone))))


@eqx.filter_jit
def _enumerate(
    model: Enumerable, data: Data, index: Array, everyone: Array
) -> tuple[dict[str, Family], Float[Array, " a"]]:
    x = jax.tree.map(lambda leaf: leaf[index], data.values)
    prior = {name: p for name, p in model.prior.items() if isinstance(p, Family)}
    m = {name: p.mean() for name, p in prior.items()}

    def one(labels: Array) -> tuple[dict[str, Family], Float[Array, ""]]:
        def joint(m: dict[str, Any]) -> Float[Array, ""]:
            return jnp.sum(jnp.take_along_axis(model.log_joint_z(m, x), labels[:, None], axis=1))

        # The joint is affine in m: its gradient gives the statistics, and the remainder the constants.
        value, statistics = jax.value_and_grad(joint)(m)
        posterior = {name: p + statistics[name] for name, p in prior.items()}
        for name, p in prior.items():
            value = value - jnp.sum(statistics[name].dot(m[name]))
            value = value + jnp.sum(posterior[name].log_normaliser() - p.log_normaliser())
        return posterior, value

    return jax.vmap(one)(everyone)
