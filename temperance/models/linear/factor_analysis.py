"""Factor analysis: data are linear mixtures of a few hidden Gaussian scores, plus noise.

    α_k ~ Gamma,   w_dk | α ~ N(0, s_d²/α_k),   μ_d ~ N(c_d, s_d²),   τ_d ~ Gamma,
    z_n ~ N(0, I),   x_nd ~ N(w_d · z_n + μ_d, 1/τ_d)

The scores z are integrated out exactly, whatever is missing. c and s are the data's column means and spreads.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ..._arguments import check_choice, check_count
from ...data import as_matrix, as_weights, column_moments
from ...errors import InvalidData, InvalidParameter
from ...families import Gamma, GammaVector, Normal, NormalVector, Point
from ...families._family import Family
from ...numerics.gaussian_latents import GaussianMoments, gaussian_integral, gaussian_moments
from ...numerics.linalg import cholesky, log_det, outer, symmetrise, whiten
from ...numerics.place import on_device
from ...numerics.special import LOG_2PI
from ...numerics.volumes import gaussian_volumes, infinite
from .._about import FACTOR, Symmetry, Words
from .._answers import Loading, Reconstructing
from .._blocks import Heat, Normaliser, Reparametrising, Tempering, exact, gaussian_heat, is_cold
from .._data import Data, count, make_data, over_blocks
from .._model import (
    Conditional,
    Group,
    Means,
    Posterior,
    Powers,
    Way,
    add,
    column,
    draw_posterior,
    means,
)
from . import (
    Loaded,
    Moments,
    Prediction,
    average,
    factor_symmetry,
    finite,
    gamma_or_positive,
    positive,
)

_METRIC, _PULL = "metric of the scores", "pull on the scores"


class Local(NamedTuple):
    """exp{E log p(x, z | θ)} of each datum as a Gaussian in z: constant + hᵀz − ½ zᵀPz."""

    constant: Float[Array, " n"]
    linear: Float[Array, "n k"]
    precision: Float[Array, "*n k k"]


class FactorAnalysis(Loaded, Loading, Reconstructing, Reparametrising):
    """`n_factors` hidden scores for each row, mixed by loadings, with a mean and noise for each column.

    `n_factors` is the number of factors, at most that of the columns. `noise` is "diagonal" (one variance for each
    column, the default), "isotropic" (one for all: probabilistic PCA),
    a `tp.Gamma` over the noise precision of each column, or known variances (a scalar, or one value per column).
    `relevance` is a `tp.Gamma` over α, the precision of each factor's loadings in units of their columns' spread, or
    a number where α is known. `centre` and `scale` are the mean and the spread of the columns to which the priors
    refer, by default those of the data (with isotropic noise one spread for all). `missing="marginalise"` lets NaN
    stand for a missing value.
    """

    prior: dict[str, Family | Conditional]  # complete once there are data
    relevance: Gamma | Array
    noise: Gamma | Array | None  # as given; an array holds known variances
    centre: Float[Array, " d"] | None
    scale: Float[Array, " d"] | None
    n_factors: int = eqx.field(static=True)
    isotropic: bool = eqx.field(static=True)
    missing: bool = eqx.field(static=True)
    apart: ClassVar[tuple[str, ...]] = ("relevance",)
    loaded: ClassVar[str] = "loadings"

    def __init__(
        self,
        n_factors: int,
        *,
        noise: str | Gamma | ArrayLike = "diagonal",
        relevance: Gamma | ArrayLike | None = None,
        centre: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        missing: str | None = None,
    ):
        self.n_factors = check_count("n_factors", n_factors)
        self.missing = check_choice("missing", missing, {None: False, "marginalise": True})
        self.isotropic = False
        if isinstance(noise, str):
            self.isotropic = check_choice("noise", noise, {"diagonal": False, "isotropic": True})
            self.noise = None
        else:
            self.noise = gamma_or_positive("noise", noise)
        if isinstance(relevance, Gamma) and relevance.batch_shape not in ((), (self.n_factors,)):
            raise InvalidParameter(f"relevance must be one Gamma or {n_factors} of them, got {relevance.batch_shape}")
        self.relevance = gamma_or_positive("relevance", Gamma(1.0, 0.1) if relevance is None else relevance)
        self.centre = None if centre is None else finite("centre", centre)
        self.scale = None if scale is None else positive("scale", scale)
        self.prior = {}

    @property
    def words(self) -> Words:
        axes = {"loadings": ("feature", "loading"), "relevance": ("factor",), "noise": ("feature",)}
        return FACTOR.of(self.n_factors, axes, {"loading": [*(f"factor {k}" for k in range(self.n_factors)), "mean"]})

    @property
    def n_loadings(self) -> int:
        return self.n_factors

    @property
    def symmetry(self) -> Symmetry | None:
        return factor_symmetry(self.n_factors, "loadings", dict(self.prior))

    @property
    def tempering(self) -> Tempering:
        return ScoreTempering(self)

    # ---- the model ----------------------------------------------------------------------------------------

    @property
    def groups(self) -> tuple[Group, ...]:
        """Given loadings and scores the precisions are independent; neither is independent of the loadings."""
        precisions = tuple(name for name in ("relevance", "noise") if name in self.prior)
        return (("loadings",), precisions) if precisions else (("loadings",),)

    def log_evidence(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        local = self.local(m, x, powers)
        return local.constant + gaussian_integral(local.linear, local.precision, key)

    def local(self, m: Means, x: Float[Array, "n d"], powers: Powers = Powers()) -> Local:
        k, d = self.n_factors, x.shape[1]
        first, second = m["loadings"].linear, -2.0 * symmetrise(m["loadings"].precision)  # E[w], E[w wᵀ]
        noise = self._noise(m)
        tau = noise.value
        weighted = tau[:, None, None] * second
        each = 0.5 * (noise.log - LOG_2PI - weighted[:, k, k])
        beta, latent = jnp.asarray(powers.observation), jnp.asarray(powers.latent)
        if self.missing:
            seen = ~jnp.isnan(x)
            x, share = jnp.where(seen, x, 0.0), seen.astype(x.dtype)
            constant, pull = share @ each, share @ weighted[:, :k, k]
            precision = (share @ weighted[:, :k, :k].reshape((d, k * k))).reshape((-1, k, k))
        else:
            constant, pull = jnp.sum(each), jnp.sum(weighted[:, :k, k], axis=0)[None]
            precision = jnp.sum(weighted[:, :k, :k], axis=0)
            if beta.ndim or latent.ndim:
                precision = jnp.broadcast_to(precision[None], (x.shape[0], k, k))
        scaled = x * tau[None]
        constant = constant + scaled @ first[:, k] - 0.5 * jnp.sum(scaled * x, axis=1)
        linear = column(beta) * (scaled @ first[:, :k] - pull)
        one = np.eye(k) if precision.ndim == 2 else np.eye(k)[None]
        precision = _over_matrix(beta) * precision + _over_matrix(latent) * one
        if _METRIC in m:  # the probes: zeros, whose messages are sums of moments of the scores
            linear = linear + m[_PULL][None]
            precision = precision + (m[_METRIC] if precision.ndim == 2 else m[_METRIC][None])
        return Local(beta * constant - 0.5 * k * LOG_2PI * latent, linear, precision)

    def _noise(self, m: Means) -> GammaVector:
        """The statistics of each column's noise precision."""
        if "noise" in self.prior:
            noise = m["noise"]
        else:
            assert isinstance(self.noise, jax.Array)
            noise = GammaVector(-jnp.log(self.noise), 1.0 / self.noise)
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, self._scale().shape), noise)

    def probes(self, q: Posterior, way: Way, rate: ArrayLike) -> Means:
        """The probes, whose messages are the sums of scores for a change of coordinates; none if steps are partial or
        tempered."""
        whole = isinstance(rate, float) and rate == 1.0 and is_cold(way.powers)
        if not whole or any(isinstance(block, Point) for block in q.blocks.values()):
            return {}
        return {_METRIC: jnp.zeros((self.n_factors, self.n_factors)), _PULL: jnp.zeros(self.n_factors)}

    def reparametrised(self, blocks: dict[str, Family], messages: Means, data: Data) -> dict[str, Family]:
        """The loadings in better coordinates of the factors: see `factor_coordinates`."""
        if _METRIC not in messages:
            return blocks
        scores = Scores(data.total_weight, messages[_PULL], -2.0 * messages[_METRIC])
        loadings = blocks["loadings"]
        assert isinstance(loadings, Normal)
        p = self.prior.get("relevance")
        relevance = p if isinstance(p, Gamma) else jnp.broadcast_to(jnp.asarray(self.relevance), (self.n_factors,))
        return blocks | {"loadings": rotate(loadings, scores, Sizes(relevance, self._scale(), _level()))}

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Float[Array, "n d"]:
        key_z, key_x = jax.random.split(key)
        loadings = draws["loadings"]
        d = loadings.shape[0]
        z = jax.random.normal(key_z, (n, self.n_factors))
        precision = draws["noise"] if "noise" in self.prior else self._noise({}).value
        precision = jnp.broadcast_to(precision, (d,))
        mean = z @ loadings[:, :-1].T + loadings[:, -1][None]
        return mean + jax.random.normal(key_x, mean.shape) / jnp.sqrt(precision)[None]

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """Loadings near the principal axes and matching precisions, followed by the best loadings given these
        precisions."""
        scale = self._scale()
        start, count = principal_loadings(key, data, scale, self.n_factors)
        blocks: dict[str, Family] = {}
        if "noise" in self.prior:
            left = jnp.square(scale) * jnp.clip(1.0 - jnp.sum(jnp.square(start), axis=1), 0.1, 1.0)
            seen = GammaVector(0.5 * count, -0.5 * count * left)
            p = self._family_of("noise")
            blocks["noise"] = p + (seen if p.batch_shape else seen.sum())
        if "relevance" in self.prior:
            size = jnp.sum(jnp.square(start), axis=0)
            half = jnp.full(self.n_factors, 0.5 * len(scale))
            blocks["relevance"] = self._family_of("relevance") + GammaVector(half, -0.5 * size)
        m = means(blocks)
        rows = jnp.concatenate([start * scale[:, None], jnp.zeros((len(scale), 1))], axis=1)
        m["loadings"] = NormalVector(rows, -0.5 * outer(rows, rows))
        walked = self.walk(m, data)
        natural = add(jax.grad(self.log_prior)(m), walked.messages)["loadings"]
        return Posterior(blocks | {"loadings": Normal.from_natural(natural)}, {})

    # ---- data in ------------------------------------------------------------------------------------------

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        x = as_matrix(data, missing=self.missing)
        model = self._complete(x)
        width = x.shape[1] + self.n_factors * (self.n_factors if self.missing else 1)
        block = max(256, 2**18 // width)
        return model, make_data(x, as_weights(weights, x.shape[0]), block, model.to_internal)

    def _complete(self, x: np.ndarray) -> Self:
        k, d = self.n_factors, x.shape[1]
        if k > d:
            raise InvalidParameter(f"n_factors must be at most the number of columns, {d}, got {k}")
        mean, deviation = column_moments(x)
        if self.isotropic:
            deviation = np.full(d, np.sqrt(np.mean(np.square(deviation))))
        centre, scale = self._units(mean, deviation)
        unknown, noise = self._noise_prior(scale, self.isotropic)
        prior = self._loadings_priors(scale, on_device([1.0])) | unknown
        return self._with(prior=prior, noise=noise, centre=centre, scale=scale)

    def to_internal(self, x: np.ndarray) -> np.ndarray:
        assert self.centre is not None
        return x - np.asarray(self.centre)[None]

    def new_rows(self, data: Any) -> np.ndarray:
        x = as_matrix(data, missing=self.missing, empty_columns=self.missing)
        d = len(self._scale())
        if x.shape[1] != d:
            raise InvalidData(f"data have {x.shape[1]} columns, but the model was fitted to {d}")
        return self.to_internal(x)

    def notes(self, data: Data) -> list[str]:
        x = np.asarray(data.values)[: data.size]
        flat = np.nanmax(x, axis=0) == np.nanmin(x, axis=0)
        if not flat.any():
            return []
        which = ", ".join(str(index) for index in np.flatnonzero(flat))
        return [f"constant columns ({which}) have nothing to explain: their noise is the prior's guess"]

    # ---- answers out --------------------------------------------------------------------------------------

    def components(self, q: Posterior) -> Float[Array, "k d"]:
        """The expected loadings, one row for each factor."""
        return q.blocks["loadings"].mode()[:, :-1].T

    def relative_loadings(self, q: Posterior) -> np.ndarray:
        return np.asarray(self.components(q)) / np.asarray(self.scale)

    def transform(self, q: Posterior, data: Any) -> np.ndarray:
        """The expected scores of each row."""
        return np.asarray(score_moments(self, q, self.new_rows(data)).mean)

    def inverse_transform(self, q: Posterior, scores: Any) -> np.ndarray:
        """The expected rows with these scores, in the user's coordinates."""
        z = as_matrix(scores, name="scores")
        if z.shape[1] != self.n_factors:
            raise InvalidData(f"scores must have {self.n_factors} columns, one for each factor, got {z.shape[1]}")
        loadings = np.asarray(q.blocks["loadings"].mode())
        return z @ loadings[:, :-1].T + loadings[:, -1] + np.asarray(self.centre)

    def impute(self, q: Any, data: Any) -> Prediction:
        """Every entry with its variance: observed ones as they are (variance 0), missing ones by their expectation."""
        x = self.new_rows(data)
        mean, variance = average(row_entries, self, q, x)
        seen = ~np.isnan(x)
        whole = np.where(seen, x, np.asarray(mean)) + np.asarray(self.centre)[None]
        return Prediction(whole, np.where(seen, 0.0, np.asarray(variance)))

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        def one(key: Key[Array, ""]) -> Any:
            key_q, key_x = jax.random.split(key)
            return self.simulate(key_x, draw_posterior(key_q, q), 1)[0]

        return jax.vmap(one)(jax.random.split(key, n)) + jnp.asarray(self.centre)[None]

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        """A row for each factor, the strongest first: the share of the columns' variance that it explains."""
        order = self.order(q, data)
        numbers = [self.words.label(place) for place in range(len(order))]
        table: dict[str, list[Any]] = {"factor": numbers, "explained": self.explained(q)[order].tolist()}
        if "relevance" in q.blocks:
            table["relevance"] = np.asarray(q.blocks["relevance"].mean().value)[order].tolist()
        loadings = np.asarray(self.components(q)) / np.asarray(self._scale())
        table["largest on column"] = np.argmax(np.abs(loadings), axis=1)[order].tolist()
        return table

    def order(self, q: Posterior, data: Data) -> np.ndarray:
        return np.argsort(-self.explained(q), kind="stable")

    def explained(self, q: Posterior) -> np.ndarray:
        """The share of the columns' variance (each in its own unit) that every factor explains."""
        loadings = np.asarray(self.components(q)) / np.asarray(self._scale())
        noise = np.asarray(self._noise(means(q.blocks)).value)
        total = np.square(loadings).sum() + np.sum(1.0 / noise / np.square(np.asarray(self._scale())))
        return np.square(loadings).sum(axis=1) / total

    def covariance(self, draws: dict[str, Any]) -> Float[Array, "d d"]:
        """W Wᵀ + the noise: the covariance of a row given a draw (or the mode) of the parameters."""
        w = draws["loadings"][:, :-1]
        d = w.shape[0]
        precision = draws["noise"] if "noise" in self.prior else self._noise({}).value
        return w @ w.T + jnp.diag(1.0 / jnp.broadcast_to(precision, (d,)))


def _level() -> Float[Array, ""]:
    """κ: the prior of a column's mean is as wide as the column."""
    return on_device(1.0)


def _over_matrix(power: Float[Array, "*n"]) -> Array:
    return power[:, None, None] if power.ndim else power


# ---- answers -------------------------------------------------------------------------------------------------


@eqx.filter_jit
def score_moments(model: FactorAnalysis, q: Posterior, x: Any) -> GaussianMoments:
    local = model.local(means(q.blocks), x)
    return gaussian_moments(local.linear, local.precision)


def row_entries(model: FactorAnalysis, m: Means, noise: Float[Array, " d"], x: Any) -> Moments:
    """Mean and variance of every entry given the seen entries of its row."""
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


class ScoreTempering(Tempering):
    """Tempering of scores and Gaussian noise: the tempered density integrates to a number that does not depend on its
    mean."""

    def log_normaliser(self, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
        """log C of each entry given its scores, and of the scores."""
        model = self.model
        if "noise" in model.prior:
            raise infinite("noise")
        seen = np.asarray(data.weights) @ ~np.isnan(np.asarray(data.values))
        log_noise = np.log(np.asarray(model.noise))
        powers, n = 1.0 / temperatures, count(data)
        columns = seen.sum() * gaussian_volumes(powers, 1, 0.0) + 0.5 * (1.0 - powers) * (seen @ log_noise)
        return exact(columns + n * model.n_factors * gaussian_volumes(powers, 1, 0.0))

    def heat(self, data: Data, powers: np.ndarray) -> Heat:
        return super().heat(data, powers) if self.model.missing else gaussian_heat(powers, data.values.shape[1])

    def log_peak(self, m: Means, width: int) -> Float[Array, ""]:
        return 0.5 * jnp.sum(self.model._noise(m).log - LOG_2PI)


# ---- coordinates ---------------------------------------------------------------------------------------------
#
# Mean-field coordinate ascent moves along the rotations, scales and shifts of the factors in tiny steps, because q(W)
# holds z in place and q(z) holds W. The joint step
#
#     z′ = A(z − c),    W′ = WA⁻¹,    μ′ = μ + Wc
#
# leaves x = Wz + μ as it is and changes only the terms of the two priors. The best A for a vague prior makes the scores
# white and the columns of W orthogonal (Ilin & Raiko, 2010); it is taken where it raises the bound, under any prior.


_PRODUCTS = 4  # products that come near the axes; from there sweeps are better
_SHAKE = 0.1


def principal_loadings(
    key: Key[Array, ""], data: Data, scale: Float[Array, " d"], size: int
) -> tuple[Float[Array, "d k"], Float[Array, " d"]]:
    """Principal loadings in units of `scale`, each times a random factor near 1, and the number of values in each
    column."""
    key_start, key_shake = jax.random.split(key)

    def block(part: Any, _: Array, axes: Float[Array, "d k"]) -> tuple[Any, tuple[()]]:
        x, weights = part
        seen = ~jnp.isnan(x)
        rows = jnp.where(seen, x, 0.0) / scale[None]
        return (rows.T @ (weights[:, None] * (rows @ axes)), weights @ seen.astype(x.dtype)), ()

    def times(axes: Float[Array, "d k"]) -> tuple[Float[Array, "d k"], Float[Array, " d"]]:
        rows = (data.values, data.weights)
        (product, count), _ = over_blocks(lambda part, number: block(part, number, axes), rows, *data.cuts)
        return product, count

    axes = jnp.linalg.qr(jax.random.normal(key_start, (scale.shape[0], size)))[0]
    axes = jax.lax.fori_loop(0, _PRODUCTS, lambda _, axes: jnp.linalg.qr(times(axes)[0])[0], axes)
    product, count = times(axes)
    variances, turn = jnp.linalg.eigh(axes.T @ product / jnp.maximum(data.total_weight, 1.0))
    variances = jnp.maximum(variances, 1e-3)
    # A principal variance is the sum of the variances of factor and noise; that of the noise is guessed as ½.
    loadings = axes @ turn * jnp.sqrt(jnp.maximum(variances - 0.5, 0.1 * variances))[None]
    return loadings * jnp.exp(_SHAKE * jax.random.normal(key_shake, loadings.shape)), count


class Scores(NamedTuple):
    """Σ_n w_n, Σ_n w_n E[z_n] and Σ_n w_n E[z_n z_nᵀ]."""

    total: Float[Array, ""]
    first: Float[Array, " k"]
    second: Float[Array, "k k"]


class Sizes(NamedTuple):
    """The prior of the loadings' size: a Gamma over α, or known α; s and κ."""

    relevance: Gamma | Float[Array, " k"]
    scale: Float[Array, " d"]
    level: Float[Array, ""]


def rotate(loadings: Normal, scores: Scores, sizes: Sizes) -> Normal:
    """The loadings in better coordinates if these raise the bound, else as they were; both bounds are at their best
    q(α)."""
    k, d = scores.first.shape[0], sizes.scale.shape[0]
    one = jnp.eye(k)
    centre = scores.first / scores.total
    lower = cholesky(scores.second / scores.total - centre[:, None] * centre[None])
    square = -2.0 * jnp.tensordot(1.0 / jnp.square(sizes.scale), loadings.mean().precision, axes=1)
    _, axes = jnp.linalg.eigh(symmetrise(lower.T @ square[:k, :k] @ lower))
    axes = axes[:, ::-1]
    # The scores' covariance L Lᵀ, then the loadings' axes U: A = Uᵀ L⁻¹, so that w′ = A⁻ᵀ w = Uᵀ Lᵀ w.
    move = _augmented((lower @ axes).T, centre)
    back = whiten(lower, one).T @ axes
    inverse = _augmented(back, -(centre @ back))
    after = move @ square @ move.T
    # (N − D) log |A| − ½ Σ E|z′|² against − ½ Σ E|z|².
    gain = -0.5 * (scores.total - d) * log_det(lower) - 0.5 * (scores.total * k - jnp.trace(scores.second))
    gain = gain + _log_prior(after, sizes) - _log_prior(square, sizes)
    accepted = gain > 0.0  # False for NaN too, which arises if scores have no spread
    inverse = jnp.where(accepted, inverse, jnp.eye(k + 1))
    natural = NormalVector(
        loadings.natural.linear @ inverse,
        symmetrise(inverse.T[None] @ loadings.natural.precision @ inverse[None]),
    )
    return loadings.with_natural(natural)


def _augmented(turn: Float[Array, "k k"], last: Float[Array, " k"]) -> Float[Array, "k+1 k+1"]:
    k = last.shape[0]
    return jnp.eye(k + 1).at[:k, :k].set(turn).at[k, :k].set(last)


def _log_prior(square: Float[Array, "k+1 k+1"], sizes: Sizes) -> Float[Array, ""]:
    """The terms of the bound that depend on the size of the loadings and of the mean, at the best q(α)."""
    each = jnp.diagonal(square)
    value = -0.5 * sizes.level * each[-1]
    if isinstance(sizes.relevance, Gamma):
        shape, rate = sizes.relevance.shape + 0.5 * sizes.scale.shape[0], sizes.relevance.rate
        return value - jnp.sum(shape * jnp.log(rate + 0.5 * each[:-1]))
    return value - 0.5 * jnp.sum(sizes.relevance * each[:-1])
