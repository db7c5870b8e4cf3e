"""Local variational tempering: every datum has its own temperature, so that outliers melt by themselves.

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

from ...models import Data, Model
from .._method import Result, Run
from ..thermostats import Own, Thermostat, always_cold
from .coordinate import VB
from .hot import Hot, check_grid, tempered_steps
from .stochastic import SVI

_GRID = tuple(float(t) for t in 1.0 / np.linspace(1.0, 0.01, 100))  # default number of powers, equally spaced


@dataclasses.dataclass(frozen=True)
class LVT(Hot):
    """A temperature for each datum for `length` passes over the data (sweeps of VB), then `method` (a `tp.VB` or a
    `tp.SVI`) at T = 1 as usual.

    For Gaussian, Bernoulli and categorical mixtures (without missing values), linear regressions, factor analysis,
    factorial mixtures, LDA, and graphs that observe one Normal variable with a noise of its own. `temperatures` is the
    grid, which begins at 1 (by default 100 with inverses at equal distances down to 0.01); `length` is by default 200
    for VB and half of all passes for SVI. `fit.details["inverse_temperature"]` has E[1/T] of each datum at the end of
    tempering: small for outliers.
    """

    temperatures: Any = None
    method: VB | SVI = dataclasses.field(default_factory=VB)
    length: float | None = None
    hot: int = dataclasses.field(default=0, repr=False, compare=False)  # hot steps, filled in by `complete`

    budget: ClassVar[tuple[str, ...]] = ("temperatures", "length", "hot")

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperatures", check_grid(self.temperatures, self.method, self.length))

    @property
    def name(self) -> str:
        return "LVT" if isinstance(self.method, VB) else "stochastic LVT"

    @property
    def inner(self) -> VB | SVI:
        return self.method

    @property
    def hot_steps(self) -> int:
        return self.hot

    def grid(self) -> np.ndarray:
        return np.asarray(_GRID if self.temperatures is None else self.temperatures, dtype=np.float64)

    def complete(self, model: Model, data: Data) -> Self:
        model.heat(data, 1.0 / self.grid())  # raises for a model without such temperatures
        method = self.method.complete(model, data)
        return dataclasses.replace(self, method=method, hot=tempered_steps(self, self.grid(), model, data, method))

    def thermostat(self, model: Model, data: Data) -> Thermostat:
        return Own(jnp.asarray(self.hot), model.heat(data, 1.0 / self.grid())) if self.hot else always_cold()

    def told(self, result: Result, best: int, run: Run, data: Data) -> Result:
        powers = np.asarray(run.states.heat)[best] if self.hot else np.ones(data.size)
        details = dict(result.details) | {"inverse_temperature": powers[: data.size]}
        return result._replace(details=details)
