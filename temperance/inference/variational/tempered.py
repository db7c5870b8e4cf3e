"""Variational tempering: the temperature is a latent variable on a grid, and cools as the fit improves.

    y ~ Categorical(π),   p(x, z, θ | y = m) = p(θ) Π_n p(x_n, z_n | θ)^(1/T_m) / C(T_m)

With q(y = m) = r_m the updates are those of annealing at the power E[1/T], and

    r_m ∝ π_m exp{E / T_m − log C(T_m)},      E = Σ_n E log p(x_n, z_n | θ)

(Mandt et al., 2016, eq. 9). A poor fit has a low energy E, which is explained by a high temperature. E and C(T) must
be those of one model with one base measure, or the temperature never falls (errata).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ...errors import InvalidParameter
from ...kernels import topics_steps as topics
from ...models import LDA, Data, Model, Posterior
from ...models._model import means
from ...models.renormalised import Normaliser, log_tempered_normaliser
from .._method import Info, Method, Result, Run, best_restart
from ..cooling import as_temperatures
from ..thermostat import Blocks, Step, Thermostat
from .annealed import _SETTLE, _SHARE, _SWEEPS, _steps_of_pass, with_trace, without_choice
from .coordinate import VB
from .minibatches import Batches
from .stochastic import SVI
from .tempered_sweep import Power, tempered_sweep

_GRID = tuple(float(t) for t in np.geomspace(1.0, 10.0, 100))
_TRACE = 0.02  # of the start, when tempering ends
_WARM = 1.01  # an expected temperature above this says that something is wrong


class Grid(Thermostat):
    """Temperatures with what each costs; arrays, so that another grid of the same size is no other compilation."""

    powers: Float[Array, " m"]
    log_prior: Float[Array, " m"]  # log π − log C

    def power(self, logits: Float[Array, " m"], hot: Bool[Array, ""]) -> Float[Array, ""]:
        return jnp.where(hot, jax.nn.softmax(logits) @ self.powers, 1.0)

    def start(self, data: Data) -> Float[Array, " m"]:
        """All temperatures alike: natural parameters of q(y), which steps move like those of other globals."""
        return jnp.zeros(self.powers.shape)

    def step(self, model: Model, blocks: Blocks, heat: Any, step: Step) -> tuple[Blocks, Any, Float[Array, ""]]:
        hot = step.number < self.steps

        def moved(energy: Power) -> Float[Array, " m"]:
            return (1.0 - step.rate) * heat + step.rate * (energy * self.powers + self.log_prior)

        def respond(energy: Power) -> Float[Array, ""]:
            return self.power(moved(energy), hot)

        q = Posterior(blocks, model.initial_local(means(blocks), step.batch.values))
        swept = tempered_sweep(model, q, step.batch, self.power(heat, hot), step.local_steps, respond, step.rate)
        return swept.posterior.blocks, jnp.where(hot, moved(swept.acting), heat), swept.bound

    def quick(
        self, model: Model, blocks: Blocks, heat: Any, x: Any, steps: topics.Steps, local_steps: int
    ) -> tuple[Blocks, Any]:
        assert isinstance(model, LDA)
        return model.tempered_steps(blocks, x, steps, local_steps, topics.Grid(self.powers, self.log_prior, heat))


class Tempered(Data):
    """Data with the grid of temperatures they may have."""

    grid: Grid | None = None


class Stage(NamedTuple):
    """Where one restart of coordinate ascent stands."""

    posterior: Posterior
    steps: Int[Array, ""]
    heat: Any  # r; or of each datum E[1/T], at the end of tempering
    start: Blocks

    def awake(self, hot: Int[Array, ""]) -> Posterior:
        """The posterior, when tempering ends with a little of where it began: a solution that has melted to the last
        bit is a saddle point at T = 1, which coordinate ascent would not leave."""
        return with_trace(self.posterior, self.start, jnp.where((self.steps == hot) & (hot > 0), _TRACE, 0.0))


@dataclasses.dataclass(frozen=True)
class VT(Method):
    """Variational tempering for `length` passes over the data (sweeps of VB), then `method` (a `tp.VB` or a `tp.SVI`)
    at T = 1 as usual.

    `temperatures` is the grid, which begins at 1 (by default 100 of them up to 10, in equal ratios); `length` is by
    default 200 for VB and half of all passes for SVI. The expected temperature at the end of tempering,
    `fit.details["temperature"]`, is a diagnostic: it stays above 1 where the optimum is poor or the model does not
    fit.
    """

    temperatures: Any = None
    method: VB | SVI = dataclasses.field(default_factory=VB)
    length: float | None = None
    found: Any = dataclasses.field(default=None, repr=False, compare=False)  # log C
    hot: int = dataclasses.field(default=0, repr=False, compare=False)  # steps, worked out from `length`

    budget: ClassVar[tuple[str, ...]] = ("temperatures", "length", "found", "hot")

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperatures", check_tempering(self.temperatures, self.method, self.length))

    @property
    def name(self) -> str:
        return "VT" if isinstance(self.method, VB) else "stochastic VT"

    @property
    def restarts(self) -> int:
        return self.method.restarts

    @property
    def tol(self) -> float:
        return self.method.tol

    @property
    def max_iter(self) -> int:
        """What the method may take, after the sweeps of tempering."""
        return self.method.max_iter + (self.hot if isinstance(self.method, VB) else 0)

    @property
    def exact(self) -> bool:
        return isinstance(self.method, VB)

    def compiled(self) -> Self:
        return dataclasses.replace(super().compiled(), method=self.method.compiled())

    def grid(self) -> np.ndarray:
        return np.asarray(_GRID if self.temperatures is None else self.temperatures, dtype=np.float64)

    def complete(self, model: Model, data: Data) -> Self:
        found = log_tempered_normaliser(model, self.grid(), data)
        method = self.method.complete(model, data)
        return dataclasses.replace(self, method=method, found=found, hot=hot_steps(self, model, data, method))

    def arrange(self, key: Key[Array, ""], model: Model, data: Data) -> Any:
        assert isinstance(self.found, Normaliser)
        uniform = -np.log(len(self.grid()))
        grid = Grid(jnp.asarray(self.hot), jnp.asarray(1.0 / self.grid()), jnp.asarray(uniform - self.found.log))
        if isinstance(self.method, SVI):
            arranged = self.method.arrange(key, model, data)
            # One temperature is none to find: the plain method, with its bits.
            return arranged if not self.hot else dataclasses.replace(arranged, cooling=grid)
        return Tempered(data.values, data.weights, data.size, *data.cuts, grid)

    def init(self, key: Key[Array, ""], model: Model, data: Any) -> Any:
        if isinstance(self.method, SVI):
            return self.method.init(key, model, data)
        size = data.grid.powers.shape[0]
        return first_stage(model.initial(key, data), jnp.full(size, 1.0 / size))

    def step(self, key: Key[Array, ""], model: Model, state: Any, data: Any) -> tuple[Any, Info]:
        """The latents, then the temperature, then the globals: each raises the tempered bound."""
        if isinstance(self.method, SVI):
            return stochastic_step(self.method, key, model, state, data, _temperature)
        grid, hot = data.grid, state.steps < data.grid.steps
        power = jnp.where(hot, state.heat @ grid.powers, 1.0)

        def temper(energy: Power) -> Float[Array, " m"]:
            return jax.nn.softmax(energy * grid.powers + grid.log_prior)

        def respond(energy: Power) -> Float[Array, ""]:
            return jnp.where(hot, temper(energy) @ grid.powers, 1.0)

        q = state.awake(grid.steps)
        swept = tempered_sweep(model, q, data, power, self.method.local_steps, respond)
        shares = jnp.where(hot, temper(swept.acting), state.heat)
        # What the temperature adds to the bound: E log p(y) − E log C − E log q(y).
        entropy = -jnp.sum(jnp.where(state.heat > 0, state.heat * jnp.log(state.heat), 0.0))
        info = {
            "elbo": swept.bound + (1.0 - power) * swept.energy,
            "tempered_elbo": swept.bound + jnp.where(hot, state.heat @ grid.log_prior + entropy, 0.0),
            "temperature": jnp.where(hot, state.heat @ (1.0 / grid.powers), 1.0),
            "final": is_final(state.steps, grid.steps),
        }
        return state._replace(posterior=swept.posterior, steps=state.steps + 1, heat=shares), info

    def finished(self, history: Float[Array, "3"], tol: Float[Array, ""]) -> Bool[Array, ""]:
        return self.method.finished(history, tol)

    def result(self, model: Model, data: Any, run: Run) -> Result:
        if isinstance(self.method, SVI):
            result = self.method.result(model, data, run)
            best = best_walk(self.method, run, result)
            logits = np.asarray(run.states.heat) if self.hot else np.zeros((self.restarts, 1))
            shares = np.asarray(jax.nn.softmax(logits, axis=1))
        else:
            result = best_restart(run)
            best, shares = int(np.argmax(result.history["restarts"])), np.asarray(run.states.heat)
            result = result._replace(state=result.state.posterior)
        expected = shares @ self.grid()
        temperature = float(expected[best])
        variance = float(shares[best] @ np.square(self.grid() - temperature))
        notes = (_note(temperature, np.sqrt(variance)),) if temperature > _WARM else ()
        details = {"temperature": temperature, "temperatures": expected, "normaliser": self.found}
        return result._replace(details=dict(result.details) | details, notes=result.notes + notes)


def first_stage(q: Posterior, heat: Any) -> Stage:
    return Stage(q, jnp.zeros((), dtype=jnp.int64), heat, dict(q.blocks))


def _temperature(cooling: Grid, heat: Float[Array, " m"]) -> Float[Array, ""]:
    return jax.nn.softmax(heat) @ (1.0 / cooling.powers)


def stochastic_step(
    method: SVI, key: Key[Array, ""], model: Model, state: Any, data: Batches, temperature: Any
) -> tuple[Any, Info]:
    """The minibatches to the next report; held-out data have no say before T = 1."""
    if not isinstance(data.cooling, Thermostat):
        fresh, info = method.step(key, model, state, data)
        return fresh, info | {"temperature": jnp.ones(())}
    fresh, info = method.step(key, model, without_choice(state, data.cooling.steps), data)
    hot = fresh.steps <= data.cooling.steps
    return fresh, info | {"temperature": jnp.where(hot, temperature(data.cooling, fresh.heat), 1.0)}


def best_walk(method: SVI, run: Run, result: Result) -> int:
    """The restart that `SVI.result` took."""
    scores = result.history["restarts"] if method.held_out is None else np.asarray(run.states.score)
    return int(np.argmax(scores))


def hot_steps(method: Any, model: Model, data: Data, inner: VB | SVI) -> int:
    """How many steps are tempered; none where the only temperature is 1."""
    if len(method.grid()) == 1:
        return 0
    if isinstance(inner, VB):
        return int(_SWEEPS if method.length is None else method.length)
    assert inner.steps is not None
    a_pass = _steps_of_pass(model, inner, data)
    return max(1, round(_SHARE * inner.steps if method.length is None else method.length * a_pass))


def is_final(step: Int[Array, ""], hot: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether a bound can say that the run has converged."""
    return step >= hot + jnp.where(hot > 0, _SETTLE, 0)


def _note(temperature: float, deviation: float) -> str:
    if temperature - 2.0 * deviation <= _WARM:
        return (
            f"tempering ended at an expected temperature of {temperature:.3g}, which is not 1, but with so few data "
            f"(a standard deviation of {deviation:.2g}) chance alone can explain it"
        )
    return (
        f"tempering ended at an expected temperature of {temperature:.3g}, not at 1: the optimum is poor, "
        "or the model does not fit these data"
    )


def check_tempering(temperatures: Any, method: Any, length: Any) -> tuple[float, ...] | None:
    """The grid as a tuple, or None for the usual one."""
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
        if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
            raise InvalidParameter(f"length must be a whole number of at least 1, got {length!r}")
    elif isinstance(length, bool) or not isinstance(length, int | float | np.number) or not 0 < length < np.inf:
        raise InvalidParameter(f"length must be a finite number above 0, got {length!r}")
    return grid
