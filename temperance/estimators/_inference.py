"""Methods by name, seeds from random states: what every estimator shares."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

import temperance as tp

from ..errors import InvalidParameter
from ..inference._method import Method

# name → a method from (restarts, iterations, tolerance)
_METHODS: dict[str, Callable[[int, int, float], Method]] = {
    "vb": lambda restarts, steps, tol: tp.VB(restarts=restarts, max_iter=steps, tol=tol),
    "svi": lambda restarts, steps, tol: tp.SVI(restarts=restarts),
    "annealed": lambda restarts, steps, tol: tp.Annealed(tp.VB(restarts=restarts, max_iter=steps, tol=tol)),
    "vt": lambda restarts, steps, tol: tp.VT(method=tp.VB(restarts=restarts, max_iter=steps, tol=tol)),
    "lvt": lambda restarts, steps, tol: tp.LVT(method=tp.VB(restarts=restarts, max_iter=steps, tol=tol)),
    "ep": lambda restarts, steps, tol: tp.EP(restarts=restarts),
    "hellinger": lambda restarts, steps, tol: tp.MessagePassing(0.5, restarts=restarts),
    "em": lambda restarts, steps, tol: tp.EM(restarts=restarts, max_iter=steps, tol=tol),
    "laplace": lambda restarts, steps, tol: tp.Laplace(restarts=restarts),
    "cvb0": lambda restarts, steps, tol: tp.CVB0(passes=steps),
    "gibbs": lambda restarts, steps, tol: tp.Gibbs(),
    "collapsed": lambda restarts, steps, tol: tp.CollapsedGibbs(),
    "kernel": lambda restarts, steps, tol: tp.VariationalKernel(),
    "pt": lambda restarts, steps, tol: tp.ParallelTempering(),
    "importance": lambda restarts, steps, tol: tp.ImportanceSampling(),
}


def as_method(inference: Any, restarts: int, max_iter: int, tol: float) -> Method:
    """A method, or one by name with the budget of a scikit-learn estimator."""
    if isinstance(inference, Method):
        return inference
    if not isinstance(inference, str) or inference not in _METHODS:
        accepted = ", ".join(repr(name) for name in _METHODS)
        raise InvalidParameter(f"inference must be a method such as tp.VB() or one of {accepted}, got {inference!r}")
    return _METHODS[inference](restarts, max_iter, tol)


def as_seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def warn_if_cut_short(estimator: Any, fit: tp.Fit) -> None:
    if not fit.converged and isinstance(fit.method, tp.VB | tp.EM | tp.EP):
        warnings.warn(
            f"{type(estimator).__name__} did not converge in {estimator.max_iter} iterations: raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )


def steps_of(fit: tp.Fit) -> int:
    """How many steps the history holds."""
    return max((len(values) for name, values in fit.history.items() if name != "restarts"), default=0)
