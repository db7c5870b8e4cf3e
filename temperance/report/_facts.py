"""Facts about a fit that plots and pages share."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from ..errors import UnsupportedMethod
from ..families import Product
from ..fit import Fit
from ..models import Posterior
from ..models._answers import Clustering, Enumerable, require
from ..models.topics.report import NAMING
from ..rowwise import responsibilities_of


class Gaussians(NamedTuple):
    """The components that hold data, the heaviest first."""

    weights: np.ndarray  # (k,)
    means: np.ndarray  # (k, d)
    covariances: np.ndarray  # (k, d, d)
    numbers: list[int]


def families(fit: Fit) -> Posterior:
    """The posterior as families; draws are replaced by the families with the same moments."""
    return fit.state if isinstance(fit.state, Posterior) else fit.state.matched(fit.model, fit.data)


def data_of(fit: Fit) -> np.ndarray | None:
    """The rows to which a mixture was fitted, as the user gave them; None for other kinds of data."""
    if not isinstance(fit.model, Enumerable):
        return None
    x = np.asarray(fit.data.values, dtype=np.float64)[: fit.data.size]
    return x if fit.model.shift is None else x + np.asarray(fit.model.shift)


def shares_of(fit: Fit) -> np.ndarray:
    """The probability of each part that holds data, the largest first, for every row that was fitted."""
    return all_shares(fit)[:, fit.order]


def all_shares(fit: Fit) -> np.ndarray:
    """The probability of each part for every row that was fitted, in the order of the posterior."""
    model, size = require(fit.model, Clustering), fit.data.size
    # Few rows need no program, and the others the one that gave the membership of the same rows.
    rows = fit.data.values if not isinstance(fit.data.values, jax.Array) else np.asarray(fit.data.values)
    rows = rows[:size] if isinstance(rows, np.ndarray) else rows
    return np.asarray(responsibilities_of(model, fit._with_labels(), rows))[:size]


def topics_of(fit: Fit, n_words: int, relevance: float = NAMING) -> list[list[tuple[str, float]]]:
    """The most telling words of topics 1, 2, … with their probabilities."""
    listed = fit.topics(n_words, relevance)
    return [[(str(word), share) for word, share in listed[k]] for k in fit.order]


def is_gaussian(fit: Fit) -> bool:
    """Whether every column is Gaussian given the component; a table of mixed columns is a product."""
    mixed = isinstance(fit.model.prior.get("components"), Product)
    return isinstance(fit.model, Enumerable) and fit.model.shift is not None and not mixed


def gaussians(fit: Fit) -> Gaussians:
    """Means, covariances and weights of a Gaussian mixture."""
    if not is_gaussian(fit):
        raise UnsupportedMethod(f"{type(fit.model).__name__} has no Gaussian components to draw")
    table = fit.model.table(families(fit), fit.data)
    numbers = fit.order.tolist()
    means = np.stack([np.atleast_1d(mean) for mean in table["mean"]])
    d = means.shape[1]
    components: Any = fit.model.units.to_user(families(fit).blocks)["components"]
    scatter = getattr(components, "scatter", None)
    if scatter is not None and np.ndim(scatter) == 3:
        covariances = np.asarray(scatter) / np.asarray(components.dof)[:, None, None]
        covariances = covariances[numbers]
    elif "sd" in table:
        covariances = np.stack([np.diag(np.broadcast_to(np.square(np.asarray(sd)), (d,))) for sd in table["sd"]])
    else:
        known = np.asarray(getattr(fit.model.pair, "covariance", np.eye(d)))  # type: ignore[attr-defined]
        covariances = np.broadcast_to(known, (len(numbers), d, d))
    return Gaussians(np.asarray(table["weight"]), means, covariances, numbers)
