"""Stepping stones: importance sampling from each temperature to its neighbour, upwards or downwards."""

from __future__ import annotations

import numpy as np

from ..numerics.host import logsumexp
from .tempered import Estimate, Tempered, linearised


def stepping_stone(tempered: Tempered) -> Estimate:
    """Σ_k log E_{β_k} exp{U(β_{k+1}) − U(β_k)}: too low on average (Jensen)."""
    steps = logsumexp(tempered.forward, axis=0) - np.log(len(tempered.forward))
    influence = np.exp(tempered.forward - steps) - 1.0
    return linearised(tempered.log_start + steps.sum(), influence.sum(axis=1))


def reverse_stepping_stone(tempered: Tempered) -> Estimate:
    """−Σ_k log E_{β_{k+1}} exp{U(β_k) − U(β_{k+1})}: too high on average."""
    steps = np.log(len(tempered.backward)) - logsumexp(-tempered.backward, axis=0)
    influence = 1.0 - np.exp(steps - tempered.backward)
    return linearised(tempered.log_start + steps.sum(), influence.sum(axis=1))
