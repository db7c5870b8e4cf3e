"""Draws of Gibbs chains from random starts, and the conditionals from which they were drawn.

Given its latents a conjugate model's parameters have a known density, and the posterior is the average of these over
the latents. A few dozen of them cover it far better than variational posteriors, which are too narrow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from ...errors import NumericalFailure, UnsupportedMethod
from ...families._family import Family
from ...models import Data, Model, Powers
from ...models._gibbs import conditional
from ...numerics.keys import make_key
from .._method import Run
from ..progress import Progress
from ..run import run as run_loop
from .gibbs import Gibbs

CHAINS = Gibbs(draws=4, warmup=28, chains=128)
SWEEPS = (31, 23, 15, 7)  # after which latents are drawn: the early ones are of places that are rare later


class Seen(NamedTuple):
    """Distinct conditionals (leading axis), and how often each occurred."""

    blocks: dict[str, Family]
    times: np.ndarray


def chains(key: Key[Array, ""], model: Model, data: Data) -> Run | None:
    """Short chains from random starts; None where the model or the data have no Gibbs sampler."""
    try:
        method = CHAINS.complete(CHAINS.prepare(model), data)
        return run_loop(method, model, data, key, Progress(False))
    except (NumericalFailure, UnsupportedMethod):
        return None


def visited(model: Model, data: Data, size: int) -> Seen | None:
    """At most `size` conditionals, from one fixed seed; None without a Gibbs sampler."""
    run = chains(make_key(0), model, data)
    return None if run is None else conditionals(make_key(1), model, data, run, size)


def draws_of(run: Run) -> Any:
    """The draws of all chains after the warm-up, one chain after another."""
    return jax.tree.map(lambda leaf: leaf[CHAINS.warmup :].reshape((-1, *leaf.shape[2:])), run.history["draws"])


def conditionals(key: Key[Array, ""], model: Model, data: Data, run: Run, size: int) -> Seen | None:
    """The conditionals of all blocks given fresh latents, the latest sweep first. Improper ones are left out, and of
    conditionals that differ only in the order of the parts one is kept."""
    local = jax.tree.map(jnp.asarray, run.states.local)
    sweeps = np.array(SWEEPS[:1] if local else SWEEPS)  # local blocks are kept only for the last sweep
    draws = jax.tree.map(lambda leaf: jnp.asarray(leaf[sweeps]), run.history["draws"])
    found, proper = _conditionals(jax.random.split(key, (len(sweeps), CHAINS.chains)), model, draws, data, local)
    found = jax.tree.map(lambda leaf: np.asarray(leaf).reshape((-1, *leaf.shape[2:])), found)
    kept = np.flatnonzero(np.asarray(proper).ravel())
    if not len(kept):
        return None
    mantissa, exponent = np.frexp(_in_any_order(model, jax.tree.leaves(found))[kept])
    alike = np.ldexp(np.round(mantissa, 7), exponent)
    _, first, times = np.unique(alike, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)[:size]
    chosen = kept[first[order]]
    return Seen(jax.tree.map(lambda leaf: leaf[chosen], found), times[order])


def _in_any_order(model: Model, leaves: list[np.ndarray]) -> np.ndarray:
    """Numbers (conditional, number) that are the same for the same parts in another order, and for no other parts."""
    symmetry = model.symmetry and model.symmetry.alike
    flat = [leaf.reshape((len(leaf), -1)) for leaf in leaves]
    if symmetry is None:
        return np.concatenate(flat, axis=1)
    (first, *others), size = symmetry.parts, symmetry.parts[0].size
    if others or any(axes != (0,) for _, axes in first.axes):
        return np.sort(np.concatenate(flat, axis=1), axis=1)
    own = [leaf.reshape((len(leaf), size, -1)) for leaf in leaves if leaf.shape[1:2] == (size,)]
    rest = [one for one, leaf in zip(flat, leaves, strict=True) if leaf.shape[1:2] != (size,)]
    parts = np.concatenate(own, axis=2)
    mixed = parts @ np.random.default_rng(0).uniform(0.5, 1.5, parts.shape[2])  # a number for each part
    return np.concatenate([np.sort(mixed, axis=1), *rest], axis=1)


@eqx.filter_jit
def _conditionals(keys: Any, model: Model, draws: Any, data: Data, local: Any) -> tuple[dict[str, Family], Array]:
    def one(key: Any, draws: Any, local: Any) -> tuple[dict[str, Family], Array]:
        natural = conditional(model, key, draws, data, Powers(), local)
        found = {name: model._family(name, natural[name]) for name in natural}
        return found, jnp.all(jnp.stack([jnp.all(family.is_proper()) for family in found.values()]))

    return jax.lax.map(lambda sweep: jax.vmap(one)(sweep[0], sweep[1], local), (keys, draws))
