"""Many random problems of one entry of the registry, solved side by side in one compiled call."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from temperance.models import Data, Mixture, Model, Posterior
from tests.matrix.registry import Entry


class Ascent(NamedTuple):
    """Leading axis: problems."""

    models: Model
    data: Data
    posteriors: Posterior
    bounds: np.ndarray  # (problems, steps)


def stack(items: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *items)


def scattered(key: Any, model: Mixture, data: Data) -> Posterior:
    """A random datum in each component: a start without a derivative, which would take as long to compile again."""
    chosen = jax.random.choice(key, jnp.nan_to_num(data.values), (model.n_components,))
    prior = model._families()
    return Posterior(prior | {"components": prior["components"] + model.pair.statistics(chosen)}, {})


@eqx.filter_jit
@eqx.filter_vmap
def ascend(model: Model, data: Data, key: Any) -> tuple[Posterior, Any]:
    """Twelve sweeps from a random start; the bound before each."""
    start = scattered(key, model, data) if isinstance(model, Mixture) else model.initial(key, data)
    return jax.lax.scan(lambda q, _: model.sweep(q, data), start, None, length=12)


@cache
def ascents(entry: Entry, count: int = 100) -> Ascent:
    """Every other problem has weights; the generator's seed is the same for every entry."""
    rng = np.random.default_rng(0)
    problems = []
    for number in range(count):
        model, rows = entry.problem(rng)
        model, data = model.prepare(rows)
        if number % 2 and entry.weighted:
            data = eqx.tree_at(lambda d: d.weights, data, jnp.asarray(rng.uniform(0, 3, data.weights.shape)))
        problems.append((model, data))
    models, data = stack(problems)
    posteriors, bounds = ascend(models, data, jax.random.split(jax.random.key(0), count))
    return Ascent(models, data, posteriors, np.asarray(bounds))
