"""What regressions share: features, an intercept, a prior over the weights, and the way to the user's units.

    α_g ~ Gamma,   w_i | α ~ N(0, 1/α_{g(i)}),   a_n = w · φ(x_n)

One α for all weights, or one for each (automatic relevance determination), or α known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ...data.features import (
    Features,
    Polynomial,
    Standardised,
    as_features,
    check_features,
    condition_at_most,
    condition_number,
)
from ...errors import InvalidData, InvalidParameter, UnsupportedMethod
from ...families import Gamma, GammaVector, Normal
from ...families._family import Family, as_float, require_finite_positive
from .._about import DEGREE, Words
from .._answers import Regressing
from .._data import Data
from .._model import Conditional, Model, Posterior
from .priors import WeightsPrior, in_user_units, normal, relative, with_precision

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
    words: ClassVar[Words] = DEGREE

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
    def size(self) -> int | None:
        return self.features.degree if isinstance(self.features, Polynomial) else None

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        return {"weights": ("weight",), "alpha": ("weight" if self.ard else "precision",)}

    @property
    def labels(self) -> dict[str, Sequence[Any]]:
        return {} if self.coordinates is None else {"weight": self._weight_names()}

    def simulated_features(self, key: Key[Array, ""], n: int, size: int) -> Float[Array, "n p"]:
        """Standard Normal rows, with the intercept's ones: the model does not describe its inputs."""
        features = jax.random.normal(key, (n, size))
        return features.at[:, 0].set(1.0) if self.intercept else features

    def guess_alpha(self, key: Key[Array, ""], spread: ArrayLike) -> dict[str, Family]:
        """Precisions, where they are unknown, that suit targets of this variance, times a random factor."""
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
        phi = check_features(features(x))
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
                shape[0] = 0.5  # never pruned: the data's mean, on which it is centred, is itself uncertain
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
        """The group of each weight, one-hot: its own with `ard`, else one for all, from which the intercept is apart
        unless it is shared."""
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

    def to_user(self, blocks: dict[str, Family]) -> dict[str, Family]:
        weights = blocks["weights"]
        return blocks | {"weights": weights.with_natural(self._at().to_user(weights.natural))}

    def draws_to_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        return draws | {"weights": self._at().draw_to_user(draws["weights"])}

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        blocks = self.to_user(q.blocks)
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


def rows_at_a_time(at: Standardised) -> int:
    """So many that their features and the products of these with the weights fit in the cache."""
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
