"""Hidden Markov models: forward–backward in closed form, where autodiff of the forward scan is 8 to 10 times slower."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..families.dirichlet import DirichletVector
from ..models._blocks import Means, Walked, Way, column, join_powers, power_rows
from ..models._data import Data, over_blocks
from ..models.hidden_markov import common_power
from ..numerics.chains import FIRST, Chain, expected_statistics
from . import engine

if TYPE_CHECKING:
    from ..models.hidden_markov import HMM


def when(model: HMM, data: Data, way: Way) -> bool:
    return model.engine != "autodiff"


@engine("HMM", name="forward–backward", when=when)
def walk(model: HMM, m: Means, data: Data, way: Way, local: Any = None) -> Walked:
    powers, x = way.powers, data.values
    ready, unpack = jax.vjp(model.packed, m)
    latent = common_power(powers.latent)
    rows = power_rows(powers)

    def observed(part: Any, emissions: Any) -> Float[Array, "b k"]:
        here, own = part
        each = join_powers(powers, own)
        return model.pair.tempered_log_likelihood(emissions, here, column(each.observation), latent, None)

    likelihood = over_blocks(lambda part, _: ((), observed(part, ready["emissions"])), (x.x, rows), x.blocks)[1]
    chain = Chain(latent * m["initial"].log, latent * m["transitions"].log, likelihood, x.starts)
    found = expected_statistics(chain, data.weights, model.recursion(x))
    share = data.weights[:, None] * found.states

    def block(part: Any, _: Array) -> tuple[Any, tuple[()]]:
        steps, here = part
        return jax.grad(lambda emissions: jnp.sum(here * observed(steps, emissions)))(ready["emissions"]), ()

    messages = {
        "initial": DirichletVector(latent * (jnp.where(x.starts == FIRST, 1.0, 0.0) @ share)),
        "transitions": DirichletVector(latent * found.transitions),
        "emissions": over_blocks(block, ((x.x, rows), share), x.blocks)[0],
    }
    return Walked(jnp.sum(data.weights * found.increments), unpack(messages)[0], None, {})
