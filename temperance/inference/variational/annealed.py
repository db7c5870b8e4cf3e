"""Annealed variational inference: updates at falling temperatures, and then at T = 1 to the end.

At temperature T the local step and the statistics that reach the globals are divided by T; the prior is not
(Mandt et al., 2016, eq. 4 and 8). After the schedule the plain method runs.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import numpy as np

from ..._arguments import NOT_NEGATIVE, Checks, choice, number, optional
from ...errors import InvalidParameter
from ...models import Data, Model
from .._method import Result, Run
from ..streamed import Streamed
from ..thermostats import Thermostat, as_temperatures, make_schedule, spaced
from .coordinate import VB
from .hot import SHARE, SWEEPS, Hot, steps_of_pass
from .stochastic import SVI

_START = 10.0  # first temperature of the linear and geometric schedules
_KINDS = ("critical", "linear", "geometric")


@dataclasses.dataclass(frozen=True)
class Annealed(Hot):
    """Run `method` (`tp.VB` or `tp.SVI`) from a high temperature down to T = 1, where it continues as usual.

    `method` makes the updates, hot and cold. `schedule` is "critical" (geometric, from just above the temperature at
    which the melted solution loses stability, which is found first), "linear" or "geometric" (from `start`), or a list
    of temperatures. `length` is the number of passes over the data (sweeps of VB) until T = 1, by default 200 for VB
    and half of all passes for SVI. With `every="pass"` the temperature changes from pass to pass, otherwise from step
    to step.
    """

    method: VB | SVI = dataclasses.field(default_factory=VB)
    schedule: Any = "critical"
    start: float | None = None
    length: float | None = None
    every: str = "step"
    found: Any = dataclasses.field(default=None, repr=False, compare=False)  # filled in by `complete`

    budget: ClassVar[tuple[str, ...]] = ("schedule", "start", "length", "every", "found")
    streams: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        "start": optional(number("a finite number of at least 1", lambda value: value >= 1.0)),
        "length": optional(NOT_NEGATIVE),
        "every": choice("step", "pass"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.method, VB | SVI):
            raise InvalidParameter(f"method must be a tp.VB or a tp.SVI, got {self.method!r}")
        if isinstance(self.method, VB) and (self.method.batches is not None or self.method.moves):
            raise InvalidParameter("a tp.VB to be annealed must be without batches and without moves")
        if not isinstance(self.schedule, str):
            object.__setattr__(self, "schedule", as_temperatures("schedule", self.schedule))
            if self.start is not None or self.length is not None:
                raise InvalidParameter("start and length are for named schedules, not for a row of temperatures")
        elif self.schedule not in _KINDS:
            accepted = ", ".join(repr(kind) for kind in _KINDS)
            raise InvalidParameter(
                f"schedule must be a row of temperatures or one of {accepted}, got {self.schedule!r}"
            )
        if self.start is not None and self.schedule == "critical":
            raise InvalidParameter("start is found by the schedule 'critical'; give it with 'linear' or 'geometric'")

    @property
    def name(self) -> str:
        return f"annealed {self.method.name}"

    @property
    def hot_steps(self) -> int:
        return 0 if self.found is None else self.found.steps

    def complete(self, model: Model, data: Data | Streamed) -> Self:
        """The method with its temperatures computed."""
        from .pilot import Found, choose  # imported here because it uses this class for its pilots

        method = self.method.complete(model, data)
        a_pass = 1 if isinstance(method, VB) else steps_of_pass(model, method, data)
        unit = a_pass if self.every == "pass" else 1
        if not isinstance(self.schedule, str):
            found = Found(np.repeat(self.schedule, unit))
            return dataclasses.replace(self, method=method, found=found)
        passes = self.length
        if passes is None:
            passes = SWEEPS if isinstance(method, VB) else SHARE * (method.steps or 1) / a_pass
        steps = max(1, round(passes * a_pass / unit)) if passes else 0
        if self.schedule == "critical":
            found = choose(model, data, method, steps, unit)
        else:
            start = _START if self.start is None else float(self.start)
            found = Found(np.repeat(spaced(self.schedule, start, steps), unit))
        return dataclasses.replace(self, method=method, found=found)

    def thermostat(self, model: Model, data: Data) -> Thermostat:
        return make_schedule(self.found.temperatures)

    def told(self, result: Result, best: int, run: Run, data: Data) -> Result:
        return result._replace(details=dict(result.details) | self.found.details, notes=result.notes + self.found.notes)
