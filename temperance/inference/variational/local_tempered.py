"""Local variational tempering: every datum has a temperature of its own, so that outliers melt by themselves.

    x_n ~ p(x | z_n, θ)^(1/T_n) / c_n(1/T_n),      c(s) = ∫ p(x | z_n, θ)^s dx

With the normaliser inside the update is r_nm ∝ π_m exp{s_m E log p(x_n | z_n, θ) − E log c_n(s_m)}, s = 1/T; latents
and globals are updated at the power E[s_n] (Mandt et al., 2016, eq. 10 and 11, corrected: as printed it counts the
temperature twice). A tempered Gaussian is one of covariance T Σ: this is a mixture over scales.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from ...errors import UnsupportedMethod
from ...families import Gaussian, IndependentPair, KnownCovarianceGaussian, ScalarGaussian, SphericalGaussian
from ...kernels import topics_steps as topics
from ...models import LDA, Data, FactorialMixture, Mixture, Model, Posterior
from ...models._model import means
from ...models.topics.local import Heat
from .._method import Info, Method, Result, Run, best_restart
from ..thermostat import Blocks, Step, Thermostat
from .coordinate import VB
from .local_walk import Given, LocalGrid, make_grid, topic_costs, walk_locally
from .stochastic import SVI
from .tempered import best_walk, check_tempering, first_stage, hot_steps, is_final, stochastic_step
from .tempered_sweep import Swept, tempered_sweep

_GAUSSIAN = (Gaussian, SphericalGaussian, ScalarGaussian, KnownCovarianceGaussian)
_GRID = tuple(float(t) for t in 1.0 / np.linspace(1.0, 0.01, 100))  # powers at equal distances


class Own(Thermostat):
    """The grid of powers that each datum may have; the heat is E[1/T] of each."""

    grid: LocalGrid

    def start(self, data: Data) -> Float[Array, " n"]:
        return jnp.full(data.weights.shape, jnp.mean(self.grid.powers))

    def sweep(self, model: Model, q: Posterior, given: Given, rate: Any = 1.0) -> Swept:
        def walk(blocks: Blocks) -> Any:
            return walk_locally(model, blocks, given)

        return tempered_sweep(model, q, given.data, given.powers, given.local_steps, None, rate, walk)

    def step(self, model: Model, blocks: Blocks, heat: Any, step: Step) -> tuple[Blocks, Any, Float[Array, ""]]:
        hot, batch, rows = step.number < self.steps, step.batch, step.rows
        if rows is None:
            before = heat
        else:
            padding = jnp.ones(batch.weights.shape[0] - rows.shape[0])
            before = jnp.concatenate([jnp.take(heat, rows), padding])
        q = Posterior(blocks, model.initial_local(means(blocks), batch.values))
        given = Given(batch, jnp.where(hot, before, 1.0), hot, q.locals, step.local_steps, self.grid)
        swept = self.sweep(model, q, given, step.rate)
        found = jnp.where(hot & (step.rate > 0), swept.power, before)
        heat = found if rows is None else heat.at[rows].set(found[: rows.shape[0]])
        return swept.posterior.blocks, heat, swept.bound

    def quick(
        self, model: Model, blocks: Blocks, heat: Any, x: Any, steps: topics.Steps, local_steps: int
    ) -> tuple[Blocks, Any]:
        assert isinstance(model, LDA)
        costs = topic_costs(self.grid, blocks["topics"].concentration, model.on_host)  # type: ignore[attr-defined]
        own = topics.Own(heat, steps.rows, Heat(self.grid.powers, costs, jnp.asarray(True)))
        return model.tempered_steps(blocks, x, steps, local_steps, own)


class LocallyTempered(Data):
    """Data with the grid of temperatures that each may have."""

    own: Own | None = None


@dataclasses.dataclass(frozen=True)
class LVT(Method):
    """A temperature for each datum for `length` passes over the data (sweeps of VB), then `method` (a `tp.VB` or a
    `tp.SVI`) at T = 1 as usual.

    For Gaussian mixtures (without missing values), factorial mixtures and LDA. `temperatures` is the grid, which
    begins at 1 (by default 100 with inverses at equal distances down to 0.01); `length` is by default 200 for VB and
    half of all passes for SVI. `fit.details["inverse_temperature"]` is E[1/T] of each datum when tempering ends: it
    is small for outliers.
    """

    temperatures: Any = None
    method: VB | SVI = dataclasses.field(default_factory=VB)
    length: float | None = None
    hot: int = dataclasses.field(default=0, repr=False, compare=False)  # steps, worked out from `length`

    budget: ClassVar[tuple[str, ...]] = ("temperatures", "length", "hot")

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperatures", check_tempering(self.temperatures, self.method, self.length))

    @property
    def name(self) -> str:
        return "LVT" if isinstance(self.method, VB) else "stochastic LVT"

    @property
    def restarts(self) -> int:
        return self.method.restarts

    @property
    def tol(self) -> float:
        return self.method.tol

    @property
    def max_iter(self) -> int:
        return self.method.max_iter + (self.hot if isinstance(self.method, VB) else 0)

    @property
    def exact(self) -> bool:
        return isinstance(self.method, VB)

    def compiled(self) -> Self:
        return dataclasses.replace(super().compiled(), method=self.method.compiled())

    def grid(self) -> np.ndarray:
        return np.asarray(_GRID if self.temperatures is None else self.temperatures, dtype=np.float64)

    def prepare(self, model: Model) -> Model:
        require_local(model)
        return self.method.prepare(model)

    def complete(self, model: Model, data: Data) -> Self:
        method = self.method.complete(model, data)
        return dataclasses.replace(self, method=method, hot=hot_steps(self, model, data, method))

    def arrange(self, key: Key[Array, ""], model: Model, data: Data) -> Any:
        own = Own(jnp.asarray(self.hot), make_grid(model, data, 1.0 / self.grid()))
        if isinstance(self.method, SVI):
            arranged = self.method.arrange(key, model, data)
            # One temperature is none to find: the plain method, with its bits.
            return arranged if not self.hot else dataclasses.replace(arranged, cooling=own)
        return LocallyTempered(data.values, data.weights, data.size, *data.cuts, own)

    def init(self, key: Key[Array, ""], model: Model, data: Any) -> Any:
        if isinstance(self.method, SVI):
            return self.method.init(key, model, data)
        return first_stage(model.initial(key, data), data.own.start(data))

    def step(self, key: Key[Array, ""], model: Model, state: Any, data: Any) -> tuple[Any, Info]:
        if isinstance(self.method, SVI):
            weight = jnp.sum(data.weights)
            mean = lambda _, heat: weight / jnp.sum(data.weights * heat)  # noqa: E731
            return stochastic_step(self.method, key, model, state, data, mean)
        hot, steps, q = state.steps < data.own.steps, self.method.local_steps, state.awake(data.own.steps)
        if data.own.grid.powers.shape[0] == 1:
            powers: Array = jnp.ones(())
            swept = tempered_sweep(model, q, data, powers, steps)
        else:
            powers = jnp.where(hot, state.heat, 1.0)
            given = Given(data, powers, hot, q.locals, steps, data.own.grid)
            swept = data.own.sweep(model, q, given)
        weight = jnp.sum(data.weights)
        info = {
            "elbo": swept.bound + jnp.sum((1.0 - powers) * swept.energy),
            "temperature": weight / jnp.sum(data.weights * powers),
            "final": is_final(state.steps, data.own.steps),
        }
        heat = jnp.where(hot, swept.power, state.heat)
        return state._replace(posterior=swept.posterior, steps=state.steps + 1, heat=heat), info

    def finished(self, history: Float[Array, "3"], tol: Float[Array, ""]) -> Bool[Array, ""]:
        return self.method.finished(history, tol)

    def result(self, model: Model, data: Any, run: Run) -> Result:
        if isinstance(self.method, SVI):
            result = self.method.result(model, data, run)
            states = run.states.heat if self.hot else np.ones((self.restarts, data.size))
            powers = np.asarray(states)[best_walk(self.method, run, result)]
        else:
            result = best_restart(run)
            powers = np.asarray(result.state.heat)
            result = result._replace(state=result.state.posterior)
        details = dict(result.details) | {"inverse_temperature": powers[: data.size]}
        return result._replace(details=details)


def require_local(model: Model) -> None:
    if isinstance(model, FactorialMixture | LDA):
        return
    name = type(model).__name__
    if isinstance(model, Mixture):
        one = model.pair.inner if isinstance(model.pair, IndependentPair) else model.pair
        if type(one) in _GAUSSIAN and not model.missing:
            return
        name += f" of {type(one).__name__}" + (" with missing values" if model.missing else "")
    raise UnsupportedMethod(
        f"tp.LVT is for Gaussian mixtures without missing values, factorial mixtures and LDA, not for {name}; use "
        "tp.Annealed or tp.VB"
    )
