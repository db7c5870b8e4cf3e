"""Variational Bayes of small Gaussian mixtures in NumPy: XLA would compile for longer than these fits run.

The prior, the posterior and the statistics of a datum are flat vectors (all fields of all blocks, one after the other):

    η_k = η⁰_k + Σ_n w_n r_nk T(x_n),        r_nk ∝ exp⟨T(x_n), E t(θ_k)⟩,        E t = ∇A(η),
    bound = Σ_n w_n log Σ_k exp{⟨T(x_n), E t(θ_k)⟩ + log h} + ⟨η⁰ − η, E t⟩ + A(η) − A(η⁰),

where the weights' own statistic of a datum is 1. Restarts are a leading axis of every array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ..families import (
    Dirichlet,
    Gaussian,
    Independent,
    IndependentPair,
    IsotropicNormalGamma,
    NormalGamma,
    NormalWishart,
    Product,
    ScalarGaussian,
    SphericalGaussian,
)
from ..models._blocks import Posterior
from ..models.mixture.columns import ColumnsPair
from ..models.mixture.likelihoods import log_unit
from ..models.mixture.starts import COOLING
from ..numerics.host import digamma, log_gamma
from ..numerics.keys import hashes, is_host, uniforms
from ..numerics.special import LOG_2PI
from . import run_module
from .small_columns import Columns

if TYPE_CHECKING:
    from ..models import Data
    from ..models.mixture import Mixture

Leaves = tuple[np.ndarray, ...]

NAME, GOES_ON = "small mixture (numpy)", False
_NUMBERS = 2**14  # largest table (numbers): beyond it the compiled sweep saves more than its compilation costs
_WORK = 2**24  # multiplications of a sweep, an exponential counted as 25: some ten milliseconds
_STARTS = ("mixed", "kmeans++", "random", "uneven", "annealed", "means", "responsibilities")


# ---- the families: A(η) and ∇A(η), as in their modules -----------------------------------------------------------


def _normal_wishart(first: np.ndarray, count: np.ndarray, second: np.ndarray, dof: np.ndarray) -> tuple[Any, Leaves]:
    d = first.shape[-1]
    dof = dof + d
    location = first / count[..., None]
    factor = _cholesky(second - first[..., :, None] * location[..., None, :])
    inverse = np.zeros_like(factor)
    for i in range(d):
        rest = np.eye(d)[i] - (factor[..., None, i, :i] @ inverse[..., :i, :])[..., 0, :]
        inverse[..., i, :] = rest / factor[..., i, i, None]
    half = (inverse @ location[..., None])[..., 0]
    log_det = 2.0 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
    halves = 0.5 * (dof[..., None] - np.arange(d))
    value = 0.5 * dof * (d * math.log(2.0) - log_det) + d * (d - 1) / 4 * math.log(math.pi)
    value = value + log_gamma(halves).sum(axis=-1) + 0.5 * d * (LOG_2PI - np.log(count))
    inverse_t = np.swapaxes(inverse, -1, -2)
    return value, (
        dof[..., None] * (inverse_t @ half[..., None])[..., 0],
        -0.5 * (d / count + dof * np.square(half).sum(axis=-1)),
        -0.5 * dof[..., None, None] * (inverse_t @ inverse),
        0.5 * (digamma(halves).sum(axis=-1) + d * math.log(2.0) - log_det),
    )


def _cholesky(matrices: np.ndarray) -> np.ndarray:
    """The lower factors; NaN where a matrix is not positive definite."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        if matrices.ndim == 2:
            return np.full_like(matrices, np.nan)
        return np.stack([_cholesky(matrix) for matrix in matrices])


def _isotropic(first: np.ndarray, count: np.ndarray, second: np.ndarray, dof: np.ndarray) -> tuple[Any, Leaves]:
    d = first.shape[-1]
    half_dof = 0.5 * (dof + 2.0 - d)
    location = first / count[..., None]
    rate = 0.5 * (second - (first * location).sum(axis=-1))
    precision = half_dof / rate
    value = log_gamma(half_dof) - half_dof * np.log(rate) + 0.5 * d * (LOG_2PI - np.log(count))
    return value, (
        precision[..., None] * location,
        -0.5 * (d / count + precision * np.square(location).sum(axis=-1)),
        -0.5 * precision,
        0.5 * (digamma(half_dof) - np.log(rate)),
    )


