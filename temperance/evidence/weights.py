"""The log evidence from independent importance weights, upwards (prior to posterior), downwards, or both.

An upward weight w has E[w] = p(x), so its log average is too low on average; a downward weight, from a posterior draw,
has E[1/w] = 1/p(x), and its estimate is too high. Together they are two sets of draws for one ratio, for which
Bennett's estimate is the best possible (Crooks, 2000).
"""

from __future__ import annotations

import numpy as np

from ..numerics.host import expit, logsumexp
from .reweighting import log_ratios
from .tempered import NORMAL, Estimate, few

COLLINEAR = 1e-3  # singular values below this part of the largest count as zero, because they carry only noise
LEVERAGE = 0.999  # of a draw in a regression at most
MORE = 100.0  # times as many draws, the largest of which an error has room for
ROUNDING = 1e-9  # nats, below which logs and sums of thousands of terms are not exact


def upwards(log_weights: np.ndarray, cautious: bool = False) -> Estimate:
    """log of the average weight; the error of a `cautious` one allows for `caution`."""
    n = len(log_weights)
    value = float(logsumexp(log_weights) - np.log(n))
    weights = np.exp(log_weights - value)
    widened = caution(weights) if cautious else 1.0
    return Estimate(value, float(widened * np.std(weights, ddof=1) / np.sqrt(n)))


def caution(terms: np.ndarray) -> float:
    """The factor by which to widen the standard error of the mean of these terms, so that ±1.96 errors cover 95%.

    Where rare large terms make most of the spread, few terms tell it: as many as would tell a normal one as well
    (Student's t). And a mean that is too low comes with a spread that is too low (Johnson, 1978): the far end is
    moved outwards by (2z² + 1)/6 of the skewness/√n.
    """
    n, centred = len(terms), terms - np.mean(terms)
    largest = float(np.max(np.abs(centred), initial=0.0))
    if n < 3 or not 0.0 < largest < np.inf:
        return 1.0
    centred = centred / largest
    squares = float(np.sum(centred**2))
    pieces = 1 + int(2.0 * squares**2 / np.sum(centred**4))
    skewness = abs(float(np.sum(centred**3))) / squares**1.5 * np.sqrt(n)
    lean = (2.0 * NORMAL**2 + 1.0) / (6.0 * NORMAL) * skewness / np.sqrt(n)
    return few(Estimate(0.0, 1.0), pieces).standard_error * (1.0 + float(lean))


def controlled(log_weights: np.ndarray, log_ratios: np.ndarray) -> Estimate:
    """The average weight of draws of a mixture proposal, with the densities of its parts as control variates.

    `log_ratios` (draw, part) are log q_j/q. Each ratio has the average 1 under q = Σ_j share_j q_j, so what a
    regression of the weights on them explains is no error (Owen and Zhou, 2000): nothing is left where one part is the
    posterior. The error allows for `caution` and for what `more_draws` may add.
    """
    n, top = len(log_weights), float(np.max(log_weights))
    plain = upwards(log_weights)
    if not np.isfinite(plain.log_evidence + plain.standard_error):
        return plain
    columns = np.concatenate([np.ones((n, 1)), np.expm1(log_ratios)], axis=1)
    weights = np.exp(log_weights - top)
    squares, axes = np.linalg.eigh(columns.T @ columns)
    clear = squares > COLLINEAR**2 * squares[-1]
    lengths, axes, free = np.sqrt(squares[clear]), axes[:, clear], n - int(clear.sum())
    left = columns @ (axes / lengths)
    parts = left.T @ weights
    constant = axes[0] / lengths  # of the first coefficient, which is the average, in these parts
    average = float(constant @ parts)
    if free < n / 2 or not average > 0.0:
        return plain
    leverage = np.minimum(np.sum(left**2, axis=1), LEVERAGE)  # draws that the fit follows seem to fit (HC3)
    influence = n * (left @ constant) * (weights - left @ parts) / (1.0 - leverage)
    error = caution(influence) * np.sqrt(influence @ influence / (free * n)) / average
    unseen = min(more_draws(influence) / average, one_draw(log_weights))
    return Estimate(top + float(np.log(average)), float(max(np.hypot(error, unseen), ROUNDING)))


def more_draws(terms: np.ndarray) -> float:
    """What the largest of `MORE` times as many terms would add to their mean, by the Pareto shape of the largest."""
    sizes = np.abs(terms)
    with np.errstate(divide="ignore"):
        shape = np.clip(pareto_khat(np.log(sizes)), 0.0, 1.0)
    return float(MORE**shape * np.max(sizes) / len(sizes))


