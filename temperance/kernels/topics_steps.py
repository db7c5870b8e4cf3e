"""Many minibatch steps of LDA on the host in one call, at given or learned temperatures."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from ..data.documents import find_rows
from ..models.topics.walk import Heat, respond_on_host


class Grid(NamedTuple):
    """The common powers that documents may have, and the probability of each (variational tempering)."""

    powers: Float[Array, " m"]
    log_prior: Float[Array, " m"]  # log π − log C
    logits: Float[Array, " m"]  # natural parameters of q(T), updated at the rate of the topics


class Own(NamedTuple):
    """A power for each document of the corpus (local variational tempering)."""

    powers: Float[Array, " n"]
    places: Int[Array, "t b"]  # the documents of each step
    heat: Heat


class Steps(NamedTuple):
    """Minibatches, one after the other; a rate of 0 means no step."""

    rows: Int[Array, "t b"]
    weights: Float[Array, "t b"]
    rates: Float[Array, " t"]
    powers: Float[Array, " t"]  # 1/T of the steps whose temperature is not learned
    hot: Bool[Array, " t"]  # whether the temperature is learned during the step


def online_steps(
    topics: Float[Array, "k v"],
    topic_prior: Float[Array, "_ v"],
    document_prior: Float[Array, " k"],
    local_steps: ArrayLike,
    tolerance: ArrayLike,
    steps: Steps,
    heat: Grid | Own | None = None,
) -> tuple[Float[Array, "k v"], Any]:
    """Concentrations of the topics after the steps, and the learned temperatures: the logits of the `Grid`, or each
    document's own power."""
    learned: Any = () if heat is None else heat.logits if isinstance(heat, Grid) else heat.powers
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.float64), (topics, learned))
    given = (topics, topic_prior, document_prior, jnp.asarray(local_steps), jnp.asarray(tolerance))
    return jax.pure_callback(_call, shapes, given, steps, heat, vmap_method="sequential")


def _call(given: tuple[Array, ...], steps: Steps, heat: Grid | Own | None) -> tuple[np.ndarray, Any]:
    from .topics_entries import Ascent, rows_of_corpus
    from .topics_minibatches import Online

    topics, topic_prior, document_prior, local_steps, tolerance = map(np.asarray, given)
    rows, weights, rates, powers, hots = map(np.asarray, steps)
    heat = jax.tree.map(np.array, heat)
    ascent = Ascent(document_prior, int(local_steps), float(tolerance))
    now: Online | None = None
    for t in np.flatnonzero(rates > 0).tolist():
        rate, after = float(rates[t]), min(t + 1, len(rates) - 1)
        found = heat if hots[t] else None
        power = float(powers[t]) if found is None else _power(found) if isinstance(found, Grid) else None
        if now is None or now.power != power or now.cold != (power == 1.0):
            now = Online(topics if now is None else now.concentrations(), topic_prior, power)
        each = np.asarray(found.powers[found.places[t]]) if isinstance(found, Own) else np.full(rows.shape[1], power)
        documents = rows_of_corpus(*find_rows(rows[t]), weights[t], each, each)
        if isinstance(found, Own):
            now.step(documents, rate, ascent, partial(_respond, found, t, ascent.prior, each))
        elif isinstance(found, Grid):
            now.step(documents, rate, ascent, partial(_cool, found, rate, bool(hots[after]), now, documents))
        else:
            now.step(documents, rate, ascent, partial(_follow, float(powers[t]), float(powers[after])))
    learned = () if heat is None else heat.logits if isinstance(heat, Grid) else heat.powers
    return (topics if now is None else now.concentrations()), learned


def _follow(power: float, following: float, found: Any) -> tuple[float, float]:
    return power, following


def _respond(heat: Own, t: int, prior: np.ndarray, powers: np.ndarray, found: Any) -> tuple[np.ndarray, None]:
    """Each document's own power, from its counts of topics and Σ n E log β; None, because documents of the next step
    have their own powers."""
    counts = (found.gamma - prior) / powers[:, None]
    fresh = respond_on_host(np.asarray(heat.heat.powers), np.asarray(heat.heat.costs), found.observed, counts)
    heat.powers[heat.places[t]] = fresh
    return fresh, None


def _cool(heat: Grid, rate: float, hot: bool, now: Any, documents: Any, found: Any) -> tuple[float, float]:
    """Update q(T) at the rate of the topics; returns the power of this step's statistics, and the power of the next
    step."""
    energy = now.energy(documents, found)
    heat.logits[:] = (1.0 - rate) * heat.logits + rate * (energy * heat.powers + heat.log_prior)
    power = _power(heat)
    return power, power if hot else 1.0


def _power(heat: Grid) -> float:
    shares = np.exp(heat.logits - np.max(heat.logits))
    return float(shares @ heat.powers / shares.sum())