def _columns(first: np.ndarray, *rest: np.ndarray) -> tuple[Any, Leaves]:
    value, mean = _isotropic(first[..., None], *rest)
    return value.sum(axis=-1), (mean[0][..., 0], *mean[1:])


def _dirichlet(log: np.ndarray) -> tuple[Any, Leaves]:
    delta = log + 1.0
    total = delta.sum(axis=-1)
    return log_gamma(delta).sum(axis=-1) - log_gamma(total), (digamma(delta) - digamma(total)[..., None],)


class Form(NamedTuple):
    """A kind of component."""

    value_and_mean: Callable[..., tuple[Any, Leaves]]
    statistics: Callable[[np.ndarray], Sequence[Any]]  # T(x): first, count, second, dof
    fields: int = 4

    def log_base(self, x: np.ndarray) -> np.ndarray:
        return np.full(1, -0.5 * x.shape[1] * LOG_2PI)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        return x


# The types of the pair and the prior, and of the parts of both.
_FORMS = {
    (Gaussian, None, NormalWishart, None): Form(_normal_wishart, lambda x: (x, 1.0, x[:, :, None] * x[:, None], 1.0)),
    (SphericalGaussian, None, IsotropicNormalGamma, None): Form(
        _isotropic, lambda x: (x, 1.0, np.square(x).sum(axis=1), float(x.shape[1]))
    ),
    (IndependentPair, ScalarGaussian, Independent, NormalGamma): Form(_columns, lambda x: (x, 1.0, np.square(x), 1.0)),
}


def _form(model: Mixture) -> Form | Columns | None:
    pair, prior = model.pair, model.prior.get("components")
    if isinstance(pair, ColumnsPair):
        return None if pair.has_latents or type(prior) is not Product else Columns(pair)
    inside = [getattr(whole, "inner", None) for whole in (pair, prior)]
    kinds = [None if part is None else type(part) for part in (pair, inside[0], prior, inside[1])]
    return _FORMS.get(tuple(kinds))  # type: ignore[arg-type]


# ---- suitable mixtures as flat vectors ------------------------------------------------------------


def suits(model: Mixture, data: Data, restarts: int = 1) -> bool:
    """Whether NumPy finishes this problem before XLA would have compiled."""
    if run_module(model) != "small_mixture" or data.is_spread or model.missing or model.single or _form(model) is None:
        return False
    if model.known is None and type(model.prior["weights"]) is not Dirichlet:
        return False
    n, d = data.size, data.values.shape[1]
    work = n * restarts * (25 * model.n_components + sum(leaf.size for leaf in jax.tree.leaves(model.prior)))
    return n * d <= _NUMBERS and work <= _WORK and jax.default_backend() == "cpu"


def when(method: Any, model: Mixture, data: Data) -> bool:
    """Whether this engine runs the method: plain coordinate ascent by `tp.VB`, from a start implemented here."""
    from ..inference.variational.coordinate import VB

    return (
        type(method) is VB
        and data.engine == "auto"
        and method.batches is None
        and method.moves is False
        and model.start.kind in _STARTS
        and is_host()
        and suits(model, data, method.restarts)
    )


