"""Message passing by weighted points, for models whose latents are integrated out whatever the globals are.

The factor of a datum (of a whole sequence, for chains) is the model's own scalar function at a draw,

    f_n(θ) = exp log_evidence(t(θ), x_n),

and the moments of a tilted distribution are averages over points θ_s from q itself,

    q_n ∝ q (f_n / f̃_n)^α,     E_{q_n}[t] ≈ E_q[t] + Σ_s (w_ns − w_s) t(θ_s),     w_ns ∝ w_s (f_n / f̃_n)^α(θ_s).

What the points miss of E_q[t] cancels, so that the error is that of f_n/f̃_n, which is nearly constant once there are
many data. The points are a fixed set, moved with q: the passes have a fixed point. Half of the set and the other half
give the error of ln s.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...families import Gamma, GammaVector, Normal
from ...models import Data, Model
from ...models._blocks import Conditional, means
from ...models._factors import Blocks, Natural
from ...numerics.linalg import cholesky, solve_vector, transposed_solve_vector
from .._method import Result, Run
from .together import Look, Sites, Together, log_integral, met_by_data, proper_cavities, times_prior, usable

MOST_POINTS, LEAST_POINTS, MOST_VALUES = 2**13, 2**9, 2**22  # points, and values log f_n(θ_s) in memory
SWEEPS = 30  # of variational Bayes, at the start
WIDER = 2.0  # how much wider the wider q is, by the root of the dimensions
FEWEST = 50.0  # least effective number of points


class Points(NamedTuple):
    """Statistics of the points, and their weights: those of q over those by which they were placed."""

    statistics: Natural  # leading axis: points
    log_weights: Float[Array, " s"]


MOST_DATA = MOST_VALUES // LEAST_POINTS


def suits(model: Model) -> bool:
    """Whether all latents are integrated out, and the data meet Normal and Gamma blocks only."""
    met = [p for name, p in model.prior.items() if name not in model.apart]
    kinds = [p.family(None) if isinstance(p, Conditional) else p for p in met]
    return not model.local_groups and all(isinstance(kind, Normal | Gamma) for kind in kinds)


def points(blocks: Blocks, count: int) -> Points:
    """Points of q by a scrambled Sobol sequence, twice; every other one of a wider q, in case the tails are heavy."""
    sizes = {name: jax.tree.leaves(block.natural)[0].shape for name, block in blocks.items()}
    each = {name: int(np.prod(shape)) for name, shape in sizes.items()}
    dimensions = sum(each.values())
    normal = jnp.asarray(_normal_points(dimensions, count))
    wide = {name: block.scale(1.0 / (1.0 + WIDER / np.sqrt(dimensions))) for name, block in blocks.items()}

    def one(z: Array, far: Array) -> tuple[Natural, Array]:
        statistics, log_weight, densities, start = {}, jnp.zeros(()), jnp.zeros(2), 0
        for name in sorted(blocks):
            block = jax.tree.map(lambda a, b: jnp.where(far, b, a), blocks[name], wide[name])
            at, extra = _placed(block, z[start : start + each[name]].reshape(sizes[name]))
            start += each[name]
            statistics[name], log_weight = at, log_weight + extra
            logs = [jnp.sum(q.natural.dot(at) - q.log_normaliser()) for q in (blocks[name], wide[name])]
            densities = densities + jnp.stack(logs)
        return statistics, log_weight + densities[0] - jax.nn.logsumexp(densities)

    statistics, log_weights = jax.vmap(one)(normal, jnp.arange(count) % 2 == 1)
    return Points(statistics, jax.nn.log_softmax(log_weights))


def _normal_points(dimensions: int, count: int) -> np.ndarray:
    """Two Sobol sequences, of which neighbours are the same point for both widths."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    halves = [ndtri(qmc.Sobol(dimensions, rng=seed).random(count // 4)) for seed in (0, 1)]
    return np.repeat(np.concatenate(halves), 2, axis=0)


def _placed(block: Any, z: Array) -> tuple[Any, Array]:
    """The statistics of a point of this block that standard Normal numbers z give, and its log weight."""
    if isinstance(block, Normal):
        factor = cholesky(block.natural.precision)
        draw = solve_vector(factor, block.natural.linear) + transposed_solve_vector(factor, z)
        return block.statistics(draw), jnp.zeros(())
    # The cube of a Normal variable is nearly a Gamma variable (Wilson & Hilferty, 1931); the weight has the rest.
    assert isinstance(block, Gamma)
    shape, narrow = block.shape, 1.0 / (3.0 * jnp.sqrt(block.shape))
    root = 1.0 - jnp.square(narrow) + narrow * z
    inside = root > 1e-3
    log_root = jnp.log(jnp.where(inside, root, 1.0))
    log = 3.0 * log_root + jnp.log(shape) - jnp.log(block.rate)
    at = GammaVector(log, jnp.exp(log))
    density = block.natural.dot(at) - block.log_normaliser() + log - log_root + jnp.log(3.0 * narrow)
    extra = jnp.where(inside, density + 0.5 * (jnp.square(z) + jnp.log(2.0 * jnp.pi)), -jnp.inf)
    return at, jnp.sum(extra)


