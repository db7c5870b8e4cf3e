"""One bracket from several fits: the bound of variational Bayes below, reverse AIS above, tempering on both sides."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from ..errors import InvalidParameter, NumericalFailure
from ..evidence.bracket import intersect
from ..families import Point
from ..fit import Fit
from ..inference.point.em import EM
from ..models import Posterior


def bracket(*fits: Fit) -> tuple[float, float]:
    """The interval of the log evidence on which all of these `fits` of one model to one data set agree.

    `fits` may be by any methods. A variational bound gives only a lower end; a fit without bound or bracket adds
    nothing. The upper side of `tp.AIS` is as good as the posterior draws it started from (`posterior=`). Fits that
    contradict each other have no bracket: an error names the two.
    """
    if not fits:
        raise InvalidParameter("bracket needs at least one fit, got none")
    for fit in fits[1:]:
        same = eqx.tree_equal(fit.model.prior, fits[0].model.prior) and eqx.tree_equal(
            fit.data.values, fits[0].data.values
        )
        if not same:
            raise InvalidParameter("bracket needs fits of one model to the same data, got different ones")
    says = [_says(fit) for fit in fits]
    low, high = intersect(*says)
    if low > high:
        lowest, highest = ([ends[side] for ends in says].index(end) for side, end in ((0, low), (1, high)))
        raise NumericalFailure(
            f"no bracket: {fits[lowest].method.name} places the log evidence above {low:.2f} and "
            f"{fits[highest].method.name} below {high:.2f}; one of the two is wrong, so run both longer"
        )
    return low, high


def _says(fit: Fit) -> tuple[float, float]:
    if fit.bracket is not None:
        return fit.bracket
    return (fit.log_evidence, np.inf) if fit.log_evidence is not None and _is_bound(fit) else (-np.inf, np.inf)


def _is_bound(fit: Fit) -> bool:
    """Whether the log evidence is a variational lower bound on the log probability of the data."""
    bounded = fit.method.exact and isinstance(fit.state, Posterior) and not isinstance(fit.method, EM)
    return bounded and not any(isinstance(block, Point) for block in fit.state.blocks.values())
