"""Draws from a posterior, perhaps weighted, and the averages over them that a fit reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ...errors import UnsupportedMethod
from ...models import Conditional, Data, Model, Posterior
from ...models._answers import Alignable, Regressing
from ...numerics.special import safe_log
from .labels import aligned

_AT_ONCE = 16  # draws that are processed side by side in a predictive average
_MOST = 1000  # draws that a summary uses


class Draws(eqx.Module):
    """Draws of the global blocks, in the model's coordinates; every leaf has leading axes (chain, draw)."""

    blocks: dict[str, Any]
    log_weights: Float[Array, "chain draw"] | None = None  # importance weights, where draws are weighted

    @property
    def shape(self) -> tuple[int, int]:
        chains, draws = jax.tree.leaves(self.blocks)[0].shape[:2]
        return chains, draws

    def flat(self) -> tuple[dict[str, Any], Float[Array, " draw"]]:
        """The draws of all chains, one chain after another, and their normalised log weights."""
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

    def resampled(self, key: Key[Array, ""], n: int) -> Draws:
        """n draws of equal weight, in one chain; each appears about in proportion to its weight."""
        blocks, log_weights = self.flat()
        return Draws(jax.tree.map(lambda leaf: leaf[None], _resample(jax.random.uniform(key), blocks, log_weights, n)))

    def equally_weighted(self) -> Draws:
        """The draws themselves or, if they are weighted, equally many resampled ones."""
        if self.log_weights is None:
            return self
        chains, draws = self.shape
        picked = _resample(jnp.asarray(0.5), *self.flat(), chains * draws)
        return Draws(jax.tree.map(lambda leaf: leaf.reshape(chains, draws, *leaf.shape[1:]), picked))

    def log_predictive(self, model: Model, x: Any) -> Float[Array, " n"]:
        """log of the average over draws of p(x_new | θ)."""
        if model.local_groups:
            raise UnsupportedMethod(
                f"{type(model).__name__} has latents of its own for each datum that cannot be summed out, so draws "
                "of its globals give no predictive density; use tp.VB"
            )

        def one(draw: dict[str, Any]) -> Float[Array, " n"]:
            return model.log_evidence(model.statistics(draw), x)

        blocks, log_weights = self.flat()
        return _log_average(one, blocks, log_weights)

    def responsibilities(self, model: Model, x: Any) -> Float[Array, "n k"]:
        """The average over draws of p(z | x_new, θ); for this the components must keep their places (`aligned`)."""
        if not isinstance(model, Alignable):
            raise UnsupportedMethod(
                "draws of a graph name exchangeable values of its latents in any order, so shares averaged over them "
                "mean little; use tp.VB"
            )
        return self.average(lambda draw: model.traits(draw, x))

    def average(self, one: Callable[[dict[str, Any]], Array]) -> Array:
        """The average over draws of a non-negative quantity."""
        return jnp.exp(_log_average(lambda draw: safe_log(one(draw)), *self.flat()))

    def sample(self, key: Key[Array, ""], model: Model, n: int) -> np.ndarray:
        """n new data in the user's coordinates, each with a separate draw of the globals; if rows depend on each other,
        all with one draw."""
        if isinstance(model, Regressing):
            raise UnsupportedMethod(
                f"{type(model).__name__} does not describe its inputs, so it cannot sample new data; "
                "fit.predict(X) gives the mean and variance of y at inputs of your choice"
            )
        blocks, log_weights = self.flat()
        key_pick, key_data = jax.random.split(key)
        if not model.rows.independent:
            pick = jax.random.categorical(key_pick, log_weights)
            draw = jax.tree.map(lambda leaf: jnp.asarray(leaf)[pick], model.units.draws_to_user(blocks))
            return np.asarray(eqx.filter_jit(model.simulate)(key_data, draw, n).x)
        index = jax.random.categorical(key_pick, log_weights, shape=(n,))
        picked = jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], model.units.draws_to_user(blocks))
        rows = _simulate(model, jax.random.split(key_data, n), picked)
        found = jax.tree.map(lambda leaf: np.asarray(leaf)[:, 0], rows)
        return model.units.values_to_user(found)

    # ---- summaries ----------------------------------------------------------------------------------------

    def aligned(self, model: Model, data: Data) -> Draws:
        """A copy of at most about a thousand draws with the components of every draw in the order of one pivot.

        Without alignment, averages over a posterior with exchangeable components are equal for all components.
        """
        thin = self.thinned(_MOST)
        symmetry = model.symmetry
        if symmetry is None or not isinstance(model, Alignable):
            return thin
        (parts,) = symmetry.parts
        if not (parts.alike or parts.signs):
            return thin
        blocks, log_weights = thin.flat()
        best = int(jnp.argmax(log_weights + _log_joints(model, blocks, data)))
        renamed = aligned(model, parts, blocks, best, data)
        shape = thin.shape
        ordered = jax.tree.map(lambda leaf: jnp.asarray(leaf).reshape(shape + leaf.shape[1:]), renamed)
        return Draws(ordered, thin.log_weights)

    def matched(self, model: Model, data: Data) -> Posterior:
        """Families with the draws' averages of t(θ), from which the tables of a fit are made.

        If the labels of a model cannot be aligned, chains may differ in them, so only the first chain is used.
        """
        here = self.aligned(model, data)
        if model.local_groups:
            here = Draws(jax.tree.map(lambda leaf: leaf[:1], here.blocks))
        return Posterior(_match(model, *here.flat()), {})


