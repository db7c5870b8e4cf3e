"""Linear Gaussian models: regression, factor analysis and state space, and what they share.

    y = w · φ(x) + ε        x_n = W z_n + μ + ε        z_t = A z_(t−1) + η,  x_t = C z_t + ε

This file has the priors of weights and of loadings, checks of users' arguments, and the base of models with loadings:

    weights     u = matrix · w + offset,   u_i | α ~ N(0, 1/α_g(i))
    loadings    w_dk | α ~ N(0, s_d²/α_k)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..._arguments import SHARE
from ...data.features import Standardised
from ...errors import InvalidParameter
from ...families import Gamma, GammaVector, Normal, NormalVector
from ...families._family import Family, as_float
from ...families._parameters import require_finite_positive
from ...numerics.place import on_device
from ...numerics.special import LOG_2PI
from .._about import Symmetry, Units, one_set
from .._answers import Alignable, Holding, Imputing, Predicting, Tabular
from .._data import Data
from .._model import Conditional, Means, Model, Posterior, draw_posterior, means

if TYPE_CHECKING:
    from .factor_analysis import FactorAnalysis
    from .state_space import StateSpace


class WeightsPrior(Conditional):
    """p(z | α): the entries of u = `matrix` · z + `offset` are N(0, 1/α_g), each with the α of its group.

    Known precisions have no parent. The log normaliser is a closed form in both cases, not a factorisation, because in
    the model's coordinates a prior over weights of very different sizes (raw powers of x) is numerically singular.
    """

    matrix: Float[Array, "p p"]
    offset: Float[Array, " p"]
    members: Float[Array, "p g"]  # one-hot rows: the group of each weight
    log_det: Float[Array, ""]  # of `matrix`
    known: Float[Array, " g"] | None = None
    parents: tuple[str, ...] = eqx.field(static=True, default=("alpha",), kw_only=True)

    def natural(self, m: Means) -> NormalVector:
        scaled = (self.members @ self._alpha(m).value)[:, None] * self.matrix
        return NormalVector(-(self.offset @ scaled), self.matrix.T @ scaled)

    def log_normaliser(self, m: Means) -> Float[Array, ""]:
        alpha = self._alpha(m)
        each = LOG_2PI - self.members @ alpha.log + (self.members @ alpha.value) * jnp.square(self.offset)
        return 0.5 * jnp.sum(each) - self.log_det

    def family(self, natural: NormalVector) -> Normal:
        return Normal.from_natural(natural)

    def _alpha(self, m: Means) -> GammaVector:
        return m["alpha"] if self.known is None else GammaVector(jnp.log(self.known), self.known)


def relative(at: Standardised, members: np.ndarray) -> WeightsPrior:
    """A prior with α in units of the data: for features of unit spread, and in units of the targets' spread around
    their mean."""
    size, width = members.shape[0], np.asarray(at.target_width)
    log_det = -size * np.log(width)
    return _prior(np.eye(size) / width, np.zeros(size), members, log_det)


def in_user_units(at: Standardised, members: np.ndarray) -> WeightsPrior:
    """A prior under which the user's weights are N(0, 1/α)."""
    return _prior(at.matrix, at.offset, members, at.log_det)


def with_precision(at: Standardised, alpha: Float[Array, ""]) -> WeightsPrior:
    """A prior under which the user's weights are N(0, 1/α) with known α."""
    one = np.ones((len(at.offset), 1))
    return _prior(at.matrix, at.offset, one, at.log_det, alpha)


def normal(at: Standardised, prior: Normal, intercept: bool) -> WeightsPrior:
    """A prior under which the user's weights have this Normal distribution: whitened, they are N(0, 1)."""
    size, found = len(at.offset), prior.natural.linear.shape[-1]
    if found != size:
        first = " (the intercept is the first)" if intercept else ""
        raise InvalidParameter(f"prior must be a tp.Normal over {size} weights{first}, got one over {found}")
    factor = np.linalg.cholesky(np.asarray(prior.precision))
    offset = factor.T @ (np.asarray(at.offset) - np.asarray(prior.location))
    log_det = float(at.log_det) + np.sum(np.log(np.diagonal(factor)))
    return _prior(factor.T @ np.asarray(at.matrix), offset, np.ones((size, 1)), log_det, 1.0)


