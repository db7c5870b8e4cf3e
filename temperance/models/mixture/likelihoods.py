"""The likelihoods of mixtures: their names, their priors, and their form at a temperature.

With a temperature for each datum,

    x_n ~ p(x | z_n, θ)^(1/T_n) / c_n(1/T_n),      c(s) = ∫ p(x | z_n, θ)^s dx

For Gaussians c(s) ∝ |Λ_{z_n}|^((s − 1)/2) s^(−d/2): the tempered density is a Gaussian of covariance T Σ, and this is a
mixture over scales. For 0/1 data and categories c(s) = Π_d Σ_v θ_dv^s, taken at E log θ, a lower bound of E log c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..._arguments import check_choice
from ...errors import InvalidData, InvalidParameter, UnsupportedMethod
from ...families import (
    Bernoulli,
    Categorical,
    Dirichlet,
    Family,
    Gaussian,
    GaussianWithMissing,
    Independent,
    IndependentPair,
    KnownCovarianceGaussian,
    Multinomial,
    Pair,
    Point,
    Poisson,
    ScalarGaussian,
    SphericalGaussian,
    SphericalWithMissing,
)
from ...families._parameters import is_traced, parameters, require_concentration
from ...families.translate import translate, translate_draw
from ...numerics.host import log_gamma, logsumexp
from ...numerics.latents import sum_out
from ...numerics.linalg import cholesky, log_det
from ...numerics.place import on_device
from ...numerics.volumes import MaybeKey, Power, gaussian_volume, gaussian_volumes, infinite
from .._about import Units
from .._blocks import Conditional, Heat, Heated, Means, Normaliser, Tempering, exact, expected_power, gaussian_heat
from .._data import Data, count, over_blocks
from .columns import ColumnsPair

if TYPE_CHECKING:
    from . import Mixture


# name → (the pair, the pair that takes missing values)
_PAIRS: dict[str, tuple[Callable[[], Pair], Callable[[], Pair]]] = {
    "gaussian": (Gaussian, GaussianWithMissing),
    "diagonal": (lambda: IndependentPair(ScalarGaussian()),) * 2,
    "spherical": (SphericalGaussian, SphericalWithMissing),
    "poisson": (lambda: IndependentPair(Poisson()),) * 2,
    "bernoulli": (lambda: IndependentPair(Bernoulli()),) * 2,
    "categorical": (lambda: IndependentPair(Categorical()),) * 2,
    "multinomial": (Multinomial, Multinomial),
    "columns": (ColumnsPair, ColumnsPair),
}


def as_pair(likelihood: str | Pair, missing: bool = False, prior: Any = None) -> Pair:
    """The conjugate pair of that name; for categories, with as many levels as the prior has, seen or not."""
    if isinstance(likelihood, Pair):
        return likelihood
    of_columns = prior.inner if isinstance(prior, Independent) else prior
    if likelihood == "categorical" and isinstance(of_columns, Dirichlet):
        return IndependentPair(Categorical(of_columns.concentration.shape[-1]))
    if likelihood not in _PAIRS:
        accepted = ", ".join(repr(name) for name in _PAIRS)
        raise InvalidParameter(f"likelihood must be a Pair or one of {accepted}, got {likelihood!r}")
    return _PAIRS[likelihood][missing]()


def log_known_weights(weights: Any, size: int) -> Float[Array, " k"]:
    values = np.asarray(parameters(weights=(weights, 1))[0])
    if values.shape != (size,) or (values < 0).any() or abs(values.sum() - 1.0) > 1e-8:
        raise InvalidParameter(
            f"weights must be 'dirichlet', 'point' or {size} numbers from 0 that sum to one, got {weights!r}"
        )
    with np.errstate(divide="ignore"):
        return on_device(np.log(values))


def stack_prior(prior: Family, pair: Pair, size: int, columns: int | None) -> Family | None:
    """One copy of the prior for each of `size` components, unless it has one for each already.

    For a pair of independent columns, a prior of scalars is read as one scalar per column, and a single scalar as
    shared by all columns; None while the number of columns is not known.
    """
    if not isinstance(prior, Family):
        raise InvalidParameter(f"prior must be a family such as tp.NormalWishart(…), got {prior!r}")
    if isinstance(pair, IndependentPair) and not isinstance(prior, Independent):
        if prior.batch_shape == ():
            if columns is None:
                return None
            prior = _repeat(prior, columns)
        prior = Independent(prior)
    if prior.batch_shape == (size,):
        return prior
    if prior.batch_shape == ():
        return _repeat(prior, size)
    raise InvalidParameter(
        f"prior must be one distribution or {size} of them, got a batch of shape {prior.batch_shape}"
    )


def match_rows(components: Family, x: np.ndarray) -> None:
    """Refuse new rows with another number of columns than the components, of whichever family, are for."""
    width = x.shape[1]
    if isinstance(components, Independent):
        width = components.inner.natural.batch_shape[-1]
    elif isinstance(components, Dirichlet):
        width = components.concentration.shape[-1]
    if x.shape[1] != width:
        raise InvalidData(f"data has {x.shape[1]} columns, but the model is for {width}")


def require_conjugate(prior: Family, pair: Pair, x: np.ndarray) -> None:
    """Refuse a prior that is not of the likelihood's conjugate family, or is for another number of columns."""
    wanted = jax.eval_shape(pair.statistics, jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype))
    structures: set[Any] = {jax.tree.structure(wanted), jax.tree.structure(prior.natural)}
    if len(structures) > 1:
        raise InvalidParameter(
            f"prior must be a {_family_name(wanted)}, which is conjugate to this likelihood, "
            f"got a {_family_name(prior.natural)}"
        )
    for here, there in zip(jax.tree.leaves(prior.natural), jax.tree.leaves(wanted), strict=True):
        if here.shape[1:] != there.shape[1:]:
            raise InvalidParameter(
                f"prior has parameters of shape {here.shape[1:]}, but the data need {there.shape[1:]}"
            )


