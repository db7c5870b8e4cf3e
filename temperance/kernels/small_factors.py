"""Variational Bayes of factor analyses in NumPy, from sums over the rows alone.

Rows in which the same columns were seen share the covariance P⁻¹ of their scores. The means of the scores, P⁻¹h with h
= Aᵀx − b, are linear in x. So a sweep needs only Σ w, Σ w x and Σ w x xᵀ of these rows, however many rows there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ..families import Gamma
from ..models._blocks import Posterior
from ..numerics.keys import is_host
from ..numerics.special import LOG_2PI
from .small_linear import (
    Blocks,
    Leaves,
    Prior,
    Rows,
    advance,
    corners,
    host_prior,
    is_known,
    leaves,
    means,
    of_rows,
    plus,
    principal_loadings,
    stacked,
)

if TYPE_CHECKING:
    from ..models import Data
    from ..models.linear.factor_analysis import FactorAnalysis

NAME, GOES_ON = "small factor analysis (numpy)", True
_NUMBERS = 2**16  # largest table (numbers)
_PATTERNS = 32  # most patterns of seen columns


def when(method: Any, model: FactorAnalysis, data: Data) -> bool:
    """Whether this engine runs the method: plain coordinate ascent by `tp.VB` on a small table."""
    from ..inference.variational.coordinate import VB

    return (
        type(method) is VB
        and data.engine == "auto"
        and method.batches is None
        and data.values.size <= _NUMBERS
        and is_known(model.prior)
        and not data.is_spread
        and is_host()
        and jax.default_backend() == "cpu"
        and (not model.missing or len(np.unique(~np.isnan(np.asarray(data.values)), axis=0)) <= _PATTERNS)
    )


def start(method: Any, model: FactorAnalysis, data: Data, keys: Any, kinds: tuple[str, ...] = ()) -> Posterior:
    """`VB.init` of every restart."""
    problem, x, weights = _problem(model, data), np.asarray(data.values), np.asarray(data.weights)
    found = (problem.start(key, x, weights) for key in np.asarray(jax.random.key_data(keys)))
    return stacked(list(found))


def chunk(
    method: Any, model: FactorAnalysis, data: Data, keys: Any, carry: Any, limit: Any, tol: Any, hold: Any
) -> tuple[Any, dict[str, np.ndarray]]:
    problem = _problem(model, data)
    count = sum(pattern.total * pattern.seen for pattern in problem.patterns)
    unit = float(count @ np.log(problem.scale))
    return advance(problem.sweep, method.finished, unit, carry, limit, tol, hold)


class Pattern(NamedTuple):
    """Sums over the rows in which the same columns were seen."""

    seen: np.ndarray  # (d,) 1 or 0
    total: float  # Σ w
    first: np.ndarray  # (d,) Σ w x, 0 where not seen
    second: np.ndarray  # (d, d) Σ w x xᵀ


def _patterns(x: np.ndarray, weights: np.ndarray) -> list[Pattern]:
    masks, which = np.unique(~np.isnan(x), axis=0, return_inverse=True)
    found = []
    for number, mask in enumerate(masks):
        here = which.reshape(-1) == number
        rows, w = np.where(mask, x[here], 0.0), weights[here]
        found.append(Pattern(mask.astype(np.float64), float(w.sum()), w @ rows, (rows.T * w) @ rows))
    return found


class Walked(NamedTuple):
    """The results of one walk over the data, with the sums Σ w, Σ w E[z] and Σ w E[z zᵀ] of the scores z."""

    value: float
    messages: Blocks
    total: float
    scores: np.ndarray
    squares: np.ndarray


class Problem(NamedTuple):
    prior: Prior
    patterns: list[Pattern]
    scale: np.ndarray
    relevance: Leaves | np.ndarray  # natural parameters of its prior, or the numbers where it is known
    noise: Leaves | None  # statistics of known noise

    def sweep(self, q: Blocks) -> tuple[Blocks, float]:
        """`Model.sweep`."""
        m, entropy = means(q)
        walked = self.walk(m)
        bound = self.prior.value(m) + walked.value + entropy
        fresh = self.rotated(plus(self.prior.gradient(m, "loadings"), walked.messages["loadings"]), walked)
        after = {"loadings": fresh}
        rest = [name for name in q if name != "loadings"]
        if rest:
            m |= means(after)[0]
            messages = self.walk(m).messages if "noise" in rest else {}
            after |= {name: plus(self.prior.gradient(m, name), messages.get(name)) for name in rest}
        return {name: after[name] for name in q}, bound

    def walk(self, m: Blocks) -> Walked:
        """`Model.walk`."""
        first, half = m["loadings"]
        (d, width), k = first.shape, first.shape[1] - 1
        log, tau = (np.broadcast_to(part, d) for part in self.noise or m["noise"])
        rows = Rows(first, -(half + half.swapaxes(1, 2)), (log, tau))
        scaled = tau[:, None, None] * rows.second
        value, product, square = 0.0, np.zeros((d, width)), np.zeros((d, width, width))
        count, squares = np.zeros(d), np.zeros(d)
        scores, spread, total = np.zeros(k), np.zeros((k, k)), 0.0
        for seen, weight, sums, table in self.patterns:
            together = (seen @ scaled.reshape((d, -1))).reshape((width, width))
            precision, pull = together[:k, :k] + np.eye(k), together[:k, k]
            slopes = (seen * tau)[:, None] * first[:, :k]
            along = slopes.T @ sums
            linear = along - weight * pull
            pulled = along[:, None] * pull
            outer = slopes.T @ table @ slopes - pulled - pulled.T + weight * pull[:, None] * pull
            covariance = np.linalg.inv(precision)
            value += 0.5 * (np.vdot(covariance, outer) - weight * np.linalg.slogdet(precision)[1])
            value += 0.5 * weight * (seen @ (log - LOG_2PI) - together[k, k]) + (tau * first[:, k]) @ sums
            value -= 0.5 * tau @ np.diagonal(table)
            mean, second = covariance @ linear, weight * covariance + covariance @ outer @ covariance
            product[:, :k] += (table @ slopes - sums[:, None] * pull) @ covariance
            product[:, k] += sums
            square += seen[:, None, None] * corners(second[None], mean[None, None], np.full((1, 1, 1), weight))
            count, squares = count + weight * seen, squares + np.diagonal(table)
            scores, spread, total = scores + mean, spread + second, total + weight
        messages = of_rows("loadings", "noise", rows, product, square, count, squares)
        if "noise" in m and m["noise"][0].ndim == 0:
            messages["noise"] = messages["noise"][0].sum(), messages["noise"][1].sum()
        return Walked(float(value), messages, total, scores, spread)

    def rotated(self, loadings: Leaves, walked: Walked) -> Leaves:
        """`rotate` of `models/linear/factor_coordinates.py`."""
        d, k = len(self.scale), len(walked.scores)
        centre = walked.scores / walked.total
        try:
            lower = np.linalg.cholesky(walked.squares / walked.total - centre[:, None] * centre)
        except np.linalg.LinAlgError:
            return loadings
        mean = means({"loadings": loadings})[0]["loadings"]
        square = -2.0 * np.tensordot(1.0 / np.square(self.scale), mean[1], axes=1)
        inner = lower.T @ square[:k, :k] @ lower
        axes = np.linalg.eigh(0.5 * (inner + inner.T))[1][:, ::-1]
        move = _augmented((lower @ axes).T, centre)
        back = np.linalg.inv(lower).T @ axes
        inverse = _augmented(back, -(centre @ back))
        gain = -(walked.total - d) * np.log(np.diagonal(lower)).sum()
        gain -= 0.5 * (walked.total * k - np.trace(walked.squares))
        if not gain + self._log_prior(move @ square @ move.T) - self._log_prior(square) > 0.0:
            return loadings
        precision = inverse.T @ loadings[1] @ inverse
        return loadings[0] @ inverse, 0.5 * (precision + precision.swapaxes(1, 2))

    def _log_prior(self, square: np.ndarray) -> float:
        """The terms of the bound that depend on the size of the loadings and of the mean, at the best q(α)."""
        each = np.diagonal(square)
        if isinstance(self.relevance, tuple):
            log, mean = self.relevance
            sizes = (log + 1.0 + 0.5 * len(self.scale)) @ np.log(0.5 * each[:-1] - mean)
        else:
            sizes = 0.5 * self.relevance @ each[:-1]
        return float(-0.5 * each[-1] - sizes)

    def start(self, key: np.ndarray, x: np.ndarray, weights: np.ndarray) -> Blocks:
        """`FactorAnalysis.initial`, by the same random numbers."""
        known = self.relevance[0] if isinstance(self.relevance, tuple) else self.relevance
        d, k, prior = len(self.scale), len(known), self.prior.fixed
        loadings, count = principal_loadings(key, x, weights, self.scale, k)
        blocks: Blocks = {}
        if "noise" in prior:
            left = np.square(self.scale) * np.clip(1.0 - np.square(loadings).sum(axis=1), 0.1, 1.0)
            found = 0.5 * count, -0.5 * count * left
            shared = prior["noise"][0].ndim == 0
            blocks["noise"] = plus(prior["noise"], (found[0].sum(), found[1].sum()) if shared else found)
        if "relevance" in prior:
            sizes = np.full(k, 0.5 * d), -0.5 * np.square(loadings).sum(axis=0)
            blocks["relevance"] = plus(prior["relevance"], sizes)
        m = means(blocks)[0]
        rows = np.concatenate([loadings * self.scale[:, None], np.zeros((d, 1))], axis=1)
        m["loadings"] = rows, -0.5 * rows[:, :, None] * rows[:, None]
        blocks["loadings"] = plus(self.prior.gradient(m, "loadings"), self.walk(m).messages["loadings"])
        return {name: blocks[name] for name in sorted(blocks)}


def _augmented(turn: np.ndarray, last: np.ndarray) -> np.ndarray:
    k = len(last)
    whole = np.eye(k + 1)
    whole[:k, :k], whole[k, :k] = turn, last
    return whole


def _problem(model: FactorAnalysis, data: Data) -> Problem:
    given = np.asarray(data.weights)
    weights = np.trim_zeros(given, "b")  # the padding
    x = np.asarray(data.values)[: len(weights)]
    learnt: Any = model.prior.get("relevance")
    relevance = leaves(learnt) if isinstance(learnt, Gamma) else np.asarray(model.relevance)
    if not isinstance(relevance, tuple):
        relevance = np.broadcast_to(relevance, (model.n_factors,))
    noise = None
    if "noise" not in model.prior:
        variance: Any = np.asarray(model.noise)
        noise = -np.log(variance), 1.0 / variance
    return Problem(host_prior(model.prior), _patterns(x, weights), np.asarray(model._scale()), relevance, noise)
