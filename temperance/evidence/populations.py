"""The log evidence from independent populations of sequential Monte Carlo, and whether it can be trusted.

Each population gives an upward estimate, the product of its average weights, and a downward one, from the weights of
these particles relative to the temperature before. Populations are independent, so their spread is the error; as they
are few, Student's quantile widens it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..numerics.host import logsumexp
from .bracket import WIDTH
from .reweighting import log_ratios
from .tempered import Estimate, few
from .weights import downwards, effective_draws, upwards
from .witnesses import CLOSER, Bound, contradictions

_APART = 3.0  # standard errors from which two estimates of one number contradict each other
_AGREEING = 0.7  # share of populations; with fewer effective ones the error of their average is unreliable


class Judged(NamedTuple):
    """The estimates, and the doubts about them."""

    estimates: dict[str, Estimate]
    log_evidences: np.ndarray  # (population,), upwards
    path: np.ndarray  # (step, population): upwards, up to each temperature
    effective: float  # the effective number of populations, weighted by their evidences
    doubts: tuple[str, ...]
    bracket: tuple[float, float] | None


def judge(
    forward: np.ndarray, backward: np.ndarray, log_start: float, bounds: Callable[[], Sequence[Bound]] = tuple
) -> Judged:
    """Judge the log weights (population, particle, step): `forward` of particles for the next temperature, `backward`
    of moved particles relative to the previous temperature."""
    count = forward.shape[1]
    path = log_start + np.cumsum(logsumexp(forward, axis=1) - np.log(count), axis=1)
    up = path[:, -1]
    down = log_start - np.sum(logsumexp(-backward, axis=1) - np.log(count), axis=1)
    middle = log_start + np.array([log_ratios(*pair).sum() for pair in zip(forward, backward, strict=True)])
    n = len(up)
    estimates = {
        "upwards": few(upwards(up), n),
        "both ways": few(Estimate(float(middle.mean()), float(middle.std(ddof=1) / np.sqrt(n))), n),
        "downwards": few(downwards(down), n),
    }
    effective = effective_draws(up)
    doubts = _doubts(estimates, up, effective) or tuple(contradictions(estimates["upwards"], (), bounds(), CLOSER))
    return Judged(estimates, up, path.T, effective, doubts, None if doubts else _enclosing(estimates))


def _enclosing(estimates: dict[str, Estimate]) -> tuple[float, float]:
    """The interval around the estimates. Downward estimates use particles that are posterior draws only as far as the
    upward pass succeeded, so they widen the interval and never narrow it."""
    below, above = estimates["upwards"], estimates["downwards"]
    high = max(one.log_evidence + WIDTH * one.standard_error for one in (below, above))
    return below.log_evidence - WIDTH * below.standard_error, high


def _doubts(estimates: dict[str, Estimate], up: np.ndarray, effective: float) -> tuple[str, ...]:
    n = len(up)
    doubts = []
    if effective < _AGREEING * n:
        doubts.append(f"the {n} populations disagree (their weights are worth {effective:.1f} of them)")
    below, above = estimates["upwards"], estimates["downwards"]
    gap = above.log_evidence - below.log_evidence
    if abs(gap) > _APART * np.hypot(below.standard_error, above.standard_error):
        doubts.append(f"the particles on the way up and looking back disagree by {abs(gap):.2f}")
    halves = [upwards(part) for part in (up[: n // 2], up[n // 2 :])]
    apart = abs(halves[0].log_evidence - halves[1].log_evidence)
    if apart > _APART * np.hypot(halves[0].standard_error, halves[1].standard_error):
        doubts.append(f"two halves of the populations disagree by {apart:.2f}")
    return tuple(doubts)
