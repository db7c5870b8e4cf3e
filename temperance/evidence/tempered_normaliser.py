"""The normaliser of a tempered joint, C(T) = ∫ p(θ) Π_n [Σ_z ∫ p(x, z | θ)^(1/T) dx] dθ, for variational tempering.

Where the integral over θ factorises, a model has a closed form of it. This module finds it by thermodynamic integration
over the power, for any model that knows its volume log Σ_z ∫ p(x, z | θ)^s dx (`log_volume`):

    d log C / ds = E[d/ds log Σ_z ∫ p(x, z | θ)^s dx],   θ ~ p(θ) Π_n Σ_z ∫ p(x_n, z | θ)^s dx / C,   log C = 0 at s = 1

Means are over chains of Gibbs sampling at a series of powers, all with the same random numbers. Draws from the prior
would not do, because a volume to the power N is dominated by values of θ that are very rare under the prior. The
contribution of each further datum tends to a constant: beyond `_ROWS` rows log C is extrapolated from its values for
half of `_ROWS` and for `_ROWS`.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ..models._blocks import Normaliser, exact
from ..models._data import Data, gathered
from ..models._model import Means, Model, Powers, Wrapped
from ..numerics.host import logsumexp
from ..numerics.volumes import STABLE, MaybeKey, gaussian_volume, moved, shift

_SWEEPS, _MOST = 100, 1600  # first and largest number of Gibbs sweeps
_NODES = 16  # powers
_CHAINS = 8  # chains at each power
_STARTS = 64  # draws from the prior, among which a chain finds its start
_ENOUGH = 0.3  # the effective share of draws from the prior above which they determine C
_ROWS = 1024
_NUMBERS = 2**24  # most numbers that all chains may hold


class Unseen(Wrapped):
    """The model without its data: only their shape, and which entries are missing, still matters."""

    inner: Model

    def __init__(self, inner: Model):
        self.inner = inner

    def log_evidence(self, m: Means, x: Any, powers: Powers = Powers(), key: MaybeKey = None) -> Float[Array, " n"]:
        return self.inner.tempering.log_volume(m, x, jnp.asarray(powers.latent), key)


def by_sampling(model: Any, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
    """The normaliser of any model with a volume, with more sweeps until the implied temperature is stable."""
    powers, sweeps = 1.0 / temperatures, _SWEEPS
    if len(powers) == 1:
        return exact(np.zeros(1))
    while True:
        logs = _sampled_logs(model, powers, data, seed, sweeps)
        chains = logs.shape[1]
        value, half = logs.mean(axis=1), logs[:, : chains // 2].mean(axis=1)
        apart = max(shift(powers, value, half), _step(powers, value, half))
        if min(apart, moved(powers, value, half)) <= STABLE or sweeps >= _MOST:
            return Normaliser(value, logs.std(axis=1, ddof=1) / np.sqrt(chains), chains * sweeps)
        sweeps *= 4


def _sampled_logs(model: Model, powers: np.ndarray, data: Data, seed: int, sweeps: int) -> np.ndarray:
    """log C of each chain, (powers, chains)."""
    data = gathered(data)
    width = sum(int(np.prod(leaf.shape[1:])) for leaf in jax.tree.leaves((data.values, model.prior)))
    most = int(np.clip(_NUMBERS // (_NODES * _CHAINS * width), 32, _ROWS))
    total = float(data.total_weight)
    if data.size <= most:
        return _logs(model, powers, model.rows.first(data, data.size), seed, sweeps)
    one, two = (model.rows.first(data, size) for size in (most // 2, most))
    less, more = (_logs(model, powers, part, seed, sweeps) for part in (one, two))
    n, m = float(one.total_weight), float(two.total_weight)
    return more + (total - m) / (m - n) * (more - less)


def _logs(model: Model, powers: np.ndarray, data: Data, seed: int, sweeps: int) -> np.ndarray:
    from scipy.interpolate import PchipInterpolator  # slow to import

    # Powers lie close together near T = 1, where within log T of about 1/N the distribution of θ leaves its prior.
    log_t = -np.log(powers.min()) * np.linspace(0.0, 1.0, _NODES) ** 3
    nodes, count = jnp.exp(-jnp.asarray(log_t)), model.tempering.known_gaussians(data)
    found = _slopes(Unseen(model), data, nodes, jax.random.key(seed), jnp.asarray(sweeps))
    slopes, volumes = (np.asarray(part) for part in found)
    slopes = slopes - count * np.asarray(jax.vmap(jax.grad(gaussian_volume))(nodes))[:, None]
    near, last = _near_one(volumes - count * np.asarray(jax.vmap(gaussian_volume)(nodes)), slopes.shape[1])
    # d log C / d log T = −s d log C / ds
    curve = PchipInterpolator(log_t, -np.asarray(nodes)[:, None] * slopes, axis=0).antiderivative()
    at = -np.log(powers)
    rest = near[last] + curve(at) - curve(log_t[last])
    if last:
        close = at < log_t[last]
        rest[close] = PchipInterpolator(log_t[: last + 1], near[: last + 1], axis=0)(at[close])
    return rest + count * np.asarray(jax.vmap(gaussian_volume)(jnp.asarray(powers)))[:, None]


def _near_one(volumes: np.ndarray, chains: int) -> tuple[np.ndarray, int]:
    """log C at the first powers from draws of the prior alone, and the number of the last power at which these suffice:
    close to T = 1, where chains are slow. The draws of each chain are left out in turn (the jackknife), so that the
    spread over chains gives the error."""
    draws = len(volumes)
    top = logsumexp(volumes, axis=0)
    enough = np.exp(2.0 * top - logsumexp(2.0 * volumes, axis=0)) >= _ENOUGH * draws
    last = int(np.argmin(enough)) - 1 if not enough.all() else len(enough) - 1
    parts = logsumexp(volumes.reshape((chains, -1, volumes.shape[1])), axis=1)
    others = top + np.log1p(-np.exp(np.minimum(parts - top, -1e-12))) - np.log(draws * (1.0 - 1.0 / chains))
    return (chains * (top - np.log(draws)) - (chains - 1) * others).T, last


@eqx.filter_jit
def _slopes(
    model: Unseen, data: Data, nodes: Float[Array, " j"], key: Key[Array, ""], sweeps: Array
) -> tuple[Float[Array, "j c"], Float[Array, "i j"]]:
    """The mean of d/ds log volume for each power and chain, over `sweeps` sweeps after equally many that do not count;
    and the log volume at each power of the draws from the prior among which chains start."""

    def slope(draws: Any, local: Any, power: Float[Array, ""]) -> Float[Array, ""]:
        return jax.grad(lambda s: model.log_likelihood(draws, data, Powers(s, s), local))(power)

    def start(key: Key[Array, ""]) -> tuple[Any, Any, Float[Array, " j"]]:
        draws = model.sample_prior(key)
        local = model.sample_local_prior(jax.random.fold_in(key, 1), data.values, draws)
        each = jax.vmap(lambda s: model.log_likelihood(draws, data, Powers(s, s), local))(nodes)
        return draws, local, each

    def chain(number: Int[Array, ""], node: Int[Array, ""]) -> Float[Array, ""]:
        power, key_sweeps = nodes[node], jax.random.fold_in(key, number)
        # A chain starts at one of its draws, chosen by their volumes: far from T = 1 a chain moves far from the prior.
        noise = jax.random.gumbel(jax.random.fold_in(key_sweeps, 0), (_STARTS,))
        best = number * _STARTS + jnp.argmax(
            jax.lax.dynamic_slice_in_dim(volumes[:, node], number * _STARTS, _STARTS) + noise
        )
        draws, local = jax.tree.map(lambda leaf: leaf[best], begin)

        def body(i: Array, carry: tuple[Any, Any, Array]) -> tuple[Any, Any, Array]:
            draws, local, total = carry
            draws, local = model.gibbs(jax.random.fold_in(key_sweeps, 1 + i), draws, data, Powers(power, power), local)
            return draws, local, total + jnp.where(i >= sweeps, slope(draws, local, power), 0.0)

        return jax.lax.fori_loop(0, 2 * sweeps, body, (draws, local, jnp.zeros(())))[2] / sweeps

    *begin, volumes = jax.lax.map(start, jax.random.split(key, _CHAINS * _STARTS), batch_size=_STARTS)
    # The same keys at every power: common random numbers. One flat axis compiles faster than two.
    numbers, places = jnp.tile(jnp.arange(_CHAINS), len(nodes)), jnp.repeat(jnp.arange(len(nodes)), _CHAINS)
    return jax.vmap(chain)(numbers, places).reshape((len(nodes), _CHAINS)), volumes


def _step(powers: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    """How far an error in log C, relative to its value at T = 1, can move a temperature away from 1 that should be
    1."""
    if len(powers) < 3:
        return 0.0
    curvature = np.gradient(np.gradient(one, powers), powers)[1]
    return float(np.sqrt(2.0 * np.max(np.abs(other - one)) / max(curvature, 1e-300)))
