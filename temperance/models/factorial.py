"""Factorial mixtures: every datum is the sum of those of K factors that are on, plus noise.

    μ_k ~ N(0, factor_variance),   z_nk ~ Bernoulli(π_k),   x_n = Σ_k z_nk μ_k + ε_n,   ε_n ~ N(0, noise)

The 2ᴷ states of a datum cannot be summed for large K, so z is a local block, updated factor by factor. Given z the
factors are coupled: their posterior is kept *joint* over all K, exactly, with one K × K precision that all pixels
share. With unknown noise it is joint with the noise precision too, so that all globals are updated together.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from .._arguments import check_count
from ..data import as_matrix, as_weights
from ..errors import InvalidData, InvalidParameter
from ..families import (
    BernoulliDistribution,
    BernoulliVector,
    Beta,
    Gamma,
    MatrixNormal,
    MatrixNormalGamma,
    MatrixNormalGammaVector,
)
from ..families._family import Family
from ..numerics.binary import Logit, all_states, log_states, quadratic, sweep_draws, sweep_means
from ..numerics.latents import sum_out
from ..numerics.special import LOG_2PI, log_gamma, log_mix, safe_log
from ..numerics.volumes import gaussian_volumes, infinite, known_switches, learned_switches
from ._about import FACTOR, Symmetry, Units, Words, one_set
from ._answers import Decomposing, Holding, Labelled, Numbered, Predicting, Summable
from ._blocks import Heat, Normaliser, Tempering, exact, gaussian_heat
from ._data import Data, count, make_data
from ._derive import OwnLocals
from ._factors import Factored, Factors, LinearTerms, exact_prior, written_out
from ._model import Conditional, Each, Group, Means, Model, Posterior, Powers, column, means

_SUMMABLE = 6  # up to this many factors, methods that need it sum out the states
_ENUMERABLE = 10  # up to this many factors the predictive density is the exact sum over all their states
_NEAR = 1e-7  # least spread, relative to the distance from zero


class Activation(Conditional):
    """p(z | π) for n data: log-odds from the statistics of π, or from a known π."""

    known: Float[Array, " k"] | None
    n: int = eqx.field(static=True)
    parents: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, known: Float[Array, " k"] | None, n: int):
        self.known, self.n = known, n
        self.parents = ("probability",) if known is None else ()

    def logs(self, m: Means) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
        """E log π and E log (1 − π), a row for each datum."""
        if self.known is None:
            on, off = m["probability"].log, m["probability"].log_complement
        else:
            on, off = jnp.log(self.known), jnp.log1p(-self.known)
        shape = (self.n, on.shape[-1])
        return jnp.broadcast_to(on[None], shape), jnp.broadcast_to(off[None], shape)

    def natural(self, m: Means) -> BernoulliVector:
        on, off = self.logs(m)
        return BernoulliVector(on - off)

    def log_normaliser(self, m: Means) -> Float[Array, "n k"]:
        return -self.logs(m)[1]

    def family(self, natural: Any) -> BernoulliDistribution:
        return BernoulliDistribution.from_natural(natural)

    def log_prob(self, m: Means) -> Float[Array, " n"]:
        """E log p(z | π) of each datum."""
        return jnp.sum(self.natural(m).dot(m["z"]) - self.log_normaliser(m), axis=1)


class FactorialMixture(Labelled, Holding, Decomposing, Numbered, Predicting, Summable, OwnLocals, Model):
    """`n_factors` images (or vectors), each present in a datum with its own probability, in Gaussian noise.

    `n_factors` is the number of factors. `noise` is the variance of the noise, or a `Gamma` prior for its precision
    (default: weakly informative).
    `probability` is the probability that a factor is on: a scalar, one value per factor, or a `Beta` prior (default:
    uniform). `factor_variance` is the prior variance of a factor's entries (default: the data's mean square); with
    unknown noise the conjugate prior scales it with the noise, and it holds at the noise's prior mean. `init` is "data"
    (random data divided by the expected number of active factors) or an array of factors.
    """

    prior: dict[str, Family | Conditional]
    noise: Float[Array, ""] | Gamma | None
    probability: Float[Array, " k"] | None  # where it is known
    factor_variance: Float[Array, ""] | None
    start: Float[Array, "k d"] | None  # where it is given
    n_factors: int = eqx.field(static=True)
    shape: tuple[int, ...] | None = eqx.field(static=True)  # of one datum, as the user gave it
    local_groups: ClassVar[tuple[Group, ...]] = (Each("z", axis=1),)

    def __init__(
        self,
        n_factors: int,
        *,
        noise: ArrayLike | Gamma | None = None,
        probability: ArrayLike | Beta | None = None,
        factor_variance: ArrayLike | None = None,
        init: Any = "data",
    ):
        self.n_factors = check_count("n_factors", n_factors)
        self.noise = noise if isinstance(noise, Gamma) else _variance("noise", noise)
        self.factor_variance = _variance("factor_variance", factor_variance)
        self.probability, beta = _probability(probability, self.n_factors)
        self.prior = {} if beta is None else {"probability": beta}
        self.start = _start(init, self.n_factors)
        self.shape = None

    @property
    def words(self) -> Words:
        return FACTOR.of(self.n_factors, {"factors": ("factor", "feature"), "probability": ("factor",)})

    @property
    def symmetry(self) -> Symmetry | None:
        axes: dict[str, tuple[int, ...]] = {"factors": (0,), "factors.gram": (0, 1), "probability": (0,), "z": (1,)}
        # The factors' prior is the same for all by construction.
        known = {"probability": self.prior.get("probability") if self.probability is None else self.probability}
        return one_set(self.n_factors, axes, known, compared=("factors",))

    def held(self, q: Posterior, data: Data) -> tuple[np.ndarray, ...]:
        """The expected number of data in which each factor is on."""
        z = q.locals.get("z")
        return () if z is None else (np.asarray(data.weights) @ np.asarray(z.mean().indicator),)

    def order(self, q: Posterior, data: Data) -> np.ndarray:
        """The factors in use, that with the largest entries first."""
        return np.argsort(-np.linalg.norm(self._split(q.blocks["factors"].mode())[0], axis=1), kind="stable")

    # ---- the model ----------------------------------------------------------------------------------------

    def summed(self) -> Model:
        if self.n_factors > _SUMMABLE:
            return self
        return self._as(SummedFactorialMixture)

    def local_prior(self, x: Any) -> dict[str, Family | Conditional]:
        return {"z": Activation(self.probability, x.shape[0])}

    def log_evidence(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        z, w = m["z"].indicator, self._weights(m)
        # E[z_k z_l] = E[z_k] E[z_l], but E[z_k²] = E[z_k].
        square = jnp.sum(z * (z @ w.gram), axis=1) + (z - jnp.square(z)) @ jnp.diagonal(w.gram)
        value = jnp.sum((x @ w.cross.T) * z, axis=1) + square
        value = value + w.second * jnp.sum(jnp.square(x), axis=1) + x.shape[1] * (w.dof - 0.5 * LOG_2PI)
        # The block of z counts its prior once; this raises the prior to the power of the temperature.
        log_z = Activation(self.probability, x.shape[0]).log_prob(m)
        return powers.observation * value + (powers.latent - 1.0) * log_z

    def _weights(self, m: Means) -> MatrixNormalGammaVector:
        """The statistics of factors and noise in one form, whether the noise is known or not."""
        w = m["factors"]
        if isinstance(w, MatrixNormalGammaVector):
            return w
        precision = 1.0 / self._known_noise()
        return MatrixNormalGammaVector(
            precision * w.cross, precision * w.gram, -0.5 * precision, 0.5 * jnp.log(precision)
        )

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        key_z, key_x = jax.random.split(key)
        z = self.sample_local_prior(key_z, jnp.zeros((n, 1)), draws)
        return self.simulate_given(key_x, draws, z)

    def simulate_given(self, key: Key[Array, ""], draws: dict[str, Any], local: dict[str, Any]) -> Any:
        """Data given a draw of the globals and of z."""
        factors, precision = self._split(draws["factors"])
        mean = local["z"] @ factors
        return mean + jax.random.normal(key, mean.shape) / jnp.sqrt(precision)

    def _split(self, draw: Any) -> tuple[Float[Array, "k d"], Float[Array, ""]]:
        """The factors and the noise precision of a draw."""
        if isinstance(self.noise, Gamma):
            return draw.weights, draw.precision
        return draw, 1.0 / self._known_noise()

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """Factors at the means of the start, as certain as if each had been seen in its share of the data."""
        prior = self._families()
        share = self._mean_probability(prior)
        factors = self._data_factors(key, data, jnp.sum(share)) if self.start is None else self.start
        seen = jnp.diag(data.total_weight * share)
        block = prior["factors"]
        if isinstance(block, MatrixNormalGamma):
            block = MatrixNormalGamma(factors, block.pseudo_inputs + seen, block.dof, block.scatter)
        else:
            block = MatrixNormal(factors, block.natural.gram + seen / self._known_noise())
        blocks = prior | {"factors": block}
        return Posterior(blocks, self.initial_local(means(blocks), data.values))

    def _data_factors(self, key: Key[Array, ""], data: Data, active: Array) -> Float[Array, "k d"]:
        """Random data divided by the expected number of active factors: whole data would explain too much to move."""
        key_row, key_shake = jax.random.split(key)
        n, k = data.weights.shape[0], self.n_factors
        rows = jax.random.choice(key_row, n, (k,), replace=k > n, p=data.weights / data.total_weight)
        factors = data.values[rows] / jnp.maximum(active, 1.0)
        # Equal factors would stay equal for ever.
        return factors * (1.0 + 0.05 * jax.random.normal(key_shake, factors.shape))

    @property
    def tempering(self) -> Tempering:
        return FactorTempering(self)

    @property
    def units(self) -> Units:
        assert self.factor_variance is not None
        return FactorUnits(self.factor_variance)

    # ---- written out, because the derived form costs K gradients --------------------------------------------

    def update_local(self, m: Means, x: Any, powers: Powers, q: dict[str, Family], steps: int) -> dict[str, Family]:
        if not q or steps == 0:
            return q
        eta = sweep_means(self._logit(m, x, powers), q["z"].natural.indicator, steps)
        return {"z": BernoulliDistribution.from_natural(BernoulliVector(eta))}

    def draw_local(
        self,
        key: Key[Array, ""],
        draws: dict[str, Any],
        data: Data,
        powers: Powers,
        local: dict[str, Any],
        backwards: bool = False,
    ) -> dict[str, Any]:
        return {"z": sweep_draws(key, self._logit(self.statistics(draws), data.values, powers), local["z"], backwards)}

    def _logit(self, m: Means, x: Any, powers: Powers) -> Any:
        return factor_logit(Activation(self.probability, x.shape[0]), self._weights(m), m, x, powers)

    # ---- data in, answers out -----------------------------------------------------------------------------

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        x, shape = _rows(data)
        spread, size = float(np.sqrt(np.mean(np.var(x, axis=0)))), float(np.max(np.abs(x)))
        if 0.0 < spread < _NEAR * size:  # factors add up from zero, so squares include the distance from zero
            raise InvalidData(
                f"data are up to {size:.3g} from zero with a spread of {spread:.3g}, which squares of the one leave no "
                "digits for; subtract the columns' means"
            )
        block = max(256, 2**18 // (x.shape[1] + 4 * self.n_factors))
        return self._complete(x, shape), make_data(x, as_weights(weights, x.shape[0]), block)

    def _complete(self, x: np.ndarray, shape: tuple[int, ...]) -> Self:
        """The model with sizes and the scales of noise and factors taken from the data, where they were not given."""
        k, d = self.n_factors, x.shape[1]
        if self.start is not None and self.start.shape[1] != d:
            raise InvalidData(f"init has factors of {self.start.shape[1]} entries, but a datum has {d}")
        noise, variance = self.noise, self.factor_variance
        if noise is None:
            noise = Gamma(1.0, 0.1 * (float(np.mean(np.var(x, axis=0))) or 1.0))
        if variance is None:
            variance = jnp.asarray(float(np.mean(np.square(x))) or 1.0)
        factors: Family
        zero, one = jnp.zeros((k, d)), jnp.eye(k)
        if isinstance(noise, Gamma):
            inputs = noise.rate / noise.shape / variance * one
            factors = MatrixNormalGamma(zero, inputs, 2.0 * noise.shape, 2.0 * noise.rate)
        else:
            factors = MatrixNormal(zero, one / variance)
        prior = self.prior | {"factors": factors}
        return self._with(prior=prior, noise=noise, factor_variance=variance, shape=shape)

    def new_rows(self, data: Any) -> np.ndarray:
        x, shape = _rows(data)
        if shape != self.shape:
            raise InvalidData(f"each datum has shape {shape}, but the model is for {self.shape}")
        return x

    def components(self, q: Posterior) -> Float[Array, "k *shape"]:
        """The expected factors, in the shape of a datum."""
        assert self.shape is not None
        return self._split(q.blocks["factors"].mode())[0].reshape((self.n_factors, *self.shape))

    def responsibilities(self, q: Posterior, x: Any) -> Float[Array, "n k"]:
        """The probability of each factor to be on in each datum (rows need not sum to one)."""
        return self._explain(q, x)["z"].mean().indicator

    def _explain(self, q: Posterior, x: Any, sweeps: int = 20) -> dict[str, Family]:
        m = means(q.blocks)
        return self.ascend_local(m, x, Powers(), self.initial_local(m, x), sweeps)

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        """The log predictive density: a sum over all states of the factors if they are few, else a variational lower
        bound."""
        if self.n_factors > _ENUMERABLE:
            m, local = means(q.blocks), self._explain(q, x)
            return self._datum(m | means(local), x, Powers(), None) + jnp.sum(local["z"].entropy(), axis=1)
        states = all_states(self.n_factors)
        share = self._mean_probability(q.blocks)
        log_share = log_states(safe_log(share), safe_log(1.0 - share), states)
        each = self._log_density(q.blocks["factors"], states, x)
        return log_mix(jnp.broadcast_to(log_share[None], each.shape), each)

    def _log_density(self, block: Family, states: Float[Array, "s k"], x: Any) -> Float[Array, "n s"]:
        """log p(x | z) for each state z, averaged over factors and noise: a Gaussian or a Student-t."""
        d = x.shape[1]
        factors, precision = self._split(block.mode())
        centre = states @ factors
        lengths = jnp.sum(jnp.square(x), axis=1)[:, None] + jnp.sum(jnp.square(centre), axis=1)[None]
        distance = jnp.maximum(lengths - 2.0 * x @ centre.T, 0.0)
        if isinstance(block, MatrixNormalGamma):
            spread = block.scatter * (1.0 + quadratic(block.pseudo_inputs, states))[None]
            half = 0.5 * block.dof
            constant = log_gamma(half + 0.5 * d) - log_gamma(half) - 0.5 * d * jnp.log(jnp.pi * spread)
            return constant - (half + 0.5 * d) * jnp.log1p(distance / spread)
        variance = jnp.broadcast_to(1.0 / precision, states.shape[:1])
        if isinstance(block, MatrixNormal):
            variance = variance + quadratic(block.precision, states)
        return -0.5 * (distance / variance[None] + d * (jnp.log(variance)[None] + LOG_2PI))

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        assert self.shape is not None

        def one(key: Key[Array, ""]) -> Any:
            key_x, *keys = jax.random.split(key, 1 + len(q.blocks))
            draws = {name: q.blocks[name].sample(k) for name, k in zip(sorted(q.blocks), keys, strict=True)}
            return self.simulate(key_x, draws, 1)[0]

        return jax.vmap(one)(jax.random.split(key, n)).reshape((n, *self.shape))

    def _mean_probability(self, blocks: dict[str, Family]) -> Float[Array, " k"]:
        if self.probability is not None:
            return self.probability
        block = blocks["probability"]
        return block.a / (block.a + block.b) if isinstance(block, Beta) else block.mode()

    def _families(self) -> dict[str, Family]:
        return {name: p for name, p in self.prior.items() if isinstance(p, Family)}

    def _known_noise(self) -> Float[Array, ""]:
        assert self.noise is not None and not isinstance(self.noise, Gamma)
        return self.noise


# ---- z, one factor after the other ------------------------------------------------------------------------


def factor_logit(prior: Activation, w: MatrixNormalGammaVector, m: Means, x: Array, powers: Powers) -> Logit:
    """The log-odds of one factor for all data, given the (expected) states of the others as (k, n)."""
    log_odds = prior.natural(m).indicator.T
    alone = w.cross @ x.T + jnp.diagonal(w.gram)[:, None]
    # w.gram is −½ E[λ μ_k·μ_l], and each pair of factors stands in it twice.
    coupling = 2.0 * (w.gram - jnp.diag(jnp.diagonal(w.gram)))

    def logit(k: Array, z: Float[Array, "k n"]) -> Float[Array, " n"]:
        return powers.latent * log_odds[k] + powers.observation * (alone[k] + coupling[k] @ z)

    return logit


def _rows(data: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    """Images (n, rows, columns, …) as a matrix, and the shape of one."""
    shape = getattr(data, "shape", None)
    if shape is None or len(shape) <= 2:
        x = as_matrix(data)
        return x, x.shape[1:]
    return as_matrix(np.asarray(data).reshape((shape[0], -1))), tuple(shape[1:])


def _variance(name: str, value: ArrayLike | None) -> Float[Array, ""] | None:
    if value is None:
        return None
    number = np.asarray(value, dtype=np.float64)
    if number.ndim or not np.isfinite(number) or number <= 0:
        raise InvalidParameter(f"{name} must be one positive number, got {value!r}")
    return jnp.asarray(number)


def _probability(value: ArrayLike | Beta | None, k: int) -> tuple[Float[Array, " k"] | None, Beta | None]:
    """The probabilities where they are known, else their prior, one for each factor."""
    if value is None:
        value = Beta(1.0, 1.0)
    if isinstance(value, Beta):
        if value.batch_shape not in ((), (k,)):
            raise InvalidParameter(f"probability must be one Beta or {k} of them, got {value.batch_shape}")
        return None, Beta(jnp.broadcast_to(value.a, (k,)), jnp.broadcast_to(value.b, (k,)))
    p = np.asarray(value, dtype=np.float64)
    if p.shape not in ((), (k,)) or not ((p > 0) & (p < 1)).all():
        raise InvalidParameter(f"probability must be one number between 0 and 1, {k} of them or a Beta, got {value!r}")
    return jnp.broadcast_to(jnp.asarray(p), (k,)), None


def _start(init: Any, k: int) -> Float[Array, "k d"] | None:
    if isinstance(init, str):
        if init != "data":
            raise InvalidParameter(f"init must be 'data' or an array of {k} factors, got {init!r}")
        return None
    factors = np.asarray(init, dtype=np.float64)
    if factors.ndim < 2 or factors.shape[0] != k or not np.isfinite(factors).all():
        raise InvalidParameter(f"init must be 'data' or {k} finite factors, got shape {factors.shape}")
    return jnp.asarray(factors.reshape((k, -1)))


# ---- parts -------------------------------------------------------------------------------------------------------


class FactorUnits(Units):
    """Units of a factorial mixture: the unit of the data is the square root of the factors' variance."""

    variance: Float[Array, ""]

    def log_unit(self, data: Data) -> Float[Array, ""]:
        return 0.5 * data.total_weight * data.values.shape[1] * jnp.log(self.variance)


