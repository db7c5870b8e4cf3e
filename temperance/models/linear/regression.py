"""Linear regression with Gaussian noise and priors over the weights, their precision and the noise.

    α_g ~ Gamma,   w_i | α ~ N(0, 1/α_{g(i)}),   β ~ Gamma,   y_n ~ N(w · φ(x_n), 1/β)

One α for all weights, or one for each (automatic relevance determination), or α known; β unknown or known. `Designed`
is the base of all regressions: features, an intercept, the prior over the weights, and the user's units.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ...data import as_weights
from ...data.features import (
    Features,
    Polynomial,
    Rows,
    Standardised,
    as_features,
    as_inputs,
    as_inputs_and_targets,
    check_features,
    condition_at_most,
    condition_number,
)
from ...errors import InvalidData, InvalidParameter, UnsupportedMethod
from ...families import Gamma, GammaVector, Normal, Point
from ...families._family import Family, as_float, require_finite_positive
from ...numerics.linalg import cholesky, explicit_inverse
from ...numerics.special import LOG_2PI, log_gamma
from ...numerics.volumes import gaussian_volumes, infinite
from .._about import DEGREE, Units, Words
from .._answers import Regressing, Sited
from .._blocks import Heat, Normaliser, Tempering, exact, gaussian_heat
from .._data import Data, RowAccess, count, make_data
from .._model import Conditional, Means, Model, Posterior, Powers, add
from . import Prediction, WeightsPrior, in_user_units, normal, relative, with_precision

# A weight is pruned when its α can grow past the data's precision, and α can grow to about 1/(2 · this rate).
VAGUER = 1e-6

ILL_CONDITIONED = 1e6


class Designed(Regressing, Model):
    """A regression on features; see `LinearRegression` for the arguments."""

    prior: dict[str, Family | Conditional]  # complete once there are data
    features: Features
    weight_prior: Family | Array | None  # as given
    coordinates: Standardised | None
    intercept: bool | str = eqx.field(static=True)
    ard: bool = eqx.field(static=True)
    columns: int | None = eqx.field(static=True)

    def __init__(self, features: Any, intercept: bool | str, prior: Gamma | Normal | ArrayLike | None, ard: bool):
        if not isinstance(intercept, bool) and intercept != "shared":
            raise InvalidParameter(f'intercept must be True, False or "shared", got {intercept!r}')
        if ard and not (prior is None or isinstance(prior, Gamma)):
            raise InvalidParameter(f"with ard=True prior must be a tp.Gamma over each precision, got {prior!r}")
        self.features = as_features(features)
        self.weight_prior = as_prior("prior", prior, (Gamma, Normal))
        self.intercept, self.ard = intercept, bool(ard)
        self.prior, self.coordinates, self.columns = {}, None, None

    # ---- the model ----------------------------------------------------------------------------------------

    @property
    def words(self) -> Words:
        degree = self.features.degree if isinstance(self.features, Polynomial) else None
        axes = {"weights": ("weight",), "alpha": ("weight" if self.ard else "precision",)}
        return DEGREE.of(degree, axes, {} if self.coordinates is None else {"weight": self._weight_names()})

    @property
    def units(self) -> Units:
        return DesignUnits(self._at())

    def simulated_features(self, key: Key[Array, ""], n: int, size: int) -> Float[Array, "n p"]:
        """Standard Normal rows, with the intercept's ones: the model does not describe its inputs."""
        features = jax.random.normal(key, (n, size))
        return features.at[:, 0].set(1.0) if self.intercept else features

    def guess_alpha(self, key: Key[Array, ""], spread: ArrayLike) -> dict[str, Family]:
        """The unknown precisions, guessed for targets of this variance, times a random factor."""
        if "alpha" not in self.prior:
            return {}
        p = self._weights_prior()
        size = spread * jnp.mean(jnp.square(p.matrix), axis=1) + jnp.square(p.offset)
        count = jnp.sum(p.members, axis=0)
        return {"alpha": self._guess("alpha", key, count / (size @ p.members), count)}

    def _guess(self, name: str, key: Key[Array, ""], centre: Array, count: Array) -> Family:
        """The Gamma with the posterior's shape, and a mean near `centre`."""
        p = self.prior[name]
        assert isinstance(p, Family)
        centre = centre * jnp.exp(jax.random.normal(key, centre.shape))
        log = p.natural.log + 0.5 * count
        return p.with_natural(GammaVector(log, -(log + 1.0) / centre))

    # ---- data in ------------------------------------------------------------------------------------------

    def checked_features(self, features: Features, x: np.ndarray) -> np.ndarray:
        phi = features(x)
        phi = phi if phi is x else check_features(phi)  # x itself has been checked already
        if phi.shape[1] == 0 and not self.intercept:
            raise InvalidParameter("there is nothing to fit: there are no features, and intercept is False")
        return phi

    def weight_priors(self, at: Standardised) -> dict[str, Family | Conditional]:
        """The priors of the weights and of their precision."""
        given, size = self.weight_prior, at.offset.shape[0]
        members = self._members(size)
        priors: dict[str, Family | Conditional] = {}
        if given is None:
            shape = np.full(members.shape[1], VAGUER if self.ard else 0.5)
            if self.intercept is True:
                shape[0] = 0.5  # never pruned: it is relative to the data's mean, which is uncertain
            priors["alpha"] = Gamma(shape, shape)
            priors["weights"] = relative(at, members)
        elif isinstance(given, Gamma):
            priors["alpha"] = Gamma(np.full(members.shape[1], given.shape), given.rate)
            priors["weights"] = in_user_units(at, members)
        elif isinstance(given, Normal):
            priors["weights"] = normal(at, given, bool(self.intercept))
        else:
            assert isinstance(given, jax.Array)
            priors["weights"] = with_precision(at, given)
        return priors

    def _members(self, size: int) -> np.ndarray:
        """The group of each weight, one-hot: a group for each weight with `ard`, else one for all, without the
        intercept unless it is shared."""
        group = np.arange(size) if self.ard else np.zeros(size, dtype=int)
        if not self.ard and self.intercept is True:
            group[1:] = 1
        return np.eye(group.max() + 1)[group]

    def notes(self, data: Data) -> list[str]:
        features = np.asarray(data.values.features)[: data.size]
        size = features.shape[1]
        if data.size >= size and condition_at_most(features) <= ILL_CONDITIONED:
            return []
        flat = np.ptp(features[:, bool(self.intercept) :], axis=0) <= 1e-12
        notes = []
        if data.size < size:
            notes.append(f"there are fewer rows ({data.size}) than weights ({size}): the prior decides the rest")
        elif self.intercept and flat.any():
            which = ", ".join(str(index) for index in np.flatnonzero(flat))
            notes.append(f"constant features ({which}) cannot be told from the intercept: the prior decides")
        elif (condition := condition_number(features)) > ILL_CONDITIONED:
            notes.append(
                f"the features are nearly collinear (condition number {condition:.0e}): single weights mean "
                "little and digits are lost; for powers use the orthonormal basis of tp.Polynomial"
            )
        return notes

    # ---- answers out --------------------------------------------------------------------------------------

    def require_columns(self, x: np.ndarray) -> None:
        if x.shape[1] != self.columns:
            raise InvalidData(f"X has {x.shape[1]} columns, but the model was fitted to {self.columns}")

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        raise UnsupportedMethod(
            f"{type(self).__name__} does not describe its inputs, so it cannot sample new data; "
            "fit.predict(X) gives the mean and variance of y at inputs of your choice"
        )

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        blocks = self.units.to_user(q.blocks)
        weights = blocks["weights"]
        mean = np.asarray(weights.mode())
        table = {"weight": self._weight_names(), "mean": mean.tolist()}
        if isinstance(weights, Normal):
            table["sd"] = np.sqrt(np.diagonal(np.asarray(weights.covariance))).tolist()
        if "alpha" in blocks:
            table["alpha"] = np.asarray(self._weights_prior().members @ blocks["alpha"].mean().value).tolist()
        return table

    # ---- pieces -------------------------------------------------------------------------------------------

    def _weight_names(self) -> list[str]:
        names = [f"feature {index}" for index in range(self._at().offset.shape[0] - bool(self.intercept))]
        return ["intercept", *names] if self.intercept else names

    def _at(self) -> Standardised:
        assert self.coordinates is not None, "prepare completes the model"
        return self.coordinates

    def _weights_prior(self) -> WeightsPrior:
        p = self.prior["weights"]
        assert isinstance(p, WeightsPrior)
        return p


