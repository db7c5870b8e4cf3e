"""Mixtures at a temperature. First, one for each datum:

    x_n ~ p(x | z_n, θ)^(1/T_n) / c_n(1/T_n),      c(s) = ∫ p(x | z_n, θ)^s dx

For Gaussians c(s) ∝ |Λ_{z_n}|^((s − 1)/2) s^(−d/2): the tempered density is a Gaussian of covariance T Σ, and this is a
mixture over scales. For 0/1 data and categories c(s) = Π_d Σ_v θ_dv^s, taken at E log θ, a lower bound of E log c.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...errors import UnsupportedMethod
from ...families import (
    Bernoulli,
    Categorical,
    Dirichlet,
    Gaussian,
    IndependentPair,
    KnownCovarianceGaussian,
    Multinomial,
    Pair,
    Point,
    Poisson,
    ScalarGaussian,
    SphericalGaussian,
)
from ...numerics.host import log_gamma, logsumexp
from ...numerics.latents import sum_out
from ...numerics.linalg import cholesky, log_det
from .._blocks import Heat, Means, expected_power
from .._data import Data
from .._normaliser import (
    MaybeKey,
    Normaliser,
    Power,
    by_sampling,
    count,
    exact,
    gaussian_volume,
    gaussian_volumes,
    infinite,
)
from .._tempering import Heated

if TYPE_CHECKING:
    from .finite import Mixture

DISCRETE = (Bernoulli, Categorical)
GAUSSIAN = (Gaussian, SphericalGaussian, ScalarGaussian, KnownCovarianceGaussian)


def one_pair(pair: Pair) -> Pair:
    """The pair of one column, where columns are independent."""
    return pair.inner if isinstance(pair, IndependentPair) else pair


def heated_mixture(model: Mixture, m: Means, ready: Means, x: Array, power: Float[Array, " n"], heat: Heat) -> Heated:
    """Powers multiply what each component says of a datum, so one evaluation serves all of them."""
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
    """E[s] of each datum, with r_m ∝ exp{s_m E log p(x | z, θ) − E log c(s_m)}; without gaps c is the same for all."""
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
    """Over the leading axis, all at once."""

    def add(sums: Sequence[Array], others: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(one + other for one, other in zip(sums, others, strict=True))

    return jax.lax.reduce(arrays, tuple(jnp.zeros((), array.dtype) for array in arrays), add, (0,))


# ---- one temperature for all: the normaliser -----------------------------------------------------------------------


def mixture_normaliser(model: Mixture, temperatures: np.ndarray, data: Data, seed: int) -> Normaliser:
    """log C(T): exact for components of known covariance, whose tempered densities all have the same volume."""
    weights = model.prior.get("weights")
    if isinstance(weights, Point):
        raise UnsupportedMethod("tp.VT needs a prior for the weights, not a point estimate; use tp.Annealed")
    if isinstance(model.pair, KnownCovarianceGaussian) and not model.missing and isinstance(weights, Dirichlet):
        powers, n, delta = 1.0 / temperatures, count(data), np.asarray(weights.concentration)
        covariance = np.atleast_2d(np.asarray(model.pair.covariance))
        gaussian = gaussian_volumes(powers, len(covariance), np.linalg.slogdet(covariance)[1])
        return exact(n * gaussian + np.array([_log_shares(delta, n, s) for s in powers]))
    return by_sampling(model, temperatures, data, seed)


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
    # Every entry has a draw of its own, for every component it may come from.
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
    concentrations, times = np.unique(delta, return_counts=True)  # components that are alike are counted together
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
