"""Local variational tempering: every datum has a temperature of its own, so that outliers melt by themselves.

    x_n ~ p(x | z_n, θ)^(1/T_n) / c_n(1/T_n),      c(s) = ∫ p(x | z_n, θ)^s dx

With the normaliser inside the update is r_nm ∝ π_m exp{s_m E log p(x_n | z_n, θ) − E log c_n(s_m)}, s = 1/T; latents
and globals are updated at the power E[s_n] (Mandt et al., 2016, eq. 10 and 11, corrected: as printed it counts the
temperature twice). A tempered Gaussian is one of covariance T Σ: this is a mixture over scales.
"""

from __future__ import annotations

import dataclasses
from functools import singledispatch
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ...errors import UnsupportedMethod
from ...families import Gaussian, KnownCovarianceGaussian
from ...models import Data, FactorialMixture, Mixture, Model, Posterior, Powers
from ...models._data import over_blocks
from ...models._model import Means, means
from ...numerics.linalg import cholesky, log_det
from .._method import Info, Method, Result, Run, best_restart
from .annealed import _SETTLE, _SWEEPS
from .coordinate import VB
from .tempered import check_tempering
from .tempered_sweep import tempered_sweep

_GRID = tuple(float(t) for t in 1.0 / np.linspace(1.0, 0.01, 100))  # powers at equal distances


class Grid(eqx.Module):
    powers: Float[Array, " m"]
    steps: Int[Array, ""]  # after so many T is 1


class LocallyTempered(Data):
    """Data with the grid of temperatures that each may have."""

    grid: Grid | None = None


class Stage(NamedTuple):
    """Where one restart stands."""

    posterior: Posterior
    steps: Int[Array, ""]
    powers: Float[Array, " n"]  # E[1/T] of each datum, at the end of tempering


@dataclasses.dataclass(frozen=True)
class LVT(Method):
    """A temperature for each datum for `length` sweeps, then `method` (a `tp.VB`) at T = 1 to convergence.

    For Gaussian mixtures (full or known covariance) and factorial mixtures. `temperatures` is the grid, which begins
    at 1 (by default 100 with inverses at equal distances down to 0.01). `fit.details["inverse_temperature"]` is
    E[1/T] of each datum when tempering ends: it is small for outliers.
    """

    temperatures: Any = None
    method: VB = dataclasses.field(default_factory=VB)
    length: int = _SWEEPS

    budget: ClassVar[tuple[str, ...]] = ("temperatures", "length")

    def __post_init__(self) -> None:
        check_tempering(self.temperatures, self.method, self.length)

    @property
    def name(self) -> str:
        return "LVT"

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

    def prepare(self, model: Model) -> Model:
        require_gaussian(model)
        return model

    def arrange(self, key: Key[Array, ""], model: Model, data: Data) -> LocallyTempered:
        grid = np.asarray(_GRID if self.temperatures is None else self.temperatures, dtype=np.float64)
        here = Grid(jnp.asarray(1.0 / grid), jnp.asarray(self.length))
        return LocallyTempered(data.values, data.weights, data.size, data.blocks, here)

    def init(self, key: Key[Array, ""], model: Model, data: Any) -> Stage:
        powers = jnp.full(data.weights.shape, jnp.mean(data.grid.powers))
        return Stage(model.initial(key, data), jnp.zeros((), dtype=jnp.int64), powers)

    def step(self, key: Key[Array, ""], model: Model, state: Stage, data: Any) -> tuple[Stage, Info]:
        grid, hot = data.grid, state.steps < data.grid.steps
        powers = jnp.where(hot, state.powers, 1.0)
        volume, width = _volumes(model, means(state.posterior.blocks), data, powers)
        swept = tempered_sweep(model, state.posterior, data, powers, self.method.local_steps)
        weights = jnp.where(data.weights > 0, data.weights, 1.0)
        observed = swept.energy.observed / weights
        # log of s^(d/2) exp{−s M/2}, the tempered density; M/2 is what is left of −E log p without its volume.
        distance = 0.5 * volume - 0.5 * width * jnp.log(2.0 * jnp.pi) - observed
        logits = 0.5 * width * jnp.log(grid.powers)[None] - distance[:, None] * grid.powers[None]
        fresh = jax.nn.softmax(logits, axis=1) @ grid.powers
        info = {
            "elbo": swept.bound + jnp.sum((1.0 - powers) * swept.energy.joint),
            "temperature": jnp.sum(data.weights) / jnp.sum(data.weights * powers),
            "final": state.steps >= grid.steps + _SETTLE,
        }
        return Stage(swept.posterior, state.steps + 1, jnp.where(hot, fresh, state.powers)), info

    def finished(self, history: Float[Array, "3"], tol: Float[Array, ""]) -> Bool[Array, ""]:
        return self.method.finished(history, tol)

    def result(self, model: Model, data: Data, run: Run) -> Result:
        best = best_restart(run)
        details = {"inverse_temperature": np.asarray(best.state.powers)[: data.size]}
        return best._replace(state=best.state.posterior, details=details)


def require_gaussian(model: Model) -> None:
    gaussian = isinstance(model, FactorialMixture) or (
        isinstance(model, Mixture)
        and (type(model.pair) is Gaussian or (type(model.pair) is KnownCovarianceGaussian and not model.missing))
    )
    if not gaussian:
        raise UnsupportedMethod(
            f"tp.LVT is for Gaussian mixtures (full or known covariance) and factorial mixtures, not for "
            f"{type(model).__name__}; use tp.Annealed or tp.VB"
        )


@singledispatch
def _volumes(model: Any, m: Means, data: Data, powers: Float[Array, " n"]) -> tuple[Array, int]:
    """E log |precision| of each datum's noise, and how many numbers a datum has."""
    raise AssertionError


@_volumes.register
def _(model: FactorialMixture, m: Means, data: Data, powers: Float[Array, " n"]) -> tuple[Array, int]:
    width = data.values.shape[1]
    return jnp.broadcast_to(2.0 * width * model._weights(m).dof, data.weights.shape), width


@_volumes.register
def _(model: Mixture, m: Means, data: Data, powers: Float[Array, " n"]) -> tuple[Array, int]:
    width = data.values.shape[1]
    if isinstance(model.pair, KnownCovarianceGaussian):
        volume = -log_det(cholesky(model.pair.covariance))
        return jnp.broadcast_to(volume, data.weights.shape), width
    each = 2.0 * m["components"].dof

    def block(part: Any, _: Array) -> tuple[tuple[()], Array]:
        x, s = part
        return (), jax.nn.softmax(model.log_joint_z(m, x, Powers(s, s)), axis=-1) @ each

    return over_blocks(block, (data.values, powers), data.blocks)[1], width
