"""Generalised linear regressions: yes or no by a logistic or probit link, and counts by a log link.

    α_g ~ Gamma,   w_i | α ~ N(0, 1/α_{g(i)}),   a_n = w · φ(x_n) + o_n,   y_n ~ p(y | a_n)

At a draw `log_evidence` is the exact log p(y | a). At E[w] and E[wwᵀ] it is a lower bound on E log p(y | a),

    logistic  s E[a]/2 − log 2 cosh(√E[a²]/2)               Jaakkola & Jordan (2000), the best ξ² = E[a²] put in
    probit    log Φ(s E[a]) − ½ var[a]                      Albert & Chib (1993), the best q(z) put in
    Poisson   y E[a] − exp{E[a] + ½ var[a]} − log y!        exact under a Gaussian

with s = ±1. The first two are convex in the statistics: a step to their gradient raises the bound; for the third a
sweep halves the step until it does. With a key the gradient is that of a second-order expansion of log p(y | a) at the
draw: the proposal of a Metropolis–Hastings step, at any power of the likelihood.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, ArrayLike, Float, Key

from ..._arguments import optional, whole
from ...data import as_weights
from ...data.features import Standardised, as_inputs, as_inputs_and_targets
from ...errors import InvalidData, InvalidParameter
from ...families import Gamma, Normal, NormalVector, Point
from ...families._family import Family
from ...numerics.linalg import cholesky, explicit_inverse
from ...numerics.quadrature import tilted_moments
from ...numerics.special import LOG_2PI, log_gamma
from .._answers import Sited
from .._data import Data, make_data, over_blocks
from .._model import Means, Posterior, Powers, add
from . import Prediction, positive
from .regression import Designed, quadratic_forms, rows_at_a_time

_LARGEST_COUNT = 1e15


class Cases(NamedTuple):
    """What `Data.values` holds: standardised features (with the intercept's ones), targets, and known terms of a."""

    features: Any  # (n, p)
    target: Any  # (n,)
    offset: Any  # (n,)


class GeneralisedRegression(Designed, Sited):
    """A regression whose likelihood is log-concave in a = w · φ(x) + o."""

    offset: int | None = eqx.field(static=True)  # the column of X that holds o

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

    # ---- what each link says ------------------------------------------------------------------------------

    @abstractmethod
    def log_factor(self, a: Float[Array, "*m n"], target: Float[Array, " n"]) -> Float[Array, "*m n"]: ...

    @abstractmethod
    def expected(
        self, mean: Float[Array, " n"], square: Float[Array, " n"], target: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        """A lower bound on E log p(y | a) by E[a] and E[a²], which is exact where a is known."""

    @abstractmethod
    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        """The targets as the model needs them, or the sentence that says what is wrong with them."""

    @abstractmethod
    def draw_targets(self, key: Key[Array, ""], a: Float[Array, " n"]) -> Float[Array, " n"]: ...

    @abstractmethod
    def typical(self, target: Float[Array, " n"]) -> Float[Array, " n"]:
        """The a from which a search for the weights starts."""

    @abstractmethod
    def target_moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        """Mean and variance of y where a ~ N(mean, variance)."""

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
        return {"weights": False}

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

    def expansion(self, a: Float[Array, " n"], target: Float[Array, " n"]) -> tuple[Array, Array, Array]:
        """log p(y | a) and its first two derivatives."""

        def slope(a: Array) -> Array:
            return jax.grad(lambda a: jnp.sum(self.log_factor(a, target)))(a)

        first, second = jax.jvp(slope, (a,), (jnp.ones_like(a),))
        return self.log_factor(a, target), first, second

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Cases:
        """Targets at standard Normal inputs: the model does not describe its inputs."""
        key_x, key_y = jax.random.split(key)
        features = self.simulated_features(key_x, n, draws["weights"].shape[0])
        return Cases(features, self.draw_targets(key_y, features @ draws["weights"]), jnp.zeros(n))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """Precisions of order one, times a random factor; then one step of Newton's method from typical a, or with
        many rows as many as it takes."""
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
        return model, make_data(rows, weights, rows_at_a_time(at), at.place)

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
        """Mean (of yes or no: the probability of yes) and variance of y at each row of X."""
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
    a = x.features @ draws["weights"].T + x.offset[:, None]
    mean, variance = jax.vmap(lambda a: model.target_moments(a, jnp.zeros_like(a)), 1, 1)(a)
    share = jnp.exp(log_weights)
    centre = mean @ share
    return centre, variance @ share + jnp.square(mean - centre[:, None]) @ share


class _YesOrNo(GeneralisedRegression):
    """Targets 0 and 1, kept as s = −1 and 1."""

    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        wrong = (y != 0) & (y != 1)
        if wrong.any():
            raise InvalidData(f"y must be 0 or 1 for {type(self).__name__}, got {y[wrong][0]:g}")
        return 2.0 * y - 1.0

    def fitted(self, q: Any, data: Data) -> tuple[np.ndarray, np.ndarray]:
        signs, mean = super().fitted(q, data)
        return (signs + 1.0) / 2.0, mean

    def draw_targets(self, key: Key[Array, ""], a: Float[Array, " n"]) -> Float[Array, " n"]:
        yes = jnp.log(jax.random.uniform(key, a.shape)) < self.log_factor(a, jnp.ones_like(a))
        return jnp.where(yes, 1.0, -1.0)

    def typical(self, target: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.zeros_like(target)

    def target_moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        yes = jnp.exp(tilted_moments(lambda a: self.log_factor(a, jnp.ones_like(mean)), mean, variance).log_z)
        return yes, yes * (1.0 - yes)


class LogisticRegression(_YesOrNo):
    """p(y = 1) = 1/(1 + exp(−a)); the data are a pair (X, y) with y of 0 and 1.

    `features`, `intercept`, `prior` and `ard` are those of `tp.LinearRegression`, with a in place of y. `offset` is
    the number of a column of X that is added to a as it is.
    """

    def log_factor(self, a: Float[Array, "*m n"], target: Float[Array, " n"]) -> Float[Array, "*m n"]:
        return jax.nn.log_sigmoid(a * target.reshape((1,) * (a.ndim - 1) + (-1,)))

    def expected(
        self, mean: Float[Array, " n"], square: Float[Array, " n"], target: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        small = square < 1e-6
        xi = jnp.sqrt(jnp.where(small, 1.0, square))
        # log 2 cosh(ξ/2), by its series in ξ² close to zero.
        series = jnp.log(2.0) + square / 8.0 - jnp.square(square) / 192.0
        return 0.5 * target * mean - jnp.where(small, series, 0.5 * xi + jnp.log1p(jnp.exp(-xi)))


class ProbitRegression(_YesOrNo):
    """p(y = 1) = Φ(a), the normal distribution function; the arguments are those of `tp.LogisticRegression`."""

    def log_factor(self, a: Float[Array, "*m n"], target: Float[Array, " n"]) -> Float[Array, "*m n"]:
        return log_ndtr(a * target.reshape((1,) * (a.ndim - 1) + (-1,)))

    def expected(
        self, mean: Float[Array, " n"], square: Float[Array, " n"], target: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        return log_ndtr(target * mean) - 0.5 * (square - jnp.square(mean))


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
    def unconjugate(self) -> dict[str, bool]:
        return {"weights": True}

    def link_column(self, column: np.ndarray) -> np.ndarray:
        if not self.exposed:
            return column
        if (column <= 0).any():
            raise InvalidData(f"exposure must be positive, found {column[column <= 0][0]:g}")
        return np.log(column)

    def log_factor(self, a: Float[Array, "*m n"], target: Float[Array, " n"]) -> Float[Array, "*m n"]:
        y = target.reshape((1,) * (a.ndim - 1) + (-1,))
        return y * a - jnp.exp(a) - log_gamma(y + 1.0)

    def expected(
        self, mean: Float[Array, " n"], square: Float[Array, " n"], target: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        rate = jnp.exp(mean + 0.5 * (square - jnp.square(mean)))
        return target * mean - rate - log_gamma(target + 1.0)

    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        wrong = (y < 0) | (y != np.floor(y)) | (y > _LARGEST_COUNT)
        if wrong.any():
            raise InvalidData(f"y must be counts (0, 1, 2, …) for PoissonRegression, got {y[wrong][0]:g}")
        return y

    def draw_targets(self, key: Key[Array, ""], a: Float[Array, " n"]) -> Float[Array, " n"]:
        return jax.random.poisson(key, jnp.exp(a)).astype(a.dtype)

    def typical(self, target: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.log(target + 0.5)

    def target_moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        rate = jnp.exp(mean + 0.5 * variance)
        return rate, rate + jnp.square(rate) * jnp.expm1(variance)


# ---- targets seen as intervals --------------------------------------------------------------------------------
#
# A Normal number z ~ N(a, 1/β) is seen only as an interval: an ordered category, or a target that was cut off.
#
#     p(y | a) = ∫_I(y) N(z | a, 1/β) dz,      or the density N(y | a, 1/β) where z itself was seen
#
# Under VB the bound is log p(y | E a) − ½ β var a, with the best q(z) put in (Albert and Chib, 1993); where z was seen
# it is exact. It is convex in the statistics, because z given its interval varies less than before.


_FAR = 1e6  # stands for infinity, which has no derivative


class IntervalRegression(GeneralisedRegression):
    """The base of both."""

    scale: Float[Array, ""]  # √β

    def __init__(self, scale: ArrayLike, features: Any, **options: Any):
        super().__init__(features, **options)
        self.scale = jnp.asarray(scale)

    @abstractmethod
    def interval(self, y: Array) -> tuple[Array, Array]:
        """The ends of I(y); the same number twice where z was seen."""

    def log_factor(self, a: Float[Array, "*m n"], target: Float[Array, " n"]) -> Float[Array, "*m n"]:
        low, high = (self.scale * (end.reshape((1,) * (a.ndim - 1) + (-1,)) - a) for end in self.interval(target))
        seen = low == high
        # Φ(h) − Φ(l) = Φ(−l) − Φ(−h): on the side where both are small.
        flip = low + high > 0
        below, above = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
        part = jnp.where(seen, below - 1.0, below)
        top = log_ndtr(above)
        inside = top + jnp.log1p(-jnp.exp(jnp.minimum(log_ndtr(part) - top, -1e-300)))
        return jnp.where(seen, jnp.log(self.scale) - 0.5 * (LOG_2PI + jnp.square(low)), inside)

    def expected(
        self, mean: Float[Array, " n"], square: Float[Array, " n"], target: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        return self.log_factor(mean, target) - 0.5 * jnp.square(self.scale) * (square - jnp.square(mean))


class OrderedRegression(IntervalRegression):
    """Categories 0, 1, 2, … in an order: y is how many of the `cuts` lie below z ~ N(a, 1) (ordered probit).

    The data are a pair (X, y); with one cut, at 0, this is `tp.ProbitRegression`. The other arguments are those of
    `tp.LogisticRegression`; the intercept moves all cuts together.
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
        super().__init__(1.0, features, intercept=intercept, prior=prior, ard=ard, offset=offset)
        self.cuts = jnp.asarray(ends)

    def interval(self, y: Array) -> tuple[Array, Array]:
        ends, place = jnp.concatenate([jnp.full(1, -_FAR), self.cuts, jnp.full(1, _FAR)]), y.astype(int)
        return ends[place], ends[place + 1]

    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        most = len(self.cuts)
        wrong = (y < 0) | (y > most) | (y != np.floor(y))
        if wrong.any():
            raise InvalidData(f"y must be categories 0 to {most}, as there are {most} cuts, got {y[wrong][0]:g}")
        return y

    def draw_targets(self, key: Key[Array, ""], a: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.sum(a[:, None] + jax.random.normal(key, a.shape)[:, None] > self.cuts[None], axis=1).astype(a.dtype)

    def typical(self, target: Float[Array, " n"]) -> Float[Array, " n"]:
        low, high = self.interval(target)
        return 0.5 * (jnp.maximum(low, self.cuts[0] - 1.0) + jnp.minimum(high, self.cuts[-1] + 1.0))

    def target_moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        above = ndtr((mean[:, None] - self.cuts[None]) / jnp.sqrt(1.0 + variance)[:, None])  # p(y > c)
        first = jnp.sum(above, axis=1)
        second = above @ (2.0 * jnp.arange(len(self.cuts)) + 1.0)
        return first, second - jnp.square(first)


class CensoredRegression(IntervalRegression):
    """A linear regression whose targets are cut off: y at `lower` or below says only that z is there, and y at `upper`
    or above likewise (tobit). `noise` is the known precision of z; `predict` gives the mean and variance of z.

    The data are a pair (X, y); the other arguments are those of `tp.LogisticRegression`.
    """

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
        root = jnp.sqrt(positive("noise", noise))
        super().__init__(root, features, intercept=intercept, prior=prior, ard=ard)
        self.lower, self.upper = (jnp.asarray(np.clip(float(end), -_FAR, _FAR)) for end in (lower, upper))

    def interval(self, y: Array) -> tuple[Array, Array]:
        below, above = y <= self.lower, y >= self.upper
        return jnp.where(below, -_FAR, jnp.where(above, self.upper, y)), jnp.where(
            above, _FAR, jnp.where(below, self.lower, y)
        )

    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        return np.clip(y, np.asarray(self.lower), np.asarray(self.upper))

    def draw_targets(self, key: Key[Array, ""], a: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.clip(a + jax.random.normal(key, a.shape) / self.scale, self.lower, self.upper)

    def typical(self, target: Float[Array, " n"]) -> Float[Array, " n"]:
        return target

    def target_moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        return mean, variance + 1.0 / jnp.square(self.scale)
