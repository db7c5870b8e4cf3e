"""What factor analyses and state spaces say about scores, states, missing entries and the future.

Answers are averages over the posterior of the parameters θ: taken at E[t(θ)] where the posterior is in closed form, or
over draws θ_s with weights w_s,

    E[x] = Σ_s w_s E[x | θ_s],    var[x] = Σ_s w_s (var[x | θ_s] + E[x | θ_s]²) − E[x]².
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
from ...families import Gamma, NormalVector
from ...families._family import Family
from ...numerics.gaussian_latents import GaussianMoments, gaussian_moments
from ...numerics.linalg import cholesky, outer
from ...numerics.place import on_device
from .._about import Symmetry, one_set
from .._answers import Alignable, Imputing, Predicting
from .._data import Data
from .._model import Conditional, Means, Model, Posterior, draw_posterior, means
from .._normaliser import Normaliser, count, exact, gaussian_volumes, infinite
from .priors import LoadingsPrior, each, known_loadings_prior, stack
from .series import Series

if TYPE_CHECKING:
    from .factor_analysis import FactorAnalysis
    from .state_space import StateSpace

_MOST = 500  # draws that an average looks at
_DRAWS = 64  # of the posterior, over which a predictive density is averaged

Moments = tuple[Array, Array]  # mean and variance


class Prediction(NamedTuple):
    """Mean and variance of each new target, in the user's units."""

    mean: Float[np.ndarray, " n"]  # one per row
    variance: Float[np.ndarray, " n"]  # one per row, the noise included