def _prior(matrix: Any, offset: Any, members: Any, log_det: Any, known: Any = None) -> WeightsPrior:
    matrix, offset, members, log_det = (as_float(value) for value in (matrix, offset, members, log_det))
    if known is None:
        return WeightsPrior(matrix, offset, members, log_det)
    return WeightsPrior(matrix, offset, members, log_det, as_float(known)[None], parents=())


class LoadingsPrior(Conditional):
    """p(w_d | α): w_dk ~ N(0, s_d²/α_k), one precision for each factor; the last entries, which are not loadings (the
    column's mean), have known precisions κ/s_d²."""

    scale: Float[Array, " d"]
    others: Float[Array, " r"]  # κ
    parents: tuple[str, ...] = eqx.field(static=True, default=("relevance",), kw_only=True)

    def natural(self, m: Means) -> NormalVector:
        return _natural(self.scale, jnp.append(m["relevance"].value, self.others))

    def log_normaliser(self, m: Means) -> Float[Array, " d"]:
        logs = jnp.append(m["relevance"].log, jnp.log(self.others))
        return 0.5 * (len(logs) * (LOG_2PI + 2.0 * jnp.log(self.scale)) - jnp.sum(logs))

    def family(self, natural: Any) -> Normal:
        return Normal.from_natural(natural)


def known_loadings_prior(
    scale: Float[Array, " d"], relevance: Float[Array, " k"], others: Float[Array, " r"]
) -> Normal:
    """The prior of the loadings where α is known."""
    return Normal.from_natural(_natural(scale, jnp.append(relevance, others)))


def _natural(scale: Float[Array, " d"], precision: Float[Array, " k"]) -> NormalVector:
    each = precision[None] / jnp.square(scale)[:, None]
    return NormalVector(jnp.zeros_like(each), each[:, :, None] * np.eye(precision.shape[0])[None])


# ---- what users give --------------------------------------------------------------------------------------


def finite(name: str, value: Any) -> Array:
    """A finite scalar or vector, or an error that names the argument."""
    try:
        array = as_float(value)
    except (TypeError, ValueError):
        raise InvalidParameter(f"{name} must be a number or a vector of them, got {value!r}") from None
    if array.ndim > 1 or not np.isfinite(np.asarray(array)).all():
        raise InvalidParameter(f"{name} must be a finite number or a vector of them, got {value!r}")
    return array


def positive(name: str, value: Any) -> Array:
    array = finite(name, value)
    require_finite_positive(**{name: array})
    return array


def gamma_or_positive(name: str, value: Any) -> Gamma | Array:
    """A prior over a precision, or a known number."""
    return value if isinstance(value, Gamma) else positive(name, value)


def each(name: str, value: Array, size: int) -> Array:
    """A scalar or vector broadcast to one value per column, state or factor."""
    if value.shape not in ((), (size,)):
        raise InvalidParameter(f"{name} must be one number or {size} of them, got shape {value.shape}")
    return on_device(np.broadcast_to(np.asarray(value), (size,)))


def stack(name: str, family: Gamma, size: int) -> Gamma:
    """A Gamma prior broadcast to one per column, state or factor."""
    if family.batch_shape not in ((), (size,)):
        raise InvalidParameter(f"{name} must be one Gamma or {size} of them, got {family.batch_shape}")
    stacked = jax.tree.map(lambda leaf: on_device(np.broadcast_to(np.asarray(leaf), (size,))), family.natural)
    return family.with_natural(stacked)


# ---- answers ------------------------------------------------------------------------------------------------


_MOST = 500  # most draws in an average
_DRAWS = 64  # draws of the posterior over which a predictive density is averaged

Moments = tuple[Array, Array]  # mean and variance


class Prediction(NamedTuple):
    """Mean and variance of each new target, in the user's units."""

    mean: Float[np.ndarray, " n"]  # one per row
    variance: Float[np.ndarray, " n"]  # one per row, the noise included


