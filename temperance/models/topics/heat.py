"""The cost of an individual temperature for a document: log Σ_v E β_kv^s of its topics, at each power s it may have."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy  # imports its submodules only when they are used
from jaxtyping import Array, Float

from ...errors import UnsupportedMethod
from ...numerics.threads import in_threads, one_blas_thread
from ...numerics.volumes import STABLE, moved, shift
from .._blocks import Heat, Normaliser, Tempering, Walked, exact
from .._data import Data
from .walk import mean_energy

if TYPE_CHECKING:
    from . import LDA

_ENTRIES = 8192  # entries of a table of concentrations
_NODES = 9  # powers at which a sum over all words is computed
_LAMBDAS = (1e-8, 1e10)  # concentrations that the table holds
_STEP = np.log(_LAMBDAS[1] / _LAMBDAS[0]) / (_ENTRIES - 1)  # between the logarithms of these concentrations


class TopicTempering(Tempering):
    """The tempering of a topic model (errata to B.1 of Mandt et al., 2016)."""

    @property
    def melts(self) -> bool:
        """No: with α < 1 a document settles on one of many equal topics at temperatures far above any at which the
        topics separate."""
        return False

    def acting_energy(self, blocks: dict[str, Any], walked: Walked, data: Data) -> Float[Array, ""]:
        """The energy of the mean parameters, which does not temper the topics of tokens twice."""
        return mean_energy(self.model, blocks["topics"].concentration, walked.local["proportions"].concentration, data)

    def heat(self, data: Data, powers: np.ndarray) -> Heat:
        return topic_heat(powers)

    def priced(self, heat: Heat, blocks: dict[str, Any]) -> Heat:
        return with_costs(heat, blocks["topics"].concentration, self.model.on_host)

    def log_normaliser(self, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
        return topics_normaliser(self.model, temperatures, data, seed)


class WithoutNormaliser(TopicTempering):
    """The tempering of a topic model whose normaliser is not known."""

    def log_normaliser(self, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
        raise UnsupportedMethod(f"tp.VT is for tp.LDA, not for {self.name}; use tp.Annealed or tp.VB")


def topic_heat(powers: np.ndarray) -> Heat:
    """The powers, with a table of Γ(λ + s)/Γ(λ + 1) at a few of them."""
    # Interpolated in log s, because Γ(λ + s) has its pole at s = −λ, close to small powers.
    half = 0.5 * -np.log(min(float(powers.min()), 0.5))
    nodes = np.exp(half * (np.cos(np.linspace(0.0, np.pi, _NODES)) - 1.0))
    fit, here = (np.polynomial.chebyshev.chebvander(np.log(s) / half + 1.0, _NODES - 1) for s in (nodes, powers))
    spread = np.linalg.solve(fit.T, here.T)
    lam = np.geomspace(*_LAMBDAS, _ENTRIES)[:, None]
    # log Γ(λ + s) − log Γ(λ + 1) is smooth in log λ; the pole 1/λ at 0 is left out.
    table = np.exp(scipy.special.gammaln(lam + nodes) - scipy.special.gammaln(lam + 1.0))
    return Heat(jnp.asarray(powers), jnp.asarray(table), jnp.asarray(spread))


def with_costs(heat: Heat, concentration: Float[Array, "k v"], on_host: bool) -> Heat:
    """The heat with the costs of its powers under these topics."""
    costs = topic_costs(heat, concentration, on_host)
    return eqx.tree_at(lambda heat: heat.costs, heat, costs, is_leaf=lambda leaf: leaf is None)


def topic_costs(heat: Heat, concentration: Float[Array, "k v"], on_host: bool) -> Float[Array, "k m"]:
    """c_k(s) = log Σ_v E β_kv^s of each topic at each power, for β ~ Dirichlet(λ):
    E β_v^s = Γ(λ_v + s) Γ(Λ) / (Γ(λ_v) Γ(Λ + s))."""
    assert heat.nodes is not None
    total = jnp.sum(concentration, axis=1)
    if on_host:
        shape = jax.ShapeDtypeStruct((len(total), _NODES), jnp.float64)
        sums = jax.pure_callback(_sums_on_host, shape, concentration, heat.table, vmap_method="sequential")
    else:
        columns = [jnp.sum(concentration * _look_up(heat.table[:, j], concentration), axis=1) for j in range(_NODES)]
        sums = jnp.stack(columns, axis=1)
    whole = jnp.stack([_look_up(heat.table[:, j], total) for j in range(_NODES)], axis=1)
    # The factor λ/Λ, which the table leaves out.
    return jnp.log(sums / (total[:, None] * whole)) @ heat.nodes


def _look_up(column: Float[Array, " e"], value: Float[Array, "..."]) -> Float[Array, "..."]:
    place = jnp.clip((jnp.log(value) - np.log(_LAMBDAS[0])) / _STEP, 0.0, _ENTRIES - 1.001)
    low = jnp.floor(place).astype(jnp.int32)
    return column[low] + (place - low) * (column[low + 1] - column[low])


def _sums_on_host(concentration: Array, table: Array) -> np.ndarray:
    from ...kernels.topics_powers import weighted_sums

    return weighted_sums(np.asarray(concentration), np.asarray(table), _LAMBDAS[0], _STEP)


# The normaliser of tempered topics, with the tokens' topics summed out (Mandt et al., 2016, eq. 18):


_TOPICS, _MOST_TOPICS = 16, 64  # draws of topics, fewer if there are many words
_PROPORTIONS = 256  # draws of proportions for each draw of the topics
_LEVELS = 8  # concentrations from which proportions are drawn
_LENGTHS = 32  # lengths of documents, between which log E f^N, smooth and convex in N, is interpolated
_NORMALISER_NODES = 24  # powers at which C is computed; between them log C is smooth
_NORMALISER_ENTRIES = 2**18  # proportions × words at a time, so that they stay in the cache
_SMALL = 2000  # words; with more, single precision is enough


class Prior(NamedTuple):
    """The priors and documents on which C depends."""

    documents: np.ndarray  # α, (topics,)
    topics: np.ndarray  # η, (1 or topics, words)
    lengths: np.ndarray  # of each document
    weights: np.ndarray  # how many documents each stands for


def topics_normaliser(model: LDA, temperatures: np.ndarray, data: Data, seed: int) -> Normaliser:
    """log C(T), with more draws until the implied temperature is stable."""
    if model.learn:
        raise UnsupportedMethod("tp.VT needs topics with fixed priors (learn=()); use tp.Annealed")
    powers = 1.0 / temperatures
    if len(powers) == 1:
        return exact(np.zeros(1))
    eta = np.broadcast_to(np.asarray(model.eta), (model.n_topics if model.eta.ndim == 2 else 1, model.n_words or 1))
    prior = Prior(np.asarray(model.alpha), eta, np.asarray(data.values.lengths), np.asarray(data.weights))
    samples = _TOPICS
    most = _MOST_TOPICS if eta.shape[1] > 1000 else 4 * _MOST_TOPICS
    while True:
        logs = log_normalisers(prior, powers, samples, seed)
        (value, error), (half, _) = (_over_topics(part) for part in (logs, logs[:, : samples // 2]))
        # With few data q(T) is spread over the grid, with many data it is a point between two entries of the grid.
        if min(shift(powers, value, half), moved(powers, value, half)) <= STABLE or samples >= most:
            return Normaliser(value, error, samples)
        samples *= 4


def _over_topics(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The log of the mean over draws, and its error. With many data the largest draw alone would determine the mean;
    then it is replaced by Jensen's bound, the mean of the logs."""
    samples = logs.shape[1]
    top = scipy.special.logsumexp(logs, axis=1)
    if np.exp(2.0 * top - scipy.special.logsumexp(2.0 * logs, axis=1)).min() < 0.25 * samples:
        return logs.mean(axis=1), logs.std(axis=1, ddof=1) / np.sqrt(samples)
    value = top - np.log(samples)
    return value, np.exp(logs - value[:, None]).std(axis=1) / np.sqrt(samples)


