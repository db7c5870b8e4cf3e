"""Variational Bayes: mean-field coordinate ascent over every group in turn, until convergence."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

from jaxtyping import Array, Key

from ..._arguments import Checks, optional, whole
from ...errors import InvalidParameter, UnsupportedMethod
from ...models import Data, Model, Posterior, Way
from ...models._answers import Creeping, Movable
from .._method import Again, Info, Method, Result, Run, best_restart
from .leap import leap
from .memoised import Parts, pass_over_parts, require_additive, require_whole_units, start_parts
from .moves import KINDS, Search, improve, merge_alike


@dataclasses.dataclass(frozen=True)
class VB(Method):
    """Coordinate ascent on the bound, from `restarts` random starts, of which the best is kept.

    `restarts` is the number of random starts, which run side by side. A run stops when the relative change of the
    bound, and the remaining gain by geometric extrapolation, are below `tol`, or after `max_iter` sweeps; `local_steps`
    is the number of passes over local blocks per sweep (for models that have them). For mixtures `moves` (True, or some
    of "delete", "merge" and "split") then tries to leave a bad optimum. With `batches` the globals are updated after
    each of that many parts of the data, whose statistics are stored, so that the bound is exact and never falls; local
    blocks are kept from sweep to sweep, or with `carry=False` computed afresh, which needs no memory per datum. A
    hidden Markov model is taken a few sequences at a time; where data have no latents, as in a regression, batches
    change nothing.
    """

    restarts: int = 1
    tol: float = 1e-6
    max_iter: int = 1000
    local_steps: int = 1
    moves: bool | tuple[str, ...] = False
    batches: int | None = None
    carry: bool = True

    budget: ClassVar[tuple[str, ...]] = (*Method.budget, "moves")
    varied: ClassVar[bool] = True
    needs_unknowns: ClassVar[bool] = False
    name: ClassVar[str] = "VB"
    checks: ClassVar[Checks] = {**Method.checks, "batches": optional(whole(1))}
    monotone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.moves, bool | tuple) or not set(self._kinds()) <= set(KINDS):
            accepted = ", ".join(repr(kind) for kind in KINDS)
            raise InvalidParameter(f"moves must be True, False or some of {accepted}, got {self.moves!r}")
        if self.batches is None:
            if not self.carry:
                raise InvalidParameter("carry=False needs batches: without them the bound could fall")
            return
        if self.moves:
            raise InvalidParameter("moves need all data together: leave out batches")

    def _kinds(self) -> tuple[str, ...]:
        if isinstance(self.moves, tuple):
            return self.moves
        return KINDS if self.moves is True else ()

    def prepare(self, model: Model) -> Model:
        if self.moves and not (isinstance(model, Movable) and model.moves):
            raise UnsupportedMethod(f"moves are for mixtures, not for this {type(model).__name__}; use moves=False")
        if self.batches is not None and not model.rows.without_latents:
            require_additive(model, "VB with batches", "tp.VB() or tp.SVI()")
        return model

    def complete(self, model: Model, data: Any) -> Self:
        if self.batches is not None:
            if model.rows.without_latents:
                return dataclasses.replace(self, batches=None, carry=True)
            require_whole_units(model, data, "VB with batches", "tp.VB() or tp.SVI()")
        return self

    @property
    def counts_rows(self) -> bool:  # type: ignore[override]
        return self.batches is not None

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Posterior | Parts:
        posterior = model.initial(key, data)
        if self.batches is None:
            return posterior
        if not self.carry:
            posterior = Posterior(posterior.blocks, {})
        return start_parts(model, posterior, data, self.batches, self.local_steps)

    def step(self, key: Key[Array, ""], model: Model, state: Any, data: Data) -> tuple[Any, Info]:
        if self.batches is not None:
            state, bound = pass_over_parts(model, state, data, self.local_steps)
        else:
            sweep = leap if isinstance(model, Creeping) else type(model).sweep
            state, bound = sweep(model, state, data, Way(local_steps=self.local_steps))
        return state, {"elbo": bound}

    def result(self, model: Model, data: Data, run: Run) -> Result:
        best = best_restart(run)
        return best if self.batches is None else best._replace(state=best.state.posterior)

    def improve(self, key: Key[Array, ""], model: Model, data: Data, result: Result, again: Again) -> Result:
        threshold = 10.0 * self.tol + model.rounding
        if self.batches is not None:
            return result
        if not self.moves:
            return merge_alike(model, data, result, again, threshold, self.max_iter, self.restarts)
        assert isinstance(model, Movable)
        search = Search(self._kinds(), threshold, self.max_iter, self.restarts)
        return improve(key, model, data, result, again, search)
