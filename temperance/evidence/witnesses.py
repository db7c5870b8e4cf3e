"""What speaks against an estimate of the log evidence.

Whatever bounds the evidence from below is a witness: a variational bound is below the truth whoever found it, so an
estimate that lies below it is wrong. Two halves of one run are two witnesses of each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from .tempered import Estimate

FAR = 4.0  # standard errors by which two halves of a run may differ
ROOM = 0.05  # nats that are not worth a word
ADVICE = "use tp.ParallelTempering, or trust the bound alone"
CLOSER = "begin the path nearer to the posterior (reference=a fit by tp.VB), or trust the bound alone"

Bound = tuple[str, float]  # what it is, and its value


def contradictions(
    estimate: Estimate, halves: Sequence[Estimate], bounds: Sequence[Bound], advice: str = ADVICE
) -> list[str]:
    """Sentences on what speaks against an estimate; none if nothing does."""
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
