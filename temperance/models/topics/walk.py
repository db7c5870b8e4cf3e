"""The local step of LDA: coordinate ascent over the topic proportions of each document, in closed form.

The derivative of `LDA.log_evidence`, written out without logarithms: with B_vk = exp E log β_kv and e_k = exp E log
θ_k, the responsibilities are φ_vk ∝ e_k B_vk and γ = α + Σ_v n_v φ_v. On the CPU ragged sparse work is done by Numba
kernels (`kernels/topics_walk.py`), elsewhere on padded arrays; tests hold all three equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from ...data.documents import Documents, find_rows
from ...families.dirichlet import Dirichlet, DirichletVector
from ...numerics.special import digamma, log_gamma
from .._blocks import Means, Walked, Way, join_powers, power_rows
from .._data import Data, over_blocks

if TYPE_CHECKING:
    from ...kernels.topics_entries import Rows
    from . import LDA

# How the local step is made: by a kernel, or on arrays, where topics are gathered for each product or once.
Route = Literal["kernel", "afresh", "kept"]


class Local(NamedTuple):
    """The results of a local step."""

    gamma: Float[Array, "n k"]  # the concentration of each document's proportions
    messages: Float[Array, "k v"]  # Σ_d weight · power · n_dv φ_dvk
    evidence: Float[Array, " n"]  # Σ_v n_v log Σ_k exp{E log θ_k + E log β_kv}, at γ
    observed: Float[Array, " n"] | None = None  # Σ_v n_v E log β under the responsibilities
    powers: Float[Array, " n"] | None = None  # the powers of the messages


class Heat(NamedTuple):
    """Powers that documents may have, and their costs log Σ_v E β_kv^s for each topic."""

    powers: Float[Array, " m"]
    costs: Float[Array, "k m"]
    hot: Bool[Array, ""]  # if False, documents keep their powers

    def respond(
        self, observed: Float[Array, " n"], counts: Float[Array, "n k"], before: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        """E[1/T] of each document: r_m ∝ exp{s_m Σ n φ E log β − Σ_k N_k c_k(s_m)} (errata to eq. 10)."""
        logits = observed[:, None] * self.powers[None] - counts @ self.costs
        return jnp.where(self.hot, jax.nn.softmax(logits, axis=1) @ self.powers, before)


def local_step(
    log_topics: Float[Array, "k v"],
    x: Documents,
    weights: Float[Array, " n"],
    prior: Float[Array, "*n k"],
    gamma: Float[Array, "n k"],
    powers: tuple[ArrayLike, ArrayLike],
    steps: ArrayLike,
    tolerance: ArrayLike,
    engine: str,
    single: bool = False,
    heat: Heat | None = None,
) -> Local:
    """At most `steps` updates of each document's γ, until their mean change is below `tolerance`.

    `prior` is α, one row for all documents or a row for each. With `heat` each document then finds an individual power,
    which its messages have.
    """
    observation, latent = (jnp.asarray(power, jnp.float64) for power in powers)
    latent = jnp.broadcast_to(latent, weights.shape)
    if engine == "host":
        each = (weights, jnp.broadcast_to(observation, weights.shape), latent)
        return _host(log_topics, x, each, prior, gamma, steps, tolerance, heat)
    return device_local_step(
        log_topics, x, (weights, observation, latent), prior, gamma, steps, tolerance, single, heat
    )


def device_local_step(
    log_topics: Float[Array, "k v"],
    x: Documents,
    each: tuple[Array, Array, Array],
    prior: Float[Array, "*n k"],
    gamma: Float[Array, "n k"],
    steps: ArrayLike,
    tolerance: ArrayLike,
    single: bool = False,
    heat: Heat | None = None,
    route: Route | None = None,
) -> Local:
    """`local_step` on padded arrays; `each` holds weights, and powers of the words (one, or one per document) and of
    their topics. `route` is the way of computation, by default one that suits the device."""
    weights, observation, latent = each
    kind = jnp.dtype(jnp.float32 if single else jnp.float64)
    rows = log_topics.T.astype(kind)
    shift = jnp.max(rows, axis=1)
    words, whole_counts = x.padded()
    counts = whole_counts.astype(kind)
    one_power = jnp.ndim(observation) == 0 and heat is None
    power = jnp.broadcast_to(observation, weights.shape)
    levels = rows - shift[:, None]
    table = jnp.exp(observation.astype(kind) * levels) if one_power else levels
    own = None if one_power else power
    # Keeps the ratio of a word that no topic can explain finite.
    floor = float(jnp.finfo(kind).tiny) * 2.0**30
    route = _route(log_topics.shape[0]) if route is None else route
    if route == "kernel":
        from ...kernels.topics_cuda import fused_step, fused_sums

        found = fused_step(table, words, counts, prior, gamma, latent, steps, tolerance, floor, own)
        gamma, share, norm, level = found.gamma.astype(jnp.float64), found.share, found.norm, found.level
        top = found.top.astype(jnp.float64)
    else:
        from ...kernels.topics_arrays import Block, ascend

        block = Block(table, words, None if own is None else own.astype(kind), route == "kept")
        gamma, share, norm, top = ascend(block, counts, prior, gamma, latent, steps, tolerance, floor)
        level = None if heat is None else block.levels(share) / norm
    observed, powers = None, power
    if heat is not None:
        assert level is not None
        observed = jnp.sum(whole_counts * (level.astype(jnp.float64) + shift[words]), axis=1)
        powers = heat.respond(observed, (gamma - jnp.atleast_2d(prior)) / latent[:, None], power)
    ratios = (weights * powers).astype(kind)[:, None] * counts / norm
    if route == "kernel":
        own_powers = None if own is None else (levels, own)
        sums = fused_sums(words, ratios, share, len(rows), own_powers)
        messages = (table * sums if own is None else sums).T
    else:
        messages = block.collect(ratios, share).T
    explained = jnp.log(norm).astype(jnp.float64) + power[:, None] * shift[words].astype(jnp.float64)
    # The shares were divided by the largest one: its E log θ_k counts once for each token.
    divided = top - latent * digamma(jnp.sum(gamma, axis=1))
    evidence = jnp.sum(whole_counts * (explained + divided[:, None]), axis=1)
    return Local(gamma, messages.astype(jnp.float64), evidence, observed, None if heat is None else powers)


def _route(topics: int) -> Route:
    if jax.default_backend() == "cpu":
        return "kept"
    return "kernel" if _kernel_suits(topics) else "afresh"


def _kernel_suits(topics: int) -> bool:
    """Whether the CUDA kernel suits: on one NVIDIA GPU, for the numbers of topics that were measured."""
    settings: Any = jax.config  # typed Any, because only the newest JAX declares the names of its settings
    alone = jax.local_device_count() == 1 and settings.jax_default_device is None
    if jax.default_backend() != "gpu" or not alone or not 16 <= topics <= 1024:
        return False
    from ...kernels.cuda import available

    return available()


def _host(
    log_topics: Array,
    x: Documents,
    each: tuple[Array, Array, Array],
    prior: Array,
    gamma: Array,
    steps: ArrayLike,
    tolerance: ArrayLike,
    heat: Heat | None,
) -> Local:
    n = gamma.shape[:1]
    sizes = (gamma.shape, log_topics.shape, n, *((n, n) if heat is not None else ()))
    shapes = tuple(jax.ShapeDtypeStruct(shape, jnp.float64) for shape in sizes)
    documents = x.padded() if x.rows is None else (x.rows,)
    given = (jnp.asarray(steps), jnp.asarray(tolerance), log_topics, prior, gamma, *each)
    # Restarts run one after the other, because the kernel's threads already use all cores.
    return Local(*jax.pure_callback(_call_kernel, shapes, given, heat, documents, vmap_method="sequential"))


def _call_kernel(given: tuple[Array, ...], heat: Heat | None, documents: tuple[Array, ...]) -> tuple[np.ndarray, ...]:
    from ...kernels.topics_entries import Ascent
    from ...kernels.topics_walk import walk_documents

    steps, tolerance, log_topics, prior, gamma, weights, observation, latent = map(np.asarray, given)
    where = [np.asarray(array) for array in documents]

    def rows_of(part: slice) -> Rows:
        return _rows([array[part] for array in where], weights[part], observation[part], latent[part])

    found = (log_topics, observation, rows_of, Ascent(prior, int(steps), float(tolerance)), gamma)
    if heat is None:
        return walk_documents(*found)
    grid, costs, hot = (np.asarray(array) for array in heat)
    observed, powers = np.zeros(len(gamma)), observation.copy()

    def respond(part: slice, here: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        observed[part] = here
        if hot:
            counts = (fresh - (prior[part] if prior.ndim == 2 else prior)) / latent[part, None]
            powers[part] = respond_on_host(grid, costs, here, counts)
        return powers[part]

    return *walk_documents(*found, respond), observed, powers


def respond_on_host(grid: np.ndarray, costs: np.ndarray, observed: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """`Heat.respond` on the host."""
    logits = observed[:, None] * grid - counts @ costs
    # Single precision is enough for a mean of powers, and takes a quarter of the time.
    shares = np.exp((logits - logits.max(axis=1, keepdims=True)).astype(np.float32))
    return (shares @ grid) / shares.sum(axis=1)


def mean_energies(
    topics: Float[Array, "k v"],
    gamma: Float[Array, "n k"],
    x: Documents,
    engine: str,
    single: bool = False,
    route: Route | None = None,
) -> Float[Array, " n"]:
    """Σ_v n_v log Σ_k E[θ_k] E[β_kv] of each document, from concentrations; `route` as in `device_local_step`."""
    if engine == "host":
        documents = x.padded() if x.rows is None else (x.rows,)
        shape = jax.ShapeDtypeStruct(gamma.shape[:1], jnp.float64)
        return jax.pure_callback(_call_energies, shape, topics, gamma, documents, vmap_method="sequential")
    kind = jnp.float32 if single else jnp.float64
    words, counts = x.padded()
    mean = (topics / jnp.sum(topics, axis=1, keepdims=True)).T.astype(kind)
    share = (gamma / jnp.sum(gamma, axis=1, keepdims=True)).astype(kind)
    route = _route(topics.shape[0]) if route is None else route
    if route == "kernel":
        from ...kernels.topics_cuda import fused_norms

        mixed = fused_norms(mean, words, counts.astype(kind), share)
    else:
        from ...kernels.topics_arrays import Block

        mixed = Block(mean, words, None, route == "kept").norms(share)
    return jnp.sum(counts * jnp.log(jnp.maximum(mixed, jnp.finfo(kind).tiny)).astype(jnp.float64), axis=1)


def _call_energies(topics: Array, gamma: Array, documents: tuple[Array, ...]) -> np.ndarray:
    from ...kernels.topics_energy import energies_of

    ones = np.ones(len(gamma))
    lam = np.ascontiguousarray(np.asarray(topics).T)
    return energies_of(_rows(documents, ones, ones, ones), np.asarray(gamma), lam, lam.sum(axis=0))


def _rows(documents: Sequence[Array | np.ndarray], *each: np.ndarray) -> Rows:
    """The documents as `Rows`, from padded arrays or from the numbers of rows of a corpus on the host."""
    from ...kernels.topics_entries import padded_rows, rows_of_corpus

    words, *counts = map(np.asarray, documents)
    return padded_rows(words, counts[0], *each) if counts else rows_of_corpus(*find_rows(words), *each)


# A walk over the documents of LDA in closed form: the derivative of `LDA.log_evidence`, without logarithms.


def walk_documents(model: LDA, m: Means, data: Data, way: Way, local: dict[str, Any] | None) -> Walked:
    """`Model.walk`. With `way.heat` each document finds an individual power, which its messages have."""
    engine = "host" if model.on_host else "device"
    powers, heat = way.powers, None
    if way.heat is not None:
        assert way.heat.costs is not None
        heat = Heat(way.heat.powers, way.heat.costs, jnp.asarray(way.heat.hot))

    def block(part: Any, _: Array) -> tuple[Any, Any]:
        x, weights, own, gamma = part
        if gamma is None:  # no array of documents × topics is made for all documents at once
            gamma = model.initial_local(m, x)["proportions"].concentration
        found = local_step(
            m["topics"].log, x, weights, model.concentration(m, x), gamma, join_powers(powers, own), way.local_steps,
            model.local_tol, engine, model.single, heat,
        )  # fmt: skip
        value, messages = model.document_part(m, x, weights, found)
        sums = jnp.sum(weights * value), {"topics": DirichletVector(found.messages)} | messages
        return sums, (found.gamma, None if heat is None else (found.observed, found.powers))

    start = None if not local else local["proportions"].concentration
    rows = (data.values, data.weights, power_rows(powers), start)
    sums, (gamma, own) = over_blocks(block, rows, *data.cuts)
    value, found = sums
    messages = jax.tree.map(jnp.zeros_like, m) | found
    proportions = {"proportions": Dirichlet.from_natural(DirichletVector(gamma - 1.0))}
    walked = Walked(value, messages, None, proportions)
    if not way.energy:
        return walked
    alpha = jnp.atleast_2d(model.concentration(m, data.values))
    documents = _document_energies(alpha, proportions["proportions"], powers.observation, data)
    if own is not None:
        observed, found_powers = own
        return walked._replace(energy=data.weights * (observed + documents), power=found_powers)
    words = jnp.sum(messages["topics"].dot(m["topics"])) / powers.observation
    return walked._replace(energy=words + data.weights @ documents)


def _document_energies(alpha: Array, proportions: Dirichlet, power: Any, data: Data) -> Float[Array, " n"]:
    """Σ_k N_dk E log θ_dk, with counts N from the concentrations: exact once the local steps have converged."""
    counts = proportions.concentration - alpha
    return jnp.sum(counts * proportions.mean().log, axis=1) / jnp.broadcast_to(power, data.weights.shape)


def mean_energy(model: LDA, topics: Array, gamma: Float[Array, "n k"], data: Data) -> Float[Array, ""]:
    """Σ_d Σ_v n_dv log Σ_k E[θ_dk] E[β_kv]: the energy that belongs to a normaliser in which the topics of tokens are
    summed out."""
    engine = "host" if model.on_host else "device"

    def block(part: Any, _: Array) -> tuple[Float[Array, ""], tuple[()]]:
        x, weights, here = part
        return jnp.sum(weights * mean_energies(topics, here, x, engine, model.single)), ()

    rows = (data.values, data.weights, gamma)
    return over_blocks(block, rows, *data.cuts)[0]


def document_terms(
    found: Local, alpha: Float[Array, " k"], log_prior: Float[Array, ""] | None = None
) -> tuple[Float[Array, " n"], Float[Array, "n k"]]:
    """The bound of each document, with the prior and the entropy of its proportions, and E log θ. `log_prior` is minus
    the (expected) log normaliser of the prior, if that is not the one at `alpha`."""
    gamma = found.gamma
    total = jnp.sum(gamma, axis=1)
    log_theta = digamma(gamma) - digamma(total)[:, None]
    difference = jnp.sum((alpha[None] - gamma) * log_theta, axis=1)
    normalisers = jnp.sum(log_gamma(gamma), axis=1) - log_gamma(total)
    if log_prior is None:
        log_prior = log_gamma(jnp.sum(alpha)) - jnp.sum(log_gamma(alpha))
    return found.evidence + difference + normalisers + log_prior, log_theta
