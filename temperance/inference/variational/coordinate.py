"""Variational Bayes: mean-field coordinate ascent, every group in turn, to convergence."""

from __future__ import annotations

import dataclasses
from jaxtyping import Array, Key

from ...models import Data, Model, Posterior
from .._method import Info, Method, Result, Run, best_restart


@dataclasses.dataclass(frozen=True)
class VB(Method):
    """Coordinate ascent on the bound, from `restarts` random starts, of which the best is kept.

    A run stops when the bound's relative change, and what a geometric extrapolation says is still to come, are
    below `tol`; `local_steps` is the number of passes over local blocks (for models that have them) a sweep.
    """

    restarts: int = 1
    tol: float = 1e-6
    max_iter: int = 1000
    local_steps: int = 1

    @property
    def name(self) -> str:
        return "VB"

    @property
    def monotone(self) -> bool:
        return True

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Posterior:
        return model.initial(key, data)

    def step(self, key: Key[Array, ""], model: Model, state: Posterior, data: Data) -> tuple[Posterior, Info]:
        posterior, bound = model.sweep(state, data, local_steps=self.local_steps)
        return posterior, {"elbo": bound}

    def result(self, model: Model, data: Data, run: Run) -> Result:
        return best_restart(run)
