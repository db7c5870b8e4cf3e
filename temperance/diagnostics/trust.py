"""Can an approximate posterior be trusted? Importance weights, and bridge sampling or annealed particles, answer within
a budget of time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._arguments import number
from ..errors import NumericalFailure, UnsupportedMethod
from ..evidence.bracket import intersect
from ..inference.interruption import until
from ..models import Posterior

if TYPE_CHECKING:
    from ..fit import Fit

CLOSE = 1.0  # nats by which a trusted evidence may miss the bracket of the other estimators
FINER = 4  # factor by which temperatures increase if annealed particles are inconclusive

Interval = tuple[float, float]
_CHECKED = {  # what draws from the posterior itself have shown
    "importance weights": "its importance weights are well behaved",
    "bridge sampling": "chains from every optimum were compared with their conditionals",
}


class Diagnosis(NamedTuple):
    """The result of a diagnosis; printed, it is one sentence."""

    khat: float | None  # Pareto shape of the largest importance weights; None where there are none
    log_evidence: float  # the fit's own
    bracket: Interval | None  # the log evidence by importance weights and a second estimator; None if neither works
    gap: float | None  # from the bracket to the fit's log evidence: negative below it, 0 inside
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
    with until(ends):
        weighed = _weighed(fit, as_key(seed), ends)
        khat = None if weighed is None else float(weighed.details["khat"])
        places = {"importance weights": _interval(weighed), "bridge sampling": _bridged(fit, as_key(seed), ends)}
        if places["bridge sampling"] is None:
            places["AIS"] = _annealed(fit, as_key(seed), ends, enough=places["importance weights"] is not None)
    known = {name: place for name, place in places.items() if place is not None}
    unsure = f"cannot tell within this budget ({seconds:g} s): "
    low, high = intersect(*known.values()) if known else (np.inf, -np.inf)
    if low > high:
        late = time.perf_counter() >= ends and not known
        why = "no estimate came to its end; give it more seconds" if late else _why(fit, known, weighed)
        return Diagnosis(khat, fit.log_evidence, None, None, False, unsure + why)
    gap = _gap(fit, low, high)
    checks = [said for name, said in _CHECKED.items() if name in known]
    where = _where(fit, (low, high), gap, " and ".join(known))
    if abs(gap) >= CLOSE:
        verdict = f"do not trust it because {where}"
    elif checks:
        verdict = f"trust it: {checks[0]}, and {where}"
    else:
        verdict = f"{unsure}{where}, but {_unchecked(fit)}"
    return Diagnosis(khat, fit.log_evidence, (low, high), gap, bool(checks) and abs(gap) < CLOSE, verdict)


def _gap(fit: Fit, low: float, high: float) -> float:
    """The gap, from the nearer of two numbers: the fit's log evidence for one labelling of its parts, and for all
    labellings."""
    assert fit.log_evidence is not None
    return min(fit.log_evidence + fit.label_correction - low, 0.0) + max(fit.log_evidence - high, 0.0)


def _weighed(fit: Fit, key: Any, ends: float) -> Any:
    """Importance sampling from the fit and from every optimum that restarts find, so that a mode that the fit misses is
    seen."""
    from ..fitting import refit
    from ..inference.monte_carlo.importance import ImportanceSampling

    if fit.model.local_groups or time.perf_counter() >= ends:
        return None
    try:
        return refit(fit, ImportanceSampling(draws=2048, proposal=fit), key)
    except NumericalFailure:
        return None


def _interval(weighed: Any) -> Interval | None:
    return None if weighed is None or not weighed.converged else weighed.bracket


def _bridged(fit: Fit, key: Any, ends: float) -> Interval | None:
    """The bracket of bridge sampling, for small Gaussian mixtures. It starts from every optimum too, but its chains
    move on and visit labels of other modes."""
    from ..fitting import refit
    from ..inference.monte_carlo.bridge import Bridge

    if time.perf_counter() >= ends:
        return None
    try:
        found: Interval | None = refit(fit, Bridge(), key).bracket
    except (NumericalFailure, UnsupportedMethod):
        return None
    return found


def _annealed(fit: Fit, key: Any, ends: float, enough: bool) -> Interval | None:
    """The bracket of AIS. If AIS withholds its bracket because of contradictions, more temperatures are tried."""
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


def _where(fit: Fit, bracket: Interval, gap: float, by: str) -> str:
    assert fit.log_evidence is not None
    ends = f"({bracket[0]:.2f}, {bracket[1]:.2f})"
    place = f"is at least {-gap:.2f} below" if gap < 0 else f"is at least {gap:.2f} above" if gap > 0 else "lies in"
    value = f"{fit.log_evidence:.2f}"
    if fit.label_correction:
        value += f" ({fit.log_evidence + fit.label_correction:.2f} with every way to number its parts)"
    return f"its log evidence {value} {place} the bracket {ends} of {by}"


def _unchecked(fit: Fit) -> str:
    if fit.model.local_groups:
        return "its latents cannot be summed out, so the posterior itself was not checked"
    return "its importance weights do not cover the posterior"


def _why(fit: Fit, known: dict[str, Interval], weighed: Any) -> str:
    if known:
        said = [
            f"{name} place{'' if name.endswith('s') else 's'} it in ({a:.2f}, {b:.2f})"
            for name, (a, b) in known.items()
        ]
        return f"of the log evidence {' and '.join(said)}"
    weights = "" if weighed is None else f"{_unchecked(fit)}, and "
    return f"{weights}annealed particles do not get from the prior to the posterior"
