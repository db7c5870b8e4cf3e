"""A model with its data summed out too: log Σ_z ∫ p(x, z | θ)^s dx, the volume of a tempered joint at a θ.

As in `log_evidence` a key makes of every sum a draw, so that derivatives of the volume are the statistics of simulated
latents and data, and `Model.gibbs` of the `Unseen` model draws from p(θ) Π_n Σ_z ∫ p(x_n, z | θ)^s dx. A missing entry
is no datum and has no volume.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..errors import UnsupportedMethod
from ..families import Bernoulli, Categorical, IndependentPair, KnownCovarianceGaussian, Multinomial, Poisson
from ..numerics.chains import Chain, sum_paths
from ..numerics.latents import sum_out
from ..numerics.linalg import log_det
from ..numerics.special import LOG_2PI
from ._data import Data
from ._model import Means, Model, Powers
from ._wrapped import Wrapped
from .hidden_markov.model import HMM
from .hidden_markov.steps import Steps
from .mixture.finite import Mixture

Power = Float[Array, ""]
MaybeKey = Key[Array, ""] | None


@singledispatch
def log_volume(model: Any, m: Means, x: Any, power: Power, key: MaybeKey) -> Float[Array, " n"]:
    """log Σ_z ∫ p(x, z | θ)^power dx of each row, in the place of those x that were seen; without what `gaussians`
    says."""
    raise UnsupportedMethod(
        f"{type(model).__name__} has no tempered normaliser, which tp.VT needs; use tp.Annealed or tp.VB"
    )


@log_volume.register
def _(model: Mixture, m: Means, x: Any, power: Power, key: MaybeKey) -> Float[Array, " n"]:
    key_pair, key_sum = (None, None) if key is None else jax.random.split(key)
    each = pair_volume(model.pair, m["components"], x, power, key_pair)
    return sum_out(power * model.log_weights(m)[None] + each, key_sum)


@log_volume.register
def _(model: HMM, m: Means, x: Steps, power: Power, key: MaybeKey) -> Float[Array, " t"]:
    key_pair, key_path = (None, None) if key is None else jax.random.split(key)
    each = pair_volume(model.pair, m["emissions"], x.x, power, key_pair)
    chain = Chain(power * m["initial"].log, power * m["transitions"].log, each, x.starts)
    # Many short chains of draws side by side: a call to the host for each would cost more than it saves.
    return sum_paths(chain, key_path, "device")


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


def gaussian_volume(power: Power) -> Float[Array, ""]:
    """log ∫ N(x | μ, 1)^power dx."""
    return 0.5 * ((1.0 - power) * LOG_2PI - jnp.log(power))


def infinite(what: str) -> UnsupportedMethod:
    return UnsupportedMethod(
        f"tp.VT needs known {what}: with a prior on a variance the tempered normaliser is infinite; use tp.Annealed"
    )


@singledispatch
def gaussians(model: Any, data: Data) -> float:
    """About how many numbers of these data are Gaussian: that part of the volume is known beforehand."""
    return 0.0


@gaussians.register(Mixture)
@gaussians.register(HMM)
def _(model: Any, data: Data) -> float:
    if not isinstance(model.pair, KnownCovarianceGaussian):
        return 0.0
    x = data.values.x if isinstance(model, HMM) else data.values
    return float(jnp.sum(data.weights[:, None] * ~jnp.isnan(x)))


class Unseen(Wrapped):
    """The model without its data: only their shape, and which entries are missing, still matters."""

    inner: Model

    def __init__(self, inner: Model):
        self.inner = inner

    def log_evidence(self, m: Means, x: Any, powers: Powers = Powers(), key: MaybeKey = None) -> Float[Array, " n"]:
        return log_volume(self.inner, m, x, jnp.asarray(powers.latent), key)
