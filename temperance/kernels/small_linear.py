"""Variational Bayes of small linear Gaussian models in NumPy: what factor analyses and state spaces share.

The blocks of q are Normal rows and Gamma precisions, each as its natural parameter: (Λm, Λ) and (a − 1, −b). As in
`models/_derive.py`, a sweep updates every group in turn,

    η_i ← ∂/∂m_i {log_prior(m) + walk(m)},        bound = log_prior(m) + walk(m) + Σ_i entropy(q_i),

with the derivatives written out. XLA would compile for longer than these fits run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

import jax
import numpy as np

from ..families import Gamma, GammaVector, Normal, NormalVector
from ..models._blocks import Posterior
from ..models.linear import LoadingsPrior
from ..numerics.host import digamma, log_gamma
from ..numerics.keys import hashes, uniforms
from ..numerics.special import LOG_2PI

Leaves = tuple[np.ndarray, np.ndarray]
Blocks = dict[str, Leaves]  # natural parameters, or expected statistics
Sweep = Callable[[Blocks], tuple[Blocks, float]]  # the blocks after a sweep, and the bound before it

SWEEPS = 3  # of a leap
_TINY = np.finfo(float).tiny


# ---- the families: A(η) and ∇A(η), as in their modules -----------------------------------------------------------


def _normal(linear: np.ndarray, precision: np.ndarray) -> tuple[float, Leaves]:
    try:
        factor = np.linalg.cholesky(precision)
        covariance = np.linalg.inv(precision)
    except np.linalg.LinAlgError:
        return math.nan, (np.full_like(linear, np.nan), np.full_like(precision, np.nan))
    centre = (covariance @ linear[..., None])[..., 0]
    log_det = 2.0 * float(np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum())
    value = 0.5 * (float(np.vdot(linear, centre)) - log_det + linear.size * LOG_2PI)
    return value, (centre, -0.5 * (covariance + centre[..., :, None] * centre[..., None, :]))


def _gamma(log: np.ndarray, value: np.ndarray) -> tuple[float, Leaves]:
    shape, log_rate = log + 1.0, np.log(-value)
    return float((log_gamma(shape) - shape * log_rate).sum()), (digamma(shape) - log_rate, -shape / value)


def means(blocks: Blocks, kept: dict[str, tuple[Leaves, float, Leaves]] | None = None) -> tuple[Blocks, float]:
    """E[t] of each block, and the sum of their entropies A(η) − ⟨η, E t⟩.

    `kept` holds what an earlier call found for a Normal block: the next sweep begins where the last one ended.
    """
    m: Blocks = {}
    entropy = 0.0
    kept = {} if kept is None else kept
    together = [name for name, eta in blocks.items() if eta[1].ndim < 2]
    for name, eta in blocks.items():
        if eta[1].ndim > 1:
            if name not in kept or kept[name][0] is not eta:
                value, found = _normal(*eta)
                kept[name] = eta, value - product(eta, found), found
            entropy += kept[name][1]
            m[name] = kept[name][2]
    if together:  # a call of a special function takes as long for a few numbers as for one
        etas = [np.concatenate([blocks[name][part].reshape(-1) for name in together]) for part in (0, 1)]
        value, found = _gamma(*etas)
        entropy += value - product((etas[0], etas[1]), found)
        end = 0
        for name in together:
            like = blocks[name][0]
            begin, end = end, end + like.size
            m[name] = found[0][begin:end].reshape(like.shape), found[1][begin:end].reshape(like.shape)
    return m, entropy


def product(left: Leaves, right: Leaves) -> float:
    return float(np.vdot(left[0], right[0]) + np.vdot(left[1], right[1]))


def is_proper(blocks: Blocks) -> bool:
    for first, second in blocks.values():
        if second.ndim < 2:
            if not ((first > -1.0).all() and (second < 0.0).all()):
                return False
            continue
        diagonal = np.diagonal(second, axis1=-2, axis2=-1)
        if not (diagonal > 0.0).all():
            return False
        scale = 1.0 / np.sqrt(diagonal)
        try:
            np.linalg.cholesky(second * scale[..., :, None] * scale[..., None, :])
        except np.linalg.LinAlgError:
            return False
    return True


# ---- the prior -----------------------------------------------------------------------------------------------------


class Prior(NamedTuple):
    """The prior of all blocks; `loaded` has precisions (relevance, others) / scale², if its relevance is learned."""

    fixed: Blocks  # natural parameters
    normaliser: float  # Σ A(η⁰)
    loaded: str | None
    scale: np.ndarray
    others: np.ndarray

    def value(self, m: Blocks) -> float:
        """E log p(θ)."""
        value = sum(product(eta, m[name]) for name, eta in self.fixed.items()) - self.normaliser
        if self.loaded is None:
            return value
        (d, size), unit = m[self.loaded][0].shape, np.square(self.scale)
        value += float(np.vdot(self._precisions(m), np.diagonal(m[self.loaded][1], axis1=1, axis2=2)))
        value += 0.5 * d * float(m["relevance"][0].sum() + np.log(self.others).sum())
        return value - 0.5 * size * (d * LOG_2PI + float(np.log(unit).sum()))

    def gradient(self, m: Blocks, name: str) -> Leaves:
        """The derivative of the value in the statistics of one block."""
        if name == self.loaded:
            each = self._precisions(m)
            return np.zeros_like(each), each[:, :, None] * np.eye(each.shape[1])
        if name == "relevance" and self.loaded is not None:
            log, mean = self.fixed[name]
            d, k = len(self.scale), len(log)
            squares = np.diagonal(m[self.loaded][1], axis1=1, axis2=2)[:, :k]
            return log + 0.5 * d, mean + (1.0 / np.square(self.scale)) @ squares
        return self.fixed[name]

    def _precisions(self, m: Blocks) -> np.ndarray:
        """Expected precisions of the entries of each row: the loadings, then the others."""
        return np.concatenate([m["relevance"][1], self.others])[None] / np.square(self.scale)[:, None]


def host_prior(prior: Mapping[str, Any]) -> Prior:
    fixed: Blocks = {}
    loaded, scale, others = None, np.zeros(0), np.zeros(0)
    for name, p in prior.items():
        if isinstance(p, LoadingsPrior):
            loaded, scale, others = name, np.asarray(p.scale), np.asarray(p.others)
        else:
            fixed[name] = leaves(p)
    normaliser = sum((_normal if eta[1].ndim > 1 else _gamma)(*eta)[0] for eta in fixed.values())
    return Prior(fixed, normaliser, loaded, scale, others)


def is_known(prior: Mapping[str, Any]) -> bool:
    """Whether the families of all blocks are among those of this module."""
    return all(type(p) in (Normal, Gamma, LoadingsPrior) for p in prior.values())


# ---- messages ------------------------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """A matrix, learned or known: E[w] and E[w wᵀ] of its rows, and (E log τ, E τ) of their noise."""

    first: np.ndarray
    second: np.ndarray
    noise: Leaves


def corners(first: np.ndarray, beside: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Symmetric matrices from their blocks: `first` and `last` on the diagonal, `beside` below it."""
    k, width = first.shape[1], first.shape[1] + last.shape[1]
    whole = np.empty((len(first), width, width))
    whole[:, :k, :k], whole[:, k:, :k], whole[:, :k, k:], whole[:, k:, k:] = first, beside, beside.swapaxes(1, 2), last
    return whole