def log_normalisers(prior: Prior, powers: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """Σ_d log E_θ(…)^(N_d) for each power and each of `samples` draws of the topics."""
    from scipy.interpolate import CubicSpline  # slow to import

    nodes = powers if len(powers) <= _NORMALISER_NODES else np.linspace(powers.min(), powers.max(), _NORMALISER_NODES)
    rng, turns, lock = np.random.default_rng(seed), iter(range(samples)), threading.Lock()
    few = prior._replace(**dict(zip(("lengths", "weights"), _few_lengths(prior.lengths, prior.weights), strict=True)))
    logs = np.empty((len(nodes), samples))

    def work(*_: int) -> None:
        with lock:
            turn, drawn = next(turns), _draw(prior, rng)
        logs[:, turn] = _given_topics(few, nodes, drawn)

    with one_blas_thread():
        in_threads(work, samples, 1)
    return logs if nodes is powers else CubicSpline(nodes, logs)(powers)


class Drawn(NamedTuple):
    """Gamma and exponential variates, from which Dirichlet variates are made."""

    topics: tuple[np.ndarray, np.ndarray]
    proportions: list[tuple[np.ndarray, np.ndarray]]  # one for each concentration


def _draw(prior: Prior, rng: np.random.Generator) -> Drawn:
    def variates(concentration: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rng.gamma(concentration + 1.0), rng.exponential(size=concentration.shape)

    topics = variates(np.broadcast_to(prior.topics, (len(prior.documents), prior.topics.shape[1])))
    return Drawn(topics, [variates(here) for here in _concentrations(prior.documents)])


def _concentrations(alpha: np.ndarray) -> list[np.ndarray]:
    """Concentrations from the prior's to about that of a flat Dirichlet, one per draw."""
    factors = np.geomspace(1.0, max(1.0, 2.0 / alpha.mean()), _LEVELS)
    return [np.tile(factor * alpha, (_PROPORTIONS // _LEVELS, 1)) for factor in factors]


def _given_topics(prior: Prior, powers: np.ndarray, drawn: Drawn) -> np.ndarray:
    n_words = prior.topics.shape[1]
    topics = np.exp(_log_dirichlet(drawn.topics, prior.topics))
    log_theta, log_weights = _proportions(prior.documents, drawn)
    kind = np.float64 if n_words <= _SMALL else np.float32
    theta, topics = np.exp(log_theta).astype(kind), topics.astype(kind)
    log_sums = np.empty((len(powers), len(log_theta)))
    rows = max(16, _NORMALISER_ENTRIES // n_words)
    for start in range(0, len(log_theta), rows):
        part = slice(start, start + rows)
        mixed = np.maximum(theta[part] @ topics, np.finfo(kind).tiny)
        log_sums[:, part] = np.log(_power_sums(mixed, powers))
    # At T = 1 every sum is one.
    log_sums[powers == 1.0] = 0.0
    normal = scipy.special.logsumexp(log_weights)
    return np.array(
        [
            prior.weights @ (scipy.special.logsumexp(prior.lengths[:, None] * row + log_weights, axis=1) - normal)
            for row in log_sums
        ]
    )


def _power_sums(mixed: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """Σ_v mixed_v^s for each power s; equally spaced powers by repeated multiplication."""
    logs = np.log(mixed)
    if len(powers) < _NORMALISER_NODES:
        return np.stack([np.exp(mixed.dtype.type(power) * logs).sum(axis=1) for power in powers])
    current = np.exp(mixed.dtype.type(powers[0]) * logs)
    ratio = np.exp(mixed.dtype.type(powers[1] - powers[0]) * logs)
    sums = [current.sum(axis=1)]
    for _ in powers[1:]:
        current *= ratio
        sums.append(current.sum(axis=1))
    return np.stack(sums)


def _proportions(alpha: np.ndarray, drawn: Drawn) -> tuple[np.ndarray, np.ndarray]:
    """log θ under Dirichlet distributions of all concentrations, and log weights of the draws."""
    levels = _concentrations(alpha)
    log_theta = np.concatenate([_log_dirichlet(*pair) for pair in zip(drawn.proportions, levels, strict=True)])

    def log_density(here: np.ndarray) -> np.ndarray:  # without the factor Π 1/θ, which cancels
        return log_theta @ here + scipy.special.gammaln(here.sum()) - scipy.special.gammaln(here).sum()

    densities = [log_density(level[0]) for level in levels]
    return log_theta, densities[0] - (scipy.special.logsumexp(densities, axis=0) - np.log(_LEVELS))


def _log_dirichlet(variates: tuple[np.ndarray, np.ndarray], concentration: np.ndarray) -> np.ndarray:
    """Logarithms of Dirichlet draws, one per row, because with small concentrations the draws themselves underflow."""
    gamma, exponential = variates
    log_gamma = np.log(gamma) - exponential / concentration
    return log_gamma - scipy.special.logsumexp(log_gamma, axis=1, keepdims=True)


def _few_lengths(lengths: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most `_LENGTHS` lengths with weights, such that sums of functions that are linear between them do not
    change."""
    values, place = np.unique(lengths, return_inverse=True)
    counts = np.bincount(place, weights)
    if len(values) <= _LENGTHS:
        return values, counts
    nodes = np.unique(np.quantile(lengths, np.linspace(0.0, 1.0, _LENGTHS)))
    above = np.clip(np.searchsorted(nodes, values), 1, len(nodes) - 1)
    share = (values - nodes[above - 1]) / (nodes[above] - nodes[above - 1])
    found = np.bincount(above, counts * share, len(nodes)) + np.bincount(above - 1, counts * (1.0 - share), len(nodes))
    return nodes, found
