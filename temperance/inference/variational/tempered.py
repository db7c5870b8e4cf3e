"""Variational tempering: the temperature is a latent variable on a grid, and cools as the fit improves.

    y ~ Categorical(π),   p(x, z, θ | y = m) = p(θ) Π_n p(x_n, z_n | θ)^(1/T_m) / C(T_m)

With q(y = m) = r_m the updates are those of annealing at the power E[1/T], and

    r_m ∝ π_m exp{E / T_m − log C(T_m)},      E = Σ_n E log p(x_n, z_n | θ)

(Mandt et al., 2016, eq. 9). A poor fit has a low energy E, which a high temperature explains. E and C(T) must belong to
the same model with the same base measure, or the temperature never falls (errata).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from ...models import Data, Model
from ...models._blocks import Normaliser
from .._method import Result, Run
from ..thermostats import Grid, Thermostat, always_cold
from .hot import Gridded

_WARM = 1.01  # an expected temperature above this indicates a problem


@dataclasses.dataclass(frozen=True)
class VT(Gridded):
    """Variational tempering for `length` passes over the data (sweeps of VB), then `method` (a `tp.VB` or a `tp.SVI`)
    at T = 1 as usual.

    `temperatures` is the grid, which begins at 1 (by default 100 of them up to 10, in equal ratios). `length` is the
    number of hot passes, by default 200 for VB and half of all passes for SVI. `method` makes the updates, hot and
    cold. The expected temperature at the end of tempering, `fit.details["temperature"]`, is a diagnostic: it stays
    above 1 where the optimum is poor or the model does not fit.
    """

    found: Any = dataclasses.field(default=None, repr=False, compare=False)  # log C

    budget: ClassVar[tuple[str, ...]] = (*Gridded.budget, "found")
    word: ClassVar[str] = "VT"
    usual: ClassVar[tuple[float, ...]] = tuple(float(t) for t in np.geomspace(1.0, 10.0, 100))

    def complete(self, model: Model, data: Data) -> Self:
        here, rows = model.rows.at_hand(data)
        found = here.tempering.log_normaliser(self.grid(), rows)
        return dataclasses.replace(super().complete(model, data), found=found)

    def thermostat(self, model: Model, data: Data) -> Thermostat:
        assert isinstance(self.found, Normaliser)
        if not self.hot:
            return always_cold()
        uniform = -np.log(len(self.grid()))
        return Grid(jnp.asarray(self.hot), jnp.asarray(1.0 / self.grid()), jnp.asarray(uniform - self.found.log))

    def told(self, result: Result, best: int, run: Run, data: Data) -> Result:
        logits = np.asarray(run.states.heat) if self.hot else np.zeros((self.restarts, 1))
        shares = np.asarray(jax.nn.softmax(logits, axis=1))
        expected = shares @ self.grid()
        temperature = float(expected[best])
        variance = float(shares[best] @ np.square(self.grid() - temperature))
        notes = (_note(temperature, np.sqrt(variance)),) if temperature > _WARM else ()
        details = {"temperature": temperature, "temperatures": expected, "normaliser": self.found}
        return result._replace(details=dict(result.details) | details, notes=result.notes + notes)


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