def plus(left: Leaves, right: Leaves | None) -> Leaves:
    return left if right is None else (left[0] + right[0], left[1] + right[1])


def of_rows(
    name: str, noise: str, rows: Rows, product: np.ndarray, square: np.ndarray, count: np.ndarray, squares: np.ndarray
) -> Blocks:
    """The messages of −½ τ (x − w·y)² to w and τ, from Σ x y, Σ y yᵀ, Σ 1 and Σ x² of each row."""
    tau = rows.noise[1]
    residual = squares - 2.0 * np.einsum("ij,ij->i", rows.first, product) + np.einsum("ijk,ijk->i", rows.second, square)
    return {name: (tau[:, None] * product, tau[:, None, None] * square), noise: (0.5 * count, -0.5 * residual)}


# ---- states --------------------------------------------------------------------------------------------------------


def leaves(family: Any) -> Leaves:
    first, second = jax.tree.leaves(family)
    return np.asarray(first), np.asarray(second)


def restart_of(states: Posterior, number: int) -> Blocks:
    return {name: tuple(leaf[number] for leaf in leaves(family)) for name, family in states.blocks.items()}


def stacked(found: list[Blocks]) -> Posterior:
    """The posteriors of all restarts."""
    blocks: dict[str, Any] = {}
    for name in found[0]:
        first, second = (np.stack([blocks[name][part] for blocks in found]) for part in (0, 1))
        is_normal = found[0][name][1].ndim > 1
        vector = NormalVector(first, second) if is_normal else GammaVector(first, second)  # type: ignore[arg-type]
        blocks[name] = (Normal if is_normal else Gamma).from_natural(vector)
    return Posterior(blocks, {})


