"""Can an approximate posterior be trusted? Importance weights and annealed particles say, within a budget."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._arguments import number
from ..errors import NumericalFailure, UnsupportedMethod
from ..evidence.bracket import WIDTH, intersect
from ..models import Posterior

if TYPE_CHECKING:
    from ..fit import Fit

CLOSE = 1.0  # nats between an evidence that is to be trusted and where others place it
FINER = 4  # times as many temperatures as before, where annealed particles say nothing

Interval = tuple[float, float]


class Diagnosis(NamedTuple):
    """What was found; printed, it is one sentence."""

    khat: float | None  # Pareto shape of the largest importance weights; None where there are none
    log_evidence: float  # the fit's own
    bracket: Interval | None  # where importance weights, AIS, or both place the log evidence; None where neither can
    gap: float | None  # from the fit's log evidence to the bracket: negative below it, 0 inside
    trust: bool
    verdict: str  # begins with "trust it", "do not trust it" or "cannot tell"

    def __str__(self) -> str:
        return self.verdict


def diagnose(fit: Fit, seed: Any = 0, seconds: float = 60.0) -> Diagnosis:
    """See `Fit.diagnose`."""
    from ..fitting import as_key

    if not isinstance(fit.state, Posterior):
        raise UnsupportedMethod(
            f"diagnose is for deterministic approximations such as tp.VB's; {fit.method.name} draws, and its own "
            "fit.standard_error, fit.bracket and fit.converged say how far to trust it"
        )
    if fit.log_evidence is None:
        raise UnsupportedMethod(f"diagnose judges a log evidence, and this fit by {fit.method.name} has none")
    number("a positive number", lambda value: value > 0)("seconds", seconds)
    ends = time.perf_counter() + seconds
    weighed = _weighed(fit, as_key(seed), ends)
    by_weights = _interval(weighed)
    by_paths = _annealed(fit, as_key(seed), ends, enough=by_weights is not None)
    places = [place for place in (by_weights, by_paths) if place is not None]
    khat = None if weighed is None else float(weighed.details["khat"])
    unsure = f"cannot tell within this budget ({seconds:g} s): "
    low, high = intersect(*places) if places else (np.inf, -np.inf)
    if low > high:
        return Diagnosis(khat, fit.log_evidence, None, None, False, unsure + _why(fit, places, weighed))
    gap = _gap(fit, low, high)
    covered = by_weights is not None
    where = _where(fit, (low, high), gap)
    if abs(gap) >= CLOSE:
        verdict = f"do not trust it because {where}"
    elif covered:
        verdict = f"trust it: its importance weights are well behaved, and {where}"
    else:
        verdict = f"{unsure}{where}, but {_unchecked(fit)}"
    return Diagnosis(khat, fit.log_evidence, (low, high), gap, covered and abs(gap) < CLOSE, verdict)


def _gap(fit: Fit, low: float, high: float) -> float:
    """The fit counts one labelling of its parts, the truth all of them: from the nearer of the two."""
    assert fit.log_evidence is not None
    return min(fit.log_evidence + fit.label_correction - low, 0.0) + max(fit.log_evidence - high, 0.0)


def _weighed(fit: Fit, key: Any, ends: float) -> Any:
    """Importance sampling from the fit and from every optimum that restarts find, so that a mode it misses is seen."""
    from ..fitting import refit
    from ..inference.monte_carlo.importance import ImportanceSampling

    if fit.model.local_groups or time.perf_counter() >= ends:
        return None
    try:
        return refit(fit, ImportanceSampling(draws=2048, proposal=fit), key)
    except NumericalFailure:
        return None


def _interval(weighed: Any) -> Interval | None:
    if weighed is None or not weighed.converged:
        return None
    width = WIDTH * weighed.details["standard_error"]
    return weighed.log_evidence - width, weighed.log_evidence + width


def _annealed(fit: Fit, key: Any, ends: float, enough: bool) -> Interval | None:
    """The bracket of AIS, which it withholds where something speaks against it; then more temperatures are tried."""
    from ..fitting import refit
    from ..inference.monte_carlo.annealed_importance import AIS

    temperatures, took = 100, 0.0
    while time.perf_counter() + FINER * took < ends:
        began = time.perf_counter()
        try:
            found = refit(fit, AIS(particles=64, temperatures=temperatures), key).bracket
        except NumericalFailure:
            found = None
        if found is not None or enough:
            return found
        took, temperatures = time.perf_counter() - began, FINER * temperatures
    return None


def _where(fit: Fit, bracket: Interval, gap: float) -> str:
    ends = f"({bracket[0]:.2f}, {bracket[1]:.2f})"
    place = f"is at least {-gap:.2f} below" if gap < 0 else f"is at least {gap:.2f} above" if gap > 0 else "lies in"
    by = "AIS" if np.isinf(bracket[1]) or fit.model.local_groups else "importance weights and AIS"
    return f"its log evidence {fit.log_evidence:.2f} {place} the bracket {ends} of {by}"


def _unchecked(fit: Fit) -> str:
    if fit.model.local_groups:
        return "its latents cannot be summed out, so the posterior itself was not checked"
    return "its importance weights do not cover the posterior"


def _why(fit: Fit, places: list[Interval], weighed: Any) -> str:
    if len(places) > 1:
        (a, b), (c, d) = places
        return f"importance weights place the log evidence in ({a:.2f}, {b:.2f}) and AIS in ({c:.2f}, {d:.2f})"
    weights = "" if weighed is None else f"{_unchecked(fit)}, and "
    return f"{weights}annealed particles do not get from the prior to the posterior"
