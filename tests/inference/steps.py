"""One minibatch step, and one walk in which each datum finds its power, as the methods take them."""

from typing import Any

import jax.numpy as jnp

from temperance.models import Data, Model, Posterior, Powers, Way
from temperance.models._blocks import Walked
from temperance.models._model import means


def stochastic_step(
    model: Model, blocks: Any, batch: Data, rate: Any, local_steps: int, powers: Powers = Powers()
) -> tuple[Any, Any]:
    """The blocks after a step along the natural gradient of a minibatch, and its bound before the step."""
    q = Posterior(blocks, model.initial_local(means(blocks), batch.values))
    posterior, bound = model.sweep(q, batch, Way(powers, local_steps), rate)
    return posterior.blocks, bound


def walk_locally(model: Model, blocks: Any, data: Data, powers: Any, grid: Any, local: Any, local_steps: int) -> Walked:
    """A walk in which every datum may have each power of the grid."""
    heat = model.tempering.priced(model.tempering.heat(data, grid), blocks)
    powers = jnp.asarray(powers)
    return model.walk(means(blocks), data, Way(Powers(powers, powers), local_steps, True, heat), local)


def walk_with_energy(model: Model, m: Any, data: Data, power: Any, local_steps: int) -> Walked:
    return model.walk(m, data, Way(Powers(power, power), local_steps, True), {})