def _family_name(vector: Any) -> str:
    return type(getattr(vector, "inner", vector)).__name__.removesuffix("Vector")


def _repeat(prior: Family, size: int) -> Family:
    """Copies of one family; concrete arrays are repeated by NumPy, so that nothing is compiled."""

    def copied(leaf: Any) -> Any:
        if is_traced(leaf):
            return jnp.broadcast_to(leaf, (size, *leaf.shape))
        return on_device(np.repeat(np.asarray(leaf)[None], size, axis=0))

    return prior.with_natural(jax.tree.map(copied, prior.natural))


def axes_of(pair: Pair) -> tuple[str, ...]:
    """The names of the axes of a component's parameters."""
    return ("feature", "level") if isinstance(getattr(pair, "inner", None), Categorical) else ("feature",)


def pair_log_base(pair: Pair, data: Data) -> Float[Array, ""] | None:
    """Σ_n log h(x_n), unless the pair has latents of its own: then E log p(x, z | θ) is not linear."""
    if pair.has_latents:
        return None

    def base(part: Any, _: Array) -> tuple[Float[Array, ""], tuple[()]]:
        rows, weights = part
        return jnp.sum(weights * pair.log_base(rows)), ()

    return over_blocks(base, (data.values, data.weights), *data.cuts)[0]


def weights_prior(n: int, concentration: Any, weights: str) -> dict[str, Family | Conditional]:
    """The prior of n weights with this concentration, or of weights at a point."""
    if check_choice("weights", weights, {"dirichlet": False, "point": True}):
        return {"weights": Point(Dirichlet(np.ones(n)))}
    delta = parameters(concentration=(concentration, 0))[0]
    require_concentration(concentration=delta)
    if delta.ndim > 1 or (delta.ndim == 1 and delta.shape[0] != n):
        raise InvalidParameter(f"concentration must be one number or {n} of them, got shape {delta.shape}")
    return {"weights": Dirichlet(np.broadcast_to(delta, (n,)))}


