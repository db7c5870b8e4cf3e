"""Maximum likelihood of small mixtures in NumPy: the sweep of `small_mixture.py` in the limit of many copies
of the data.

With s copies and no prior the posterior closes in on the maximum-likelihood estimate, and E t(θ) = ∇A(sη) → t(θ̂): one
sweep of VB is then one step of EM. The error of a log likelihood is about (number of parameters) / (2s).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from ..families import Dirichlet
from ..families.translate import REAL
from ..models._blocks import Posterior
from ..numerics.keys import hashes, make_key, split
from .small_columns import Columns
from .small_mixture import Flat, _form, _pack, _starting_shares, flat

if TYPE_CHECKING:
    from ..models import Data
    from ..models.mixture import Mixture

_NUMBERS = 2**18  # largest table (numbers)
_COPIES = 1e8
_RACE, _LONGEST, _KEPT = 60, 3000, 4  # steps of all starts, steps of the best ones, and the number of the best
_AGAIN, _AT_ONCE = 200, 2**21  # steps of a bootstrap, and numbers held at a time
_CLOSE = 1e-10  # relative change of the log likelihood at which a run ends
_STILL = 1e-7  # change of a probability at which classes and regression have converged
_NARROW = 1e-4  # share of a column's variance: with narrower classes the likelihood has no maximum


class Maximum(NamedTuple):
    """The highest log likelihood of all runs, and the probability of each component for each datum, (n, k)."""

    log_likelihood: float
    shares: np.ndarray


def suits(model: Mixture, data: Data) -> bool:
    """Whether there is a NumPy sweep for this model, quick enough for these data."""
    plain = model.known is not None or type(model.prior.get("weights")) is Dirichlet
    small = data.size * data.values.shape[1] <= _NUMBERS
    return small and plain and not (data.is_spread or model.missing or model.single) and _form(model) is not None


def maximum_likelihood(model: Mixture, data: Data, q: Posterior, restarts: int = 20, seed: int = 0) -> Maximum | None:
    """EM from a posterior and from random starts; None if every run ends at a class without extent. With many data
    random starts are not needed, because the posterior is then close to the maximum of the likelihood."""
    problem = flat(model, data)
    _, mean = problem.value_and_mean(_pack([np.asarray(leaf)[None] for leaf in jax.tree.leaves(q.blocks)]))
    with np.errstate(all="ignore"):
        own = hashes(np.asarray(jax.random.key_data(split(make_key(seed), restarts))), [0])[:, 0]
        half = restarts // 2
        kinds = ((own[:half], "kmeans++"), (own[half:], "random"))
        starts = [_starting_shares(problem, keys, kind) for keys, kind in kinds if len(keys)]
        shares = np.concatenate([problem.shares(mean)[0], *(start * problem.weights for start in starts)])
        shares, value = _climb(problem, shares, _RACE)
        best = np.argsort(-np.where(np.isfinite(value), value, -np.inf), kind="stable")[:_KEPT]
        shares, value = _climb(problem, shares[best], _LONGEST)
    if not np.isfinite(value).any():
        return None
    top = int(np.nanargmax(value))
    seen = np.where(problem.weights > 0, problem.weights, 1.0)
    return Maximum(float(value[top]), (shares[top] / seen).T)


def bootstrap(
    model: Mixture, data: Data, q: Posterior, replicates: int, seed: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield random weights of the rows (Bayesian bootstrap; Rubin, 1981) and the probabilities of the components (n, k)
    after EM with these weights, started at a posterior: they show how far the components would move with other data of
    the same kind."""
    problem = flat(model, data)
    _, mean = problem.value_and_mean(_pack([np.asarray(leaf)[None] for leaf in jax.tree.leaves(q.blocks)]))
    n, rng = len(problem.weights), np.random.default_rng(seed)
    size = max(1, _AT_ONCE // (n * model.n_components))
    start = problem.shares(mean)[0] / np.where(problem.weights > 0, problem.weights, 1.0)
    with np.errstate(all="ignore"):
        for first in range(0, replicates, size):
            drawn = rng.exponential(size=(min(size, replicates - first), n)) * problem.weights
            drawn *= problem.weights.sum() / drawn.sum(axis=1, keepdims=True)
            each = problem._replace(weights=drawn[:, None])
            shares, value = _climb(each, start * drawn[:, None], _AGAIN, 1e-8)
            for weights, found, end in zip(drawn, shares, value, strict=True):
                if np.isfinite(end):
                    yield weights, (found / np.maximum(found.sum(axis=0), 1e-300)).T


def together(
    model: Mixture, data: Data, q: Posterior, weights: np.ndarray, regress: Callable[[np.ndarray], np.ndarray]
) -> None:
    """EM of classes whose probabilities depend on covariates. `regress` takes p(x | class) of each row (n, k), up to
    one factor per row, and returns the posterior probabilities of the classes given the row and its covariates."""
    problem = flat(model, data)._replace(weights=weights)
    _, mean = problem.value_and_mean(_pack([np.asarray(leaf)[None] for leaf in jax.tree.leaves(q.blocks)]))
    seen = np.where(weights > 0, weights, 1.0)
    shares, before = problem.shares(mean)[0], np.full((len(weights), model.n_components), np.inf)
    with np.errstate(all="ignore"):
        for _ in range(_LONGEST):
            _, mean = problem.value_and_mean(_COPIES * (shares @ problem.features))
            terms = (problem.shares(mean)[0] / seen / shares.sum(axis=2, keepdims=True))[0].T
            after = regress(terms / np.maximum(terms.max(axis=1, keepdims=True), 1e-300))
            shares = (after * weights[:, None]).T[None]
            if np.abs(after - before).max() < _STILL:
                break
            before = after


def _climb(problem: Flat, shares: np.ndarray, steps: int, close: float = _CLOSE) -> tuple[np.ndarray, np.ndarray]:
    """Weighted responsibilities (r, k, n) after at most `steps` steps of EM, and the log likelihood of each run."""
    before = np.full(len(shares), -np.inf)
    for _ in range(steps):
        eta = shares @ problem.features
        _, mean = problem.value_and_mean(_COPIES * eta)
        shares, value = problem.shares(mean)
        value = np.where(_narrow(problem, eta), np.nan, value)
        shares[~np.isfinite(value)] = 0.0
        if not (value - before > close * np.abs(value)).any():
            break
        before = value
    return shares, value


def _narrow(problem: Flat, eta: np.ndarray) -> np.ndarray:
    """Which runs have a class that has all but collapsed in a column of numbers."""
    form, leaves = problem.form, problem.unpack(eta)
    if isinstance(form, Columns):
        if REAL not in form.pair.factors:
            return np.zeros(len(eta), bool)
        leaves = leaves[form.first(REAL) :]
    first, count, second = leaves[:3]
    if second.ndim > first.ndim:  # full covariances
        second = np.diagonal(second, axis1=-2, axis2=-1)
    elif second.ndim < first.ndim:  # one variance for all columns
        first = np.sqrt(np.square(first).sum(axis=-1))
    count = count if count.ndim == first.ndim else count[..., None]
    within = second / count - np.square(first / count)
    whole = second.sum(axis=1) / count.sum(axis=1) - np.square(first.sum(axis=1) / count.sum(axis=1))
    return (within < _NARROW * whole[:, None]).any(axis=tuple(range(1, within.ndim)))
