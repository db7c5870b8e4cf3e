"""How many ways there are to number the factors of a solution and to choose their signs."""

from __future__ import annotations

from math import lgamma, log

import numpy as np

from ..families import Gamma
from ..models import FactorAnalysis, Posterior, StateSpace


def log_signed_orders(model: FactorAnalysis | StateSpace, q: Posterior) -> float:
    """log K!/(K − A)! + A log 2 with A factors in use: those whose loadings are known to be other than zero.

    Without a precision of its own for each factor the posterior is the same along all rotations, which are not to be
    counted: 0.
    """
    prior, block = model.prior.get("relevance"), "loadings" if isinstance(model, FactorAnalysis) else "observation"
    if not isinstance(prior, Gamma) or len(set(zip(*map(np.ravel, (prior.shape, prior.rate)), strict=True))) > 1:
        return 0.0
    size = prior.batch_shape[0]
    mean = q.blocks[block].mean()
    unit = np.square(np.asarray(model.scale))[:, None]
    found = np.sum(np.square(np.asarray(mean.linear)[:, :size]) / unit, axis=0)
    whole = np.sum(-2.0 * np.diagonal(np.asarray(mean.precision), axis1=1, axis2=2)[:, :size] / unit, axis=0)
    used = int(np.sum(found > 0.5 * whole))
    return lgamma(size + 1) - lgamma(size - used + 1) + used * log(2.0)
