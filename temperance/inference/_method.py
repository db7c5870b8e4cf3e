"""The interface of a method: `init`, `step` and `result`, pure functions of one run.

Restarts and chains are a `vmap` over them, a checkpoint is their state, and the loop in `run.py` is the only one.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PyTree

from .._arguments import NOT_NEGATIVE, Checks, whole
from ..errors import UnsupportedMethod
from ..kernels import RunEngine
from ..models import Data, Model
from ..numerics.place import on_device

Info = dict[str, Any]  # what a step reports: arrays or trees of arrays, one history entry each


class Run(NamedTuple):
    """A finished loop over all restarts."""

    states: PyTree  # leading axis: restarts
    bounds: np.ndarray  # the bound of each restart's final state
    history: dict[str, Any]  # (steps, restarts, …); draws are a tree of such arrays
    converged: np.ndarray  # one for each restart
    seconds: float
    interrupted: bool
    engine: str = "plain"  # the engine that took the steps


Again = Callable[[Any, int], Run]  # (states, steps) → the run that continues from these states, one per restart


class Result(NamedTuple):
    """The conclusion of a method from a run."""

    state: Any  # a Posterior, or draws
    log_evidence: float | None  # None where the method estimates none
    history: dict[str, np.ndarray]
    converged: bool
    bracket: tuple[float, float] | None = None
    details: Mapping[str, Any] = MappingProxyType({})  # values that only this kind of method reports
    notes: tuple[str, ...] = ()  # sentences a user should know about this run


def state_of(states: PyTree, restart: int) -> PyTree:
    """The state of one restart, sliced by NumPy: JAX would compile a slice for every shape."""

    def cut(leaf: Array) -> Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf[restart]
        return on_device(np.asarray(leaf)[restart])

    return jax.tree.map(cut, states)


def best_restart(run: Run) -> Result:
    """The restart with the highest bound; all final bounds are kept in the history."""
    bounds = np.where(np.isnan(run.bounds), -np.inf, run.bounds)  # NaN marks a restart that failed
    best = int(np.argmax(bounds))
    history = jax.tree.map(lambda values: values[:, best], run.history)
    return Result(
        state=state_of(run.states, best),
        log_evidence=float(bounds[best]),
        history=history | {"restarts": bounds},
        converged=bool(run.converged[best]) and not run.interrupted,
    )


@dataclasses.dataclass(frozen=True)
class Method(ABC):
    """A method of inference. Subclasses are frozen dataclasses; the fields named in `budget` say only how long
    to run, and never cause a new compilation."""

    budget: ClassVar[tuple[str, ...]] = ("restarts", "max_iter", "tol")
    checks: ClassVar[Checks] = {  # run on the fields when a method is constructed
        **dict.fromkeys(("restarts", "max_iter", "local_steps"), whole(1)),
        "tol": NOT_NEGATIVE,
    }
    one_mode: ClassVar[bool] = True  # whether its evidence covers one labelling of the solution rather than all
    arranges: ClassVar[bool] = False  # whether `arrange` changes the data
    row_by_row: ClassVar[bool] = False  # whether a step visits one datum after another: one device holds all
    counts_rows: ClassVar[bool] = False  # whether compiled steps depend on the number of rows, not only on weights
    varied: ClassVar[bool] = False  # whether restarts differ in kind, for models with several kinds of start
    replaced: ClassVar[str] = "found no way from the prior, so this is by {} from the best fits of VB"
    needs_unknowns: ClassVar[bool] = True  # whether a model must have parameters that are not known
    streams: ClassVar[bool] = False  # whether successive steps may see different pieces of the data

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name for tables and messages."""

    @abstractmethod
    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Any: ...

    @abstractmethod
    def step(self, key: Key[Array, ""], model: Model, state: Any, data: Data) -> tuple[Any, Info]: ...

    @abstractmethod
    def result(self, model: Model, data: Data, run: Run) -> Result:
        """The conclusion of a finished run."""

    def improve(self, key: Key[Array, ""], model: Model, data: Data, result: Result, again: Again) -> Result:
        """The result, or a better one found by continuing from the end of the run (by `again`)."""
        return result

    def foreseen(self, model: Model, data: Data) -> tuple[Method, ...]:
        """Methods to try in place of this one, in this order, if a look ahead shows that this one would take long."""
        return ()

    def instead(self, model: Model, result: Result | None) -> tuple[Method, ...]:
        """Methods to run, in this order, if this one failed (`result` is None if an estimate was not finite)."""
        return ()

    def prepare(self, model: Model) -> Model:
        """The model in the form that this method uses; raises `UnsupportedMethod` for a model that it cannot treat."""
        return model

    def complete(self, model: Model, data: Data) -> Self:
        """The method with the fields filled in that the model and data determine; raises if it cannot treat them."""
        return self

    def arrange(self, key: Key[Array, ""], model: Model, data: Data) -> Data:
        """The data for `init`, `step` and `result`: some held out, or with a plan for minibatches."""
        return data

    def corrected_log_evidence(
        self, model: Model, data: Data, state: Any, details: Mapping[str, Any], order: int = 2
    ) -> float:
        """The log evidence with a correction of this order: `Fit.corrected`."""
        raise UnsupportedMethod(f"{self.name} has no correction to its evidence; tp.EP() has one")

    def host_engine(self, model: Model, data: Any) -> RunEngine | None:
        """The engine that runs this method without compiled programs, if the method provides one."""
        return None

    @property
    def monotone(self) -> bool:
        """Whether `Info["elbo"]` may never fall."""
        return False

    @property
    def exact(self) -> bool:
        """Whether `Info["elbo"]` is the bound at the start of a step, so that one more gives the final bound."""
        return self.monotone

    @property
    def may_fail(self) -> bool:
        """Whether a restart may meet an impossible state (a NaN bound) and be left out, if others do not."""
        return False

    @property
    def sweeps(self) -> int:
        """The number of history entries per step; if more than one, reported arrays have a leading axis for them."""
        return 1

    def failure(self, info: Info) -> str:
        """A likely cause of a NaN bound in this step, and what to try."""
        return "a component may have collapsed; try a stronger prior or rescale the data"

    def finished(self, history: Float[Array, "3"], tol: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether the last three values of `Info["elbo"]` say that the run has converged."""
        older, old, new = history
        change, before = new - old, old - older
        # A geometric tail: with ratio r = change/before, the remaining gain is change · r/(1 − r).
        remaining = change * change / (before - change)
        small = tol * abs(new)
        return (abs(change) <= small) & (((before > change) & (remaining <= small)) | (before <= 0))

    def compiled(self) -> Self:
        """The method without its budget: the part that a compiled function depends on."""
        defaults = {f.name: f.default for f in dataclasses.fields(self) if f.name in self.budget}
        return dataclasses.replace(self, **defaults)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.name in self.checks:
                self.checks[field.name](field.name, getattr(self, field.name))
