"""Methods by name and seeds from random states, for all estimators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

import temperance as tp

from .. import registry
from ..errors import InvalidParameter, UnsupportedMethod
from ..inference._method import Method

# Estimators that report distributions cannot use EM, which gives points.
_RIDGES = ("BayesianRidge", "ARDRegression")
_NO_POINTS = ("BayesianGaussianMixture", *_RIDGES)


def as_method(inference: Any, restarts: int, max_iter: int, tol: float, estimator: type | None = None) -> Method:
    """The method itself, or a method by its name with the budget of a scikit-learn estimator."""
    name = "" if estimator is None else estimator.__name__
    no_points = name in _NO_POINTS
    if no_points and (isinstance(inference, tp.EM) or inference == "em"):
        raise UnsupportedMethod(f"EM gives points, not the distributions that {name} reports")
    if isinstance(inference, Method):
        return inference
    names = [entry.command for entry in registry.methods()]
    if not isinstance(inference, str) or inference not in names:
        names = [option for option in names if not (no_points and option == "em")]
        accepted = ", ".join(map(repr, ["evidence", *names] if name in _RIDGES else names))
        raise InvalidParameter(f"inference must be a method such as tp.VB() or one of {accepted}, got {inference!r}")
    return registry.method(inference).make(restarts=restarts, steps=max_iter, tol=tol)


def as_seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def warn_if_cut_short(estimator: Any, fit: tp.Fit) -> None:
    limit = getattr(estimator, "max_iter", None)  # hmmlearn, whose classes have n_iter, does not warn
    if limit is not None and not fit.converged and isinstance(fit.method, tp.VB | tp.EM | tp.EP):
        warnings.warn(
            f"{type(estimator).__name__} did not converge in {limit} iterations: raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )


def steps_of(fit: tp.Fit) -> int:
    """How many steps the history holds."""
    return max((len(values) for name, values in fit.history.items() if name != "restarts"), default=0)
