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

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ...errors import InvalidParameter
from ...models import Data, Model, Posterior
from ...models.renormalised import Normaliser, log_tempered_normaliser
from .._method import Info, Method, Result, Run, best_restart
from ..cooling import as_temperatures
from .annealed import _SETTLE, _SWEEPS
from .coordinate import VB
from .tempered_sweep import Power, tempered_sweep

_GRID = tuple(float(t) for t in np.geomspace(1.0, 10.0, 100))
_WARM = 1.01  # an expected temperature above this says that something is wrong


class Grid(eqx.Module):
    """Temperatures with what each costs; arrays, so that another grid of the same size is no other compilation."""

    powers: Float[Array, " m"]
    log_prior: Float[Array, " m"]  # log π − log C
    steps: Int[Array, ""]  # after so many T is 1


class Tempered(Data):
    """Data with the grid of temperatures they may have."""

    grid: Grid | None = None


class Stage(NamedTuple):
    """Where one restart stands."""

    posterior: Posterior
    steps: Int[Array, ""]
    shares: Float[Array, " m"]  # r


@dataclasses.dataclass(frozen=True)
class VT(Method):
    """Variational tempering for `length` sweeps, then `method` (a `tp.VB`) at T = 1 to convergence.

    `temperatures` is the grid, which begins at 1 (by default 100 of them up to 10, in equal ratios). The expected
    temperature at the end of tempering, `fit.details["temperature"]`, is a diagnostic: it stays above 1 where the
    optimum is poor or the model does not fit.
    """

    temperatures: Any = None
    method: VB = dataclasses.field(default_factory=VB)
    length: int = _SWEEPS
    found: Any = dataclasses.field(default=None, repr=False, compare=False)  # log C

    budget: ClassVar[tuple[str, ...]] = ("temperatures", "length", "found")

    def __post_init__(self) -> None:
        check_tempering(self.temperatures, self.method, self.length)

    @property
    def name(self) -> str:
        return "VT"

    @property
    def restarts(self) -> int:
        return self.method.restarts

    @property
    def tol(self) -> float:
        return self.method.tol

    @property
    def max_iter(self) -> int:
        return self.method.max_iter + self.length

    @property
    def exact(self) -> bool:
        return True

    def compiled(self) -> Self:
        return dataclasses.replace(super().compiled(), method=self.method.compiled())

    def grid(self) -> np.ndarray:
        return np.asarray(_GRID if self.temperatures is None else self.temperatures, dtype=np.float64)

    def complete(self, model: Model, data: Data) -> Self:
        return dataclasses.replace(self, found=log_tempered_normaliser(model, self.grid(), data))

    def arrange(self, key: Key[Array, ""], model: Model, data: Data) -> Tempered:
        assert isinstance(self.found, Normaliser)
        uniform = -np.log(len(self.grid()))
        grid = Grid(jnp.asarray(1.0 / self.grid()), jnp.asarray(uniform - self.found.log), jnp.asarray(self.length))
        return Tempered(data.values, data.weights, data.size, data.blocks, grid)

    def init(self, key: Key[Array, ""], model: Model, data: Any) -> Stage:
        size = data.grid.powers.shape[0]
        return Stage(model.initial(key, data), jnp.zeros((), dtype=jnp.int64), jnp.full(size, 1.0 / size))

    def step(self, key: Key[Array, ""], model: Model, state: Stage, data: Any) -> tuple[Stage, Info]:
        """The latents, then the temperature, then the globals: each raises the tempered bound."""
        grid, hot = data.grid, state.steps < data.grid.steps
        power = jnp.where(hot, state.shares @ grid.powers, 1.0)

        def temper(energy: Power) -> Float[Array, " m"]:
            return jax.nn.softmax(energy * grid.powers + grid.log_prior)

        def respond(energy: Power) -> Float[Array, ""]:
            return jnp.where(hot, temper(energy) @ grid.powers, 1.0)

        swept = tempered_sweep(model, state.posterior, data, power, self.method.local_steps, respond)
        shares = jnp.where(hot, temper(swept.energy.joint), state.shares)
        # What the temperature adds to the bound: E log p(y) − E log C − E log q(y).
        entropy = -jnp.sum(jnp.where(state.shares > 0, state.shares * jnp.log(state.shares), 0.0))
        info = {
            "elbo": swept.bound + (1.0 - power) * swept.energy.joint,
            "tempered_elbo": swept.bound + jnp.where(hot, state.shares @ grid.log_prior + entropy, 0.0),
            "temperature": jnp.where(hot, state.shares @ (1.0 / grid.powers), 1.0),
            "final": state.steps >= grid.steps + _SETTLE,
        }
        return Stage(swept.posterior, state.steps + 1, shares), info

    def finished(self, history: Float[Array, "3"], tol: Float[Array, ""]) -> Bool[Array, ""]:
        return self.method.finished(history, tol)

    def result(self, model: Model, data: Data, run: Run) -> Result:
        best = best_restart(run)
        shares = np.asarray(run.states.shares)
        expected = shares @ self.grid()
        temperature = float(np.asarray(best.state.shares) @ self.grid())
        variance = float(np.asarray(best.state.shares) @ np.square(self.grid() - temperature))
        notes = (_note(temperature, np.sqrt(variance)),) if temperature > _WARM else ()
        details = {"temperature": temperature, "temperatures": expected, "normaliser": self.found}
        return best._replace(state=best.state.posterior, details=details, notes=notes)


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


def check_tempering(temperatures: Any, method: Any, length: Any) -> None:
    if temperatures is not None:
        grid = as_temperatures("temperatures", temperatures)
        if len(grid) < 2 or grid[0] != 1.0 or not (np.diff(grid) > 0).all():
            raise InvalidParameter(f"temperatures must increase from 1, at least two of them, got {temperatures!r}")
    if not isinstance(method, VB) or method.batches is not None or method.moves:
        raise InvalidParameter(f"method must be a tp.VB without batches and without moves, got {method!r}")
    if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
        raise InvalidParameter(f"length must be a whole number of at least 1, got {length!r}")
