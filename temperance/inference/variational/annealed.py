"""Annealed variational inference: the same updates at falling temperatures, and at T = 1 to the end.

At temperature T the local step and the statistics that reach the globals are divided by T; the prior is not
(Mandt et al., 2016, eq. 4 and 8). Where the schedule has ended, what runs is the plain method.

Components that have melted into one become equal to the last bit, and equal ones stay equal: they would not part where
it gets cold enough for them to. So wherever the temperature changes a trace of the start is mixed into the globals.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ...errors import InvalidParameter
from ...families._family import Family
from ...models import Data, Model, Posterior
from ...models._blocks import move
from .._method import Info, Method, Result, Run, best_restart
from ..cooling import Cooled, as_temperatures, make_cooling, spaced
from ..streamed import Streamed
from .coordinate import VB
from .minibatches import Batches
from .stochastic import SVI, Walk
from .tempered_sweep import tempered_sweep

_SWEEPS = 200  # of the cooling, for VB
_SHARE = 0.5  # of the passes, for SVI
_START = 10.0  # of schedules that do not find their own start
_KINDS = ("critical", "linear", "geometric")
_TRACE = 0.003  # of the start, where the temperature changes
_SETTLE = 3  # steps at T = 1 before a bound can say that a run has converged


class Stage(NamedTuple):
    """Where one restart of coordinate ascent stands."""

    posterior: Posterior
    steps: Int[Array, ""]
    start: dict[str, Family]


def with_trace(q: Posterior, start: dict[str, Family], rate: Float[Array, ""]) -> Posterior:
    """The posterior with a little of the start mixed into its globals."""
    blocks = {name: move(block, start[name].natural, rate) for name, block in q.blocks.items()}
    return Posterior(blocks, q.locals)


@dataclasses.dataclass(frozen=True)
class Annealed(Method):
    """`method` (`tp.VB` or `tp.SVI`) begun at a high temperature and cooled to T = 1, where it runs as usual.

    `schedule` is "critical" (geometric, from just above the temperature at which the melted solution loses stability,
    which is found first), "linear" or "geometric" (from `start`), or a row of temperatures. `length` is the number of
    passes over the data (sweeps of VB) until T = 1, by default 200 for VB and half of all passes for SVI. With
    `every="pass"` the temperature changes from pass to pass, otherwise from step to step.
    """

    method: VB | SVI = dataclasses.field(default_factory=VB)
    schedule: Any = "critical"
    start: float | None = None
    length: float | None = None
    every: str = "step"
    found: Any = dataclasses.field(default=None, repr=False, compare=False)  # what `complete` worked out

    budget: ClassVar[tuple[str, ...]] = ("schedule", "start", "length", "every", "found")
    streams: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.method, VB | SVI):
            raise InvalidParameter(f"method must be a tp.VB or a tp.SVI, got {self.method!r}")
        if isinstance(self.method, VB) and (self.method.batches is not None or self.method.moves):
            raise InvalidParameter("a tp.VB to be annealed must be without batches and without moves")
        if self.every not in ("step", "pass"):
            raise InvalidParameter(f"every must be 'step' or 'pass', got {self.every!r}")
        if not isinstance(self.schedule, str):
            object.__setattr__(self, "schedule", as_temperatures("schedule", self.schedule))
            if self.start is not None or self.length is not None:
                raise InvalidParameter("start and length are for named schedules, not for a row of temperatures")
        elif self.schedule not in _KINDS:
            accepted = ", ".join(repr(kind) for kind in _KINDS)
            raise InvalidParameter(
                f"schedule must be a row of temperatures or one of {accepted}, got {self.schedule!r}"
            )
        for name, least in (("start", 1.0), ("length", 0.0)):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not least <= value < np.inf:
                raise InvalidParameter(f"{name} must be a finite number of at least {least:g}, got {value!r}")
        if self.start is not None and self.schedule == "critical":
            raise InvalidParameter("start is found by the schedule 'critical'; give it with 'linear' or 'geometric'")

    @property
    def name(self) -> str:
        return f"annealed {self.method.name}"

    @property
    def restarts(self) -> int:
        return self.method.restarts

    @property
    def tol(self) -> float:
        return self.method.tol

    @property
    def max_iter(self) -> int:
        """What the method may take, after the sweeps of cooling."""
        cooling = self.found.steps if self.found is not None and isinstance(self.method, VB) else 0
        return self.method.max_iter + cooling

    @property
    def exact(self) -> bool:
        return isinstance(self.method, VB)

    def compiled(self) -> Self:
        return dataclasses.replace(super().compiled(), method=self.method.compiled())

    # ---- before the run -----------------------------------------------------------------------------------

    def prepare(self, model: Model) -> Model:
        return self.method.prepare(model)

    def complete(self, model: Model, data: Data | Streamed) -> Self:
        """With the temperatures worked out."""
        from .pilot import Found, choose  # which runs pilots by this very class

        method = self.method.complete(model, data)  # type: ignore[arg-type]
        a_pass = 1 if isinstance(method, VB) else _steps_of_pass(model, method, data)
        unit = a_pass if self.every == "pass" else 1
        if not isinstance(self.schedule, str):
            found = Found(np.repeat(self.schedule, unit))
            return dataclasses.replace(self, method=method, found=found)
        passes = self.length
        if passes is None:
            passes = _SWEEPS if isinstance(method, VB) else _SHARE * (method.steps or 1) / a_pass
        steps = max(1, round(passes * a_pass / unit)) if passes else 0
        if self.schedule == "critical":
            found = choose(model, data, method, steps, unit)
        else:
            start = _START if self.start is None else float(self.start)
            found = Found(np.repeat(spaced(self.schedule, start, steps), unit))
        return dataclasses.replace(self, method=method, found=found)

    def arrange(self, key: Key[Array, ""], model: Model, data: Any) -> Any:
        arranged = self.method.arrange(key, model, data)
        cooling = make_cooling(self.found.temperatures)
        if isinstance(arranged, Streamed):
            wrap = arranged.wrap

            def cooled(piece: Data) -> Data:
                return dataclasses.replace(wrap(piece), cooling=cooling)  # type: ignore[call-arg]

            sample = dataclasses.replace(arranged.sample, cooling=cooling)  # type: ignore[call-arg]
            return dataclasses.replace(arranged, sample=sample, wrap=cooled)
        if isinstance(arranged, Batches):
            return dataclasses.replace(arranged, cooling=cooling)
        return Cooled(arranged.values, arranged.weights, arranged.size, arranged.blocks, arranged.devices, cooling)

    # ---- the run ------------------------------------------------------------------------------------------

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Any:
        state = self.method.init(key, model, data)
        if not isinstance(state, Posterior):
            return state
        return Stage(state, jnp.zeros((), dtype=jnp.int64), dict(state.blocks))

    def step(self, key: Key[Array, ""], model: Model, state: Any, data: Any) -> tuple[Any, Info]:
        assert data.cooling is not None
        if isinstance(self.method, SVI):
            return self._stochastic(key, model, state, data)
        temperature = data.cooling.temperature(state.steps)
        changed = (state.steps > 0) & (temperature != data.cooling.temperature(state.steps - 1))
        q = with_trace(state.posterior, state.start, jnp.where(changed, _TRACE, 0.0))
        power = 1.0 / temperature
        swept = tempered_sweep(model, q, data, power, self.method.local_steps)
        info = {
            "elbo": swept.bound + (1.0 - power) * swept.energy,
            "annealed_elbo": swept.bound,
            "temperature": temperature,
            "final": state.steps >= data.cooling.steps + jnp.where(data.cooling.steps > 0, _SETTLE, 0),
        }
        return Stage(swept.posterior, state.steps + 1, state.start), info

    def _stochastic(self, key: Key[Array, ""], model: Model, state: Any, data: Any) -> tuple[Any, Info]:
        """The minibatches to the next report; held-out data have no say before T = 1."""
        fresh, info = self.method.step(key, model, without_choice(state, data.cooling.steps), data)
        return fresh, info | {
            "annealed_elbo": info["batch_elbo"],
            "temperature": data.cooling.temperature(fresh.steps - 1),
        }

    def finished(self, history: Float[Array, "3"], tol: Float[Array, ""]) -> Bool[Array, ""]:
        return self.method.finished(history, tol)

    def result(self, model: Model, data: Any, run: Run) -> Result:
        if isinstance(self.method, SVI):
            result = self.method.result(model, data, run)
        else:
            result = best_restart(run)
            result = result._replace(state=result.state.posterior)
        return result._replace(details=dict(result.details) | self.found.details, notes=result.notes + self.found.notes)


def without_choice(state: Walk, hot: Int[Array, ""]) -> Walk:
    """Without the score of a hot posterior: however well it predicts held-out data, it is not the one to keep, and
    what comes next is progress."""
    return state._replace(score=jnp.where(state.steps <= hot, -jnp.inf, state.score))


def _steps_of_pass(model: Model, method: SVI, data: Data | Streamed) -> int:
    assert method.batch_size is not None
    if isinstance(data, Streamed):
        rows = data.stream.piece_rows if model.independent_rows else model.units(data.piece_shapes())
        return data.stream.pieces_per_pass * (rows // method.batch_size)
    return max(1, (model.units(data) - method._held_out_count(data.size)) // method.batch_size)