class FactorTempering(Tempering):
    """Tempering of Gaussian noise with one variance, and of switches (errata to eq. 22–24)."""

    def log_normaliser(self, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
        """(ND/2) [log T + (1 − 1/T) log 2πσ²] + N Σ_k log{π_k^(1/T) + (1 − π_k)^(1/T)}."""
        noise, probability = self.model.noise, self.model.probability
        if isinstance(noise, Gamma) or noise is None:
            raise infinite("noise")
        n, d, powers = count(data), data.values.shape[1], 1.0 / temperatures
        gaussian = n * gaussian_volumes(powers, d, d * np.log(float(noise)))
        if probability is not None:
            return exact(gaussian + known_switches(np.asarray(probability), n, powers))
        prior = self.model.prior["probability"]
        assert isinstance(prior, Beta)
        return exact(gaussian + learned_switches(np.asarray(prior.a), np.asarray(prior.b), n, powers))

    def heat(self, data: Data, powers: np.ndarray) -> Heat:
        return gaussian_heat(powers, data.values.shape[1])

    def log_peak(self, m: Means, width: int) -> Float[Array, ""]:
        return width * (self.model._weights(m).dof - 0.5 * jnp.log(2.0 * jnp.pi))


# ---- few factors: the 2ᴷ states of every datum summed out ------------------------------------------------------
#
# Given a state the term of a datum is linear in the statistics of all blocks, so message passing, Laplace's
# approximation and importance sampling treat the factorial mixture like any other finite mixture.


class SummedFactorialMixture(FactorialMixture, Factored):
    """A factorial mixture with the states of every datum summed out; made by `FactorialMixture.summed`."""

    local_groups: ClassVar[tuple[Group, ...]] = ()

    def local_prior(self, x: Any) -> dict[str, Family | Conditional]:
        return {}

    def log_evidence(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        return sum_out(self._log_joint(m, x, powers), key)

    def _log_joint(self, m: Means, x: Any, powers: Powers = Powers()) -> Float[Array, "n s"]:
        """E log p(x, z | θ) for every state z."""
        states, w = all_states(self.n_factors), self._weights(m)
        on, off = Activation(self.probability, 1).logs(m)
        prior = log_states(on[0], off[0], states)
        latent, observation = jnp.asarray(column(powers.latent)), jnp.asarray(column(powers.observation))
        return latent * prior[None] + observation * _observed(w, x, states)

    def factors(self, data: Data) -> Factors:
        terms = written_out(lambda m, row: self._log_joint(m, row[None])[0], exact_prior(self), data.values)
        return Factors(terms, data.weights > 0, LinearTerms())

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        key_z, key_x = jax.random.split(key)
        share = draws["probability"] if self.probability is None else self.probability
        z = jax.random.bernoulli(key_z, share[None], (n, self.n_factors)).astype(jnp.float64)
        return self.simulate_given(key_x, draws, {"z": z})

    def responsibilities(self, q: Posterior, x: Any) -> Float[Array, "n k"]:
        return jax.nn.softmax(self._log_joint(means(q.blocks), x), axis=1) @ all_states(self.n_factors)


def _observed(w: MatrixNormalGammaVector, x: Float[Array, "n d"], z: Float[Array, "s k"]) -> Float[Array, "n s"]:
    """E log p(x | z, θ)."""
    own = w.second * jnp.sum(jnp.square(x), axis=1) + x.shape[1] * (w.dof - 0.5 * jnp.log(2.0 * jnp.pi))
    return x @ w.cross.T @ z.T + jnp.sum((z @ w.gram) * z, axis=1)[None] + own[:, None]