def quadratic_forms(features: Float[Array, "n p"], matrix: Float[Array, "p p"]) -> Float[Array, " n"]:
    """φᵀ M φ for each row φ. Written so that its derivative by M is a product that XLA need not transpose: it then
    takes half as long."""
    return jnp.sum((matrix @ features.T) * features.T, axis=0)


def weighted_squares(features: Float[Array, "n p"], weights: Float[Array, " n"]) -> Float[Array, "p p"]:
    """Σ_n w_n φ_n φ_nᵀ: three quarters of the product, and the rest by its symmetry."""
    half = features.shape[1] // 2
    scaled = weights[None] * features.T
    above, right = scaled[:half] @ features, scaled[half:] @ features[:, half:]
    below = jnp.concatenate([above[:, half:].T, right], axis=1)
    return jnp.concatenate([above, below], axis=0)


def rows_at_a_time(at: Standardised) -> int:
    """The number of rows whose features, and their products with the weights, fit in the cache."""
    return max(256, 2**16 // len(at.width))


def as_prior(name: str, value: Any, families: tuple[type, ...]) -> Any:
    """One of these families, or a known precision, or None."""
    if value is None:
        return None
    if isinstance(value, Family) and isinstance(value, families) and not value.batch_shape:
        return value
    if isinstance(value, Family) or np.ndim(value) != 0:
        accepted = " or ".join(f"a tp.{family.__name__}" for family in families)
        raise InvalidParameter(f"{name} must be a positive number, {accepted} (a single one), or None, got {value!r}")
    try:
        precision = as_float(value)
    except (TypeError, ValueError):
        raise InvalidParameter(f"{name} must be a number or a distribution, got {value!r}") from None
    require_finite_positive(**{name: precision})
    return precision


# ---- Gaussian noise ----------------------------------------------------------------------------------------


VAGUE = 1e-3  # shape of the vague Gamma over the noise precision: a five-hundredth of an observation


class Location(NamedTuple):
    """The density of each target: centre, squared scale, and degrees of freedom (None for a Gaussian)."""

    centre: Float[Array, " n"]
    square: Float[Array, " n"]
    dof: Float[Array, ""] | None

    def log_density(self, y: Float[Array, " n"]) -> Float[Array, " n"]:
        distance = jnp.square(y - self.centre) / self.square
        if self.dof is None:
            return -0.5 * (LOG_2PI + jnp.log(self.square) + distance)
        half = 0.5 * self.dof
        constant = log_gamma(half + 0.5) - log_gamma(half) - 0.5 * jnp.log(2.0 * jnp.pi * half)
        return constant - 0.5 * jnp.log(self.square) - (half + 0.5) * jnp.log1p(distance / self.dof)

    def variance(self) -> Float[Array, " n"]:
        """Infinite for a Student-t with two degrees of freedom or fewer."""
        if self.dof is None:
            return self.square
        return self.square * jnp.where(self.dof > 2.0, self.dof / jnp.maximum(self.dof - 2.0, 1e-300), jnp.inf)


class DesignUnits(Units):
    """Units for standardised features."""

    at: Standardised

    def to_user(self, blocks: dict[str, Family]) -> dict[str, Family]:
        weights = blocks["weights"]
        return blocks | {"weights": weights.with_natural(self.at.to_user(weights.natural))}

    def draws_to_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        return draws | {"weights": self.at.draw_to_user(draws["weights"])}

    @property
    def log_stretch(self) -> Float[Array, ""]:
        return self.at.log_det


class TargetUnits(DesignUnits):
    """Units for standardised features and targets."""

    def log_unit(self, data: Data) -> Float[Array, ""]:
        return data.total_weight * jnp.log(self.at.target_width)


class Pairs(RowAccess):
    """Access to rows that are pairs of inputs and a target."""

    without_latents: ClassVar[bool] = True


class NoiseTempering(Tempering):
    """Tempering of Gaussian noise: the volume of a tempered Gaussian does not depend on its mean."""

    def log_normaliser(self, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
        if "noise" in self.model.prior:
            raise infinite("noise")
        return exact(count(data) * gaussian_volumes(1.0 / temperatures, 1, -float(self.model._known_noise().log)))

    def heat(self, data: Data, powers: np.ndarray) -> Heat:
        return gaussian_heat(powers, 1)

    def numbers_each(self, x: Rows) -> int:
        return 1

    def log_peak(self, m: Means, width: int) -> Float[Array, ""]:
        beta = m["noise"] if "noise" in self.model.prior else self.model._known_noise()
        return 0.5 * (beta.log - LOG_2PI)


class LinearRegression(Designed, Sited):
    """Bayesian linear regression; the data are a pair (X, y).

    `features` is `tp.Polynomial(degree)`, a function of X, or None for the columns of X. `intercept` adds a
    constant with a precision of its own (True), with that of the other weights ("shared"), or not (False).

    `prior` is about the weights in the user's units: a `tp.Gamma` over their precision α, a number for a
    known α, or a `tp.Normal` over all of them (the intercept first). `ard=True` gives each weight its own α.
    By default α is relative to the spread of the features and of y: Gamma(½, ½), or a vague one for `ard`.
    `noise` is a `tp.Gamma` over the noise precision β, a number for a known one, or None for a vague Gamma.
    """

    noise_prior: Family | Array | None  # as given; an array is a known precision

    def __init__(
        self,
        features: Any = None,
        *,
        intercept: bool | str = True,
        prior: Gamma | Normal | ArrayLike | None = None,
        noise: Gamma | ArrayLike | None = None,
        ard: bool = False,
    ):
        super().__init__(features, intercept, prior, ard)
        self.noise_prior = as_prior("noise", noise, (Gamma,))

    # ---- the model ----------------------------------------------------------------------------------------

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Given the weights the precisions are independent; neither is independent of the weights."""
        precisions = tuple(name for name in ("alpha", "noise") if name in self.prior)
        return (("weights",), precisions) if precisions else (("weights",),)

    def log_evidence(
        self, m: Means, x: Rows, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        w = m["weights"]
        # E(y − w·φ)²; `precision` of a Normal's statistics is −½ E[w wᵀ].
        cross = x.features @ w.linear
        square = -2.0 * quadratic_forms(x.features, w.precision)
        residual = jnp.square(x.target) - 2.0 * x.target * cross + square
        beta = m["noise"] if "noise" in self.prior else self._known_noise()
        return powers.observation * 0.5 * (beta.log - LOG_2PI - beta.value * residual)

    def _known_noise(self) -> GammaVector:
        assert isinstance(self.noise_prior, jax.Array)
        return GammaVector(jnp.log(self.noise_prior), self.noise_prior)

    def log_factor(self, a: Float[Array, "*m n"], target: Float[Array, " n"]) -> Float[Array, "*m n"]:
        """log p(y | a) for a known noise; message passing adds a learned noise to the sites."""
        beta = self._known_noise()
        return 0.5 * (beta.log - LOG_2PI - beta.value * jnp.square(target - a))

    # ---- parts --------------------------------------------------------------------------------------------

    @property
    def units(self) -> Units:
        return TargetUnits(self._at())

    @property
    def rows(self) -> RowAccess:
        return Pairs(self)

    @property
    def tempering(self) -> Tempering:
        return NoiseTempering(self)

    # ---- draws and starts ---------------------------------------------------------------------------------

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Rows:
        """Targets at standard Normal inputs: the model does not describe its inputs."""
        key_x, key_y = jax.random.split(key)
        features = self.simulated_features(key_x, n, draws["weights"].shape[0])
        beta = draws["noise"] if "noise" in self.prior else self._known_noise().value
        return Rows(features, features @ draws["weights"] + jax.random.normal(key_y, (n,)) / jnp.sqrt(beta))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """Precisions that fit the data's variance, times a random factor; then the best weights given these
        precisions."""
        p = self._weights_prior()
        spread = jnp.sum(data.weights * jnp.square(data.values.target)) / jnp.sum(data.weights)
        spread = jnp.where(spread > 0.0, spread, jnp.square(self._at().target_width))
        key_alpha, key_noise = jax.random.split(key)
        blocks = self.guess_alpha(key_alpha, spread)
        if "noise" in self.prior:
            blocks["noise"] = self._guess("noise", key_noise, 1.0 / spread, data.total_weight)
        m = {name: family.mean() for name, family in blocks.items()}
        # The message to the weights does not depend on the weights, so it is taken at zero statistics.
        m["weights"] = p.family(p.natural(m)).statistics(jnp.zeros_like(p.offset))
        walked = self.walk(m, data)
        natural = add(jax.grad(self.log_prior)(m), walked.messages)["weights"]
        return Posterior(blocks | {"weights": p.family(natural)}, {})

    # ---- data in ------------------------------------------------------------------------------------------

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        x, y = as_inputs_and_targets(data)
        weights = as_weights(weights, x.shape[0])
        share = np.ones(x.shape[0]) if weights is None else weights
        features = self.features.complete(x, share)
        phi = self.checked_features(features, x)
        at = Standardised.of(phi, y, share, bool(self.intercept))
        model = self._with(prior=self._priors(at), features=features, coordinates=at, columns=x.shape[1])
        rows = Rows(phi, y - np.asarray(at.target))
        return model, make_data(rows, weights, rows_at_a_time(at), at.place)

    def _priors(self, at: Standardised) -> dict[str, Family | Conditional]:
        priors = self.weight_priors(at)
        if self.noise_prior is None:
            priors["noise"] = Gamma(VAGUE, VAGUE * np.square(np.asarray(at.target_width)))
        elif isinstance(self.noise_prior, Gamma):
            priors["noise"] = self.noise_prior
        return priors

    def notes(self, data: Data) -> list[str]:
        notes = super().notes(data)
        if np.ptp(np.asarray(data.values.target)[: data.size]) == 0.0:
            notes.append("y is constant: the size of the noise is the prior's guess")
        return notes

    # ---- answers out --------------------------------------------------------------------------------------

    def new_rows(self, data: Any) -> Rows:
        x, y = as_inputs_and_targets(data)
        return Rows(self._design(x), y - np.asarray(self._at().target))

    def _design(self, x: np.ndarray) -> np.ndarray:
        self.require_columns(x)
        return self._at().design(self.checked_features(self.features, x))

    def log_predictive(self, q: Posterior, x: Rows) -> Float[Array, " n"]:
        """A Student-t with the noise's degrees of freedom; a Gaussian if the noise is known."""
        return self.predictive(q, x.features).log_density(x.target)

    def predict(self, q: Any, inputs: Any) -> Prediction:
        """Mean and variance of y at each row of X, from a posterior or from draws of one."""
        mean, variance = _moments(self, q, self._design(as_inputs(inputs)))
        return Prediction(np.asarray(mean) + np.asarray(self._at().target), np.asarray(variance))

    def fitted(self, q: Any, data: Data) -> tuple[np.ndarray, np.ndarray]:
        rows, target = data.values, np.asarray(self._at().target)
        found = np.asarray(rows.target), np.asarray(_moments(self, q, rows.features)[0])
        return found[0][: data.size] + target, found[1][: data.size] + target

    def predictive(self, q: Posterior, features: Float[Array, "n p"]) -> Location:
        """The density of the (centred) target at each row of features."""
        weights, noise = q.blocks["weights"], q.blocks.get("noise")
        centre, square = features @ weights.mode(), jnp.zeros(features.shape[0])
        if not isinstance(weights, Point):
            covariance = explicit_inverse(cholesky(weights.natural.precision))
            square = jnp.sum((features @ covariance) * features, axis=1)
        if isinstance(noise, Gamma):
            return Location(centre, square + noise.rate / noise.shape, 2.0 * noise.shape)
        beta = self._known_noise().value if noise is None else noise.mode()
        return Location(centre, square + 1.0 / beta, None)


@eqx.filter_jit
def _moments(model: LinearRegression, q: Any, features: Any) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    if isinstance(q, Posterior):
        at = model.predictive(q, features)
        return at.centre, at.variance()
    draws, log_weights = q.flat()
    share = jnp.exp(log_weights)
    each = features @ draws["weights"].T
    mean = each @ share
    beta = draws["noise"] if "noise" in draws else jnp.broadcast_to(model._known_noise().value, share.shape)
    beta = jnp.where(share > 0.0, beta, 1.0)
    return mean, jnp.square(each - mean[:, None]) @ share + share @ (1.0 / beta)