def _log_average(one: Any, blocks: dict[str, Any], log_weights: Float[Array, " draw"]) -> Array:
    """log Σ_draws weight · exp(one(draw)), a few draws at a time."""
    shape = jax.eval_shape(one, jax.tree.map(lambda leaf: leaf[0], blocks)).shape

    def weighted(part: tuple[dict[str, Any], Array]) -> Array:
        draw, log_weight = part
        return log_weight + one(draw)

    size = log_weights.shape[0]
    pieces = -(-size // _AT_ONCE)
    padding = pieces * _AT_ONCE - size

    def pad(leaf: Any) -> Array:
        rows = jnp.concatenate([leaf, jnp.repeat(leaf[-1:], padding, axis=0)])
        return rows.reshape((pieces, _AT_ONCE, *rows.shape[1:]))

    weights = jnp.concatenate([log_weights, jnp.full(padding, -jnp.inf)]).reshape(pieces, _AT_ONCE)

    def piece(total: Array, part: Any) -> tuple[Array, None]:
        # Accumulated in batches, so that memory does not grow with the number of draws.
        return jnp.logaddexp(total, jax.nn.logsumexp(jax.vmap(weighted)(part), axis=0)), None

    parts = (jax.tree.map(pad, blocks), weights)
    return jax.lax.scan(piece, jnp.full(shape, -jnp.inf), parts)[0]


def systematic(offset: Array, log_weights: Float[Array, " draw"], n: int) -> Int[Array, " n"]:
    """Systematic resampling: indices of n draws, found in the cumulative weights at equal distances."""
    places = (jnp.arange(n) + offset) / n
    index = jnp.searchsorted(jnp.cumsum(jnp.exp(log_weights)), places)
    return jnp.minimum(index, log_weights.shape[0] - 1)


def _resample(offset: Array, blocks: dict[str, Any], log_weights: Float[Array, " draw"], n: int) -> dict[str, Any]:
    index = systematic(offset, log_weights, n)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], blocks)


@eqx.filter_jit
def _simulate(model: Model, keys: Key[Array, " n"], draws: dict[str, Any]) -> Any:
    return jax.vmap(lambda key, draw: model.simulate(key, draw, 1))(keys, draws)


@eqx.filter_jit
def _log_joints(model: Model, blocks: dict[str, Any], data: Data) -> Float[Array, " draw"]:
    return jax.lax.map(lambda draw: model.log_joint(draw, data), blocks, batch_size=_AT_ONCE)


@eqx.filter_jit
def _match(model: Model, blocks: dict[str, Any], log_weights: Float[Array, " draw"]) -> dict[str, Any]:
    share = jnp.exp(log_weights)
    each = jax.vmap(model.statistics)(blocks)
    m = jax.tree.map(lambda leaf: jnp.tensordot(share, leaf, axes=(0, 0)), each)
    families = {}
    for name, p in model.prior.items():
        family = p.family(p.natural(m)) if isinstance(p, Conditional) else p
        families[name] = family.match(m[name])
    return families
