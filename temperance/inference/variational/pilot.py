"""The choice of temperatures: from the critical temperature down or, if there is none, the schedule that does best on a
sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ...models import Data, Model
from ..progress import Progress
from ..run import run
from ..streamed import Streamed
from ..thermostats import hot_steps, spaced
from .coordinate import VB
from .critical import critical_temperature
from .stochastic import SVI

_ABOVE = 1.1  # first temperature of a schedule, relative to the critical one
_ROWS = 2000  # rows of the sample; a quarter of a small corpus would show none of the gain
_FEW = 20  # steps of SVI: over 7 to 14 of them heat cost topics 0.02 to 0.07 nats per token, from 35 it gained
_RESTARTS = 3  # at most
_CLEAR = {2: 4.0, 3: 2.0}  # standard errors that this many starts gain by chance in one pilot of twelve (Student's t)
_BEATEN = 0.25  # share of the best schedule's gain below which another is dropped
_ROUNDING = 1e-6  # relative gain of a score that counts as none
_SWEEPS = 60  # sweeps of VB
_PASSES, _BATCHES = 10, 5  # the most of SVI, and the least batches of a pass: half the passes would show half the gain
_WATCHED = 0.2  # share of the sample's rows that is held out to judge SVI


Score = Callable[[str, int], float]  # (schedule, start) → score


class Linear(NamedTuple):
    """A candidate schedule: its first temperature, and its share of the time for cooling."""

    start: float
    share: float


_COLD = "cold"
_SCHEDULES = {
    "linear from 1.5": Linear(1.5, 1.0),
    "linear from 1.5, a fifth as long": Linear(1.5, 0.2),
    "linear from 3": Linear(3.0, 1.0),
}


class Found(NamedTuple):
    """The temperatures of every step until T = 1, and how they were found."""

    temperatures: np.ndarray
    critical: float | None = None
    pilot: dict[str, np.ndarray] | None = None  # scores of the pilot runs
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        """The number of steps until T = 1."""
        return hot_steps(self.temperatures)

    @property
    def details(self) -> dict[str, Any]:
        found = {"temperatures": self.temperatures}
        return found | {k: v for k, v in self._asdict().items() if k in ("critical", "pilot") and v is not None}


def choose(model: Model, data: Data | Streamed, method: VB | SVI, steps: int, unit: int) -> Found:
    """`steps` temperatures, each for `unit` steps of the method."""
    rows = data.sample if isinstance(data, Streamed) else data
    here, rows = model.rows.at_hand(rows)
    if here is not model and isinstance(method, SVI):  # its minibatches are rows, not partitions as on a cluster
        method = dataclasses.replace(method, batch_size=here.rows.stochastic.batch_size)
    model = here
    critical = critical_temperature(model, rows)
    if critical is not None:
        return Found(np.repeat(spaced("geometric", _ABOVE * critical, steps), unit), critical)
    if isinstance(method, SVI) and method.steps is not None and method.steps < _FEW:
        note = (
            f"no critical temperature was found, and {method.steps} steps are too few for heat: the run is not annealed"
        )
        return Found(np.ones(0), None, None, (note,))
    scores = race(_pilot(model, rows, method))
    best, gains = _leader(scores)
    if not _worth_it(gains):
        note = (
            "no critical temperature was found, and no schedule tried on a sample beat T = 1: the run is not annealed"
        )
        return Found(np.ones(0), None, scores, (note,))
    note = f"no critical temperature was found; of the schedules tried on a sample, {best} did best"
    chosen = _SCHEDULES[best]
    temperatures = spaced("linear", chosen.start, max(1, round(chosen.share * steps)))
    return Found(np.repeat(temperatures, unit), None, scores, (note,))


def race(score: Score) -> dict[str, np.ndarray]:
    """Score runs from one start after the other, until it is clear whether the best schedule beats T = 1. A schedule
    that gains nothing, or far less than the best one, is dropped.
    """
    scores = {name: np.zeros(0) for name in (_COLD, *_SCHEDULES)}
    left = list(_SCHEDULES)
    for start in range(_RESTARTS):
        for name in (_COLD, *left):
            scores[name] = np.append(scores[name], score(name, start))
        best, gains = _leader(scores)
        if _worth_it(gains) is not None:
            break
        least = _BEATEN * max(gains.mean(), 0.0)
        left = [name for name in left if name == best or (scores[name] - scores[_COLD]).mean() > least]
    return scores


def _leader(scores: dict[str, np.ndarray]) -> tuple[str, np.ndarray]:
    """The best schedule of those still in the race, and what it gained from each start.

    All schedules share starts and rows, because differences vary less than scores.
    """
    cold = scores[_COLD]
    gains = {name: scores[name] - cold for name in _SCHEDULES if len(scores[name]) == len(cold)}
    best = max(gains, key=lambda name: gains[name].mean())
    small = np.abs(gains[best]) <= _ROUNDING * np.abs(cold)
    return best, np.where(small, 0.0, gains[best])


def _worth_it(gains: np.ndarray) -> bool | None:
    """Whether these gains are more than chance; None if another start is needed to decide."""
    if len(gains) < 2:
        return None
    mean, error = gains.mean(), np.std(gains, ddof=1) / np.sqrt(len(gains))
    if mean <= 0.0 or mean > _CLEAR[len(gains)] * error:
        return bool(mean > 0.0)
    return None if len(gains) < _RESTARTS else False


def _pilot(model: Model, data: Data, method: VB | SVI) -> Score:
    """A function that scores a short run of a schedule, always on the same rows, from the same starts and by the same
    compiled steps. VB is scored by the bound at T = 1, its objective. SVI is scored by the predictive density of rows
    left out: by the bound for the fitted rows, cold runs of topic models win by far, and predict worse.
    """
    from .annealed import Annealed

    data = model.rows.sample(data, _ROWS, np.random.default_rng(0))
    short: VB | SVI
    watched, steps = False, _SWEEPS
    if isinstance(method, VB):
        short = dataclasses.replace(method, restarts=_RESTARTS, max_iter=_SWEEPS)
    else:
        watched = model.rows.independent and data.size >= 2 * _BATCHES
        batch = max(1, min(method.batch_size or data.size, data.size // _BATCHES))
        steps = min(method.steps or data.size, _PASSES * (data.size // batch))
        named: dict[str, Any] = {
            "steps": steps,
            "passes": None,
            "report": steps,  # the held-out rows are evaluated once: at every pass that took longer than the steps
            "patience": steps + 1,
            "elbo": False,
            "restarts": _RESTARTS,
        }
        short = dataclasses.replace(method, batch_size=batch, held_out=_WATCHED if watched else None, **named)
    key, cold = jax.random.key(0), {_COLD: np.ones(1)}
    tried = cold | {
        name: spaced("linear", each.start, max(1, round(each.share * steps / 2))) for name, each in _SCHEDULES.items()
    }

    def score(name: str, start: int) -> float:
        here = Annealed(short, tried[name]).complete(model, data)
        arranged = here.arrange(key, model, data)
        done = run(here, model, arranged, key, Progress(False), which=slice(start, start + 1))
        if done.interrupted:  # no part of the fit exists yet that could be kept
            raise KeyboardInterrupt
        if watched:
            return float(done.history["held_out"][-1, 0])
        return float(here.result(model, arranged, done).history["restarts"][0])

    return score
