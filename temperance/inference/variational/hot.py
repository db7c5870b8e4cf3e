"""A variational method with a thermostat: hot steps first, then the method at T = 1 as usual.

At temperature T the local step and the statistics that reach the globals are divided by T; the prior is not (Mandt et
al., 2016, eq. 4 and 8). `tp.Annealed`, `tp.VT` and `tp.LVT` are this wrapper with different thermostats.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ..._arguments import number, whole
from ...errors import InvalidParameter
from ...families._family import Family
from ...models import Data, Model, Posterior
from ...models._blocks import move
from .._method import Info, Method, Result, Run, best_restart
from ..streamed import Streamed
from ..thermostats import Schedule, Step, Thermostat, as_temperatures
from .coordinate import VB
from .minibatches import Batches
from .stochastic import SVI, Walk

SWEEPS = 200  # default number of hot sweeps of VB
SHARE = 0.5  # default share of hot passes in SVI
_SETTLE = 3  # steps at T = 1 before the bound is used to judge convergence


class Stage(NamedTuple):
    """The state of one restart of coordinate ascent."""

    posterior: Posterior
    steps: Int[Array, ""]
    heat: Any  # the thermostat's knowledge of the temperature
    start: dict[str, Family]


class Regulated(Data):
    """Data with the thermostat of the run."""

    thermostat: Thermostat | None = None


@dataclasses.dataclass(frozen=True)
class Hot(Method):
    """`method` (a `tp.VB` or a `tp.SVI`), with its first steps at temperatures that a thermostat sets."""

    arranges: ClassVar[bool] = True

    @property
    def inner(self) -> VB | SVI:
        """The method that is heated."""
        return self.method  # type: ignore[attr-defined]  # a field, which is not the first of all of them

    @property
    @abstractmethod
    def hot_steps(self) -> int:
        """How many steps come before T = 1."""

    @abstractmethod
    def thermostat(self, model: Model, data: Data) -> Thermostat: ...

    @abstractmethod
    def told(self, result: Result, best: int, run: Run, data: Data) -> Result:
        """The result with the learned temperatures of the restart `best` added."""

    @property
    def restarts(self) -> int:
        return self.inner.restarts

    @property
    def tol(self) -> float:
        return self.inner.tol

    @property
    def max_iter(self) -> int:
        """The iterations that remain for the method after the hot sweeps of VB."""
        return self.inner.max_iter + (self.hot_steps if isinstance(self.inner, VB) else 0)

    @property
    def exact(self) -> bool:
        return isinstance(self.inner, VB)

    @property
    def counts_rows(self) -> bool:  # type: ignore[override]
        return self.inner.counts_rows

    def compiled(self) -> Self:
        return dataclasses.replace(super().compiled(), method=self.inner.compiled())  # type: ignore[call-arg]

    def prepare(self, model: Model) -> Model:
        return self.inner.prepare(model)

    def arrange(self, key: Key[Array, ""], model: Model, data: Any) -> Any:
        arranged = self.inner.arrange(key, model, data)
        rows = arranged.sample if isinstance(arranged, Streamed) else arranged
        thermostat = self.thermostat(model, rows)
        if isinstance(arranged, Streamed):
            wrap = arranged.wrap

            def regulated(piece: Data) -> Data:
                return dataclasses.replace(wrap(piece), thermostat=thermostat)  # type: ignore[call-arg]

            sample = dataclasses.replace(arranged.sample, thermostat=thermostat)  # type: ignore[call-arg]
            return dataclasses.replace(arranged, sample=sample, wrap=regulated)
        if isinstance(arranged, Batches):
            return dataclasses.replace(arranged, thermostat=thermostat)
        fields = {field.name: getattr(arranged, field.name) for field in dataclasses.fields(arranged)}
        return Regulated(**fields, thermostat=thermostat)

    def init(self, key: Key[Array, ""], model: Model, data: Any) -> Any:
        state = self.inner.init(key, model, data)
        if not isinstance(state, Posterior):
            return state
        return Stage(state, jnp.zeros((), dtype=jnp.int64), data.thermostat.start(data), dict(state.blocks))

    def step(self, key: Key[Array, ""], model: Model, state: Any, data: Any) -> tuple[Any, Info]:
        if isinstance(self.inner, VB):
            return self._sweep(model, state, data)
        # Take the minibatches up to the next report; held-out data have no influence before T = 1.
        fresh, info = self.inner.step(key, model, _without_choice(state, data.thermostat.steps), data)
        temperature = data.thermostat.temperature(fresh.heat, fresh.steps - 1, data)
        annealed = {"annealed_elbo": info["batch_elbo"]} if isinstance(data.thermostat, Schedule) else {}
        return fresh, info | annealed | {"temperature": temperature}

    def _sweep(self, model: Model, state: Stage, data: Any) -> tuple[Stage, Info]:
        thermostat, number = data.thermostat, state.steps
        step = Step(number, 1.0, self.inner.local_steps or 1, energy=True)
        q = with_trace(state.posterior, state.start, thermostat.trace(number))
        power = thermostat.way(state.heat, step, data.weights.shape[0]).powers.observation
        swept, heat = thermostat.sweep(model, q, data, state.heat, step)
        settled = thermostat.steps + jnp.where(thermostat.steps > 0, _SETTLE, 0)
        info = {
            "elbo": swept.bound + jnp.sum((1.0 - power) * swept.energy),
            "temperature": thermostat.temperature(state.heat, number, data),
            "final": number >= settled,
        }
        info |= thermostat.report(state.heat, swept, number)
        return state._replace(posterior=swept.posterior, steps=number + 1, heat=heat), info

    def finished(self, history: Float[Array, "3"], tol: Float[Array, ""]) -> Bool[Array, ""]:
        return self.inner.finished(history, tol)

    def result(self, model: Model, data: Any, run: Run) -> Result:
        if isinstance(self.inner, SVI):
            result = self.inner.result(model, data, run)
            scores = result.history["restarts"] if self.inner.held_out is None else np.asarray(run.states.score)
            return self.told(result, int(np.argmax(scores)), run, data)
        result = best_restart(run)
        best = int(np.argmax(result.history["restarts"]))
        return self.told(result._replace(state=result.state.posterior), best, run, data)


@dataclasses.dataclass(frozen=True)
class Gridded(Hot):
    """A learned temperature on a grid for the hot steps, and then T = 1."""

    temperatures: Any = None
    method: VB | SVI = dataclasses.field(default_factory=VB)
    length: float | None = None
    hot: int = dataclasses.field(default=0, repr=False, compare=False)  # steps, derived from `length`

    budget: ClassVar[tuple[str, ...]] = ("temperatures", "length", "hot")
    word: ClassVar[str]
    usual: ClassVar[tuple[float, ...]]  # the grid where none is given

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperatures", check_grid(self.temperatures, self.method, self.length))

    @property
    def name(self) -> str:
        return self.word if isinstance(self.method, VB) else f"stochastic {self.word}"

    @property
    def hot_steps(self) -> int:
        return self.hot

    def grid(self) -> np.ndarray:
        return np.asarray(self.usual if self.temperatures is None else self.temperatures, dtype=np.float64)

    def complete(self, model: Model, data: Data) -> Self:
        method = self.method.complete(model, data)
        return dataclasses.replace(self, method=method, hot=self._hot(model, data, method))

    def _hot(self, model: Model, data: Data, inner: VB | SVI) -> int:
        """The number of hot steps; none if the only temperature of the grid is 1."""
        if len(self.grid()) == 1:
            return 0
        if isinstance(inner, VB):
            return int(SWEEPS if self.length is None else self.length)
        assert inner.steps is not None
        passes = steps_of_pass(model, inner, data)
        return max(1, round(SHARE * inner.steps if self.length is None else self.length * passes))


def with_trace(q: Posterior, start: dict[str, Family], rate: Float[Array, ""]) -> Posterior:
    """The posterior with a little of the start mixed into its globals."""
    blocks = {name: move(block, start[name].natural, rate) for name, block in q.blocks.items()}
    return Posterior(blocks, q.locals)


def _without_choice(state: Walk, hot: Int[Array, ""]) -> Walk:
    """The state without the score of a hot posterior, because no hot posterior may be kept, however well it
    predicts."""
    return state._replace(score=jnp.where(state.steps <= hot, -jnp.inf, state.score))


def steps_of_pass(model: Model, method: SVI, data: Data | Streamed) -> int:
    assert method.batch_size is not None
    if isinstance(data, Streamed):
        rows = data.stream.piece_rows if model.rows.independent else model.rows.parts(data.piece_shapes())
        return data.stream.pieces_per_pass * (rows // method.batch_size)
    return max(1, (model.rows.parts(data) - method._held_out_count(data.size)) // method.batch_size)


def check_grid(temperatures: Any, method: Any, length: Any) -> tuple[float, ...] | None:
    """The grid as a tuple, or None for the default grid. Also checks the method and the length."""
    grid = None
    if temperatures is not None:
        grid = as_temperatures("temperatures", temperatures)
        if grid[0] != 1.0 or not (np.diff(grid) > 0).all():
            raise InvalidParameter(f"temperatures must increase from 1, got {temperatures!r}")
    plain = isinstance(method, VB) and method.batches is None and not method.moves
    if not plain and not isinstance(method, SVI):
        raise InvalidParameter(f"method must be a tp.SVI, or a tp.VB without batches and without moves, got {method!r}")
    if length is None:
        return grid
    if isinstance(method, VB):
        whole(1)("length", length)
    else:
        number("a finite number above 0", lambda value: value > 0.0)("length", length)
    return grid
