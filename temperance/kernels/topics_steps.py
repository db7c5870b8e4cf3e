"""Many minibatch steps of LDA on the host in one call, at temperatures that are given or found on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from ..models.topics.documents import find_rows
from ..models.topics.local import Heat, respond_on_host


class Grid(NamedTuple):
    """Powers that all documents may have together, and how likely each is (variational tempering)."""

    powers: Float[Array, " m"]
    log_prior: Float[Array, " m"]  # log π − log C
    logits: Float[Array, " m"]  # natural parameters of q(T), moved like those of the topics


class Own(NamedTuple):
    """A power for each document of the corpus (local variational tempering)."""

    powers: Float[Array, " n"]
    places: Int[Array, "t b"]  # the documents of each step
    heat: Heat


class Steps(NamedTuple):
    """Minibatches, one after the other; a rate of 0 is no step."""

    rows: Int[Array, "t b"]
    weights: Float[Array, "t b"]
    rates: Float[Array, " t"]
    powers: Float[Array, " t"]  # 1/T of steps that are not hot
    hot: Bool[Array, " t"]  # whether the temperature is found on the way


def online_steps(
    topics: Float[Array, "k v"],
    topic_prior: Float[Array, "_ v"],
    document_prior: Float[Array, " k"],
    local_steps: ArrayLike,
    tolerance: ArrayLike,
    steps: Steps,
    heat: Grid | Own | None = None,
) -> tuple[Float[Array, "k v"], Any]:
    """Concentrations of the topics after the steps, and what was learned of temperatures: the logits of the `Grid`,
    or each document's own power."""
    learned: Any = () if heat is None else heat.logits if isinstance(heat, Grid) else heat.powers
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.float64), (topics, learned))
    given = (topics, topic_prior, document_prior, jnp.asarray(local_steps), jnp.asarray(tolerance))
    return jax.pure_callback(_call, shapes, given, steps, heat, vmap_method="sequential")


def _call(given: tuple[Array, ...], steps: Steps, heat: Grid | Own | None) -> tuple[np.ndarray, Any]:
    from .topics_documents import rows_of_corpus
    from .topics_hot import Hot
    from .topics_online import Online

    topics, topic_prior, document_prior, local_steps, tolerance = map(np.asarray, given)
    rows, weights, rates, powers, hots = map(np.asarray, steps)
    heat = jax.tree.map(np.array, heat)
    rest = (document_prior, int(local_steps), float(tolerance))
    now: Online | Hot | None = None
    for t in np.flatnonzero(rates > 0).tolist():
        rate, after = float(rates[t]), min(t + 1, len(rates) - 1)
        found = heat if hots[t] else None
        power = float(powers[t]) if found is None else _power(found) if isinstance(found, Grid) else None
        cold = found is None and power == 1.0
        if now is None or isinstance(now, Online) != cold or (isinstance(now, Hot) and now.power != power):
            lam = topics if now is None else now.concentrations()
            now = Online(lam, topic_prior) if cold else Hot(lam, topic_prior, power)
        here = found.powers[found.places[t]] if isinstance(found, Own) else np.full(rows.shape[1], power)
        documents = rows_of_corpus(*find_rows(rows[t]), weights[t], np.asarray(here), np.asarray(here))
        if isinstance(now, Online):
            now.step(documents, rate, *rest)
        elif isinstance(found, Own):
            now.step_each(documents, rate, *rest, _responder(found, t))
        else:
            following = float(powers[after]) if found is None else _cooler(found, rate, bool(hots[after]))
            now.step(documents, rate, *rest, following)
    learned = () if heat is None else heat.logits if isinstance(heat, Grid) else heat.powers
    return (topics if now is None else now.concentrations()), learned


def _responder(heat: Own, t: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def respond(observed: np.ndarray, counts: np.ndarray) -> np.ndarray:
        fresh = respond_on_host(np.asarray(heat.heat.powers), np.asarray(heat.heat.costs), observed, counts)
        heat.powers[heat.places[t]] = fresh
        return fresh

    return respond


def _cooler(heat: Grid, rate: float, hot: bool) -> Callable[[float], tuple[float, float]]:
    def cool(energy: float) -> tuple[float, float]:
        """q(T) moves like the topics; the power of this step's statistics, and that of the next step."""
        heat.logits[:] = (1.0 - rate) * heat.logits + rate * (energy * heat.powers + heat.log_prior)
        power = _power(heat)
        return power, power if hot else 1.0

    return cool


def _power(heat: Grid) -> float:
    shares = np.exp(heat.logits - np.max(heat.logits))
    return float(shares @ heat.powers / shares.sum())
