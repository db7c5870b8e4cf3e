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
_STARTS = (1.5, 3.0)  # linear schedules to try
_ROWS = (200, 1000)  # of the sample: a quarter of the data, but not fewer and not more than these
_RESTARTS = 3
_SWEEPS = 60  # of VB
_PASSES = 6  # of SVI


class Found(NamedTuple):
    """The temperatures of every step until T = 1, and how they were found."""

    temperatures: np.ndarray
    critical: float | None = None
    pilot: dict[str, np.ndarray] | None = None  # bounds of the pilot runs
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
    bounds = _pilot(model, rows, method)
    cold = bounds.pop("cold")
    gains = {name: values.mean() - cold.mean() for name, values in bounds.items()}
    best = max(gains, key=lambda name: gains[name])
    error = np.sqrt((np.var(bounds[best], ddof=1) + np.var(cold, ddof=1)) / _RESTARTS)
    tried = {"cold": cold} | bounds
    if gains[best] <= 2.0 * error:
        note = (
            "no critical temperature was found, and no schedule tried on a sample beat T = 1: the run is not annealed"
        )
        return Found(np.ones(0), None, tried, (note,))
    note = f"no critical temperature was found; of the schedules tried on a sample, {best} did best"
    start = float(best.rsplit(" ", 1)[1])
    return Found(np.repeat(spaced("linear", start, steps), unit), None, tried, (note,))


def _pilot(model: Model, data: Data, method: VB | SVI) -> dict[str, np.ndarray]:
    """The bounds at T = 1 of a few short runs of each schedule, on the same rows from the same starts."""
    from .annealed import Annealed

    count = int(np.clip(data.size // 4, *_ROWS))
    data = some_rows(data, count, np.random.default_rng(0))
    short: Any
    if isinstance(method, VB):
        short = dataclasses.replace(method, restarts=_RESTARTS, max_iter=_SWEEPS)
        length: float = _SWEEPS // 2
    else:
        batch = max(1, min(method.batch_size or data.size, data.size // 8))
        short = dataclasses.replace(
            method, batch_size=batch, steps=None, passes=_PASSES, report=None, held_out=None, restarts=_RESTARTS
        )
        length = _PASSES / 2
    linear = {f"linear from {start}": {"schedule": "linear", "start": start, "length": length} for start in _STARTS}
    schedules: dict[str, dict[str, Any]] = {"cold": {"schedule": [1.0]}} | linear
    bounds = {}
    for name, named in schedules.items():
        here = Annealed(short, **named).complete(model, data)
        arranged = here.arrange(jax.random.key(0), model, data)
        done = run(here, model, arranged, jax.random.key(0), Progress(False))
        bounds[name] = np.asarray(here.result(model, arranged, done).history["restarts"])
    return bounds
