"""What Gibbs chains from random starts have seen of a posterior: draws, and the conditionals that they came from.

Given its latents a conjugate model's parameters have a known density, and the posterior is the average of these over
the latents. A few dozen of them cover it far better than variational posteriors, which are too narrow.
"""

from __future__ import annotations

from typing import Any

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


def chains(key: Key[Array, ""], model: Model, data: Data) -> Run | None:
    """Short chains from random starts; None where the model or the data have no Gibbs sampler."""
    try:
        method = CHAINS.complete(CHAINS.prepare(model), data)
        return run_loop(method, model, data, key, Progress(False))
    except (NumericalFailure, UnsupportedMethod):
        return None


def visited(model: Model, data: Data, size: int) -> list[dict[str, Family]]:
    """So many conditionals, from one fixed seed; fewer where some are not proper, none without a Gibbs sampler."""
    run = chains(make_key(0), model, data)
    return [] if run is None else conditionals(make_key(1), model, data, run, size)


def draws_of(run: Run) -> Any:
    """The draws of all chains after the warm-up, one behind the other."""
    return jax.tree.map(lambda leaf: leaf[CHAINS.warmup :].reshape((-1, *leaf.shape[2:])), run.history["draws"])


def conditionals(key: Key[Array, ""], model: Model, data: Data, run: Run, size: int) -> list[dict[str, Family]]:
    """The conditional of all blocks given fresh latents of the last draw of so many chains. Those that are not proper
    are left out."""
    draws = jax.tree.map(lambda leaf: jnp.asarray(leaf[-1, :size]), run.history["draws"])
    local = jax.tree.map(lambda leaf: jnp.asarray(leaf)[:size], run.states.local)
    found, proper = _conditionals(jax.random.split(key, size), model, draws, data, local)
    return [jax.tree.map(lambda leaf, one=one: leaf[one], found) for one in np.flatnonzero(proper)]


@eqx.filter_jit
def _conditionals(keys: Any, model: Model, draws: Any, data: Data, local: Any) -> tuple[dict[str, Family], Array]:
    def one(key: Any, draws: Any, local: Any) -> tuple[dict[str, Family], Array]:
        natural = conditional(model, key, draws, data, Powers(), local)
        found = {name: model._family(name, natural[name]) for name in natural}
        return found, jnp.all(jnp.stack([jnp.all(family.is_proper()) for family in found.values()]))

    return jax.vmap(one)(keys, draws, local)
