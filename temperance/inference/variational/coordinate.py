"""Variational Bayes: mean-field coordinate ascent, every group in turn, to convergence."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from jaxtyping import Array, Key

from ...errors import InvalidParameter, UnsupportedMethod
from ...models import Data, Mixture, Model, Posterior
from .._method import Again, Info, Method, Result, Run, best_restart
from .moves import KINDS, improve


@dataclasses.dataclass(frozen=True)
class VB(Method):
    """Coordinate ascent on the bound, from `restarts` random starts, of which the best is kept.

    A run stops when the bound's relative change, and what a geometric extrapolation says is still to come, are
    below `tol`; `local_steps` is the number of passes over local blocks (for models that have them) a sweep.
    For mixtures `moves` (True, or some of "delete", "merge" and "split") then tries to leave a bad optimum.
    """

    restarts: int = 1
    tol: float = 1e-6
    max_iter: int = 1000
    local_steps: int = 1
    moves: bool | tuple[str, ...] = False

    budget: ClassVar[tuple[str, ...]] = (*Method.budget, "moves")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.moves, bool | tuple) or not set(self._kinds()) <= set(KINDS):
            accepted = ", ".join(repr(kind) for kind in KINDS)
            raise InvalidParameter(f"moves must be True, False or some of {accepted}, got {self.moves!r}")

    def _kinds(self) -> tuple[str, ...]:
        if isinstance(self.moves, tuple):
            return self.moves
        return KINDS if self.moves is True else ()

    @property
    def name(self) -> str:
        return "VB"

    @property
    def monotone(self) -> bool:
        return True

    def prepare(self, model: Model) -> Model:
        if self.moves and not isinstance(model, Mixture):
            raise UnsupportedMethod(f"moves are for mixtures, not for {type(model).__name__}; use moves=False")
        return model

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Posterior:
        return model.initial(key, data)

    def step(self, key: Key[Array, ""], model: Model, state: Posterior, data: Data) -> tuple[Posterior, Info]:
        posterior, bound = model.sweep(state, data, local_steps=self.local_steps)
        return posterior, {"elbo": bound}

    def result(self, model: Model, data: Data, run: Run) -> Result:
        return best_restart(run)

    def improve(self, key: Key[Array, ""], model: Model, data: Data, result: Result, again: Again) -> Result:
        if not self.moves:
            return result
        assert isinstance(model, Mixture)
        threshold = 10.0 * self.tol + model.rounding
        return improve(key, model, data, result, again, self._kinds(), threshold, self.max_iter, self.restarts)
