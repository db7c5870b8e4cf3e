"""Draws from a posterior, perhaps weighted, and the averages over them that a fit reports."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...errors import UnsupportedMethod
from ...models import Model

_AT_ONCE = 16  # draws treated side by side in a predictive average


class Draws(eqx.Module):
    """Draws of the global blocks, in the model's coordinates; every leaf has leading axes (chain, draw)."""

    blocks: dict[str, Any]
    log_weights: Float[Array, "chain draw"] | None = None  # importance weights, where draws are weighted

    @property
    def shape(self) -> tuple[int, int]:
        chains, draws = jax.tree.leaves(self.blocks)[0].shape[:2]
        return chains, draws

    def flat(self) -> tuple[dict[str, Any], Float[Array, " draw"]]:
        """All chains behind one another, and their normalised log weights."""
        chains, draws = self.shape
        blocks = jax.tree.map(lambda leaf: leaf.reshape((-1, *leaf.shape[2:])), self.blocks)
        if self.log_weights is None:
            return blocks, jnp.full(chains * draws, -jnp.log(chains * draws))
        return blocks, jax.nn.log_softmax(self.log_weights.reshape(-1))

    def thinned(self, limit: int) -> Draws:
        """At most about `limit` draws, evenly spaced; weighted draws are all kept."""
        every = max(1, self.shape[0] * self.shape[1] // limit)
        if self.log_weights is not None or every == 1:
            return self
        return Draws(jax.tree.map(lambda leaf: leaf[:, every - 1 :: every], self.blocks))

    def log_predictive(self, model: Model, x: Any) -> Float[Array, " n"]:
        """log of the average over draws of p(x_new | θ)."""
        if model.local_groups:
            raise UnsupportedMethod(
                f"{type(model).__name__} has latents of its own for each datum that cannot be summed out, so draws "
                "of its globals give no predictive density; use tp.VB"
            )
        blocks, log_weights = self.flat()

        def one(part: tuple[dict[str, Any], Array]) -> Float[Array, " n"]:
            draw, log_weight = part
            return log_weight + model.log_evidence(model.statistics(draw), x)

        each = jax.lax.map(one, (blocks, log_weights), batch_size=_AT_ONCE)
        return jax.nn.logsumexp(each, axis=0)

    def sample(self, key: Key[Array, ""], model: Model, n: int) -> np.ndarray:
        """n new data in the user's coordinates, each with its own draw of the globals."""
        blocks, log_weights = self.flat()
        key_pick, key_data = jax.random.split(key)
        index = jax.random.categorical(key_pick, log_weights, shape=(n,))
        picked = jax.tree.map(lambda leaf: leaf[index], model.draws_to_user(blocks))
        rows = jax.vmap(lambda key, draw: model.simulate(key, draw, 1))(jax.random.split(key_data, n), picked)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[:, 0], rows)