class Forecast(NamedTuple):
    """Mean and variance of each future step and column, the draws that they summarise, and the probability of each
    state if states are discrete."""

    mean: Float[np.ndarray, "n d"]
    variance: Float[np.ndarray, "n d"]
    draws: Float[np.ndarray, "s n d"]
    states: Float[np.ndarray, "n k"] | None = None

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The two quantiles that have probability `level` between them, of each step and column."""
        SHARE("level", level)
        low, high = np.quantile(self.draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        return low, high


# ---- averages over the posterior of the parameters -----------------------------------------------------------
#
# Taken at E[t(θ)] where the posterior is in closed form, or over draws θ_s with weights w_s,
#
#     E[x] = Σ_s w_s E[x | θ_s],    var[x] = Σ_s w_s (var[x | θ_s] + E[x | θ_s]²) − E[x]².


def average(what: Callable[..., Moments], model: FactorAnalysis | StateSpace, q: Any, x: Any) -> Moments:
    """`what(model, m, noise variances, x)`, one of the functions below, averaged over a posterior or over draws."""
    if isinstance(q, Posterior):
        return _of_posterior(what, model, q, x)
    draws, log_weights = q.thinned(_MOST).flat()
    return _of_draws(what, model, jax.tree.map(jnp.asarray, draws), log_weights, x)


@eqx.filter_jit
def _of_posterior(what: Any, model: Any, q: Posterior, x: Any) -> Moments:
    m = means(q.blocks)
    noise = q.blocks.get("noise")
    if isinstance(noise, Gamma):
        variance = jnp.where(noise.shape > 1.0, noise.rate / jnp.maximum(noise.shape - 1.0, 1e-300), jnp.inf)
    else:
        variance = 1.0 / model._noise(m).value
    return what(model, m, jnp.broadcast_to(variance, model._scale().shape), x)


@eqx.filter_jit
def _of_draws(what: Any, model: Any, draws: dict[str, Any], log_weights: Float[Array, " s"], x: Any) -> Moments:
    def one(draw: dict[str, Any]) -> Moments:
        m = model.statistics(draw)
        return what(model, m, 1.0 / model._noise(m).value, x)

    def step(total: Moments, part: Any) -> tuple[Moments, None]:
        draw, log_weight = part
        mean, variance = one(draw)
        share = jnp.exp(log_weight)
        parts = (jnp.where(share > 0.0, share * part, 0.0) for part in (mean, variance + jnp.square(mean)))
        return tuple(jnp.add(*pair) for pair in zip(total, parts, strict=True)), None  # type: ignore[return-value]

    shapes = jax.eval_shape(one, jax.tree.map(lambda leaf: leaf[0], draws))
    zero = jax.tree.map(lambda shape: jnp.zeros(shape.shape), shapes)
    (mean, square), _ = jax.lax.scan(step, zero, (draws, log_weights))
    return mean, square - jnp.square(mean)


# ---- loadings: what factor analysis and state space share -----------------------------------------------------


def factor_symmetry(size: int, loadings: str, known: dict[str, Any]) -> Symmetry:
    """The symmetry of `size` factors, which have neither an order nor a sign, with their loadings in this block.

    `known` holds priors and known variances.

    Unless a precision is learned for each factor, the posterior is constant along all rotations, and no order is a
    separate mode.
    """
    axes: dict[str, tuple[int, ...]] = {name: (0,) for name in ("relevance", "state_noise", "start")}
    learned, numbers = isinstance(known.get("relevance"), Gamma), {name: known.get(name) for name in axes}
    axes |= {loadings: (1,), f"{loadings}.precision": (1, 2), "dynamics": (0, 1)}
    signs = ((loadings, (1,)), ("dynamics", (0, 1)))
    return one_set(size, axes, numbers, alike=learned, signs=signs)


class CentredRows(Units):
    """Units for centred data: the last entry of each row of the block `loaded` is centred too, and each column has a
    unit."""

    loaded: str = eqx.field(static=True)
    centre: Float[Array, " d"]
    scale: Float[Array, " d"]

    def to_user(self, blocks: dict[str, Family]) -> dict[str, Family]:
        if self.loaded not in blocks:
            return blocks
        natural = blocks[self.loaded].natural
        moved = natural.linear + natural.precision[:, :, -1] * self.centre[:, None]
        return blocks | {self.loaded: blocks[self.loaded].with_natural(NormalVector(moved, natural.precision))}

    def draws_to_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        if self.loaded not in draws:
            return draws
        return draws | {self.loaded: jnp.asarray(draws[self.loaded]).at[..., -1].add(self.centre)}

    def log_unit(self, data: Data) -> Float[Array, ""]:
        return jnp.sum((data.weights @ ~jnp.isnan(data.values)) * jnp.log(self.scale))


class Loaded(Alignable, Holding, Tabular, Imputing, Predicting, Model):
    """The base of factor analysis and state space: a block `loaded` with a row for each column, which holds the
    column's loadings and, as the last entry, its centre."""

    loaded: ClassVar[str]
    relevance: eqx.AbstractVar[Gamma | Array]
    noise: eqx.AbstractVar[Gamma | Array | None]
    centre: eqx.AbstractVar[Float[Array, " d"] | None]
    scale: eqx.AbstractVar[Float[Array, " d"] | None]
    missing: eqx.AbstractVar[bool]

    @property
    @abstractmethod
    def n_loadings(self) -> int:
        """How many factors or states there are."""

    @property
    def units(self) -> Units:
        assert self.centre is not None
        return CentredRows(self.loaded, self.centre, self._scale())

    @property
    def takes_gaps(self) -> bool:
        return self.missing

    def held(self, q: Posterior, data: Data) -> tuple[np.ndarray, ...]:
        """1 for each factor whose loadings are clearly different from zero, 0 for the others."""
        mean: Any = q.blocks[self.loaded].mean()
        unit = np.square(np.asarray(self.scale))[:, None]
        found = np.sum(np.square(np.asarray(mean.linear)[:, : self.n_loadings]) / unit, axis=0)
        square = np.diagonal(np.asarray(mean.precision), axis1=1, axis2=2)[:, : self.n_loadings]
        return (np.where(found > 0.5 * np.sum(-2.0 * square / unit, axis=0), 1.0, 0.0),)

    def traits(self, draws: dict[str, Any], x: Any) -> Float[Array, "d k"]:
        """The loadings in units of the columns: factors of two draws match if the inner product of their loadings is
        large."""
        return draws[self.loaded][:, : self.n_loadings] / jnp.asarray(self.scale)[:, None]

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        """The average over a fixed set of draws of the posterior: a mixture of Gaussians, so a density."""

        def one(key: Key[Array, ""]) -> Float[Array, " n"]:
            return self.log_evidence(self.statistics(draw_posterior(key, q)), x)

        each = jax.lax.map(one, jax.random.split(jax.random.key(0), _DRAWS))
        return jax.nn.logsumexp(each, axis=0) - np.log(_DRAWS)

    # ---- what the data complete ---------------------------------------------------------------------------

    def _units(self, mean: np.ndarray, deviation: np.ndarray) -> tuple[Array, Array]:
        """The columns' centres and scales, given or from the data; the unit of a constant column is its absolute
        value."""
        flat = deviation <= 1e-14 * np.abs(mean)
        deviation = np.where(flat, np.where(mean != 0.0, np.abs(mean), 1.0), deviation)
        scale = on_device(deviation) if self.scale is None else each("scale", self.scale, len(mean))
        return on_device(mean) if self.centre is None else each("centre", self.centre, len(mean)), scale

    def _loadings_priors(self, scale: Array, others: Array) -> dict[str, Family | Conditional]:
        """The priors of loadings, with unknown or known relevance; `others` are the precisions of the rows' other
        entries."""
        if isinstance(self.relevance, Gamma):
            learned = stack("relevance", self.relevance, self.n_loadings)
            return {"relevance": learned, self.loaded: LoadingsPrior(scale, others)}
        known = each("relevance", self.relevance, self.n_loadings)
        return {self.loaded: known_loadings_prior(scale, known, others)}

    def _noise_prior(self, scale: Array, shared: bool = False) -> tuple[dict[str, Family], Gamma | Array | None]:
        """The prior of the noise, if it is unknown, and the noise as given, one for each column where it is known."""
        if self.noise is None:
            usual = Gamma(1.0, 0.1 * np.square(np.asarray(scale)))
            return {"noise": usual[0] if shared else usual}, None
        if isinstance(self.noise, Gamma):
            return {"noise": stack("noise", self.noise, len(scale))}, self.noise
        return {}, each("noise", self.noise, len(scale))

    def _scale(self) -> Float[Array, " d"]:
        assert self.scale is not None, "prepare completes the model"
        return self.scale

    def _family_of(self, name: str) -> Family:
        p = self.prior[name]
        assert isinstance(p, Family)
        return p
