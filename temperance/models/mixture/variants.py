"""Mixtures that differ from `Mixture` in their components or weights.

    DirichletProcessMixture   v_k ~ Beta(1, α),   π_k = v_k Π_{j<k} (1 − v_j),   the last stick takes the rest
    GaussianMixture           components with a full, diagonal, spherical, tied or known covariance ClassMixture
    rows of a table, every column with a likelihood of its own MixtureOfExperts          lines, each for a region of the
    inputs

E log π and log E π are sums over independent sticks, so the weights of a (truncated) Dirichlet process are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ..._arguments import check_choice, check_count
from ...data import column_moments
from ...data.features import as_inputs, as_inputs_and_targets
from ...errors import InvalidData, InvalidParameter
from ...families import (
    Beta,
    BetaVector,
    Gamma,
    KnownCovarianceGaussian,
    MatrixNormalWishart,
    NormalWishart,
    Pair,
    Point,
)
from ...families._family import LOG_2PI, Family, as_float
from ...families._parameters import is_traced, require_concentration
from ...families.matrix_normal_wishart import MatrixNormalWishartVector
from ...families.normal_wishart import NormalWishartVector
from ...families.translate import translate
from ...numerics.linalg import cholesky, explicit_inverse, outer, transpose, transposed_solve_vector
from ...numerics.special import log_gamma, safe_log
from .._about import COMPONENT, GROUP, Symmetry, Words, one_set
from .._answers import Regressing
from .._blocks import Tempering
from .._data import Data
from .._factors import Factors, LinearTerms, exact_prior, written_out
from .._model import Conditional, Group, Means, Posterior, Powers, column
from ..linear import Prediction
from . import Mixture
from .columns import ColumnsPair
from .likelihoods import MixtureTempering
from .starts import match_start

# ---- weights of a Dirichlet process ------------------------------------------------------------------------


class Sticks(Conditional):
    """p(v | α) = Π_k Beta(v_k | 1, α): natural parameter (0, α − 1) and log normaliser −log α, each k."""

    parents: tuple[str, ...] = eqx.field(static=True, default=("concentration",))
    count: int = eqx.field(static=True, kw_only=True)

    def natural(self, m: Means) -> BetaVector:
        return BetaVector(jnp.zeros(self.count), jnp.full(self.count, m["concentration"].value - 1.0))

    def log_normaliser(self, m: Means) -> Float[Array, " k-1"]:
        return jnp.full(self.count, -m["concentration"].log)

    def family(self, natural: BetaVector) -> Beta:
        return Beta.from_natural(natural)


class DirichletProcessMixture(Mixture):
    """A mixture that uses as many of its `truncation` components as the data support.

    `truncation` is the largest number of components. `concentration` is α (large: many components), or a `Gamma` prior
    on it. See `Mixture` for the other arguments.
    """

    apart: ClassVar[tuple[str, ...]] = ("concentration",)

    def __init__(
        self,
        truncation: int,
        likelihood: str | Pair = "gaussian",
        *,
        prior: Family | None = None,
        concentration: ArrayLike | Gamma = 1.0,
        init: Any = "mixed",
        missing: str | None = None,
        precision: str = "double",
        columns: int | None = None,
    ):
        super().__init__(
            check_count("truncation", truncation),
            likelihood,
            prior=prior,
            concentration=concentration,  # type: ignore[arg-type]
            init=init,
            missing=missing,
            precision=precision,
            columns=columns,
        )

    def _weights_prior(self, concentration: Any, weights: str) -> dict[str, Family | Conditional]:
        count = self.n_components - 1
        if isinstance(concentration, Gamma):
            if concentration.batch_shape != ():
                raise InvalidParameter(
                    f"concentration must be one Gamma, got a batch of shape {concentration.batch_shape}"
                )
            return {"sticks": Sticks(count=count), "concentration": concentration}
        alpha = as_float(concentration)
        require_concentration(concentration=alpha)
        if alpha.ndim > 0:
            raise InvalidParameter(f"concentration must be one number or a Gamma, got shape {alpha.shape}")
        second = jnp.full(count, alpha) if is_traced(alpha) else np.full(count, alpha)
        return {"sticks": Beta(np.ones(count), second)}

    @property
    def groups(self) -> tuple[Group, ...]:
        # α is coupled to the sticks by its prior, so the two are not updated together.
        first = ("sticks", "components")
        return (first, ("concentration",)) if "concentration" in self.prior else (first,)

    @property
    def words(self) -> Words:
        return COMPONENT.of(self.n_components, {**super().words.axes, "sticks": ("stick",)})

    @property
    def symmetry(self) -> None:
        """None: sticks are broken one after the other, so their order matters."""
        return None

    def log_weights(self, m: Means) -> Float[Array, " k"]:
        return _break(m["sticks"].log, m["sticks"].log_complement)

    def mean_log_weights(self, q: Posterior) -> Float[Array, " k"]:
        sticks = q.blocks["sticks"]
        if isinstance(sticks, Point):
            return _break(safe_log(sticks.mode()), safe_log(1.0 - sticks.mode()))
        assert isinstance(sticks, Beta)
        a, b = sticks.a, sticks.b
        return _break(jnp.log(a) - jnp.log(a + b), jnp.log(b) - jnp.log(a + b))

    def draw_weights(self, draws: dict[str, Any]) -> Float[Array, " k"]:
        return jnp.exp(_break(safe_log(draws["sticks"]), safe_log(1.0 - draws["sticks"])))

    def starting_labels(self, key: Key[Array, ""], data: Data) -> Any:
        """The largest component first: the order that stick-breaking expects."""
        labels = super().starting_labels(key, data)
        if self.start.kind == "responsibilities":
            return labels
        if labels.ndim == 2:
            return labels[:, jnp.argsort(-(data.weights @ labels))]
        counts = jnp.zeros(self.n_components).at[labels].add(data.weights)
        return jnp.argsort(jnp.argsort(-counts))[labels]


def _break(log: Float[Array, " k-1"], log_complement: Float[Array, " k-1"]) -> Float[Array, " k"]:
    """log π from log v and log(1 − v), or E log π from their expectations."""
    zero = jnp.zeros(1)
    return jnp.concatenate([log, zero]) + jnp.concatenate([zero, jnp.cumsum(log_complement)])


# ---- Gaussian components ------------------------------------------------------------------------------------

_FORMS = {"full": "gaussian", "diag": "diagonal", "diagonal": "diagonal", "spherical": "spherical", "tied": "gaussian"}


class GaussianMixture(Mixture):
    """A mixture of Gaussians with unknown means.

    `covariance` is the form of the unknown covariances: "full", "diag" or "spherical", or "tied" for one that all
    components share; an array is a known one. `dim` is only checked against the data. See `Mixture` for the other
    arguments.
    """

    def __new__(cls, n_components: int, dim: int | None = None, **options: Any) -> GaussianMixture:
        tied = cls is GaussianMixture and isinstance(options.get("covariance"), str) and options["covariance"] == "tied"
        return super().__new__(TiedGaussianMixture if tied else cls)

    def __init__(
        self,
        n_components: int,
        dim: int | None = None,
        *,
        covariance: str | ArrayLike = "full",
        prior: Family | None = None,
        concentration: ArrayLike = 1.0,
        weights: str | ArrayLike = "dirichlet",
        init: Any = "mixed",
        missing: str | None = None,
        precision: str = "double",
    ):
        likelihood: str | Pair
        if isinstance(covariance, str):
            likelihood = check_choice("covariance", covariance, _FORMS)
        else:
            likelihood = KnownCovarianceGaussian(covariance, missing is not None)
        super().__init__(
            n_components,
            likelihood,
            prior=prior,
            concentration=concentration,
            weights=weights,
            init=init,
            missing=missing,
            precision=precision,
            columns=None if dim is None else check_count("dim", dim),
        )


# Gaussian mixtures whose components share one precision matrix.


class TiedTempering(MixtureTempering):
    """Tempering with a shared precision, which counts for every datum, whatever its component."""

    def log_base(self, data: Data) -> None:
        return None


class TiedMixture(Mixture):
    """A mixture whose components share one precision. `prior` is the Normal-Wishart of one mean and that precision, or
    a posterior of this model."""

    one_by_one: ClassVar[bool] = False

    def log_joint_z(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, "n k"]:
        tied: MatrixNormalWishartVector = m["components"]
        shared = jnp.sum((x @ tied.outputs) * x, axis=1) + tied.dof - 0.5 * x.shape[1] * LOG_2PI
        observed = x @ tied.cross + jnp.diagonal(tied.inputs)[None] + shared[:, None]
        latent, observation = jnp.asarray(column(powers.latent)), jnp.asarray(column(powers.observation))
        return latent * self.log_weights(m)[None] + observation * observed

    @property
    def symmetry(self) -> Symmetry | None:
        axes: dict[str, tuple[int, ...]] = {"weights": (0,), "known": (0,)}
        axes |= {"components.cross": (1,), "components.inputs": (0, 1), "components.weights": (1,)}
        compared = tuple(name for name in ("weights", "components") if name in self.prior)
        return one_set(self.n_components, axes, self.prior | {"known": self.known}, compared=compared)

    def packed(self, m: Means) -> Means:
        return m

    @property
    def tempering(self) -> Tempering:
        return TiedTempering(self)

    def each(self, components: Family) -> Family:
        """The distribution of each (μ_k, Λ) by itself."""
        if isinstance(components, Point):
            inner = self.each(components.inner)
            natural = eqx.tree_at(
                lambda natural: natural.dof,
                inner.natural,
                jnp.broadcast_to(components.natural.dof, inner.batch_shape),
            )
            return Point(inner.with_natural(natural))  # with the mode of the shared precision
        assert isinstance(components, MatrixNormalWishart)
        location, count = transpose(components.location), jnp.diagonal(components.pseudo_inputs, axis1=-2, axis2=-1)
        second = components.scatter[None] + count[:, None, None] * outer(location, location)
        dof = jnp.full(count.shape, components.dof) - location.shape[-1]
        return NormalWishart.from_natural(NormalWishartVector(count[:, None] * location, count, second, dof))

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        key_z, key_x = jax.random.split(key)
        z = jax.random.categorical(key_z, safe_log(self.draw_weights(draws)), shape=(n,))
        locations, precision = draws["components"]
        noise = jax.random.normal(key_x, (n, precision.shape[-1]))
        factor = jnp.broadcast_to(cholesky(precision), (n, *precision.shape))
        return transpose(locations)[z] + transposed_solve_vector(factor, noise)

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        return super().log_predictive(self._alone(q), x)

    @eqx.filter_jit
    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        return super().sample_predictive(key, self._alone(q), n)

    def _alone(self, q: Posterior) -> Posterior:
        return Posterior(q.blocks | {"components": self.each(q.blocks["components"])}, {})

    def _described(self, components: Family) -> dict[str, Any]:
        return self.each(components).described()

    # ---- message passing ------------------------------------------------------------------------------------

    def factors(self, data: Data) -> Factors:
        def log_terms(m: Means, row: Array) -> Float[Array, " k"]:
            return self.log_joint_z(m, row[None])[0]

        rows = data.values.astype(jnp.float64)
        return Factors(written_out(log_terms, exact_prior(self), rows), data.weights > 0, LinearTerms())

    # ---- data in, answers out -----------------------------------------------------------------------------

    def _complete(self, x: np.ndarray, weights: np.ndarray | None = None) -> Self:
        given = self.component_prior
        mean, deviation = column_moments(x, weights)
        shift = jnp.asarray(mean)
        if isinstance(given, NormalWishart) and given.batch_shape == ():
            given = _spread(given, self.n_components)
        if self.missing or not isinstance(given, MatrixNormalWishart | None):
            raise InvalidParameter(
                "components that share a covariance need data without missing values, and a prior that is one "
                f"tp.NormalWishart, got {'missing values' if self.missing else type(given).__name__}"
            )
        if given is None:
            usual = self.pair.default_prior(np.stack([-deviation, deviation]), self.n_components)[0]
            assert isinstance(usual, NormalWishart)
            components = _spread(usual, self.n_components)
        else:
            self._match_width(given, x)
            components = translate(given, -np.asarray(shift))
        start = match_start(self.start, x)
        return eqx.tree_at(
            lambda model: (model.prior, model.shift, model.start),
            self,
            (self.prior | {"components": components}, shift, start),
            is_leaf=lambda leaf: leaf is None,
        )


class TiedGaussianMixture(TiedMixture, GaussianMixture):
    """`GaussianMixture(k, covariance="tied")`."""


class TiedProcessMixture(TiedMixture, DirichletProcessMixture):
    """A `TiedMixture` with the weights of a Dirichlet process."""

    symmetry: ClassVar[None] = None


def _spread(one: NormalWishart, size: int) -> MatrixNormalWishart:
    """The prior of `size` means that share the precision, from that of one mean."""
    location = jnp.broadcast_to(one.location[:, None], (one.location.shape[0], size))
    return MatrixNormalWishart(location, one.pseudo_count * jnp.eye(size), one.dof, one.scatter)


# ---- tables of mixed columns -------------------------------------------------------------------------------


class ClassMixture(Mixture):
    """Classes of the rows of a table, in which every column has its own distribution.

    Data are a path, a frame, a dictionary of columns or a `tp.Table`. The kind of each column is recognised unless
    `kinds` gives it ({"income": "positive"}): real columns are Gaussian, positive ones log-normal, counts Poisson,
    binary ones Bernoulli, and categories categorical. Missing values are integrated out. `covariance="full"` lets the
    numbers vary together within a class. A `prior` is a `tp.Product` with the factors that
    `fit.model.prior["components"]` shows. See `Mixture` for the other arguments.
    """

    def __init__(
        self,
        n_components: int,
        *,
        kinds: Mapping[str, str] | None = None,
        covariance: str = "diag",
        prior: Family | None = None,
        concentration: ArrayLike = 1.0,
        weights: str | ArrayLike = "dirichlet",
        init: Any = "kmeans++",
    ):
        super().__init__(
            n_components,
            ColumnsPair(kinds, covariance),
            prior=prior,
            concentration=concentration,
            weights=weights,
            init=init,
        )

    @property
    def words(self) -> Words:  # "class", as in latent class analysis
        return GROUP.of(self.n_components, super().words.axes)


# ---- mixtures of experts: which line a target follows depends on where its inputs are ----------------------
#
#     z_n ~ π,   (x_n, y_n) ~ N(μ_{z_n}, Λ_{z_n}⁻¹)
#
# so that p(y | x) = Σ_k g_k(x) N(y | a_k + b_k · x, s_k²) with the gates g_k(x) ∝ π_k N(x | μ_k, …): the density of the
# inputs decides (Xu, Jordan & Hinton, 1995). Inputs and target together are a Gaussian mixture, so every method and the
# evidence are exact where they are for mixtures; the evidence is that of inputs and target together.


class MixtureOfExperts(Mixture, Regressing):
    """Lines, each for a region of the inputs; the data are a pair (X, y).

    `prior` is a `tp.NormalWishart` over the columns of X and then y; `concentration`, `init` and `precision` are those
    of `tp.GaussianMixture`. `predict` gives the mean and variance of y at new inputs, `log_predictive` the density of
    inputs and target together, and `responsibilities` the expert behind each pair.
    """

    def __init__(
        self,
        n_components: int,
        *,
        prior: NormalWishart | None = None,
        concentration: ArrayLike = 1.0,
        init: Any = "mixed",
        precision: str = "double",
    ):
        super().__init__(
            n_components, "gaussian", prior=prior, concentration=concentration, init=init, precision=precision
        )

    def _rows(self, data: Any, new: bool = False) -> np.ndarray:
        x, y = as_inputs_and_targets(data)
        return super()._rows(np.column_stack([x, y]), new)

    def predict(self, q: Any, inputs: Any) -> Prediction:
        """Mean and variance of y at each row of X."""
        x, shift = as_inputs(inputs), np.asarray(self.shift)
        if x.shape[1] != len(shift) - 1:
            raise InvalidData(f"X has {x.shape[1]} columns, but the model was fitted to {len(shift) - 1}")
        mean, variance = _predicted(self, q, jnp.asarray(x - shift[:-1]))
        return Prediction(np.asarray(mean) + shift[-1], np.asarray(variance))

    def fitted(self, q: Any, data: Data) -> tuple[np.ndarray, np.ndarray]:
        rows = np.asarray(data.values, dtype=np.float64)[: data.size] + np.asarray(self.shift)
        return rows[:, -1], self.predict(q, rows[:, :-1]).mean


@eqx.filter_jit
def _predicted(model: MixtureOfExperts, q: Any, x: Float[Array, "n d"]) -> tuple[Array, Array]:
    if isinstance(q, Posterior):
        components = q.blocks["components"]
        if isinstance(components, Point):
            location, precision, *_ = components.mode()
            each = _given(location, precision, x)
        else:
            each = _averaged(components, x)
        return _mixed(model.mean_log_weights(q)[None] + each[0], *each[1:])

    def one(draw: tuple[dict[str, Any], Array]) -> tuple[Array, Array, Array]:
        blocks, log_weight = draw
        location, precision, *_ = blocks["components"]
        log_gate, mean, variance = _given(location, precision, x)
        return safe_log(model.draw_weights(blocks))[None] + log_gate + log_weight, mean, variance

    log_gate, mean, variance = jax.lax.map(one, q.flat(), batch_size=16)
    # All draws and experts form one mixture, in which a draw is weighted by its density at x.
    return _mixed(*(jnp.moveaxis(part, 0, 1).reshape((x.shape[0], -1)) for part in (log_gate, mean, variance)))


def _mixed(log_gate: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    share = jax.nn.softmax(log_gate, axis=1)
    centre = jnp.sum(share * mean, axis=1)
    return centre, jnp.sum(share * (variance + jnp.square(mean - centre[:, None])), axis=1)


def _averaged(components: Family, x: Float[Array, "n d"]) -> tuple[Array, Array, Array]:
    """log p(x | k), and the mean and variance of y, of the Student-t density that a Normal-Wishart predicts."""
    assert isinstance(components, NormalWishart)
    d = x.shape[1] + 1
    dof = components.dof - d + 1.0  # of the joint density; its scale matrix is `spread`
    spread = components.scatter * ((components.pseudo_count + 1.0) / (components.pseudo_count * dof))[:, None, None]
    factor, apart, slope, rest = _split(components.location, spread, x)
    square = jnp.sum(jnp.square(factor), axis=-1)
    log_det = jnp.sum(jnp.log(jnp.diagonal(cholesky(spread[:, :-1, :-1]), axis1=-2, axis2=-1)), axis=-1)
    half, p = 0.5 * dof[None], d - 1
    log_gate = log_gamma(half + 0.5 * p) - log_gamma(half) - 0.5 * p * jnp.log(jnp.pi * dof)[None] - log_det[None]
    log_gate = log_gate - (half + 0.5 * p) * jnp.log1p(square / dof[None])
    scale = rest[None] * (dof[None] + square) / (dof[None] + p)
    left = dof + p  # degrees of freedom given x; a variance needs more than two
    variance = jnp.where(left > 2.0, left / jnp.maximum(left - 2.0, 1e-300), jnp.inf)[None] * scale
    return log_gate, components.location[:, -1][None] + jnp.sum(apart * slope[None], axis=-1), variance


def _given(location: Float[Array, "k d1"], precision: Float[Array, "k d1 d1"], x: Float[Array, "n d"]) -> Any:
    """`_averaged` for known means and precisions."""
    spread = explicit_inverse(cholesky(precision))
    factor, apart, slope, rest = _split(location, spread, x)
    log_det = jnp.sum(jnp.log(jnp.diagonal(cholesky(spread[:, :-1, :-1]), axis1=-2, axis2=-1)), axis=-1)
    log_gate = -0.5 * (jnp.sum(jnp.square(factor), axis=-1) + x.shape[1] * LOG_2PI) - log_det[None]
    mean = location[:, -1][None] + jnp.sum(apart * slope[None], axis=-1)
    return log_gate, mean, jnp.broadcast_to(rest[None], mean.shape)


def _split(location: Array, spread: Array, x: Float[Array, "n d"]) -> tuple[Array, Array, Array, Array]:
    """L⁻¹(x − μ_x) with L Lᵀ the inputs' part of the spread, x − μ_x, the slopes of y, and the residual spread of y."""
    factor = cholesky(spread[:, :-1, :-1])
    apart = x[:, None] - location[None, :, :-1]
    white = jax.vmap(lambda one: jax.scipy.linalg.solve_triangular(factor, one[..., None], lower=True)[..., 0])(apart)
    slope = jax.scipy.linalg.cho_solve((factor, True), spread[:, :-1, -1:])[..., 0]
    return white, apart, slope, spread[:, -1, -1] - jnp.sum(slope * spread[:, :-1, -1], axis=-1)
