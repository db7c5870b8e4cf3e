"""Contradictions of an estimate of the log evidence.

Every lower bound on the evidence is a witness: an estimate that lies below a variational bound is wrong, whichever
method found the bound. The two halves of a run are witnesses of each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from .tempered import Estimate

FAR = 4.0  # standard errors by which two halves of a run may differ
ROOM = 0.05  # nats; smaller contradictions are not mentioned
ADVICE = "use tp.ParallelTempering, or trust the bound alone"
CLOSER = "begin the path nearer to the posterior (reference=a fit by tp.VB), or trust the bound alone"

Bound = tuple[str, float]  # description, value


def contradictions(
    estimate: Estimate, halves: Sequence[Estimate], bounds: Sequence[Bound], advice: str = ADVICE
) -> list[str]:
    """Sentences, one for each contradiction of the estimate."""
    found = []
    if len(halves) == 2:
        one, two = halves
        apart = abs(one.log_evidence - two.log_evidence)
        if apart > FAR * (one.standard_error**2 + two.standard_error**2) ** 0.5 + ROOM:
            found.append(
                f"the two halves of the run disagree ({one.log_evidence:.2f} and {two.log_evidence:.2f}): "
                "its standard error is not to be believed; run longer"
            )
    for name, value in bounds:
        if value > estimate.log_evidence + FAR * estimate.standard_error + ROOM:
            found.append(
                f"{name}, {value:.2f}, is a lower bound and lies above the estimate {estimate.log_evidence:.2f}, which "
                f"is therefore wrong: {advice}"
            )
    return found
