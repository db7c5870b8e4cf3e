"""Gibbs sampling: every group of blocks in turn from its conditional, given freshly drawn latents."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import jax
import numpy as np
from jaxtyping import Array, Key

from ..._arguments import Checks, whole
from ...kernels import RunEngine, small_tempered
from ...models import Data, Model
from ...numerics.autocorrelation import split_r_hat
from .._method import Info, Method, Result, Run
from ._support import require_distributions, require_unweighted
from .draws import Draws

MIXED = 1.01  # chains whose R-hat is below this agree (Vehtari et al., 2021)


class State(NamedTuple):
    """One chain: a draw of the global blocks, and of the local blocks that cannot be summed out."""

    draws: dict[str, Any]
    local: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Gibbs(Method):
    """Draws of the latents given the parameters, and of the parameters given the latents, in turn.

    `draws` is the number of draws that each chain keeps. `warmup` is the number of sweeps before them, which are
    dropped. `chains` is the number of chains, which run side by side. `thin` is the number of sweeps for each draw
    that is kept.
    """

    draws: int = 1000
    warmup: int = 500
    chains: int = 4
    thin: int = 1

    budget: ClassVar[tuple[str, ...]] = ("draws", "warmup", "chains")
    one_mode: ClassVar[bool] = False
    needs_unknowns: ClassVar[bool] = False
    checks: ClassVar[Checks] = {
        "draws": whole(4),
        "warmup": whole(0),
        "chains": whole(1),
        "thin": whole(1),
    }

    @property
    def name(self) -> str:
        return "Gibbs"

    @property
    def restarts(self) -> int:
        return self.chains

    @property
    def max_iter(self) -> int:
        return self.warmup + self.draws

    def prepare(self, model: Model) -> Model:
        return require_distributions(model, self.name)

    def complete(self, model: Model, data: Data) -> Self:
        require_unweighted(data, self.name)
        return self

    def host_engine(self, model: Model, data: Any) -> RunEngine | None:
        if type(self) is not Gibbs or not small_tempered.when(model, data):
            return None
        from .small_runs import CHAINS

        return CHAINS

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> State:
        return scattered_start(key, model, data)

    def step(self, key: Key[Array, ""], model: Model, state: State, data: Data) -> tuple[State, Info]:
        def sweep(number: Array, state: State) -> State:
            return State(*model.gibbs(jax.random.fold_in(key, number), state.draws, data, local=state.local))

        state = jax.lax.fori_loop(0, self.thin, sweep, state)
        log_joint = model.log_joint(state.draws, data, local=state.local)
        return state, {"draws": state.draws, "log_joint": log_joint}

    def result(self, model: Model, data: Data, run: Run) -> Result:
        draws, history = kept(run, self.warmup)
        return Result(
            state=draws,
            log_evidence=None,
            history=history,
            converged=not run.interrupted and split_r_hat(history["log_joint"].T) < MIXED,
            notes=(f"{self.name} draws from the posterior and has no evidence to report: see tp.ParallelTempering",),
        )


def scattered_start(key: Key[Array, ""], model: Model, data: Data) -> State:
    """A draw from one of the model's random starting posteriors."""
    key_start, key_draw = jax.random.split(key)
    start = model.initial(key_start, data)
    names = [*start.blocks, *start.locals]
    keys = dict(zip(names, jax.random.split(key_draw, len(names)), strict=True))
    return State(
        {name: family.sample(keys[name]) for name, family in start.blocks.items()},
        {name: family.sample(keys[name]) for name, family in start.locals.items()},
    )


def kept(run: Run, warmup: int) -> tuple[Draws, dict[str, np.ndarray]]:
    """The draws after the warm-up (all of them, if the run was stopped during it), and the rest of the history."""
    history = dict(run.history)
    steps = len(history["log_joint"])
    first = warmup if steps > warmup else 0
    draws = jax.tree.map(lambda leaf: np.swapaxes(leaf[first:], 0, 1), history.pop("draws"))
    return Draws(draws), {name: values[first:] for name, values in history.items()}