class Forecast(NamedTuple):
    """Mean and variance of each future step and column, the draws that they summarise, and where states are discrete
    the probability of each."""

    mean: Float[np.ndarray, "n d"]
    variance: Float[np.ndarray, "n d"]
    draws: Float[np.ndarray, "s n d"]
    states: Float[np.ndarray, "n k"] | None = None

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The two quantiles that have probability `level` between them, of each step and column."""
        SHARE("level", level)
        low, high = np.quantile(self.draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        return low, high


# ---- averages over the posterior of the parameters ------------------------------------------------------------


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
        return (total[0] + share * mean, total[1] + share * (variance + jnp.square(mean))), None

    shapes = jax.eval_shape(one, jax.tree.map(lambda leaf: leaf[0], draws))
    zero = jax.tree.map(lambda shape: jnp.zeros(shape.shape), shapes)
    (mean, square), _ = jax.lax.scan(step, zero, (draws, log_weights))
    return mean, square - jnp.square(mean)


# ---- factor analysis ----------------------------------------------------------------------------------------


@eqx.filter_jit
def scores(model: FactorAnalysis, q: Posterior, x: Any) -> GaussianMoments:
    local = model.local(means(q.blocks), x)
    return gaussian_moments(local.linear, local.precision)


def row_entries(model: FactorAnalysis, m: Means, noise: Float[Array, " d"], x: Any) -> Moments:
    """Every entry given what was seen of its row."""
    k, n = model.n_factors, x.shape[0]
    local = model.local(m, x)
    z = gaussian_moments(local.linear, local.precision)
    first, second = m["loadings"].linear, -2.0 * m["loadings"].precision
    mean = z.mean @ first[:, :k].T + first[:, k][None]
    spread = (
        z.covariance + outer(z.mean, z.mean) if z.covariance.ndim == 3 else z.covariance[None] + outer(z.mean, z.mean)
    )
    d = x.shape[1]
    square = spread.reshape((n, k * k)) @ second[:, :k, :k].reshape((d, k * k)).T
    square = square + 2.0 * z.mean @ second[:, :k, k].T + second[:, k, k][None]
    return mean, jnp.maximum(square - jnp.square(mean), 0.0) + noise[None]


# ---- state space --------------------------------------------------------------------------------------------


def smoothed_states(model: StateSpace, m: Means, noise: Array, x: Series) -> Moments:
    """The states (series, step, state) given the whole series."""
    z = model.potentials(m, x).moments()
    return z.mean, jnp.diagonal(z.covariance, axis1=2, axis2=3)


def filtered_states(model: StateSpace, m: Means, noise: Array, x: Series) -> Moments:
    """The states given the steps up to each one."""
    z = model.potentials(m, x).filtered()
    return z.mean, jnp.diagonal(z.covariance, axis1=2, axis2=3)


def series_entries(model: StateSpace, m: Means, noise: Float[Array, " d"], x: Series) -> Moments:
    """Every entry (series, step, column) given the whole series."""
    k = model.n_states
    z = model.potentials(m, x).moments()
    first, second = model._matrix(m, "observation")
    v = jnp.concatenate([x.controls, jnp.ones((*x.real.shape, 1))], axis=2)[..., : first.shape[1] - k]
    whole = jnp.concatenate([z.mean, v], axis=2)
    mean = whole @ first.T
    square = jnp.einsum("nti,dij,ntj->ntd", whole, second, whole)
    square = square + jnp.einsum("ntij,dij->ntd", z.covariance, second[:, :k, :k])
    return mean, jnp.maximum(square - jnp.square(mean), 0.0) + noise[None, None]


def forecast(model: StateSpace, q: Any, key: Key[Array, ""], x: Series, controls: np.ndarray, draws: int) -> Forecast:
    """The next steps of one series: the last state is drawn given a draw of the parameters, then both go on."""
    key_q, key_x = jax.random.split(key)
    if isinstance(q, Posterior):
        parameters = jax.vmap(lambda key: draw_posterior(key, q))(jax.random.split(key_q, draws))
    else:
        parameters = jax.tree.map(lambda leaf: leaf[0], q.resampled(key_q, draws).blocks)
    paths = np.asarray(_go_on(model, parameters, jax.random.split(key_x, draws), x, jnp.asarray(controls)))
    paths = paths + np.asarray(model.centre)
    return Forecast(paths.mean(axis=0), paths.var(axis=0), paths)


@eqx.filter_jit
def _go_on(model: StateSpace, draws: Any, keys: Any, x: Series, controls: Float[Array, "n u"]) -> Float[Array, "s n d"]:
    last = x.real.shape[1] - 1

    def one(part: Any) -> Float[Array, "n d"]:
        draw, key = part
        key_last, key_noise, key_x = jax.random.split(key, 3)
        z = model.potentials(model.statistics(draw), x).moments()
        here = z.mean[0, last]
        here = here + cholesky(z.covariance[0, last]) @ jax.random.normal(key_last, here.shape)
        a, deviation = model._dynamics_of(draw)
        noise = jax.random.normal(key_noise, (controls.shape[0], model.n_states)) * deviation[None]

        def step(z: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
            u, noise = here
            z = a @ jnp.concatenate([z, u]) + noise
            return z, z

        _, path = jax.lax.scan(step, here, (controls[:, : a.shape[1] - model.n_states], noise))
        return model.observe(key_x, draw, path, controls)

    return jax.lax.map(one, (draws, keys), batch_size=16)


# Factors (or hidden states) have neither an order nor a sign.


def factor_symmetry(size: int, loadings: str, known: dict[str, Any]) -> Symmetry:
    """The symmetry of `size` factors with their loadings in this block; `known` holds priors and known variances.

    Without a precision for each factor that is learned the posterior is the same along all rotations: no order is a
    mode by itself.
    """
    axes: dict[str, tuple[int, ...]] = {name: (0,) for name in ("relevance", "state_noise", "start")}
    learned, numbers = isinstance(known.get("relevance"), Gamma), {name: known.get(name) for name in axes}
    axes |= {loadings: (1,), f"{loadings}.precision": (1, 2), "dynamics": (0, 1)}
    signs = ((loadings, (1,)), ("dynamics", (0, 1)))
    return one_set(size, axes, numbers, alike=learned, signs=signs)


class Loaded(Alignable, Imputing, Predicting, Model):
    """What a factor analysis and a state space share: a block `loaded` of rows, one for each column, that hold its
    loadings and at last its centre."""

    loaded: ClassVar[str]
    relevance: eqx.AbstractVar[Gamma | Array]
    noise: eqx.AbstractVar[Gamma | Array | None]
    centre: eqx.AbstractVar[Float[Array, " d"] | None]
    scale: eqx.AbstractVar[Float[Array, " d"] | None]
    missing: eqx.AbstractVar[bool]

    @property
    @abstractmethod
    def size(self) -> int: ...

    @property
    def takes_gaps(self) -> bool:
        return self.missing

    def held(self, q: Posterior, data: Data) -> tuple[np.ndarray, ...]:
        """1 for each factor whose loadings are known to be other than zero, 0 for the others."""
        mean: Any = q.blocks[self.loaded].mean()
        unit = np.square(np.asarray(self.scale))[:, None]
        found = np.sum(np.square(np.asarray(mean.linear)[:, : self.size]) / unit, axis=0)
        square = np.diagonal(np.asarray(mean.precision), axis1=1, axis2=2)[:, : self.size]
        return (np.where(found > 0.5 * np.sum(-2.0 * square / unit, axis=0), 1.0, 0.0),)

    def traits(self, draws: dict[str, Any], x: Any) -> Float[Array, "d k"]:
        """In units of the columns: factors of two draws match when their inner product is large."""
        return draws[self.loaded][:, : self.size] / jnp.asarray(self.scale)[:, None]

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        """The average over a fixed set of draws of the posterior: a mixture of Gaussians, so a density."""

        def one(key: Key[Array, ""]) -> Float[Array, " n"]:
            return self.log_evidence(self.statistics(draw_posterior(key, q)), x)

        each = jax.lax.map(one, jax.random.split(jax.random.key(0), _DRAWS))
        return jax.nn.logsumexp(each, axis=0) - np.log(_DRAWS)

    def to_user(self, blocks: dict[str, Family]) -> dict[str, Family]:
        if self.loaded not in blocks:
            return blocks
        natural = blocks[self.loaded].natural
        assert self.centre is not None
        moved = natural.linear + natural.precision[:, :, -1] * self.centre[:, None]
        return blocks | {self.loaded: blocks[self.loaded].with_natural(NormalVector(moved, natural.precision))}

    def draws_to_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        if self.loaded not in draws:
            return draws
        return draws | {self.loaded: jnp.asarray(draws[self.loaded]).at[..., -1].add(self.centre)}

    # ---- what the data complete ---------------------------------------------------------------------------

    def _units(self, mean: np.ndarray, deviation: np.ndarray) -> tuple[Array, Array]:
        """The columns' centres and scales, given or those of the data; a constant column has a unit of its own size."""
        flat = deviation <= 1e-14 * np.abs(mean)
        deviation = np.where(flat, np.where(mean != 0.0, np.abs(mean), 1.0), deviation)
        scale = on_device(deviation) if self.scale is None else each("scale", self.scale, len(mean))
        return on_device(mean) if self.centre is None else each("centre", self.centre, len(mean)), scale

    def _loadings_priors(self, scale: Array, others: Array) -> dict[str, Family | Conditional]:
        """Of loadings of unknown or of known relevance; `others` are the precisions of the rows' other entries."""
        if isinstance(self.relevance, Gamma):
            learned = stack("relevance", self.relevance, self.size)
            return {"relevance": learned, self.loaded: LoadingsPrior(scale, others)}
        known = each("relevance", self.relevance, self.size)
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


