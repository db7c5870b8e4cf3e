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

from ...errors import InvalidParameter
from ...families import Beta
from ...models import Data, Model
from .._method import Result, Run
from ..thermostats import Own, Thermostat, always_cold
from .hot import Gridded

_PARTS = 200  # of a continuous prior, each with the same probability
_LEAST = 1e-6  # power


@dataclasses.dataclass(frozen=True)
class LVT(Gridded):
    """A temperature for each datum for `length` passes over the data (sweeps of VB), then `method` (a `tp.VB` or a
    `tp.SVI`) at T = 1 as usual.

    For Gaussian, Bernoulli and categorical mixtures (without missing values), linear regressions, factor analysis,
    factorial mixtures, LDA, and graphs that observe one Normal variable with a noise of its own. `temperatures` is
    the grid, which begins at 1 (by default 100 with inverses at equal distances down to 0.01). With `prior`, a
    `tp.Beta` over 1/T, temperatures are continuous: the grid is then 200 of its quantiles. `length` is the number
    of hot passes, by default 200 for VB and half of all passes for SVI. `method` makes the updates, hot and cold.
    `fit.details["inverse_temperature"]` has E[1/T] of each datum at the end of tempering: small for outliers.
    """

    prior: Any = None

    budget: ClassVar[tuple[str, ...]] = (*Gridded.budget, "prior")
    word: ClassVar[str] = "LVT"
    usual: ClassVar[tuple[float, ...]] = tuple(float(t) for t in 1.0 / np.linspace(1.0, 0.01, 100))  # equal powers

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "prior", _shapes(self.prior))
        if self.prior is not None and self.temperatures is not None:
            raise InvalidParameter("give temperatures or their prior, not both")

    def grid(self) -> np.ndarray:
        """The temperatures; of a continuous prior the middles of parts with equal probability."""
        if self.prior is None:
            return super().grid()
        from scipy.special import betaincinv

        powers = betaincinv(*self.prior, (np.arange(_PARTS) + 0.5) / _PARTS)
        return np.asarray(1.0 / np.maximum(powers[::-1], _LEAST))

    def complete(self, model: Model, data: Data) -> Self:
        model.tempering.heat(data, 1.0 / self.grid())  # raises for a model without such temperatures
        return super().complete(model, data)

    def thermostat(self, model: Model, data: Data) -> Thermostat:
        return Own(jnp.asarray(self.hot), model.tempering.heat(data, 1.0 / self.grid())) if self.hot else always_cold()

    def told(self, result: Result, best: int, run: Run, data: Data) -> Result:
        powers = np.asarray(run.states.heat)[best] if self.hot else np.ones(data.size)
        details = dict(result.details) | {"inverse_temperature": powers[: data.size]}
        return result._replace(details=details)


def _shapes(prior: Any) -> tuple[float, float] | None:
    """Both parameters of a single Beta distribution, which methods can compare and hash."""
    if prior is None or isinstance(prior, tuple):
        return prior
    if not isinstance(prior, Beta) or prior.batch_shape:
        raise InvalidParameter(f"prior must be a tp.Beta over 1/T, got {prior!r}")
    return float(prior.a), float(prior.b)
