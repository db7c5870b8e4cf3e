"""Engines: the sums that autodiff of `log_evidence` gives, faster, for a stated case (Numba, or Pallas on a GPU).

A module here registers its engine with `@engine("Model", ...)`. `_MODULES` says which modules to ask for a model, so
that a module, and Numba with it, is imported only when its model is fitted. `Data.engine` is "auto", or "plain" if
autodiff should make every sum; tests compare each engine with `derived_walk`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtyping import Array, Float, Int

if TYPE_CHECKING:
    from ..models import Data, Model, Way
    from ..models._blocks import Walked

# Exact class names: a subclass may compute something else, so autodiff serves it until an engine claims it.
_MODULES = {
    "Mixture": ("gaussian_walk",),
    "GaussianMixture": ("gaussian_walk",),
    "DirichletProcessMixture": ("gaussian_walk",),
    "HMM": ("hidden_markov",),
    "LogisticRegression": ("regression_walk",),
    "ProbitRegression": ("regression_walk",),
    "PoissonRegression": ("regression_walk",),
    "OrderedRegression": ("regression_walk",),
    "CensoredRegression": ("regression_walk",),
    "TruncatedRegression": ("regression_walk",),
    "LDA": ("topics",),
    "HDP": ("topics",),
    "StructuralTopics": ("topics",),
    "Distributed": ("..cluster.model",),
}

# The modules whose `start` and `chunk` run a whole fit, and those whose `take_steps` takes many minibatch steps.
_RUNS = {
    "Mixture": "small_mixture",
    "GaussianMixture": "small_mixture",
    "ClassMixture": "small_mixture",
    "HMM": "small_chains",
    "FactorAnalysis": "small_factors",
    "StateSpace": "small_states",
}
_STEPS = {"LDA": "topics"}


class Engine(NamedTuple):
    """One way to walk over the data of some models."""

    name: str
    when: Callable[[Any, Any, Any], bool]
    walk: Callable[..., Walked]
    by_euler: bool = True  # whether the energy may be read off the messages (`Model.log_base`)
    always: bool = False  # also used with "plain", because no other code can read these data


_ENGINES: dict[str, list[Engine]] = {}


def engine(
    *models: str, name: str, when: Callable[[Any, Any, Any], bool], by_euler: bool = True, always: bool = False
) -> Callable[[Callable[..., Walked]], Callable[..., Walked]]:
    """Register `walk(model, m, data, way, local)` for these models, where `when(model, data, way)` holds."""

    def register(walk: Callable[..., Walked]) -> Callable[..., Walked]:
        for model in models:
            _ENGINES.setdefault(model, []).append(Engine(name, when, walk, by_euler, always))
        return walk

    return register


def engines(model: Model) -> list[Engine]:
    """The engines registered for a model."""
    kind = type(model).__name__
    for module in _MODULES.get(kind, ()):
        importlib.import_module(module if module.startswith("..") else f".{module}", __name__)
    return _ENGINES.get(kind, [])


def walk_engine(model: Model, data: Data, way: Way) -> Engine:
    """The engine that walks over these data: the first registered engine whose condition holds, else autodiff."""
    for candidate in engines(model):
        if (data.engine != "plain" or candidate.always) and candidate.when(model, data, way):
            return candidate
    return plain()


class RunEngine(NamedTuple):
    """A replacement for the compiled programs in the loop of `inference/run.py`."""

    name: str
    start: Callable[..., Any]  # (method, model, data, keys) → the states of all restarts
    chunk: Callable[..., tuple[Any, dict[str, Any]]]  # with the arguments and results of `_chunk` in `inference/run.py`
    goes_on: bool = False  # whether it can also continue a run from given states


def run_module(model: Any) -> str | None:
    """The module that may run a whole fit of this model."""
    return _RUNS.get(type(model).__name__)


def run_engine(method: Any, model: Any, data: Any) -> RunEngine | None:
    """The engine that runs this whole fit without XLA, or None."""
    own = method.host_engine(model, data)
    if own is not None:
        return own
    module = run_module(model)
    if module is None:
        return None
    small = importlib.import_module(f".{module}", __name__)
    return RunEngine(small.NAME, small.start, small.chunk, small.GOES_ON) if small.when(method, model, data) else None


class Minibatches(NamedTuple):
    """Minibatch steps, one after the other; a rate of 0 means no step."""

    numbers: Int[Array, " t"]
    rows: Int[Array, "t b"]
    weights: Float[Array, "t b"]
    rates: Float[Array, " t"]
    local_steps: int


# (model, blocks, values, minibatches, thermostat, heat) → the blocks and the heat after all of them
TakeSteps = Callable[..., tuple[dict[str, Any], Any]]


def steps_engine(model: Model, data: Data) -> TakeSteps | None:
    """The engine that takes many minibatch steps of this model in one call, or None."""
    module = _STEPS.get(type(model).__name__)
    if module is None or data.engine == "plain":
        return None
    many = importlib.import_module(f".{module}", __name__)
    return many.take_steps if many.takes_steps(model) else None


def plain() -> Engine:
    from ..models._derive import derived_walk

    return Engine("plain", lambda *_: True, derived_walk)