# Tempered normalisers of linear Gaussian models with known noise: a tempered Gaussian integrates to the same whatever


def factors_normaliser(model: FactorAnalysis, temperatures: np.ndarray, data: Data) -> Normaliser:
    """Each entry given its scores, and the scores."""
    if "noise" in model.prior:
        raise infinite("noise")
    seen = np.asarray(data.weights) @ ~np.isnan(np.asarray(data.values))
    log_noise = np.log(np.asarray(model.noise))
    powers, n = 1.0 / temperatures, count(data)
    columns = seen.sum() * gaussian_volumes(powers, 1, 0.0) + 0.5 * (1.0 - powers) * (seen @ log_noise)
    return exact(columns + n * model.n_factors * gaussian_volumes(powers, 1, 0.0))


def states_normaliser(model: StateSpace, temperatures: np.ndarray, data: Data) -> Normaliser:
    """Each entry given its state, and each state given the one before."""
    if "noise" in model.prior or "state_noise" in model.prior:
        raise infinite("noise")
    weights, x, powers = np.asarray(data.weights), data.values, 1.0 / temperatures
    seen = np.tensordot(weights, (~np.isnan(np.asarray(x.x))).sum(axis=1), axes=1)
    firsts, steps = weights.sum(), weights @ (~np.isnan(np.asarray(x.real))).sum(axis=1)
    logs = seen @ np.log(np.asarray(model.noise)) + firsts * np.sum(np.log(np.asarray(model.start)))
    logs = logs + (steps - firsts) * np.sum(np.log(np.asarray(model.state_noise)))
    numbers = seen.sum() + steps * model.n_states
    return exact(numbers * gaussian_volumes(powers, 1, 0.0) + 0.5 * (1.0 - powers) * logs)
