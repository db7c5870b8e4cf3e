"""Regressions with class membership as target or input, corrected for errors of classification.

Rows are assigned to their most probable class W (step two); D_ts = p(W = s | X = t) says how often a row of class t
ends up in s. Step three corrects for D: membership is regressed on covariates by the likelihood Σ_n log Σ_t p(t | z_n)
D_{t,W_n} (Vermunt, 2010, Political Analysis 18), or with p(x_n | t) in place of D (two-step: Bakk & Kuha, 2018,
Psychometrika 83), or with both estimated at once (one-step). Means of outcomes weigh each row by the inverse of D
(Bolck, Croon & Hagenaars, 2004; Bakk, Tekle & Vermunt, 2013). Intervals come from the Bayesian bootstrap of all steps
(for large data, of a part of the rows), which includes the uncertainty of D, or from the robust (sandwich) covariance
of step three, which leaves it out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from .._arguments import SHARE
from ..data.schema import nothing_used
from ..data.tables import Table, read_table
from ..errors import InvalidData, InvalidParameter, NumericalFailure, UnsupportedMethod
from ..models import Posterior
from ..models._answers import Clustering, Profiling, require

if TYPE_CHECKING:
    from ..fit import Fit

_RIDGE = 0.01  # prior precision of coefficients of standardised covariates: keeps them finite if classes are separated
_STEPS = 100
_PART = 2**16  # numbers of a table up to which the bootstrap takes all rows
Estimate = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
CORRECTIONS = ("three-step", "two-step", "one-step", "none")


@dataclasses.dataclass(frozen=True)
class Effects:
    """Coefficients (or means) with standard errors and intervals: one row for each class and name."""

    part: str  # "group"
    what: str  # "log odds against group A", "mean", "probability" or "coefficient"
    labels: tuple[int | str, ...]  # the classes of the rows of `estimate`
    names: tuple[str, ...]  # the intercept and the covariates; for an outcome, its name or its levels
    estimate: np.ndarray  # (classes, names)
    standard_error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rows_used: int
    p_value: float | None = None  # of the hypothesis that the classes do not differ
    all_steps: bool = True  # whether the errors include the uncertainty of the classes themselves

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each class and name."""
        return [
            {self.part: label, "name": name, "what": self.what, "estimate": float(self.estimate[t, j]),
             "standard_error": float(self.standard_error[t, j]), "low": float(self.low[t, j]),
             "high": float(self.high[t, j])}
            for t, label in enumerate(self.labels)
            for j, name in enumerate(self.names)
        ]  # fmt: skip

    def to_frame(self) -> Any:
        """`rows()` as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def __str__(self) -> str:
        from ..summary import layout

        table = {key: [row[key] for row in self.rows()] for key in self.rows()[0]}
        test = "" if self.p_value is None else f"; that the groups do not differ has p = {self.p_value:.3g}"
        fixed = "" if self.all_steps else "; errors take the groups themselves for known"
        return "\n".join([*layout(table, 100), f"from {self.rows_used} rows{test}{fixed}"])


def classes_by(fit: Fit, covariates: Any, reference: Any, correction: str, level: float, replicates: int) -> Effects:
    """Membership regressed on covariates by a multinomial logit, against a class of reference."""
    from scipy.stats import chi2

    if correction not in CORRECTIONS:
        raise InvalidParameter(f"correction must be one of {', '.join(CORRECTIONS)}, got {correction!r}")
    labels, shares, weights = _members(fit)
    if len(labels) < 2:
        raise InvalidData("there is one group, so there is no membership to explain")
    names, z = _design(covariates, len(shares))
    seen = ~np.isnan(z).any(axis=1) & (weights > 0)
    place = _place(labels, reference)
    order = np.r_[place, np.delete(np.arange(len(labels)), place)]
    scaled, turn = _standardised(z[seen])
    problem = _Logit(_terms(shares, weights, correction)[:, order][seen], scaled, weights[seen])
    p, free = z.shape[1], len(labels) - 1
    best = problem.maximum(np.zeros(free * p))
    if correction == "one-step":
        problem, best = _together(fit, problem, best, order, seen)
    resampled = _resampled(fit, _regressing(fit, problem, best, order, seen, correction), replicates)
    covariance = problem.covariance(best) if resampled is None else resampled
    each = np.kron(np.eye(free), turn)
    beta, covariance = each @ best, each @ covariance @ each.T
    estimate, error = beta.reshape((free, p)), np.sqrt(np.diagonal(covariance)).reshape((free, p))
    slopes = np.flatnonzero(np.tile(np.arange(p) > 0, free))
    chance = float(chi2.sf(beta[slopes] @ np.linalg.solve(covariance[np.ix_(slopes, slopes)], beta[slopes]),
                           len(slopes)))  # fmt: skip
    what = f"log odds against {fit.model.words.part} {labels[place]}"
    kept = tuple(labels[k] for k in order[1:])
    low, high = _limits(estimate, error, level)
    return Effects(fit.model.words.part, what, kept, names, estimate, error, low, high, int(seen.sum()), chance,
                   resampled is not None)  # fmt: skip


def outcome_by_class(
    fit: Fit, outcome: Any, covariates: Any, correction: str, level: float, replicates: int
) -> Effects:
    """The mean of an outcome (or the probabilities of its levels) in each class, at the mean of the covariates."""
    from scipy.stats import chi2

    if correction not in ("three-step", "none"):
        raise InvalidParameter(f"correction must be 'three-step' or 'none' for an outcome, got {correction!r}")
    labels, shares, weights = _members(fit)
    what, names, y = _outcome(outcome, len(shares))
    z = np.zeros((len(y), 0)) if covariates is None else _design(covariates, len(y))[1][:, 1:]
    seen = ~np.isnan(y).any(axis=1) & ~np.isnan(z).any(axis=1) & (weights > 0)
    z = z - z[seen].mean(axis=0)
    k, levels = len(labels), len(names)
    each = _standing(shares, weights, correction)[seen]
    found = _regressed(each, y[seen], z[seen])
    means = found[:k]

    def again(rows: np.ndarray, shares: np.ndarray, weights: np.ndarray) -> np.ndarray:
        used = rows[seen[rows]]
        return _regressed(_standing(shares, weights, correction)[seen[rows]], y[used], z[used])[:k].T.ravel()

    resampled = _resampled(fit, again, replicates) if correction == "three-step" else None
    covariance = _robust(each, y[seen], z[seen], found) if resampled is None else resampled
    covariance = covariance.reshape((levels, k, levels, k))
    error = np.sqrt(np.einsum("jtjt->tj", covariance))
    contrast = np.concatenate([-np.ones((k - 1, 1)), np.eye(k - 1)], axis=1)
    chance = None
    if levels == 1 and k > 1:
        apart = contrast @ means[:, 0]
        spread = contrast @ covariance[0, :, 0] @ contrast.T
        chance = float(chi2.sf(apart @ np.linalg.solve(spread, apart), k - 1))
    low, high = _limits(means, error, level)
    if what == "probability":
        means, low, high = (np.clip(values, 0.0, 1.0) for values in (means, low, high))
    return Effects(fit.model.words.part, what, labels, names, means, error, low, high, int(seen.sum()), chance,
                   resampled is not None)  # fmt: skip


# ---- steps one and two ------------------------------------------------------------------------------------------


def _members(fit: Fit) -> tuple[tuple[int | str, ...], np.ndarray, np.ndarray]:
    """The labels of the classes that hold data, the probability of each for every row, and the rows' weights."""
    model, order, size = require(fit.model, Clustering), fit.order, fit.data.size
    shares = np.asarray(model.responsibilities(fit._with_labels(), fit.data.values))[:size][:, order]
    labels = tuple(fit.model.words.label(place) for place in range(len(order)))
    return labels, shares / shares.sum(axis=1, keepdims=True), np.asarray(fit.data.weights, dtype=np.float64)[:size]