def one_draw(log_weights: np.ndarray) -> float:
    """The contribution of one more draw: no n draws can show an error below it. A part of the posterior that holds 1/n
    of it is as likely as not to have had none, so that their spread does not show it."""
    return 1.0 / effective_draws(log_weights)


def halves(log_weights: np.ndarray) -> tuple[Estimate, Estimate]:
    """The estimates from the first and from the second half of the draws."""
    middle = len(log_weights) // 2
    return upwards(log_weights[:middle]), upwards(log_weights[middle:])


def downwards(log_weights: np.ndarray, families: np.ndarray | None = None, cautious: bool = False) -> Estimate:
    """Minus the log of the average inverse weight."""
    value = -float(logsumexp(-np.asarray(log_weights)) - np.log(len(log_weights)))
    return Estimate(value, _error(np.exp(value - log_weights) - 1.0, families, cautious) / len(log_weights))


def both_ways(
    forward: np.ndarray,
    backward: np.ndarray,
    families: tuple[np.ndarray, np.ndarray] | None = None,
    pairs: int = 0,
    cautious: bool = False,
) -> Estimate:
    """Bennett's estimate from weights of both directions.

    They are independent, or come in independent `families`: a number for each weight of each direction. Draws of one
    chain are a family, and so are a particle and those that go back from it. Of a proposal with many parts the first
    2 × `pairs` forward weights are two of each part, i and i + `pairs`: which part a draw is of adds no error then.
    """
    value = float(log_ratios(forward[:, None], backward[:, None])[0])
    shift = np.log(len(backward) / len(forward))
    above, below = expit(forward - value + shift), expit(value - backward - shift)
    curvature = max(float(np.sum(above * (1.0 - above)) + np.sum(below * (1.0 - below))), 1e-300)
    if pairs:
        rest = above[2 * pairs :]
        both = np.sum(np.square(above[:pairs] - above[pairs : 2 * pairs])) + np.sum(np.square(rest - rest.mean()))
        error = np.hypot(np.sqrt(both), _error(below.mean() - below, None if families is None else families[1]))
    else:
        scores = np.concatenate([above - above.mean(), below.mean() - below])
        error = _error(scores, None if families is None else np.concatenate(families), cautious)
    return Estimate(value, float(error) / curvature)


def _error(terms: np.ndarray, families: np.ndarray | None, cautious: bool = False) -> float:
    """The standard error of a sum of terms of mean 0, independent or in independent families."""
    sums = terms if families is None else np.bincount(np.unique(families, return_inverse=True)[1], weights=terms)
    if len(sums) < 2:
        return np.inf
    widened = caution(sums) if cautious else 1.0
    return widened * float(np.sqrt(np.sum(np.square(sums)) * len(sums) / (len(sums) - 1)))


def effective_draws(log_weights: np.ndarray) -> float:
    """(Σw)² / Σw²: as many draws of equal weight would be worth the same."""
    return float(np.exp(2.0 * logsumexp(log_weights) - logsumexp(2.0 * np.asarray(log_weights))))


def pareto_khat(log_weights: np.ndarray) -> float:
    """The shape of a generalised Pareto distribution fitted to the largest weights (Vehtari et al., 2024).

    Below 0.5 the weights have a finite variance, below 0.7 averages over them can be trusted; above, the proposal
    misses a part of the posterior that matters.
    """
    log_weights = np.asarray(log_weights)
    n = len(log_weights)
    size = int(np.ceil(min(0.2 * n, 3.0 * np.sqrt(n))))
    ordered = np.sort(log_weights - log_weights.max())
    if size < 5 or n <= size + 1:
        return float("inf")
    cutoff = max(ordered[-size - 1], np.log(np.finfo(float).tiny))
    tail = ordered[ordered > cutoff]
    if len(tail) < 5:
        # Nearly all weights are the same: nothing hides in the tail.
        return float("-inf") if np.ptp(ordered) < 1e-12 else float("inf")
    return _pareto_shape(np.exp(tail) - np.exp(cutoff))


def _pareto_shape(excess: np.ndarray) -> float:
    """The estimate of Zhang and Stephens (2009) for sorted values, shrunk towards ½ by a weak prior."""
    n = len(excess)
    m = 30 + int(np.sqrt(n))
    b = 1.0 / excess[-1] + (1.0 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3.0 * excess[int(n / 4 + 0.5) - 1])
    k = np.mean(np.log1p(-b[:, None] * excess), axis=1)
    profile = n * (np.log(-b / k) - k - 1.0)
    share = np.exp(profile - logsumexp(profile))
    best = float(np.sum(b * share))
    shape = float(np.mean(np.log1p(-best * excess)))
    return (n * shape + 10 * 0.5) / (n + 10)
