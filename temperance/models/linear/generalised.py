"""Generalised linear regressions: yes or no, counts, grades, and numbers between limits.

    α_g ~ Gamma,   w_i | α ~ N(0, 1/α_{g(i)}),   a_n = w · φ(x_n) + o_n,   y_n ~ p(y | a_n)

At a draw `log_evidence` is the exact log p(y | a). At E[w] and E[wwᵀ] it is a lower bound on E log p(y | a), that of
the model's link (`links.py`). Where it is convex in the statistics, a step to the gradient raises the bound; for counts
a sweep halves the step until it does. With a key the gradient is that of a second-order expansion of log p(y | a) at
the draw: the proposal of a Metropolis–Hastings step, at any power of the likelihood.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Array, ArrayLike, Float, Key

from ..._arguments import optional, whole
from ...data import as_weights
from ...data.features import Standardised, as_inputs, as_inputs_and_targets
from ...errors import InvalidData, InvalidParameter
from ...families import Gamma, Normal, NormalVector, Point
from ...families._family import Family
from ...families.links import FAR, Censored, Link, Logistic, LogPoisson, Ordered, Probit, Truncated
from ...numerics.linalg import cholesky, explicit_inverse
from ...numerics.quadrature import tilted_moments
from .._answers import Sited
from .._data import Data, make_data, over_blocks
from .._model import Means, Posterior, Powers, add
from . import Prediction, positive
from .regression import Designed, quadratic_forms, rows_at_a_time

_LARGEST_COUNT = 1e15


class Cases(NamedTuple):
    """The contents of `Data.values`: standardised features (with a column of ones for an intercept), targets, and known
    terms of a."""

    features: Any  # (n, p)
    target: Any  # (n,)
    offset: Any  # (n,)


class GeneralisedRegression(Designed, Sited):
    """A regression whose likelihood is log-concave in a = w · φ(x) + o."""

    offset: int | None = eqx.field(static=True)  # the number of the column of X that holds o

    def __init__(
        self,
        features: Any = None,
        *,
        intercept: bool | str = True,
        prior: Gamma | Normal | ArrayLike | None = None,
        ard: bool = False,
        offset: int | None = None,
    ):
        super().__init__(features, intercept, prior, ard)
        optional(whole(0))("offset", offset)
        self.offset = offset

    # ---- the likelihood -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def link(self) -> Link:
        """p(y | a)."""

    def log_factor(self, a: Float[Array, "*m n"], target: Float[Array, " n"]) -> Float[Array, "*m n"]:
        return self.link.log_factor(a, target.reshape((1,) * (a.ndim - 1) + (-1,)))

    def expected(
        self, mean: Float[Array, " n"], square: Float[Array, " n"], target: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        """A lower bound on E log p(y | a) from E[a] and E[a²], which is exact where a is known."""
        return self.link.expected(mean, square, target)

    def expansion(self, a: Float[Array, " n"], target: Float[Array, " n"]) -> tuple[Array, Array, Array]:
        """log p(y | a) and its first two derivatives."""
        return self.link.expansion(a, target)

    def typical(self, target: Float[Array, " n"]) -> Float[Array, " n"]:
        """The a from which a search for the weights starts."""
        return self.link.typical(target)

    def target_moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        """Mean and variance of y where a ~ N(mean, variance)."""
        return self.link.moments(mean, variance)

    @abstractmethod
    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        """The targets in the model's form, or an error that says what is wrong with them."""

    def link_column(self, column: np.ndarray) -> np.ndarray:
        """o from its column of X."""
        return column

    # ---- the model ----------------------------------------------------------------------------------------

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        return (("weights",), ("alpha",)) if "alpha" in self.prior else (("weights",),)

    @property
    def apart(self) -> tuple[str, ...]:
        return ("alpha",) if "alpha" in self.prior else ()

    @property
    def unconjugate(self) -> dict[str, bool]:
        return {"weights": not self.link.convex}

    def log_evidence(
        self, m: Means, x: Cases, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        w = m["weights"]
        product = x.features @ w.linear
        mean = product + x.offset
        # E[a²]; `precision` of a Normal's statistics is −½ E[w wᵀ].
        square = -2.0 * quadratic_forms(x.features, w.precision)
        square = square + x.offset * (2.0 * product + x.offset)
        if key is None:
            return jnp.asarray(powers.observation) * self.expected(mean, square, x.target)
        value, first, second = self.expansion(stop_gradient(mean), x.target)
        tangent = first * mean + 0.5 * second * (square - 2.0 * stop_gradient(mean) * mean)
        return jnp.asarray(powers.observation) * (value + tangent - stop_gradient(tangent))

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Cases:
        """Targets at standard Normal inputs: the model does not describe its inputs."""
        key_x, key_y = jax.random.split(key)
        features = self.simulated_features(key_x, n, draws["weights"].shape[0])
        return Cases(features, self.link.draw(key_y, features @ draws["weights"]), jnp.zeros(n))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """Precisions of order one, times a random factor; then one Newton step for the weights from typical a, or with
        many rows as many steps as converge."""
        from ...kernels.regression_start import has_many, near_maximum

        p = self._weights_prior()
        blocks = self.guess_alpha(key, 1.0)
        prior = p.natural({name: family.mean() for name, family in blocks.items()})
        if has_many(data.values.features):
            return Posterior(blocks | {"weights": p.family(near_maximum(self, prior, data))}, {})

        def step(rows: tuple[Cases, Array], _: Array) -> tuple[NormalVector, tuple[()]]:
            x, weights = rows
            a = self.typical(x.target)
            _, first, second = self.expansion(a, x.target)
            curvature = -weights * second
            linear = (weights * first + curvature * (a - x.offset)) @ x.features
            return NormalVector(linear, (curvature[None] * x.features.T) @ x.features), ()

        message, _ = over_blocks(step, (data.values, data.weights), *data.cuts)
        return Posterior(blocks | {"weights": p.family(add(prior, message))}, {})

    # ---- data in ------------------------------------------------------------------------------------------

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        x, y = as_inputs_and_targets(data)
        weights = as_weights(weights, x.shape[0])
        share = np.ones(x.shape[0]) if weights is None else weights
        rest, offset = self._split(x)
        features = self.features.complete(rest, share)
        phi = self.checked_features(features, rest)
        at = Standardised.of(phi, np.zeros(len(y)), share, bool(self.intercept))
        model = self._with(prior=self.weight_priors(at), features=features, coordinates=at, columns=x.shape[1])
        rows = Cases(phi, self.checked_targets(y), offset)
        return model, make_data(rows, weights, rows_at_a_time(at) // 3, at.place)

    def _split(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The columns of X without the one that holds o, and o."""
        if self.offset is None:
            return x, np.zeros(len(x))
        if self.offset >= x.shape[1]:
            raise InvalidData(f"offset is column {self.offset} of X, but X has {x.shape[1]} columns")
        return np.delete(x, self.offset, axis=1), self.link_column(x[:, self.offset])

    def new_rows(self, data: Any) -> Cases:
        x, y = as_inputs_and_targets(data)
        return Cases(*self._rows(x, self.checked_targets(y)))

    def _rows(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self.require_columns(x)
        rest, offset = self._split(x)
        return self._at().design(self.checked_features(self.features, rest)), y, offset

    # ---- answers out --------------------------------------------------------------------------------------

    def site_marginals(self, weights: Family, x: Cases) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Mean and variance of a under a Normal over the weights, or at a point."""
        mean = x.features @ weights.mode() + x.offset
        if isinstance(weights, Point):
            return mean, jnp.zeros_like(mean)
        covariance = explicit_inverse(cholesky(weights.natural.precision))
        return mean, jnp.sum((x.features @ covariance) * x.features, axis=1)

    def log_predictive(self, q: Posterior, x: Cases) -> Float[Array, " n"]:
        """log ∫ p(y | a) q(a) da, by quadrature."""
        mean, variance = self.site_marginals(q.blocks["weights"], x)
        return tilted_moments(lambda a: self.log_factor(a, x.target), mean, variance).log_z

    def predict(self, q: Any, inputs: Any) -> Prediction:
        """Mean (for yes or no, the probability of yes) and variance of y at each row of X."""
        x = as_inputs(inputs)
        return Prediction(*map(np.asarray, _moments(self, q, Cases(*self._rows(x, np.zeros(len(x)))))))

    def fitted(self, q: Any, data: Data) -> tuple[np.ndarray, np.ndarray]:
        found = np.asarray(data.values.target), np.asarray(_moments(self, q, data.values)[0])
        return found[0][: data.size], found[1][: data.size]


@eqx.filter_jit
def _moments(model: GeneralisedRegression, q: Any, x: Cases) -> tuple[Array, Array]:
    if isinstance(q, Posterior):
        return model.target_moments(*model.site_marginals(q.blocks["weights"], x))
    draws, log_weights = q.flat()
    share = jnp.exp(log_weights)
    a = x.features @ draws["weights"].T + x.offset[:, None]
    a = jnp.where(share[None] > 0.0, a, 0.0)  # draws far away, with a share of zero, may have an infinite mean
    mean, variance = jax.vmap(lambda a: model.target_moments(a, jnp.zeros_like(a)), 1, 1)(a)
    centre = mean @ share
    spread = jnp.square(mean - centre[:, None]) @ share
    return centre, variance @ share + jnp.where(jnp.isinf(centre), jnp.inf, spread)


class _YesOrNo(GeneralisedRegression):
    """Targets 0 and 1, kept as s = −1 and 1."""

    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        wrong = (y != 0) & (y != 1)
        if wrong.any():
            more = (
                "; for several classes use g.softmax in a tp.Graph" if (y == np.round(y)).all() and y.min() >= 0 else ""
            )
            raise InvalidData(f"y must be 0 or 1 for {type(self).__name__}, got {y[wrong][0]:g}{more}")
        return 2.0 * y - 1.0

    def fitted(self, q: Any, data: Data) -> tuple[np.ndarray, np.ndarray]:
        signs, mean = super().fitted(q, data)
        return (signs + 1.0) / 2.0, mean


class LogisticRegression(_YesOrNo):
    """p(y = 1) = 1/(1 + exp(−a)); the data are a pair (X, y) with y of 0 and 1.

    `features`, `intercept`, `prior` and `ard` are those of `tp.LinearRegression`, with a in place of y. `offset` is
    the number of a column of X that is added to a as it is.
    """

    @property
    def link(self) -> Link:
        return Logistic()


class ProbitRegression(_YesOrNo):
    """p(y = 1) = Φ(a), the normal distribution function; the arguments are those of `tp.LogisticRegression`."""

    @property
    def link(self) -> Link:
        return Probit()


class PoissonRegression(GeneralisedRegression):
    """y ~ Poisson(exposure · exp a), counts; the data are a pair (X, y).

    `exposure` is the number of a column of X with the time, area or population behind each count, which multiplies the
    rate; `offset` that of a column that is added to a as it is. The other arguments are those of `tp.LinearRegression`.
    """

    exposed: bool = eqx.field(static=True)

    def __init__(
        self,
        features: Any = None,
        *,
        intercept: bool | str = True,
        prior: Gamma | Normal | ArrayLike | None = None,
        ard: bool = False,
        offset: int | None = None,
        exposure: int | None = None,
    ):
        optional(whole(0))("exposure", exposure)
        if exposure is not None and offset is not None:
            raise InvalidData("offset and exposure cannot both be given: the offset is the logarithm of the exposure")
        super().__init__(
            features, intercept=intercept, prior=prior, ard=ard, offset=offset if exposure is None else exposure
        )
        self.exposed = exposure is not None

    @property
    def link(self) -> Link:
        return LogPoisson()

    def link_column(self, column: np.ndarray) -> np.ndarray:
        if not self.exposed:
            return column
        if (column <= 0).any():
            raise InvalidData(f"exposure must be positive, found {column[column <= 0][0]:g}")
        return np.log(column)

    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        wrong = (y < 0) | (y != np.floor(y)) | (y > _LARGEST_COUNT)
        if wrong.any():
            raise InvalidData(f"y must be counts (0, 1, 2, …) for PoissonRegression, got {y[wrong][0]:g}")
        return y


# ---- a Normal target of which only a part is seen -------------------------------------------------------------


class OrderedRegression(GeneralisedRegression):
    """Ordered categories 0, 1, 2, …: y is the number of `cuts` below z ~ N(a, 1) (ordered probit).

    The data are a pair (X, y). `cuts` are known numbers in increasing order, and the intercept moves them together;
    with one cut, at 0, this is `tp.ProbitRegression`. The other arguments are those of `tp.LogisticRegression`.
    """

    cuts: Float[Array, " c"]

    def __init__(
        self,
        cuts: ArrayLike,
        features: Any = None,
        *,
        intercept: bool | str = True,
        prior: Gamma | Normal | ArrayLike | None = None,
        ard: bool = False,
        offset: int | None = None,
    ):
        ends = np.asarray(cuts, dtype=np.float64)
        if ends.ndim != 1 or not ends.size or not np.isfinite(ends).all() or (np.diff(ends) <= 0).any():
            raise InvalidParameter(f"cuts must be a row of increasing finite numbers, got {cuts!r}")
        super().__init__(features, intercept=intercept, prior=prior, ard=ard, offset=offset)
        self.cuts = jnp.asarray(ends)

    @property
    def link(self) -> Link:
        return Ordered(jnp.ones(()), self.cuts)

    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        most = len(self.cuts)
        wrong = (y < 0) | (y > most) | (y != np.floor(y))
        if wrong.any():
            raise InvalidData(f"y must be categories 0 to {most}, as there are {most} cuts, got {y[wrong][0]:g}")
        return y


class _Limited(GeneralisedRegression):
    """z ~ N(a, 1/noise) with a lower and an upper limit, and a noise that is known."""

    scale: Float[Array, ""]  # the root of the precision
    lower: Float[Array, ""]
    upper: Float[Array, ""]

    def __init__(
        self,
        features: Any = None,
        *,
        lower: float = -np.inf,
        upper: float = np.inf,
        noise: ArrayLike = 1.0,
        intercept: bool | str = True,
        prior: Gamma | Normal | ArrayLike | None = None,
        ard: bool = False,
    ):
        if not lower < upper:
            raise InvalidParameter(f"lower must be below upper, got {lower!r} and {upper!r}")
        super().__init__(features, intercept=intercept, prior=prior, ard=ard)
        self.scale = jnp.sqrt(positive("noise", noise))
        self.lower, self.upper = (jnp.asarray(np.clip(float(end), -FAR, FAR)) for end in (lower, upper))


class CensoredRegression(_Limited):
    """A linear regression whose targets are cut off at known limits (tobit).

    A target at `lower` or below says only that z is somewhere below it. A target at `upper` or above says only that z
    is somewhere above it. `noise` is the known precision of z; `predict` gives the mean and variance of z.

    The data are a pair (X, y); the other arguments are those of `tp.LogisticRegression`.
    """

    @property
    def link(self) -> Link:
        return Censored(self.scale, self.lower, self.upper)

    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        return np.clip(y, np.asarray(self.lower), np.asarray(self.upper))


class TruncatedRegression(_Limited):
    """A linear regression of targets that are recorded only between two limits: not even the number of the others is
    known.

    `lower` is the lower limit, if there is one. `upper` is the upper limit, if there is one. `noise` is the known
    precision before truncation; `predict` gives the mean and variance of a target that is recorded.

    The data are a pair (X, y); the other arguments are those of `tp.LogisticRegression`.
    """

    @property
    def link(self) -> Link:
        return Truncated(self.scale, self.lower, self.upper)

    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        low, high = np.asarray(self.lower), np.asarray(self.upper)
        wrong = (y < low) | (y > high)
        if wrong.any():
            raise InvalidData(
                f"y must lie between {low:g} and {high:g}, where targets are recorded, got {y[wrong][0]:g}; "
                "tp.CensoredRegression is for targets that are cut off at a limit"
            )
        return y