def _modal(shares: np.ndarray) -> np.ndarray:
    return (shares.argmax(axis=1)[:, None] == np.arange(shares.shape[1])).astype(np.float64)


def _confusion(shares: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """D_ts = p(assigned to s | of class t)."""
    counts = (weights[:, None] * shares).T @ _modal(shares)
    return counts / counts.sum(axis=1, keepdims=True)


def _terms(shares: np.ndarray, weights: np.ndarray, correction: str) -> np.ndarray:
    """The likelihood of each class for each row, up to one factor per row: p(W | t), p(x | t), or the assignment
    itself."""
    if correction == "three-step":
        return _modal(shares) @ _confusion(shares, weights).T
    if correction in ("two-step", "one-step"):  # one-step estimation starts like two-step
        prior = weights @ shares / weights.sum()
        return shares / prior / (shares / prior).max(axis=1, keepdims=True)
    return _modal(shares)


def _standing(shares: np.ndarray, weights: np.ndarray, correction: str) -> np.ndarray:
    """The weight of each row in each class (n, t): its own weight times the row of D⁻¹ of its assigned class (BCH), or
    times the indicator of that class."""
    modal = _modal(shares)
    each = _solve(_confusion(shares, weights).T, modal.T).T if correction == "three-step" else modal
    return each * weights[:, None]


# ---- the mean of an outcome in each class ----------------------------------------------------------------------------


def _moments(each: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The matrix of the normal equations of y = μ_t + z γ, where row n has the weight each_nt in class t."""
    k, p = each.shape[1], z.shape[1]
    moments = np.zeros((k + p, k + p))
    moments[:k, :k] = np.diag(each.sum(axis=0))
    moments[:k, k:] = each.T @ z
    moments[k:, :k] = moments[:k, k:].T
    moments[k:, k:] = z.T @ (each.sum(axis=1)[:, None] * z)
    return moments


def _regressed(each: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """μ and γ, a column for each column of y."""
    return _solve(_moments(each, z), np.concatenate([each.T @ y, z.T @ (each.sum(axis=1)[:, None] * y)]))


def _robust(each: np.ndarray, y: np.ndarray, z: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The sandwich covariance of μ, (levels, classes, levels, classes), with the weights taken as known."""
    k, halves = each.shape[1], []
    for j in range(y.shape[1]):
        residual = each * (y[:, j, None] - found[:k, j] - (z @ found[k:, j])[:, None])
        scores = np.concatenate([residual, residual.sum(axis=1)[:, None] * z], axis=1)
        halves.append(_solve(_moments(each, z), scores.T)[:k])
    return np.einsum("jtn,isn->jtis", np.stack(halves), np.stack(halves))


# ---- step three ---------------------------------------------------------------------------------------------------


class _Logit(NamedTuple):
    """Σ_n w_n log Σ_t p(t | z_n) terms_nt with log odds β z against the first class, and a weak prior for β."""

    terms: np.ndarray  # n k
    z: np.ndarray  # n p, standardised; the first column is the intercept
    weights: np.ndarray  # n

    @property
    def prior(self) -> np.ndarray:
        return np.tile(np.r_[0.0, np.full(self.z.shape[1] - 1, _RIDGE)], self.terms.shape[1] - 1)

    def at(self, beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The value, and the class probabilities of each row before and after its term is seen."""
        logits = self.z @ beta.reshape((-1, self.z.shape[1])).T
        logits = np.concatenate([np.zeros((len(logits), 1)), logits], axis=1)
        before = np.exp(logits - logits.max(axis=1, keepdims=True))
        before /= before.sum(axis=1, keepdims=True)
        joint = before * self.terms
        total = np.maximum(joint.sum(axis=1), 1e-300)
        value = self.weights @ np.log(total) - 0.5 * self.prior @ np.square(beta)
        return float(value), before, joint / total[:, None]

    def information(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Minus the Hessian: the variance of the class before the row's term is seen, less the variance after it."""
        k, p = before.shape[1], self.z.shape[1]
        matrix = np.empty((k - 1, p, k - 1, p))
        for s in range(1, k):
            for t in range(1, k):
                each = after[:, s] * after[:, t] - before[:, s] * before[:, t]
                each = each + (s == t) * (before[:, t] - after[:, t])
                matrix[s - 1, :, t - 1, :] = self.z.T @ ((self.weights * each)[:, None] * self.z)
        return matrix.reshape(((k - 1) * p, (k - 1) * p)) + np.diag(self.prior)

    def maximum(self, beta: np.ndarray) -> np.ndarray:
        """β by Newton's method; where the function is not concave, with the curvature of known classes."""
        value, before, after = self.at(beta)
        for _ in range(_STEPS):
            slope = ((self.weights[:, None] * (after - before))[:, 1:].T @ self.z).ravel() - self.prior * beta
            curved = self.information(before, after)
            if np.linalg.eigvalsh(curved)[0] <= 0:
                curved = self.information(before, np.eye(after.shape[1])[after.argmax(axis=1)])
            move = np.linalg.solve(curved + 1e-9 * np.eye(len(beta)), slope)
            fresh = self.at(beta + move)
            while fresh[0] < value - 1e-12 * abs(value) and np.abs(move).max() > 1e-12:
                move = 0.5 * move
                fresh = self.at(beta + move)
            beta, gain = beta + move, fresh[0] - value
            value, before, after = fresh
            if gain < 1e-10 * (1.0 + abs(value)):
                break
        return beta

    def covariance(self, beta: np.ndarray) -> np.ndarray:
        """The sandwich covariance, with the classification errors D taken as known."""
        _, before, after = self.at(beta)
        inverse = np.linalg.pinv(self.information(before, after), hermitian=True)
        each = self.weights[:, None, None] * (after - before)[:, 1:, None] * self.z[:, None, :]
        scores = each.reshape((len(self.z), -1))
        return inverse @ (scores.T @ scores) @ inverse


def _standardised(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariates of mean 0 and variance 1 beside the intercept, and the way back: raw β = turn @ standardised β."""
    mean, spread = z.mean(axis=0), z.std(axis=0)
    mean[0], spread[0] = 0.0, 1.0
    if (spread == 0).any():
        raise InvalidData("a covariate has the same value in every row that can be used")
    turn = np.diag(1.0 / spread)
    turn[0, 1:] = -mean[1:] / spread[1:]
    return (z - mean) / spread, turn


def _resampled(fit: Fit, estimate: Estimate, replicates: int) -> np.ndarray | None:
    """The covariance of an estimate (a function of rows, class probabilities and weights) under the Bayesian bootstrap,
    in which the classes are estimated again with random weights; None for a model without a quick way to do so. For
    large data a part of the rows is used, because a covariance is inversely proportional to their number."""
    from ..kernels import small_likelihood

    model: Any = fit.model
    if replicates < 2 or not isinstance(fit.model, Profiling) or not isinstance(fit.state, Posterior):
        return None
    data = fit.data
    if not isinstance(data.values, jax.Array) or data.is_spread:
        return None
    rows = np.flatnonzero(np.asarray(data.weights)[: data.size])
    n, most = len(rows), max(_PART // data.values.shape[1], 1)
    if n > most:
        rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
    if len(rows) < data.size:
        data = dataclasses.replace(data, values=data.values[rows], weights=data.weights[rows], size=len(rows), blocks=1)
    if not small_likelihood.suits(model, data):
        return None
    found = []
    for weights, shares in small_likelihood.bootstrap(model, data, fit.state, replicates):
        shares = shares[:, fit.order]
        found.append(estimate(rows, shares / shares.sum(axis=1, keepdims=True), weights))
    return np.atleast_2d(np.cov(np.stack(found), rowvar=False)) * len(rows) / n


def _regressing(
    fit: Fit, problem: _Logit, beta: np.ndarray, order: np.ndarray, seen: np.ndarray, correction: str
) -> Estimate:
    """A function that estimates β from rows, class probabilities and weights."""
    place = np.cumsum(seen) - 1

    def again(rows: np.ndarray, shares: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if correction == "one-step":
            every = np.zeros(len(seen))
            every[rows] = weights
            return _together(fit, problem, beta, order, seen, every)[1]
        terms = _terms(shares, weights, correction)[:, order][seen[rows]]
        z = problem.z[place[rows[seen[rows]]]]
        return problem._replace(terms=terms, z=z, weights=weights[seen[rows]]).maximum(beta)

    return again


def _together(
    fit: Fit, problem: _Logit, beta: np.ndarray, order: np.ndarray, seen: np.ndarray, weights: np.ndarray | None = None
) -> tuple[_Logit, np.ndarray]:
    """Fit classes and regression by maximum likelihood at the same time."""
    from ..kernels import small_likelihood

    model: Any = require(fit.model, Profiling)
    alone = isinstance(fit.state, Posterior) and small_likelihood.suits(model, fit.data)
    if not alone or len(order) < model.n_components:
        raise UnsupportedMethod("one-step is for a fit by tp.VB of few enough rows in which every group holds data; "
                                "use correction='two-step'")  # fmt: skip
    places, every = fit.order[order], np.asarray(fit.data.weights, dtype=np.float64)[: fit.data.size]
    every = (every if weights is None else weights) * seen

    def regress(terms: np.ndarray) -> np.ndarray:
        nonlocal problem, beta
        problem = problem._replace(terms=terms[:, places][seen], weights=every[seen])
        beta = problem.maximum(beta)
        after = np.full_like(terms, 1.0 / terms.shape[1])
        after[np.ix_(seen, places)] = problem.at(beta)[2]
        return after

    assert isinstance(fit.state, Posterior)
    small_likelihood.together(model, fit.data, fit.state, every, regress)
    return problem, beta


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        raise NumericalFailure("the groups overlap so much that no correction for it is possible") from None


def _limits(estimate: np.ndarray, error: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    from scipy.stats import norm

    SHARE("level", level)
    reach = norm.ppf((1.0 + level) / 2.0) * error
    return estimate - reach, estimate + reach


# ---- covariates and outcomes ------------------------------------------------------------------------------------


def _place(labels: tuple[int | str, ...], reference: Any) -> int:
    if reference is None:
        return 0
    if reference not in labels:
        raise InvalidParameter(f"reference must be one of {', '.join(map(str, labels))}, got {reference!r}")
    return labels.index(reference)


def _as_table(values: Any, name: str, n: int) -> Table:
    array = np.ndim(values) in (1, 2) and not hasattr(values, "columns") and not isinstance(values, dict | Table | str)
    if array:
        columns = np.asarray(values).reshape((len(values), -1)).T
        own = getattr(values, "name", None)
        names = [str(own)] if own is not None else [f"{name} {i + 1}" if len(columns) > 1 else name for i in range(99)]
        values = {names[i]: column for i, column in enumerate(columns)}
    table = read_table(values)
    if len(table) != n:
        raise InvalidData(f"{name} must have one row for each of the {n} rows that were fitted, got {len(table)}")
    if not table.columns:
        raise InvalidData(nothing_used(name, table.schema.left_out[0]))
    return table


def _design(covariates: Any, n: int) -> tuple[tuple[str, ...], np.ndarray]:
    """The names and the columns of the design: the intercept and the covariates, a category with one column per level
    but the first."""
    table = _as_table(covariates, "covariate", n)
    names, columns = ["intercept"], [np.ones(n)]
    for column in table.schema.used:
        values = table[column.name]
        if column.kind in ("binary", "category", "ordered"):
            for place, level in list(enumerate(column.levels))[1:]:
                names.append(f"{column.name} = {level}")
                columns.append(np.where(np.isnan(values), np.nan, values == place))
        else:
            names.append(column.name)
            columns.append(values)
    return tuple(names), np.stack(columns, axis=1)


def _outcome(outcome: Any, n: int) -> tuple[str, tuple[str, ...], np.ndarray]:
    table = _as_table(outcome, "outcome", n)
    if len(table.columns) != 1:
        raise InvalidData(f"outcome must be one column, got {len(table.columns)}")
    (column,) = table.schema.used
    values = table[column.name]
    if column.kind not in ("binary", "category", "ordered"):
        return "mean", (column.name,), values[:, None]
    shown = list(enumerate(column.levels))[1 if column.kind == "binary" else 0 :]
    levels = np.stack([np.where(np.isnan(values), np.nan, values == place) for place, _ in shown], axis=1)
    return "probability", tuple(f"{column.name} = {level}" for _, level in shown), levels
