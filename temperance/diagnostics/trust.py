"""Can an approximate posterior be trusted? Importance weights and a two-sided bracket say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UnsupportedMethod
from ..inference.monte_carlo.importance import TRUSTED
from ..models import Posterior

if TYPE_CHECKING:
    from ..fit import Fit


class Diagnosis(NamedTuple):
    """What was found; printed, it is one sentence."""

    khat: float | None  # Pareto shape of the largest importance weights; None where the latents cannot be summed out
    log_evidence: float  # the fit's own
    bracket: tuple[float, float]  # from AIS
    gap: float  # from the fit's log evidence to the bracket: negative below it, 0 inside
    trust: bool
    verdict: str

    def __str__(self) -> str:
        return self.verdict


def diagnose(fit: Fit, seed: Any = 0) -> Diagnosis:
    """See `Fit.diagnose`."""
    from ..fit import as_key
    from ..inference.monte_carlo.annealed_importance import AIS
    from ..inference.monte_carlo.importance import ImportanceSampling

    if not isinstance(fit.state, Posterior):
        raise UnsupportedMethod(
            f"diagnose is for deterministic approximations such as tp.VB's; {fit.method.name} draws, and its own "
            "fit.standard_error, fit.bracket and fit.converged say how far to trust it"
        )
    if fit.log_evidence is None:
        raise UnsupportedMethod(f"diagnose judges a log evidence, and this fit by {fit.method.name} has none")
    khat, covered = None, False
    if not fit.model.local_groups:
        weighed = _again(fit, ImportanceSampling(draws=2048, proposal=fit), as_key(seed))
        khat, covered = float(weighed.details["khat"]), bool(weighed.converged)
    annealed = _again(fit, AIS(particles=64, temperatures=100), as_key(seed))
    assert annealed.bracket is not None
    low, high = annealed.bracket
    gap = min(fit.log_evidence - low, 0.0) + max(fit.log_evidence - high, 0.0)
    trust = covered and abs(gap) < 1.0
    return Diagnosis(khat, fit.log_evidence, (low, high), gap, trust, _verdict(fit, khat, covered, (low, high), gap))


def _again(fit: Fit, method: Any, key: Any) -> Any:
    """Another method on the model and the arrays of a fit."""
    import jax

    from ..inference.progress import Progress
    from ..inference.run import run

    model = method.prepare(fit.model)
    complete = method.complete(model, fit.data)
    done = run(complete, model, fit.data, key, Progress(False))
    result = complete.result(model, fit.data, done)

    def again(states: Any, steps: int) -> Any:
        return run(complete, model, fit.data, key, Progress(False), states)

    return complete.improve(jax.random.fold_in(key, 1), model, fit.data, result, again)


def _verdict(fit: Fit, khat: float | None, covered: bool, bracket: tuple[float, float], gap: float) -> str:
    where = f"its log evidence {fit.log_evidence:.2f} "
    if gap < 0:
        where += f"is at least {-gap:.2f} below the bracket ({bracket[0]:.2f}, {bracket[1]:.2f}) of AIS"
    elif gap > 0:
        where += f"is at least {gap:.2f} above the bracket ({bracket[0]:.2f}, {bracket[1]:.2f}) of AIS"
    else:
        where += f"lies in the bracket ({bracket[0]:.2f}, {bracket[1]:.2f}) of AIS"
    if khat is None:
        return f"{where}; its latents cannot be summed out, so the posterior itself was not checked"
    shape = f"the Pareto shape of its importance weights is {khat:.2f}"
    if not covered:
        return f"do not trust its spread: {shape} (above {TRUSTED}), so it misses a part of the posterior; {where}"
    if abs(gap) < 1:
        return f"trust it: its importance weights are well behaved, and {where}"
    return f"trust its spread, not its log evidence: its importance weights are well behaved, but {where}"