# ---- at a temperature -------------------------------------------------------------------------------------


DISCRETE = (Bernoulli, Categorical)
GAUSSIAN = (Gaussian, SphericalGaussian, ScalarGaussian, KnownCovarianceGaussian)


def one_pair(pair: Pair) -> Pair:
    """The pair of one column if columns are independent, else the pair itself."""
    return pair.inner if isinstance(pair, IndependentPair) else pair


class MixtureTempering(Tempering):
    """The tempering of a mixture: its energy, normaliser and heat."""

    model: Mixture

    @property
    def name(self) -> str:
        missing = " with missing values" if self.model.missing else ""
        return f"{type(self.model).__name__} of {type(one_pair(self.model.pair)).__name__}{missing}"

    def log_base(self, data: Data) -> Float[Array, ""] | None:
        return None if self.model.known is not None else pair_log_base(self.model.pair, data)

    def log_normaliser(self, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
        """In closed form for components of known covariance, whose tempered densities all have the same volume."""
        model, weights = self.model, self.model.prior.get("weights")
        if isinstance(weights, Point):
            raise UnsupportedMethod("tp.VT needs a prior for the weights, not a point estimate; use tp.Annealed")
        if not isinstance(model.pair, KnownCovarianceGaussian) or model.missing or not isinstance(weights, Dirichlet):
            return super().log_normaliser(temperatures, data, seed)
        powers, n, delta = 1.0 / temperatures, count(data), np.asarray(weights.concentration)
        covariance = np.atleast_2d(np.asarray(model.pair.covariance))
        gaussian = gaussian_volumes(powers, len(covariance), np.linalg.slogdet(covariance)[1])
        return exact(n * gaussian + np.array([_log_shares(delta, n, s) for s in powers]))

    def log_volume(self, m: Means, x: Any, power: Float[Array, ""], key: Key[Array, ""] | None) -> Float[Array, " n"]:
        key_pair, key_sum = (None, None) if key is None else jax.random.split(key)
        each = pair_volume(self.model.pair, m["components"], x, power, key_pair)
        return sum_out(power * self.model.log_weights(m)[None] + each, key_sum)

    def known_gaussians(self, data: Data) -> float:
        return seen_numbers(self.model.pair, data.values, data.weights)

    def heat(self, data: Data, powers: np.ndarray) -> Heat:
        kind = type(one_pair(self.model.pair))
        if kind not in (*GAUSSIAN, *DISCRETE) or self.model.missing:
            return super().heat(data, powers)
        if kind in DISCRETE:
            return Heat(jnp.asarray(powers), jnp.zeros(1))
        return gaussian_heat(powers, data.values.shape[1])

    def heated(self, m: Means, ready: Means, m_local: Means, x: Array, power: Float[Array, " n"], heat: Heat) -> Heated:
        """`Tempering.heated` by one evaluation for all powers, because powers multiply the log density under each
        component."""
        model = self.model
        width, discrete = x.shape[1], isinstance(one_pair(model.pair), DISCRETE)
        peaks = model.log_weights(m)
        if not discrete:
            peaks = peaks + 0.5 * (_log_precisions(model, m, width) - width * jnp.log(2.0 * jnp.pi))
        each, back = jax.vjp(lambda m: model.log_joint_z(m, x), ready)
        # Components first, as in `sum_out`.
        logits = power[None] * each.T
        top = jnp.max(logits, axis=0)
        # One exponential, behind a barrier (sums would take it again), and one walk over components for all sums.
        parts = jax.lax.optimization_barrier(jnp.exp(logits - top[None]))
        norm, joint, peak = _sums(parts, parts * each.T, parts * peaks[:, None])
        joint, peak = joint / norm, peak / norm
        if discrete:
            fresh = _discrete_power(model, m, x, joint - peak, parts / norm[None], power, heat)
        else:
            fresh = expected_power(heat, peak - joint, width, power)

        def messages(weights: Float[Array, " n"]) -> Means:
            return back(((weights * fresh / norm)[None] * parts).T)[0]

        return Heated(top + jnp.log(norm), joint, fresh, messages)


def _discrete_power(
    model: Mixture, m: Means, x: Array, energy: Array, shares: Float[Array, "k n"], power: Array, heat: Heat
) -> Float[Array, " n"]:
    """E[s] of each datum, with r_m ∝ exp{s_m E log p(x | z, θ) − E log c(s_m)}; without gaps, all data share c."""
    log_c = jax.vmap(lambda s: pair_volume(model.pair, m["components"], x[:1], s, None)[0])(heat.powers)
    logits = energy[:, None] * heat.powers[None] - shares.T @ log_c.T
    return jnp.where(heat.hot, jax.nn.softmax(logits, axis=1) @ heat.powers, power)


def _log_precisions(model: Mixture, m: Means, width: int) -> Float[Array, " k"]:
    """E log|Λ| of each component."""
    pair, components = model.pair, m["components"]
    if isinstance(pair, KnownCovarianceGaussian):
        each = -log_det(cholesky(pair.covariance))
    elif isinstance(pair, IndependentPair):
        each = 2.0 * jnp.sum(components.inner.dof, axis=-1)
    else:
        each = (2.0 * width if isinstance(pair, SphericalGaussian) else 2.0) * components.dof
    return jnp.broadcast_to(each, (model.n_components,))


def _sums(*arrays: Float[Array, "k n"]) -> list[Float[Array, " n"]]:
    """The sums of the arrays over the leading axis, in one loop."""

    def add(sums: Sequence[Array], others: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(one + other for one, other in zip(sums, others, strict=True))

    return jax.lax.reduce(arrays, tuple(jnp.zeros((), array.dtype) for array in arrays), add, (0,))


def seen_numbers(pair: Pair, x: Array, weights: Float[Array, " n"]) -> float:
    """How many numbers were seen, if they are Gaussian with a known covariance."""
    return float(jnp.sum(weights[:, None] * ~jnp.isnan(x))) if isinstance(pair, KnownCovarianceGaussian) else 0.0


@singledispatch
def pair_volume(pair: Any, m: Any, x: Any, power: Power, key: MaybeKey) -> Float[Array, "n k"]:
    """log ∫ p(x | θ_k)^power dx for the seen entries of each row."""
    raise infinite("covariances")


@pair_volume.register
def _(pair: KnownCovarianceGaussian, m: Any, x: Any, power: Power, key: MaybeKey) -> Float[Array, "n k"]:
    seen, factor = pair._seen(x)
    each = (1.0 - power) * 0.5 * log_det(factor) + jnp.sum(seen, axis=-1) * gaussian_volume(power)
    return jnp.broadcast_to(each[:, None], (x.shape[0], m.linear.shape[0]))


@pair_volume.register
def _(pair: IndependentPair, m: Any, x: Any, power: Power, key: MaybeKey) -> Float[Array, "n k"]:
    if isinstance(pair.inner, Bernoulli):
        log = jnp.stack([m.inner.log_complement, m.inner.log], axis=-1)
    elif isinstance(pair.inner, Categorical):
        log = m.inner.log
    else:
        return pair_volume(pair.inner, m.inner, x, power, key)
    seen = ~jnp.isnan(x)
    # Every entry has a separate draw for every component from which it may come.
    each = sum_out(jnp.broadcast_to(power * log[None], (*x.shape[:1], *log.shape)), key)
    return jnp.sum(jnp.where(seen[:, None], each, 0.0), axis=-1)


@pair_volume.register(Poisson)
@pair_volume.register(Multinomial)
def _(pair: Any, m: Any, x: Any, power: Power, key: MaybeKey) -> Float[Array, "n k"]:
    raise UnsupportedMethod(
        f"tp.VT needs data of known noise or of few values: the tempered normaliser of {type(pair).__name__} counts is "
        "led by counts far above any data; use tp.Annealed"
    )


def _log_shares(delta: np.ndarray, n: int, power: float) -> float:
    """log E(Σ_k π_k^s)^n under Dirichlet(δ).

    By the multinomial theorem it is n! Γ(Σδ)/Γ(Σδ + sn) times the coefficient of xⁿ in Π_k Σ_i x^i Γ(δ_k + si) /
    (Γ(δ_k) i!). With x tilted so that the coefficients, read as distributions, have means that add up to n, it is
    the probability of a sum of independent counts, which a Fourier transform gives to full precision.
    """
    i = np.arange(n + 1)
    concentrations, times = np.unique(delta, return_counts=True)  # equal concentrations are counted together
    terms = log_gamma(concentrations[:, None] + power * i) - log_gamma(concentrations)[:, None] - log_gamma(i + 1)

    def tilted(log_x: float) -> tuple[np.ndarray, np.ndarray]:
        logits = terms + log_x * i
        top = logsumexp(logits, axis=1)
        return np.exp(logits - top[:, None]), top

    low, high = -50.0, 50.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if times @ (tilted(middle)[0] @ i) < n else (low, middle)
    shares, top = tilted(low)
    size = 1 << int(np.ceil(np.log2(len(delta) * n + 1)))
    product = np.prod(np.fft.rfft(shares, size, axis=1) ** times[:, None], axis=0)
    coefficient = np.log(np.fft.irfft(product, size)[n]) + times @ top - low * n
    return float(log_gamma(n + 1) + log_gamma(delta.sum()) - log_gamma(delta.sum() + power * n) + coefficient)


# ---- the user's coordinates ----------------------------------------------------------------------------------------


class Shifted(Units):
    """Units of data that are shifted by −`shift`, together with the locations of the block `block`."""

    block: str = eqx.field(static=True)
    shift: Float[Array, " d"] | None
    mixture: Mixture

    def to_user(self, blocks: dict[str, Family]) -> dict[str, Family]:
        return blocks if self.shift is None else blocks | {self.block: translate(blocks[self.block], self.shift)}

    def draws_to_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        return self._moved(draws, self.shift)

    def draws_from_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        return self._moved(draws, None if self.shift is None else -self.shift)

    def _moved(self, draws: dict[str, Any], by: Float[Array, " d"] | None) -> dict[str, Any]:
        return draws if by is None else draws | {self.block: translate_draw(draws[self.block], by)}

    def block_from_user(self, name: str, family: Family) -> Family:
        if name != self.block:
            return family
        mixture = self.mixture
        columns = family.batch_shape[-1] if isinstance(family, Independent) else mixture.columns
        family = stack_prior(family, mixture.pair, mixture.n_components, columns) or family
        return family if self.shift is None else translate(family, -self.shift)

    def values_to_user(self, values: Any) -> Any:
        pair = self.mixture.pair
        return pair.to_table(values) if isinstance(pair, ColumnsPair) else values

    def log_unit(self, data: Data) -> Float[Array, ""] | float:
        return log_unit(self.mixture, data.values, data.weights)


def log_unit(mixture: Mixture, x: Any, weights: Any, xp: Any = jnp) -> Any:
    """`Units.log_unit` of rows, whose unit is the mean absolute value of each centred column; by NumPy or JAX."""
    if mixture.shift is None:
        return 0.0
    x = x[:, : mixture._families()["components"].natural.width]
    seen = weights @ ~xp.isnan(x)
    size = weights @ xp.nan_to_num(xp.abs(x), posinf=0.0) / xp.maximum(seen, 1.0)
    return xp.sum(xp.where(size > 0.0, seen * xp.log(xp.where(size > 0.0, size, 1.0)), 0.0))