@dataclasses.dataclass(frozen=True)
class ByPoints(Together):
    """`Together` with the moments of tilted distributions by points."""

    def begin(self, key: Key[Array, ""], model: Model, data: Data) -> tuple[Blocks, Natural]:
        """The end of a few sweeps of variational Bayes, and each datum's message there."""
        q = jax.lax.fori_loop(0, SWEEPS, lambda _, q: model.sweep(q, data)[0], model.initial(key, data))
        messages = variational(model, q.blocks, data)[1]
        return times_prior(model, q.blocks, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), messages)), messages

    def seen(self, model: Model, data: Data, state: Sites) -> Look:
        blocks, messages, live = state.blocks, state.natural, data.weights > 0.0
        met = met_by_data(model, blocks)
        log_s = log_integral(model, blocks, messages)
        if self.alpha == 0.0:
            value, fresh = variational(model, blocks, data)
            taken = [jnp.sum(messages[name].dot(met[name].mean().expand(0))) for name in met]
            return Look(fresh, log_s + value - sum(taken), jnp.asarray(0), {})
        at = points(met, count_for(data))
        log_factor = jax.lax.map(lambda m: model.log_evidence(m, data.values), at.statistics, batch_size=64).T
        log_site = sum(_product(messages[name], at.statistics[name]) for name in met)
        log_ratio = self.alpha * (log_factor - log_site) + at.log_weights[None]
        log_sum = jax.nn.logsumexp(log_ratio, axis=1)
        share = jnp.exp(log_ratio - log_sum[:, None])
        lean = share - jnp.exp(at.log_weights)[None]
        fresh = {}
        for name, block in met.items():
            apart = jax.tree.map(lambda t: jnp.tensordot(lean, t, 1), at.statistics[name])
            moved = jax.tree.map(lambda mean, by: mean[None] + by, block.mean(), apart)
            new = jax.vmap(lambda mean, block=block: block.match(mean).natural)(moved)
            fresh[name] = jax.tree.map(
                lambda old, new, q: old + (new - q[None]) / self.alpha, messages[name], new, block.natural
            )
        fresh, skipped = usable(fresh, messages, proper_cavities(self.alpha, met, messages)[1], live)
        halves = jax.nn.logsumexp(log_ratio.reshape((-1, 2, log_ratio.shape[1] // 2)), axis=2)
        halves = halves - jax.nn.logsumexp(at.log_weights.reshape((2, -1)), axis=1)[None]
        half = jnp.sum(jnp.where(live, (halves[:, 0] - halves[:, 1]), 0.0)) / self.alpha
        effective = jnp.min(jnp.where(live, 1.0 / jnp.sum(jnp.square(share), axis=1), jnp.inf))
        more = {"error": 0.5 * jnp.abs(half), "effective": effective}
        return Look(fresh, log_s + jnp.sum(jnp.where(live, log_sum, 0.0)) / self.alpha, skipped, more)

    def result(self, model: Model, data: Data, run: Run) -> Result:
        found = super().result(model, data, run)
        if self.alpha == 0.0 or found.log_evidence is None:
            return found
        error, effective = (float(found.history[name][-1]) for name in ("error", "effective"))
        said = f"the moments of this model are averages over {count_for(data)} points of q"
        details = {**found.details, "error": error, "effective": effective}
        if effective < FEWEST:
            why = f"{said}, of which only {effective:.0f} count for one of the data, so there is no ln s; use tp.AIS()"
            return found._replace(log_evidence=None, converged=False, details=details, notes=(*found.notes, why))
        note = f"{said}: by two halves of them ln s is known to about ±{error:.1g}, besides the approximation itself"
        return found._replace(details=details, notes=(*found.notes, note))


def variational(model: Model, blocks: Blocks, data: Data) -> tuple[Float[Array, ""], Natural]:
    """The local part of the bound, and the message of each datum."""
    m = met_by_data(model, means(blocks))

    def one(row: Any, weight: Array) -> tuple[Array, Natural]:
        rows = jax.tree.map(lambda leaf: leaf[None], row)
        return jax.value_and_grad(lambda m: weight * model.log_evidence(m, rows)[0])(m)

    values, messages = jax.vmap(one)(data.values, data.weights)
    return jnp.sum(values), messages


def count_for(data: Data) -> int:
    """Fewer points for many data, whose ratios are nearly constant."""
    fitting = MOST_VALUES // data.weights.shape[0]
    return max(LEAST_POINTS, min(MOST_POINTS, 1 << (max(fitting, 1).bit_length() - 1)))


def _product(messages: Any, statistics: Any) -> Float[Array, "n s"]:
    """⟨η̃_n, t(θ_s)⟩ of every datum and point."""
    pairs = zip(jax.tree.leaves(messages), jax.tree.leaves(statistics), strict=True)
    return sum(a.reshape((a.shape[0], -1)) @ b.reshape((b.shape[0], -1)).T for a, b in pairs)