class Flat(NamedTuple):
    """A problem as flat vectors."""

    rows: np.ndarray  # n d: to measure distances between
    weights: np.ndarray  # n, or (r, 1, n) for each restart
    features: np.ndarray  # n f
    prior: np.ndarray  # k f
    log_prior: np.ndarray  # A(η⁰)
    constant: np.ndarray  # k 1 (or n): of the logits
    shapes: list[tuple[int, ...]]  # shapes of the fields of one component
    form: Form | Columns
    model: Mixture

    def value_and_mean(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A(η) of all blocks together, and ∇A(η)."""
        leaves = self.unpack(eta)
        fields = self.form.fields
        value, mean = self.form.value_and_mean(*leaves[:fields])
        value = value.sum(axis=-1)
        if len(leaves) > fields:
            of_weights, log_weights = _dirichlet(leaves[fields])
            value, mean = value + of_weights, mean + log_weights
        return value, _pack(mean)

    def unpack(self, flat: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        parts = np.split(flat, ends, axis=-1)
        return [part.reshape(flat.shape[:-1] + shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def posterior(self, eta: np.ndarray) -> Posterior:
        structure = jax.tree.structure(self.model.prior)
        return Posterior(jax.tree.unflatten(structure, self.unpack(eta)), {})

    def shares(self, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The weighted responsibilities (r, k, n), and Σ_n w_n log Σ_k of each restart."""
        logits = mean @ self.features.T + self.constant
        top = logits.max(axis=1, keepdims=True)
        terms = np.exp(logits - top)
        total = terms.sum(axis=1, keepdims=True)
        return terms * (self.weights / total), ((top + np.log(total)) * self.weights).sum(axis=(1, 2))

    def sweep(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """η after a sweep, and the bound before it: `Model.sweep`."""
        value, mean = self.value_and_mean(eta)
        shares, evidence = self.shares(mean)
        bound = evidence + ((self.prior - eta) * mean).sum(axis=(1, 2)) + value - self.log_prior
        return self.prior + shares @ self.features, bound


def _pack(leaves: Any) -> np.ndarray:
    """Fields with two leading axes, (r, k, …), as (r, k, f)."""
    return np.concatenate([np.reshape(leaf, (*np.shape(leaf)[:2], -1)) for leaf in leaves], axis=-1)


def flat(model: Mixture, data: Data) -> Flat:
    weights = np.trim_zeros(np.asarray(data.weights), "b")  # the padding
    x = np.asarray(data.values)[: len(weights)]
    form = _form(model)
    assert form is not None
    leaves = [np.asarray(leaf)[None] for leaf in jax.tree.leaves(model.prior)]
    shapes = [leaf.shape[2:] for leaf in leaves]
    log_weights = np.zeros(model.n_components) if model.known is None else np.asarray(model.known)
    constant = log_weights[:, None] + form.log_base(x)
    prior = _pack(leaves)
    features = statistics(form, shapes, x)
    problem = Flat(form.coordinates(x), weights, features, prior[0], np.zeros(1), constant, shapes, form, model)
    return problem._replace(log_prior=problem.value_and_mean(prior)[0])


def statistics(form: Form | Columns, shapes: list[tuple[int, ...]], x: np.ndarray) -> np.ndarray:
    """T(x) of each row as a flat vector, and a 1 for the weights where they are unknown."""
    parts = zip([*form.statistics(x), 1.0][: len(shapes)], shapes, strict=True)
    return np.concatenate([np.broadcast_to(part, (len(x), *shape)).reshape((len(x), -1)) for part, shape in parts], 1)


# ---- the engine: what `inference/run.py` asks of one -------------------------------------------------------------


def start(method: Any, model: Mixture, data: Data, keys: Any, kinds: tuple[str, ...] = ()) -> Posterior:
    """`VB.init` of every restart; `kinds` says how each begins, if they differ."""
    problem = flat(model, data)
    own = hashes(np.asarray(jax.random.key_data(keys)), [0])[:, 0]
    shares = np.zeros((len(keys), model.n_components, len(problem.rows)))
    for kind in dict.fromkeys(kinds):
        places = np.flatnonzero(np.array(kinds) == kind)
        shares[places] = _starting_shares(problem, own[places], kind)
    if not kinds:
        shares = _starting_shares(problem, own, model.start.kind)
    eta = problem.prior + (shares * problem.weights) @ problem.features
    return problem.posterior(np.broadcast_to(eta, (len(keys), *eta.shape[1:])))


def chunk(
    method: Any, model: Mixture, data: Data, keys: Any, carry: Any, limit: Any, tol: Any, hold: Any
) -> tuple[Any, dict[str, np.ndarray]]:
    """`_chunk` of `inference/run.py`: the same rules, and no work for a restart that is done."""
    problem = flat(model, data)
    eta, recent, done = _pack(jax.tree.leaves(carry.states)), np.array(carry.recent), np.array(carry.done)
    small, still, bounds = float(tol), bool(hold), []
    unit = log_unit(model, np.asarray(data.values), np.asarray(data.weights), np)
    with np.errstate(all="ignore"):
        for _ in range(int(carry.steps), int(limit)):
            going = np.flatnonzero(~done)
            if not going.size:
                break
            fresh, bound = problem.sweep(eta[going])
            recent[going] = np.column_stack([recent[going, 1:], bound])
            if not still:
                done[going] = method.finished(recent[going].T + unit, small)
                eta[going] = np.where(done[going, None, None], eta[going], fresh)
            bounds.append(recent[:, -1].copy())
    after = carry._replace(recent=recent, done=done, steps=np.asarray(int(carry.steps) + len(bounds)))
    return after._replace(states=problem.posterior(eta)), {"elbo": np.array(bounds)}


def shares(model: Mixture, q: Posterior, data: Data) -> np.ndarray | None:
    """`Mixture.responsibilities` of these data times their weights, (n, k), where they are few."""

    def shapes(blocks: Any) -> tuple[Any, list[tuple[int, ...]]]:
        return jax.tree.structure(blocks), [leaf.shape for leaf in jax.tree.leaves(blocks)]

    # Other methods have posteriors of other families; those of a damaged file may not fit the prior.
    if shapes(q.blocks) != shapes(model.prior) or not suits(model, data):
        return None
    problem = flat(model, data)
    _, mean = problem.value_and_mean(_pack([np.asarray(leaf)[None] for leaf in jax.tree.leaves(q.blocks)]))
    return problem.shares(mean)[0][0].T


# ---- starts, as in `models/mixture/starts.py`, by the same random numbers ----------------------------------------


def _starting_shares(problem: Flat, keys: np.ndarray, kind: str) -> np.ndarray:
    """The share of every datum in each component, (r, k, n)."""
    start, size, n = problem.model.start, problem.model.n_components, len(problem.rows)
    if kind == "responsibilities":
        return np.asarray(start.values)[:n].T[None]
    if kind in ("random", "uneven"):
        drawn = -np.log1p(-uniforms(keys, (n + (kind == "uneven")) * size)).reshape((len(keys), -1, size))
        shares = drawn if kind == "random" else drawn[:, 1:] * drawn[:, :1] ** 3
        return np.swapaxes(shares / shares.sum(axis=2, keepdims=True), 1, 2)
    rows, weights = problem.rows, problem.weights
    first, second = (weights @ rows**power / weights.sum() for power in (1, 2))
    variance = second - np.square(first)
    deviation = np.sqrt(np.where(variance > 1e-12 * second, variance, 1.0))
    scaled = rows / deviation
    if kind == "annealed":
        return _annealed(keys, scaled, weights, size)
    if kind == "means":
        centres = (np.asarray(start.values) / deviation)[None]
    else:
        centres = _kmeans_plus_plus(keys, scaled, weights, size)
    # Column by column, so that equal centres have equal scores and the first of them is taken.
    scores = -0.5 * np.square(centres).sum(axis=2)[:, :, None]
    for column in range(rows.shape[1]):
        scores = scores + centres[:, :, None, column] * scaled[:, column]
    return (np.argmax(scores, axis=1)[:, None] == np.arange(size)[:, None]).astype(np.float64)


def _kmeans_plus_plus(keys: np.ndarray, rows: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Centres (r, k, d) in units of the deviations, drawn one after the other as `kmeans_plus_plus` draws them."""
    both = hashes(keys, [0, 1])
    chosen: list[np.ndarray] = []
    weight, distance = weights[None], np.inf
    with np.errstate(divide="ignore"):
        for k in range(size):
            key = hashes(both[:, 0], [k])[:, 0] if k else both[:, 1]
            draws = np.maximum(uniforms(key, len(rows)), np.finfo(np.float64).tiny)
            chosen.append(rows[np.argmax(np.log(weight) - np.log(-np.log(draws)), axis=1)])
            distance = np.minimum(distance, np.square(rows - chosen[-1][:, None]).sum(axis=2))
            weight = weights * distance
            # If every point is a centre already (duplicates), any point will do.
            weight = np.where((weight > 0).any(axis=1, keepdims=True), weight, weights)
    return np.stack(chosen, axis=1)


def _annealed(keys: np.ndarray, rows: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Shares (r, k, n) by k-means with soft borders, cooled as in `models/mixture/starts.py`."""
    rows = rows - weights @ rows / weights.sum()

    def shares(centres: np.ndarray, temperature: float) -> np.ndarray:
        scores = centres @ rows.T - 0.5 * np.square(centres).sum(axis=2)[:, :, None]
        terms = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
        return terms / terms.sum(axis=1, keepdims=True)

    centres = 0.1 * (uniforms(keys, size * rows.shape[1]).reshape((-1, size, rows.shape[1])) - 0.5)
    for temperature in COOLING:
        held = weights * shares(centres, temperature)
        centres = held @ rows / np.maximum(held.sum(axis=2), 1e-300)[:, :, None]
    return shares(centres, COOLING[-1])
