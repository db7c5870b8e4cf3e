"""Thermostats: what sets the temperature of each step of a variational method.

A schedule (`tp.Annealed`), a grid of temperatures with its posterior (`tp.VT`), or a grid for each datum (`tp.LVT`).
The knowledge about the temperature is the *heat*, a part of the run's state. After `steps` steps T is 1, and the plain
method runs.

At power s = 1/T the data contribute V(s) = max_q(z) { s E + H } to the bound, with the energy E = Σ_n E log p(x_n, z_n
| θ) and the entropy H of the latents. By the envelope theorem dV/ds = E; and V + (1 − s) E is the contribution of that
q at T = 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from ..errors import InvalidParameter
from ..models import Data, Model, Posterior, Powers, Way
from ..models._blocks import Heat, Respond, Swept
from ..numerics.place import on_device

_ENTRIES = 256  # least length of temperature tables, then doubled: few shapes mean few compilations
_COOLED = 0.003  # share of the start that is mixed in when a schedule changes the temperature
_ENDED = 0.02  # share that is mixed in when a learned temperature changes to T = 1


class Step(NamedTuple):
    """One step of a method, on all data or on a minibatch."""

    number: Int[Array, ""]
    rate: ArrayLike = 1.0
    local_steps: int = 1
    rows: Int[Array, " b"] | None = None  # the rows of the minibatch; None: all
    energy: bool = False  # whether the bound at T = 1 will be needed


class Thermostat(eqx.Module):
    """Sets the powers of each step, and learns from it."""

    steps: Int[Array, ""]  # steps after which T is 1

    @abstractmethod
    def start(self, data: Data) -> Any:
        """The initial heat."""

    @abstractmethod
    def way(self, heat: Any, step: Step, size: int) -> Way:
        """The `Way` of a step over its data, which have `size` rows."""

    @abstractmethod
    def temperature(self, heat: Any, number: Int[Array, ""], data: Data) -> Float[Array, ""]:
        """The (expected, mean) temperature of a step, for reports."""

    def respond(self, heat: Any, step: Step) -> Respond | None:
        """A new power computed from the energy, before the globals are updated."""
        return None

    def learn(self, heat: Any, swept: Swept, step: Step) -> Any:
        """The heat after a step."""
        return heat

    def report(self, heat: Any, swept: Swept, number: Int[Array, ""]) -> dict[str, Array]:
        """Values that only this kind of thermostat reports."""
        return {}

    def trace(self, number: Int[Array, ""]) -> Float[Array, ""]:
        """The share of the start that is mixed into the globals before a step: melted components are equal to the last
        bit, and would stay equal at temperatures at which they should separate."""
        return jnp.where((number == self.steps) & (self.steps > 0), _ENDED, 0.0)

    def sweep(self, model: Model, q: Posterior, data: Data, heat: Any, step: Step) -> tuple[Swept, Any]:
        """A sweep at the temperature of the step, and the heat after it."""
        way = self.way(heat, step, data.weights.shape[0])
        swept = model.update(q, data, way, step.rate, self.respond(heat, step))
        return swept, self.learn(heat, swept, step)

    def hot(self, number: Int[Array, ""]) -> Bool[Array, ""]:
        return number < self.steps


class Schedule(Thermostat):
    """Temperatures as a table, so that another schedule needs no compilation."""

    table: Float[Array, " s"]  # padded with ones

    def at(self, number: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.where(self.hot(number), self.table[jnp.minimum(number, self.table.shape[0] - 1)], 1.0)

    def start(self, data: Data) -> tuple[()]:
        return ()

    def way(self, heat: Any, step: Step, size: int) -> Way:
        power = 1.0 / self.at(step.number)
        return Way(Powers(power, power), step.local_steps, step.energy)

    def temperature(self, heat: Any, number: Int[Array, ""], data: Data) -> Float[Array, ""]:
        return self.at(number)

    def report(self, heat: Any, swept: Swept, number: Int[Array, ""]) -> dict[str, Array]:
        return {"annealed_elbo": swept.bound}

    def trace(self, number: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.where((number > 0) & (self.at(number) != self.at(number - 1)), _COOLED, 0.0)


class Grid(Thermostat):
    """One temperature for all data, a latent variable on a grid. The heat is the natural parameter of q(T), which steps
    update like the parameters of other globals."""

    powers: Float[Array, " m"]
    log_prior: Float[Array, " m"]  # log π − log C

    def start(self, data: Data) -> Float[Array, " m"]:
        return jnp.zeros(self.powers.shape)

    def power(self, heat: Array, number: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.where(self.hot(number), jax.nn.softmax(heat) @ self.powers, 1.0)

    def moved(self, heat: Array, energy: Array, rate: ArrayLike) -> Float[Array, " m"]:
        """r_m ∝ π_m exp{E / T_m − log C(T_m)} (Mandt et al., 2016, eq. 9), approached at the rate of the step."""
        rate = jnp.asarray(rate)
        return (1.0 - rate) * heat + rate * (energy * self.powers + self.log_prior)

    def way(self, heat: Array, step: Step, size: int) -> Way:
        power = self.power(heat, step.number)
        return Way(Powers(power, power), step.local_steps, energy=True)

    def respond(self, heat: Array, step: Step) -> Respond:
        return lambda energy: self.power(self.moved(heat, energy, step.rate), step.number)

    def learn(self, heat: Array, swept: Swept, step: Step) -> Float[Array, " m"]:
        assert swept.acting is not None
        return jnp.where(self.hot(step.number), self.moved(heat, swept.acting, step.rate), heat)

    def temperature(self, heat: Array, number: Int[Array, ""], data: Data) -> Float[Array, ""]:
        return jnp.where(self.hot(number), jax.nn.softmax(heat) @ (1.0 / self.powers), 1.0)

    def report(self, heat: Array, swept: Swept, number: Int[Array, ""]) -> dict[str, Array]:
        """The bound of the tempered model: with E log p(y) − E log C − E log q(y) of the temperature y."""
        shares = jax.nn.softmax(heat)
        entropy = -jnp.sum(jnp.where(shares > 0, shares * jnp.log(shares), 0.0))
        return {
            "tempered_elbo": swept.bound + jnp.where(self.hot(number), shares @ self.log_prior + entropy, 0.0),
        }


class Own(Thermostat):
    """A temperature for each datum. The heat is E[1/T] of each datum."""

    grid: Heat

    def start(self, data: Data) -> Float[Array, " n"]:
        return jnp.full(data.weights.shape, jnp.mean(self.grid.powers))

    def _before(self, heat: Array, step: Step, size: int) -> Float[Array, " b"]:
        if step.rows is None:
            return heat
        return jnp.concatenate([jnp.take(heat, step.rows), jnp.ones(size - step.rows.shape[0])])

    def way(self, heat: Array, step: Step, size: int) -> Way:
        hot = self.hot(step.number)
        powers = jnp.where(hot, self._before(heat, step, size), 1.0)
        grid = eqx.tree_at(lambda grid: grid.hot, self.grid, hot)
        return Way(Powers(powers, powers), step.local_steps, energy=True, heat=grid)

    def learn(self, heat: Array, swept: Swept, step: Step) -> Float[Array, " n"]:
        power = jnp.asarray(swept.power)
        before = self._before(heat, step, power.shape[0])
        found = jnp.where(self.hot(step.number) & (jnp.asarray(step.rate) > 0), power, before)
        return found if step.rows is None else heat.at[step.rows].set(found[: step.rows.shape[0]])

    def temperature(self, heat: Array, number: Int[Array, ""], data: Data) -> Float[Array, ""]:
        mean = jnp.sum(data.weights) / jnp.sum(data.weights * heat)
        return jnp.where(self.hot(number), mean, 1.0)


# ---- schedules ------------------------------------------------------------------------------------------------------


def hot_steps(temperatures: np.ndarray) -> int:
    """The number of steps before T is 1 for good."""
    return int(np.max(np.flatnonzero(temperatures != 1.0), initial=-1)) + 1


def make_schedule(temperatures: np.ndarray) -> Schedule:
    steps = hot_steps(temperatures)
    size = _ENTRIES
    while size < steps:
        size *= 2
    table = np.ones(size)
    table[:steps] = temperatures[:steps]
    return Schedule(on_device(steps), on_device(table))


def always_cold() -> Schedule:
    """T = 1 throughout, with the compiled steps of a schedule."""
    return make_schedule(np.ones(0))


def spaced(kind: str, start: float, steps: int) -> np.ndarray:
    """`steps` temperatures from `start` towards 1, which follows the last of them, at equal differences or equal
    ratios."""
    share = np.arange(steps) / max(steps, 1)
    return start + (1.0 - start) * share if kind == "linear" else start ** (1.0 - share)


def as_temperatures(name: str, values: Any) -> tuple[float, ...]:
    """The user's temperatures, checked and made a tuple, so that methods can be compared and hashed."""
    row = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    try:
        numbers = np.asarray(values if row else ())
    except ValueError:  # rows of unequal length
        numbers = np.zeros(0)
    if numbers.ndim != 1 or not len(numbers) or numbers.dtype.kind not in "fiu":
        raise InvalidParameter(f"{name} must be a row of numbers of at least 1, got {values!r}")
    if not (np.isfinite(numbers).all() and (numbers >= 1).all()):
        raise InvalidParameter(
            f"{name} must be finite and at least 1, found {numbers[~(np.isfinite(numbers) & (numbers >= 1))][0]:g}"
        )
    return tuple(float(number) for number in numbers)
