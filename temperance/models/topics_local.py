"""The local step of LDA: coordinate ascent over the topic proportions of each document, in closed form.

What `Model.terms` derives from `LDA.log_evidence`, written out without logarithms: with B_vk = exp E log β_kv
and e_k = exp E log θ_k, the responsibilities are φ_vk ∝ e_k B_vk and γ = α + Σ_v n_v φ_v. On the CPU ragged
sparse work is done by Numba kernels (`topics_kernel.py`), elsewhere on padded arrays; tests hold all three equal.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from ..numerics.special import digamma
from .topics_data import Documents, find_rows


class Local(NamedTuple):
    """What a local step gives."""

    gamma: Float[Array, "n k"]  # the concentration of each document's proportions
    messages: Float[Array, "k v"]  # Σ_d weight · power · n_dv φ_dvk
    evidence: Float[Array, " n"]  # Σ_v n_v log Σ_k exp{E log θ_k + E log β_kv}, at γ


def local_step(
    log_topics: Float[Array, "k v"],
    x: Documents,
    weights: Float[Array, " n"],
    prior: Float[Array, " k"],
    gamma: Float[Array, "n k"],
    powers: tuple[ArrayLike, ArrayLike],
    steps: ArrayLike,
    tolerance: ArrayLike,
    engine: str,
    single: bool = False,
) -> Local:
    """At most `steps` updates of each document's γ, until their mean change is below `tolerance`."""
    observation, latent = (jnp.broadcast_to(jnp.asarray(p, jnp.float64), weights.shape) for p in powers)
    each = (weights, observation, latent)
    if engine == "host":
        return _host(log_topics, x, each, prior, gamma, steps, tolerance)
    return device_local_step(log_topics, x, each, prior, gamma, steps, tolerance, single)


def device_local_step(
    log_topics: Float[Array, "k v"],
    x: Documents,
    each: tuple[Array, Array, Array],
    prior: Float[Array, " k"],
    gamma: Float[Array, "n k"],
    steps: ArrayLike,
    tolerance: ArrayLike,
    single: bool = False,
) -> Local:
    """On padded arrays: two products with the gathered topics (n, width, k) an iteration, with all digits of their
    kind (an accelerator would leave some out)."""
    weights, observation, latent = each
    kind = jnp.float32 if single else jnp.float64
    rows = log_topics.T.astype(kind)
    shift = jnp.max(rows, axis=1)
    power = observation.astype(kind)
    words, whole_counts = x.padded()
    block = jnp.exp(power[:, None, None] * (rows - shift[:, None])[words])
    counts = whole_counts.astype(kind)
    floor = jnp.finfo(kind).tiny

    def shares(gamma: Array) -> Array:
        total = jnp.sum(gamma, axis=1, keepdims=True)
        return jnp.exp(latent[:, None] * (digamma(gamma) - digamma(total))).astype(kind)

    def norms(share: Array) -> Array:
        return jnp.maximum(jnp.einsum("nlk,nk->nl", block, share, precision="highest"), floor)

    def unfinished(carry: tuple[Array, Array, Array]) -> Array:
        count, _, done = carry
        return (count < steps) & ~jnp.all(done)

    def update(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, gamma, done = carry
        share = shares(gamma)
        expected = share * jnp.einsum("nlk,nl->nk", block, counts / norms(share), precision="highest")
        fresh = prior[None] + latent[:, None] * expected.astype(jnp.float64)
        settled = jnp.mean(jnp.abs(fresh - gamma), axis=1) <= tolerance
        return count + 1, jnp.where(done[:, None], gamma, fresh), done | settled

    start = (jnp.asarray(0), gamma, jnp.zeros(len(weights), dtype=bool))
    gamma = jax.lax.while_loop(unfinished, update, start)[1]
    share = shares(gamma)
    norm = norms(share)
    ratios = (weights * observation).astype(kind)[:, None] * counts / norm
    messages = _collect(words, ratios, share, block, rows.shape)
    explained = jnp.log(norm).astype(jnp.float64) + observation[:, None] * shift[words].astype(jnp.float64)
    return Local(gamma, messages.astype(jnp.float64), jnp.sum(whole_counts * explained, axis=1))


def _collect(words: Array, ratios: Array, share: Array, block: Array, shape: tuple[int, ...]) -> Array:
    """Σ_d ratio · share · block, added up by word."""
    return jnp.zeros(shape, block.dtype).at[words].add(ratios[..., None] * share[:, None] * block).T


def _host(
    log_topics: Array,
    x: Documents,
    each: tuple[Array, Array, Array],
    prior: Array,
    gamma: Array,
    steps: ArrayLike,
    tolerance: ArrayLike,
) -> Local:
    shapes = tuple(
        jax.ShapeDtypeStruct(shape, jnp.float64) for shape in (gamma.shape, log_topics.shape, gamma.shape[:1])
    )
    documents = x.padded() if x.rows is None else (x.rows,)
    given = (jnp.asarray(steps), jnp.asarray(tolerance), log_topics, prior, gamma, *each, *documents)
    # Restarts run one after the other: the kernel's threads already use all cores.
    return Local(*jax.pure_callback(_call_kernel, shapes, *given, vmap_method="sequential"))


def _call_kernel(*given: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from .topics_documents import Rows, padded_rows, rows_of_corpus
    from .topics_kernel import host_local_step

    steps, tolerance, log_topics, prior, gamma, weights, observation, latent, *documents = map(np.asarray, given)

    def rows_of(part: slice) -> Rows:
        each = (weights[part], observation[part], latent[part])
        if len(documents) == 2:
            return padded_rows(documents[0][part], documents[1][part], *each)
        return rows_of_corpus(*find_rows(documents[0][part]), *each)

    return host_local_step(log_topics, observation, rows_of, prior, gamma, int(steps), float(tolerance))


def online_steps(
    topics: Float[Array, "k v"],
    topic_prior: Float[Array, "_ v"],
    document_prior: Float[Array, " k"],
    local_steps: ArrayLike,
    tolerance: ArrayLike,
    rows: Int[Array, "t b"],
    weights: Float[Array, "t b"],
    rates: Float[Array, " t"],
    powers: Float[Array, " t"],
) -> Float[Array, "k v"]:
    """Concentrations of the topics after t minibatch steps on the host, each at its power 1/T."""
    shape = jax.ShapeDtypeStruct(topics.shape, jnp.float64)
    given = (
        topics,
        topic_prior,
        document_prior,
        jnp.asarray(local_steps),
        jnp.asarray(tolerance),
        rows,
        weights,
        rates,
        powers,
    )
    return jax.pure_callback(_call_online, shape, *given, vmap_method="sequential")


def _call_online(*given: Array) -> np.ndarray:
    from .topics_documents import rows_of_corpus
    from .topics_online import Online

    topics, topic_prior, document_prior, local_steps, tolerance, rows, weights, rates, powers = map(np.asarray, given)
    online = Online(topics, topic_prior, float(powers[0]))
    following = np.append(powers[1:], powers[-1:])
    for here, weight, rate, power, after in zip(rows, weights, rates, powers, following, strict=True):
        if rate > 0:
            same = np.full(rows.shape[1], power)
            documents = rows_of_corpus(*find_rows(here), weight, same, same)
            online.step(documents, float(rate), document_prior, int(local_steps), float(tolerance), float(after))
    return online.concentrations()
