"""Topic models: walks in closed form, and many minibatch steps in one call to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..families.dirichlet import Dirichlet, DirichletVector
from ..models._data import Data
from ..models._model import Way
from ..models.topics.heat import topic_costs
from ..models.topics.walk import Heat, walk_documents
from . import Minibatches, engine
from .topics_steps import Grid, Own, Steps, online_steps

if TYPE_CHECKING:
    from ..models.topics import LDA


_LDA = ("LDA", "HDP", "StructuralTopics")


def on_host(model: LDA, data: Data, way: Way) -> bool:
    return model.on_host


def on_device(model: LDA, data: Data, way: Way) -> bool:
    return model._engine() == "device"


def is_hot(model: LDA, data: Data, way: Way) -> bool:
    """Whether documents have individual temperatures; only this engine can walk over such documents."""
    return way.heat is not None


engine(*_LDA, name="documents in closed form (kernel)", when=on_host, by_euler=False)(walk_documents)
engine(*_LDA, name="documents in closed form (xla)", when=on_device, by_euler=False)(walk_documents)
engine(*_LDA, name="hot documents", when=is_hot, by_euler=False, always=True)(walk_documents)


def takes_steps(model: Any) -> bool:
    """Whether the host can take many steps in one call: with fixed priors the topics stay in the kernel's layout
    between steps."""
    return model.on_host and not model.learn


def take_steps(
    model: LDA, blocks: dict[str, Any], x: Any, given: Minibatches, thermostat: Any, heat: Any
) -> tuple[dict[str, Any], Any]:
    """The topics after all steps, and the temperatures as learned during these steps."""
    from ..inference import thermostats

    assert model.n_words is not None and x.rows is not None
    topics = blocks["topics"].concentration
    hot, powers, own = jnp.zeros(given.rates.shape, dtype=bool), jnp.ones(given.rates.shape), None
    if isinstance(thermostat, thermostats.Schedule):
        powers = 1.0 / jax.vmap(thermostat.at)(given.numbers)
    else:
        hot = thermostat.hot(given.numbers)
        own = _heat(model, thermostat, heat, topics, given)
    eta = model.eta if model.eta.ndim == 2 else jnp.broadcast_to(model.eta, (1, model.n_words))
    steps = Steps(jnp.take(x.rows, given.rows), given.weights, given.rates, powers, hot)
    found, learned = online_steps(topics, eta, model.alpha, given.local_steps, model.local_tol, steps, own)
    return {"topics": Dirichlet.from_natural(DirichletVector(found - 1.0))}, learned


def _heat(model: LDA, thermostat: Any, heat: Any, topics: Array, given: Minibatches) -> Grid | Own:
    from ..inference import thermostats

    if isinstance(thermostat, thermostats.Grid):
        return Grid(thermostat.powers, thermostat.log_prior, heat)
    costs = topic_costs(thermostat.grid, topics, model.on_host)
    return Own(heat, given.rows, Heat(thermostat.grid.powers, costs, jnp.asarray(True)))
