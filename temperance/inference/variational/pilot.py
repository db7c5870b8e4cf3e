"""Which temperatures to begin with: the critical one, or where there is none what does best on a sample."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from ...models import Data, Model
from ..cooling import hot_steps, spaced
from ..progress import Progress
from ..run import run
from ..streamed import Streamed
from ._rows import some_rows
from .coordinate import VB
from .critical import critical_temperature
from .stochastic import SVI

_ABOVE = 1.1  # times the critical temperature: where a schedule begins
_ROWS = 2000  # of the sample: with a quarter of a small corpus nothing is gained that all of it would gain
_RESTARTS = 3
_SWEEPS = 60  # of VB
_PASSES, _BATCHES = 10, 5  # the most of SVI, and the least batches of a pass: half the passes would show half the gain
_WATCHED = 0.2  # of the rows of the sample, that SVI is judged by


class Linear(NamedTuple):
    """A schedule to try: where it begins, and its share of the time there is for cooling."""

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
        """Until T = 1."""
        return hot_steps(self.temperatures)

    @property
    def details(self) -> dict[str, Any]:
        found = {"temperatures": self.temperatures}
        return found | {k: v for k, v in self._asdict().items() if k in ("critical", "pilot") and v is not None}


def choose(model: Model, data: Data | Streamed, method: VB | SVI, steps: int, unit: int) -> Found:
    """`steps` temperatures, each for `unit` steps of the method."""
    rows = data.sample if isinstance(data, Streamed) else data
    here, rows = model.at_hand(rows)
    if here is not model and isinstance(method, SVI):  # elsewhere a minibatch may be a partition, here it is rows
        method = dataclasses.replace(method, batch_size=here.stochastic.batch_size)
    model = here
    critical = critical_temperature(model, rows)
    if critical is not None:
        return Found(np.repeat(spaced("geometric", _ABOVE * critical, steps), unit), critical)
    scores = _pilot(model, rows, method)
    gains = {name: scores[name] - scores[_COLD] for name in _SCHEDULES}
    best = max(gains, key=lambda name: gains[name].mean())
    # From the same starts over the same rows: their differences vary less than they do.
    error = np.std(gains[best], ddof=1) / np.sqrt(_RESTARTS)
    if gains[best].mean() <= 2.0 * error:
        note = (
            "no critical temperature was found, and no schedule tried on a sample beat T = 1: the run is not annealed"
        )
        return Found(np.ones(0), None, scores, (note,))
    note = f"no critical temperature was found; of the schedules tried on a sample, {best} did best"
    chosen = _SCHEDULES[best]
    temperatures = spaced("linear", chosen.start, max(1, round(chosen.share * steps)))
    return Found(np.repeat(temperatures, unit), None, scores, (note,))


def _pilot(model: Model, data: Data, method: VB | SVI) -> dict[str, np.ndarray]:
    """The scores of a few short runs of each schedule, on the same rows from the same starts.

    Of VB the bound at T = 1, which it is there to raise. Of SVI the predictive density of rows left out: by the bound
    of rows it was fitted to, cold runs of topic models win by far, and predict worse.
    """
    from .annealed import Annealed

    data = some_rows(data, _ROWS, np.random.default_rng(0))
    short: VB | SVI
    watched, steps = False, _SWEEPS
    if isinstance(method, VB):
        short = dataclasses.replace(method, restarts=_RESTARTS, max_iter=_SWEEPS)
    else:
        watched = model.independent_rows and data.size >= 2 * _BATCHES
        batch = max(1, min(method.batch_size or data.size, data.size // _BATCHES))
        steps = min(method.steps or data.size, _PASSES * (data.size // batch))
        named: dict[str, Any] = {
            "steps": steps,
            "passes": None,
            "report": None,
            "patience": steps + 1,
            "restarts": _RESTARTS,
        }
        short = dataclasses.replace(method, batch_size=batch, held_out=_WATCHED if watched else None, **named)
    hot = {
        name: spaced("linear", each.start, max(1, round(each.share * steps / 2))) for name, each in _SCHEDULES.items()
    }
    scores = {}
    for name, temperatures in ({_COLD: np.ones(1)} | hot).items():
        here = Annealed(short, temperatures).complete(model, data)
        arranged = here.arrange(jax.random.key(0), model, data)
        done = run(here, model, arranged, jax.random.key(0), Progress(False))
        bounds = here.result(model, arranged, done).history["restarts"]
        scores[name] = np.asarray(done.history["held_out"][-1] if watched else bounds)
    return scores
