"""From the history of a ladder to a posterior, its evidence, and advice on the ladder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import NumericalFailure
from ...evidence.bracket import bracket, crossed
from ...evidence.multistate import multistate
from ...evidence.reweighting import bar
from ...evidence.stepping_stone import stepping_stone
from ...evidence.tempered import Estimate, Tempered, combine, few
from ...evidence.thermodynamic import thermodynamic
from ...evidence.witnesses import CLOSER, Bound, contradictions
from ...numerics.autocorrelation import split_r_hat
from .._method import Result, Run
from .gibbs import MIXED, kept

CROWDED = 0.75  # neighbours that reject more often need more replicas between them
FEWEST = 3  # fewest round trips for a bracket
TORN = 0.9  # rejection from which, if no replica passes, the states on both sides are of different kinds


def tempered_result(run: Run, warmup: int, log_start: float, witnesses: Callable[[], list[Bound]]) -> Result:
    """All estimates of the log evidence, the bracket if nothing contradicts it, and how well replicas move.

    Replicas forget their past at β = 0, so round trips are the independent pieces by which errors are judged.
    """
    draws, history = kept(run, warmup)
    ladders = [ladder(history, chain, log_start) for chain in range(draws.shape[0])]
    trips = sum(round_trips(history["identity"][:, chain]) for chain in range(draws.shape[0]))
    ways = {"reweighting": bar, "stepping stone": stepping_stone, "thermodynamic": thermodynamic}
    estimates = {name: few(combine([way(one) for one in ladders]), trips) for name, way in ways.items()}
    best = estimates["reweighting"]
    if "energies" in history:
        tables = np.swapaxes(history.pop("energies"), 0, 1)
        estimates["multistate"] = best = few(combine([multistate(one, log_start) for one in tables]), trips)
    rejection = 1.0 - history["acceptance"].mean(axis=(0, 1))
    barrier = float(rejection.sum())
    mixed = not run.interrupted and trips > 0 and split_r_hat(history["log_joint"].T) < MIXED
    ends = bracket(ladders, trips)
    doubts = [*contradictions(best, _halves(ladders), witnesses(), CLOSER), *crossed(ends)] if mixed else []
    notes = [*_advice(rejection, barrier, trips), *(f"no bracket: {doubt}" for doubt in doubts)]
    if mixed and not doubts and trips < FEWEST:
        notes.append(f"no bracket: {trips} round {'trip is' if trips == 1 else 'trips are'} too few; run longer")
    return Result(
        state=draws,
        log_evidence=best.log_evidence,
        history=history,
        converged=mixed and not doubts,
        # Sums over the path bound the evidence only if the states at every temperature have left their start.
        bracket=ends if mixed and not doubts and trips >= FEWEST else None,
        details={
            "standard_error": best.standard_error,
            "log_start": log_start,
            "estimates": estimates,
            "ladder": ladders[0].betas,
            "rejection": rejection,
            "barrier": barrier,
            "round_trips": trips,
        },
        notes=tuple(notes),
    )


def ladder(history: dict[str, np.ndarray], chain: int, log_start: float) -> Tempered:
    """The energies of one ensemble."""
    forward, backward, slopes = (history[name][:, chain] for name in ("forward", "backward", "slopes"))
    if not (np.isfinite(forward).all() and np.isfinite(backward).all() and np.isfinite(slopes).all()):
        step, rung = np.argwhere(~np.isfinite(np.concatenate([forward, backward], axis=1)))[0]
        raise NumericalFailure(
            f"parallel tempering met an energy that is not finite at sweep {step}, temperature {rung}: the prior may "
            "be so wide that its draws overflow; give a narrower one, or reference='auto'"
        )
    return Tempered(history["betas"][-1, chain], forward, backward, slopes, log_start)


def _halves(ladders: list[Tempered]) -> list[Estimate]:
    """The estimate from the first and from the second half of the sweeps."""
    middle = len(ladders[0].forward) // 2
    found = []
    for part in (slice(None, middle), slice(middle, None)):
        cut = [
            one._replace(forward=one.forward[part], backward=one.backward[part], slopes=one.slopes[part])
            for one in ladders
        ]
        found.append(combine([bar(one) for one in cut]))
    return found


def round_trips(identity: np.ndarray) -> int:
    """How often a replica went from the prior to the posterior and back (steps, k)."""
    size = identity.shape[1]
    heading = np.zeros(size, dtype=int)  # 0: unknown, 1: has been at the prior, 2: has then been at the posterior
    trips = 0
    for row in identity:
        first, last = row[0], row[-1]
        trips += heading[first] == 2
        heading[first] = 1
        if heading[last] == 1:
            heading[last] = 2
    return int(trips)


def torn(rejection: np.ndarray, trips: int) -> bool:
    """Whether the path is torn in two; then no measurement tells at which β one piece should give way to the other."""
    return trips == 0 and bool(rejection.max() > TORN)


def _advice(rejection: np.ndarray, barrier: float, trips: int) -> list[str]:
    # Non-reversible swaps are most efficient near 2Λ + 1 replicas (Syed et al., 2022).
    wanted = int(np.ceil(2 * barrier + 1))
    notes = []
    if torn(rejection, trips) and wanted <= len(rejection) + 1:
        notes.append(
            f"two neighbouring temperatures reject {rejection.max():.0%} of their swaps and no replica came through: "
            "the posterior forms abruptly there, and the evidence may be off by more than its standard error; begin "
            "the path nearer to it (reference=a fit by tp.VB, widen=1.5)"
        )
        return notes
    if rejection.max() > CROWDED:
        notes.append(
            f"neighbouring temperatures reject {rejection.max():.0%} of their swaps and the communication barrier is "
            f"{barrier:.1f}: use about {wanted} replicas"
        )
    if trips == 0:
        notes.append("no replica went from the prior to the posterior and back: run longer or with more replicas")
    return notes