# ---- steps, as `_chunk` of `inference/run.py` takes them ----------------------------------------------------------


def advance(
    sweep: Sweep, finished: Callable[..., Any], unit: float, carry: Any, limit: Any, tol: Any, hold: Any
) -> tuple[Any, dict[str, np.ndarray]]:
    """Take steps until `limit`, or until every restart is done."""
    recent, done = np.array(carry.recent), np.array(carry.done)
    states = [restart_of(carry.states, number) for number in range(len(done))]
    small, still, bounds = float(tol), bool(hold), []
    with np.errstate(all="ignore"):
        for _ in range(int(carry.steps), int(limit)):
            if done.all():
                break
            for number in np.flatnonzero(~done):
                fresh, bound = sweep(states[number])
                recent[number] = *recent[number, 1:], bound
                if not still:
                    done[number] = finished(recent[number] + unit, small)
                    states[number] = states[number] if done[number] else fresh
            bounds.append(recent[:, -1].copy())
    after = carry._replace(recent=recent, done=done, steps=np.asarray(int(carry.steps) + len(bounds)))
    return after._replace(states=stacked(states)), {"elbo": np.array(bounds)}


def leap(sweep: Sweep, q: Blocks) -> tuple[Blocks, float]:
    """`inference/variational/leap.py`."""
    second, first_bound = sweep(q)
    third, second_bound = sweep(second)
    after, bound = sweep(_beyond(q, second, third))
    return (after if bound >= second_bound else third), first_bound


def _beyond(first: Blocks, second: Blocks, third: Blocks) -> Blocks:
    """All parts behind one another as one vector: most of the time would go to calls of NumPy."""
    like = [leaf for eta in first.values() for leaf in eta]
    start, *rest = (
        np.concatenate([leaf.ravel() for eta in q.values() for leaf in eta]) for q in (first, second, third)
    )
    step, turn = rest[0] - start, rest[1] - 2.0 * rest[0] + start
    rows = np.concatenate([np.full(len(leaf), leaf.size // len(leaf)) for leaf in like])  # numbers of each row
    places = np.concatenate([[0], np.cumsum(rows)[:-1]])
    largest = np.maximum.reduceat(np.abs([start, rest[1]]), places, axis=1).sum(axis=0) + _TINY
    sizes = np.repeat(largest, rows)
    bend = turn / sizes
    rate = max(1.0, -float(bend @ (step / sizes)) / (float(bend @ bend) + _TINY))
    moved = start + 2.0 * rate * step + rate**2 * turn
    parts = iter(np.split(moved, np.cumsum([leaf.size for leaf in like])[:-1]))
    ahead: Any = {name: tuple(next(parts).reshape(leaf.shape) for leaf in eta) for name, eta in first.items()}
    return ahead if is_proper(ahead) else third


# ---- starts --------------------------------------------------------------------------------------------------------

_PRODUCTS, _SHAKE = 4, 0.1  # as in `models/linear/factor_coordinates.py`


def normals(key: np.ndarray, *shape: int) -> np.ndarray:
    """The numbers of `jax.random.normal(key, shape)`, up to rounding."""
    low = np.nextafter(-1.0, 0.0)
    drawn = np.maximum(low, uniforms(key[None], math.prod(shape))[0] * (1.0 - low) + low)
    quantile = NormalDist().inv_cdf
    return np.array([quantile(0.5 + 0.5 * u) for u in drawn.tolist()]).reshape(shape)


def split(key: np.ndarray, count: int) -> np.ndarray:
    return hashes(key[None], range(count))[0]


def principal_loadings(
    key: np.ndarray, x: np.ndarray, weights: np.ndarray, scale: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """`principal_loadings` of `models/linear/factor_coordinates.py`, for rows in which NaN marks a value that was not
    seen."""
    key_start, key_shake = split(key, 2)
    seen = ~np.isnan(x)
    rows = np.where(seen, x, 0.0) / scale

    def times(axes: np.ndarray) -> np.ndarray:
        return rows.T @ (weights[:, None] * (rows @ axes))

    axes = np.linalg.qr(normals(key_start, len(scale), size))[0]
    for _ in range(_PRODUCTS):
        axes = np.linalg.qr(times(axes))[0]
    product = axes.T @ times(axes) / max(float(weights.sum()), 1.0)
    variances, turn = np.linalg.eigh(0.5 * (product + product.T))
    variances = np.maximum(variances, 1e-3)
    loadings = axes @ turn * np.sqrt(np.maximum(variances - 0.5, 0.1 * variances))
    return loadings * np.exp(_SHAKE * normals(key_shake, *loadings.shape)), weights @ seen
