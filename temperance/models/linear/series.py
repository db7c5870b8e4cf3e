"""Series of a state space: arrays, chains of Gaussian potentials, inferences about the states, and starts.

Whatever is learned or missing, a series becomes

    exp{E log p(x, z | θ)} = exp{constant + Σ_t (h_tᵀz_t − ½ z_tᵀP_t z_t + z_tᵀC z_(t−1))}

Series of unequal length are padded to the longest; each is one datum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..._module import Module
from ...data import as_matrix
from ...data.sequences import as_sequences
from ...errors import InvalidData
from ...families import GammaVector, Normal, NormalVector
from ...families._family import Family
from ...numerics.gaussian_chains import ChainMoments, chain_moments, forward_potentials
from ...numerics.gaussian_latents import GaussianMoments, gaussian_moments
from ...numerics.linalg import cholesky
from ...numerics.special import LOG_2PI
from ...numerics.volumes import gaussian_volumes, infinite
from .._blocks import Normaliser, Tempering, exact
from .._data import Data
from .._model import Means, Posterior, Powers, draw_posterior
from . import CentredRows, Forecast, Moments
from .factor_analysis import principal_loadings

if TYPE_CHECKING:
    from .state_space import StateSpace


class Series(Module):
    """Values, their controls, and a mask of the steps (1, or NaN for padding)."""

    x: Float[Array, "n t d"]
    controls: Float[Array, "n t u"]
    real: Float[Array, "n t"]

    @property
    def lengths(self) -> np.ndarray:
        return (~np.isnan(np.asarray(self.real))).sum(axis=1)


def as_series(data: Any, missing: bool, n_controls: int, columns: int | None = None) -> Series:
    """NumPy arrays from a table, a list of tables, or (with controls) a pair (values, controls) of these."""
    controls = None
    if n_controls:
        if not isinstance(data, tuple) or len(data) != 2:
            raise InvalidData("with controls the data must be a pair (values, controls) of tables or of lists of them")
        data, given = data
        controls, steps = as_sequences(given, name="controls")
        if controls.shape[1] != n_controls:
            raise InvalidData(f"controls must have {n_controls} columns, got {controls.shape[1]}")
    rows, lengths = as_sequences(data, missing=missing, empty_columns=missing and columns is not None)
    if columns is not None and rows.shape[1] != columns:
        raise InvalidData(f"data have {rows.shape[1]} columns, but the model was fitted to {columns}")
    if controls is not None and not np.array_equal(steps, lengths):
        raise InvalidData(f"controls must have as many steps as the data, {lengths.tolist()}, got {steps.tolist()}")
    n, longest, ends = len(lengths), int(lengths.max()), np.cumsum(lengths)
    x, real = np.full((n, longest, rows.shape[1]), np.nan), np.full((n, longest), np.nan)
    u = np.zeros((n, longest, n_controls))
    for index, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        x[index, :length], real[index, :length] = rows[end - length : end], 1.0
        if controls is not None:
            u[index, :length] = controls[end - length : end]
    return Series(x, u, real)  # type: ignore[arg-type]


def as_future(controls: Any, n: int, n_controls: int) -> np.ndarray:
    """The controls of the next n steps."""
    if n_controls == 0:
        return np.zeros((n, 0))
    if controls is None:
        raise InvalidData(f"a forecast needs the controls of the next {n} steps: controls= ({n}, {n_controls})")
    u = as_matrix(controls, name="controls")
    if u.shape != (n, n_controls):
        raise InvalidData(f"controls of a forecast must have shape ({n}, {n_controls}), got {u.shape}")
    return u


# ---- potentials -------------------------------------------------------------------------------------------


class LinearMap(NamedTuple):
    """The expectations of a linear map: E[w] and E[w wᵀ] of its rows, and the statistics of its noise precision."""

    first: Float[Array, "r c"]
    second: Float[Array, "r c c"]
    noise: GammaVector


class Potentials(NamedTuple):
    """exp{E log p(x, z | θ)} of each series as a chain of Gaussian potentials."""

    constant: Float[Array, " n"]
    linear: Float[Array, "n t k"]
    precision: Float[Array, "n t k k"]
    coupling: Float[Array, "n k k"]
    links: Float[Array, "n t"]
    out_linear: Float[Array, "n t k"]  # the parts of `linear` and `precision` that come from the next step
    out_precision: Float[Array, "n t k k"]

    def moments(self) -> ChainMoments:
        """Moments of the states; the leading axis is the series."""
        return jax.vmap(chain_moments)(self.linear, self.precision, self.coupling, self.links)

    def filtered(self) -> GaussianMoments:
        """Moments of each state (series, step) given the steps up to its own."""
        forward = jax.vmap(forward_potentials)(self.linear, self.precision, self.coupling, self.links)
        return jax.vmap(gaussian_moments)(forward[0] - self.out_linear, forward[1] - self.out_precision)


@eqx.filter_jit  # traced once for all walks of a sweep
def potentials(
    x: Series, observation: LinearMap, dynamics: LinearMap, start: Float[Array, " k"], powers: Powers
) -> Potentials:
    k, n = len(start), x.real.shape[0]
    seen_steps = (~jnp.isnan(x.real)).astype(x.x.dtype)
    moves = seen_steps.at[:, 0].set(0.0)  # steps that follow another
    starts = seen_steps - moves
    follows = jnp.concatenate([moves[:, 1:], jnp.zeros((n, 1))], axis=1)  # steps that another follows
    beta, latent = (jnp.broadcast_to(power, (n,)) for power in powers)

    # Observations: −½ τ (x − c·z − e·v)², where v holds the controls and a one.
    first, second, tau = observation
    v = jnp.concatenate([x.controls, jnp.ones((*x.real.shape, 1))], axis=2)[..., : first.shape[1] - k]
    seen = ~jnp.isnan(x.x)
    values, share = jnp.where(seen, x.x, 0.0), seen.astype(x.x.dtype)
    weighted = tau.value[:, None, None] * second
    scaled = values * tau.value[None, None]
    linear_x = scaled @ first[:, :k] - jnp.einsum("ntd,dkv,ntv->ntk", share, weighted[:, :k, k:], v)
    precision_x = jnp.einsum("ntd,dkl->ntkl", share, weighted[:, :k, :k])
    constant_x = share @ (0.5 * (tau.log - LOG_2PI)) - 0.5 * jnp.sum(scaled * values, axis=2)
    constant_x = constant_x + jnp.sum(scaled * (v @ first[:, k:].T), axis=2)
    constant_x = constant_x - 0.5 * jnp.einsum("ntd,duv,ntu,ntv->nt", share, weighted[:, k:, k:], v, v)

    # Transitions: −½ λ (z_t − a·z_{t−1} − b·u_t)².
    first, second, rate = dynamics
    weighted = rate.value[:, None, None] * second
    total = jnp.sum(weighted, axis=0)
    u = x.controls[..., : first.shape[1] - k]
    after = jnp.concatenate([u[:, 1:], jnp.zeros((n, 1, u.shape[2]))], axis=1)
    linear_z = moves[..., None] * (u @ (rate.value[:, None] * first[:, k:]).T)
    out_linear, out_precision = -follows[..., None] * (after @ total[k:, :k]), _spread(follows, total[:k, :k])
    linear_z = linear_z + out_linear
    precision_z = _spread(moves, jnp.diag(rate.value)) + out_precision
    precision_z = precision_z + _spread(starts, jnp.diag(1.0 / start))
    constant_z = moves * (0.5 * jnp.sum(rate.log) - 0.5 * jnp.sum((u @ total[k:, k:]) * u, axis=2))
    constant_z = constant_z - starts * (0.5 * jnp.sum(jnp.log(start))) - 0.5 * k * LOG_2PI * seen_steps

    # The state of a step of padding is a separate standard Normal, which adds nothing.
    padding = 1.0 - seen_steps
    constant = beta[:, None] * constant_x + latent[:, None] * constant_z - 0.5 * k * LOG_2PI * padding
    return Potentials(
        jnp.sum(constant, axis=1),
        beta[:, None, None] * linear_x + latent[:, None, None] * linear_z,
        beta[:, None, None, None] * precision_x
        + latent[:, None, None, None] * precision_z
        + _spread(padding, jnp.eye(k)),
        latent[:, None, None] * (rate.value[:, None] * first[:, :k])[None],
        moves,
        latent[:, None, None] * out_linear,
        latent[:, None, None, None] * out_precision,
    )


def _spread(where: Float[Array, "n t"], matrix: Float[Array, "k k"]) -> Float[Array, "n t k k"]:
    return where[..., None, None] * matrix[None, None]


# ---- answers -----------------------------------------------------------------------------------------------


def smoothed_states(model: StateSpace, m: Means, noise: Array, x: Series) -> Moments:
    """Moments of the states (series, step, state) given the whole series."""
    z = model.potentials(m, x).moments()
    return z.mean, jnp.diagonal(z.covariance, axis1=2, axis2=3)


def filtered_states(model: StateSpace, m: Means, noise: Array, x: Series) -> Moments:
    """Moments of the states (series, step, state), each given the steps up to its own."""
    z = model.potentials(m, x).filtered()
    return z.mean, jnp.diagonal(z.covariance, axis1=2, axis2=3)


def series_entries(model: StateSpace, m: Means, noise: Float[Array, " d"], x: Series) -> Moments:
    """Moments of every entry (series, step, column) given the whole series."""
    k = model.n_states
    z = model.potentials(m, x).moments()
    first, second = model._matrix(m, "observation")
    v = jnp.concatenate([x.controls, jnp.ones((*x.real.shape, 1))], axis=2)[..., : first.shape[1] - k]
    whole = jnp.concatenate([z.mean, v], axis=2)
    mean = whole @ first.T
    square = jnp.einsum("nti,dij,ntj->ntd", whole, second, whole)
    square = square + jnp.einsum("ntij,dij->ntd", z.covariance, second[:, :k, :k])
    return mean, jnp.maximum(square - jnp.square(mean), 0.0) + noise[None, None]


def forecast_series(
    model: StateSpace, q: Any, key: Key[Array, ""], x: Series, controls: np.ndarray, draws: int
) -> Forecast:
    """The next steps of one series: for each draw of the parameters the last state is drawn, and then simulated
    onwards."""
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


class CentredSeries(CentredRows):
    """`CentredRows` for series. If the matrices are known, no draw holds the centre."""

    learned: bool = eqx.field(static=True)

    def values_to_user(self, series: Series) -> np.ndarray:
        return np.asarray(series.x) + (0.0 if self.learned else np.asarray(self.centre))

    def log_unit(self, data: Data) -> Float[Array, ""]:
        seen = jnp.sum(~jnp.isnan(data.values.x * data.values.real[..., None]), axis=1)
        return jnp.sum((data.weights @ seen) * jnp.log(self.scale))


class SeriesTempering(Tempering):
    """Tempering of each entry given its state and of each state given the previous one, if all noise is known."""

    def log_normaliser(self, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
        model = self.model
        if "noise" in model.prior or "state_noise" in model.prior:
            raise infinite("noise")
        weights, x, powers = np.asarray(data.weights), data.values, 1.0 / temperatures
        seen = np.tensordot(weights, (~np.isnan(np.asarray(x.x))).sum(axis=1), axes=1)
        firsts, steps = weights.sum(), weights @ (~np.isnan(np.asarray(x.real))).sum(axis=1)
        logs = seen @ np.log(np.asarray(model.noise)) + firsts * np.sum(np.log(np.asarray(model.start)))
        logs = logs + (steps - firsts) * np.sum(np.log(np.asarray(model.state_noise)))
        numbers = seen.sum() + steps * model.n_states
        return exact(numbers * gaussian_volumes(powers, 1, 0.0) + 0.5 * (1.0 - powers) * logs)


# ---- where a fit starts --------------------------------------------------------------------------------------


def principal_start(model: StateSpace, key: Key[Array, ""], data: Data) -> Posterior:
    """Observation near the principal axes, dynamics of random persistence, precisions to match. The start makes no walk
    over the series, because the first sweep makes one, and compiling another would take as long as many fits."""
    key_c, key_a, key_v = jax.random.split(key, 3)
    x, scale, k = data.values, model._scale(), model.n_states
    steps = jnp.sum(data.weights[:, None] * ~jnp.isnan(x.real))
    count = jnp.einsum("n,ntd->d", data.weights, (~jnp.isnan(x.x)).astype(x.x.dtype))
    blocks: dict[str, Family] = {}
    shake = jnp.exp(0.5 * jax.random.normal(key_v, (k + len(scale),)))
    variance = 0.5 * jnp.square(scale) * shake[k:]
    if "noise" in model.prior:
        blocks["noise"] = model._family_of("noise") + GammaVector(0.5 * count, -0.5 * count * variance)
    if "state_noise" in model.prior:
        state_variance = 0.1 * jnp.mean(jnp.square(scale)) * shake[:k]
        half = jnp.full(k, 0.5 * steps)
        blocks["state_noise"] = model._family_of("state_noise") + GammaVector(half, -half * state_variance)
    # Rows are as certain as a regression on states of unit variance would make them.
    if "dynamics" in model.prior:
        a = jnp.diag(jax.random.uniform(key_a, (k,), minval=0.3, maxval=0.95))
        rows = jnp.concatenate([a, jnp.zeros((k, model.n_controls))], axis=1)
        blocks["dynamics"] = _around(rows, jnp.full(k, 1.0 + steps))
    if "observation" in model.prior:
        c = _loadings(model, key_c, data)
        if "relevance" in model.prior:
            half = jnp.full(k, 0.5 * len(scale))
            found = GammaVector(half, -0.5 * jnp.sum(jnp.square(c), axis=0))
            blocks["relevance"] = model._family_of("relevance") + found
        rows = jnp.concatenate([c * scale[:, None], jnp.zeros((len(scale), model.n_controls + 1))], axis=1)
        blocks["observation"] = _around(rows, (1.0 + count) / variance)
    return Posterior(blocks, {})


def _loadings(model: StateSpace, key: Key[Array, ""], data: Data) -> Float[Array, "d k"]:
    """Loadings in units of the columns' spread."""
    d, k = len(model._scale()), model.n_states
    if k > d:
        return 0.5 * jax.random.normal(key, (d, k))
    rows = data.values.x.reshape((-1, d))
    weights = (data.weights[:, None] * ~jnp.isnan(data.values.real)).reshape(-1)
    return principal_loadings(key, Data(rows, weights, rows.shape[0]), model._scale(), k)[0]


def _around(rows: Float[Array, "r c"], precision: Float[Array, " r"]) -> Normal:
    """Normal rows with these means, of independent entries."""
    matrix = precision[:, None, None] * np.eye(rows.shape[1])[None]
    return Normal.from_natural(NormalVector(precision[:, None] * rows, matrix))
