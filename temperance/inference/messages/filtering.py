"""Assumed-density filtering of a stream: one pass, in which every datum is seen once and its message forgotten."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ...errors import NumericalFailure
from ...models import Data, Model, Posterior
from ...models._answers import Enumerable
from ...models._factors import Blocks, exact_prior, is_proper, log_normaliser, naturals, with_naturals
from .._method import Info, Method, Result, Run, state_of
from ..streamed import Streamed
from .start import wrong_prior
from .sweep import empty_sites, factor_order, factors_of, one_pass


class Filtered(eqx.Module):
    """The state after the data seen so far."""

    blocks: Blocks
    wrong: Blocks  # the factor of the prior, deliberately wrong until the end
    log_scales: Float[Array, ""]  # Σ ln s̃_n
    skipped: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Filtering(Method):
    """One pass of message passing over the pieces of a stream, in their order; within a piece the order is random
    unless `schedule` is "sequential"."""

    alpha: float = 1.0
    restarts: int = 1
    max_iter: int = 1
    schedule: str = "random"

    budget: ClassVar[tuple[str, ...]] = ("restarts", "max_iter")
    streams: ClassVar[bool] = True

    arranges: ClassVar[bool] = True
    name: ClassVar[str] = "assumed-density filtering"

    def arrange(self, key: Key[Array, ""], model: Model, data: Any) -> Any:
        return Once(data.stream, data.model, data.sample, data.seed)

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Filtered:
        assert isinstance(model, Enumerable)
        wrong = wrong_prior(key, model, data, factors_of(model, data).each)
        return Filtered(wrong, wrong, jnp.zeros(()), jnp.asarray(0))

    def step(self, key: Key[Array, ""], model: Model, state: Filtered, data: Data) -> tuple[Filtered, Info]:
        assert isinstance(model, Enumerable)
        factors, rows = factors_of(model, data), data.weights.shape[0]
        order = factor_order(key, rows, self.schedule)
        passed = one_pass(self.alpha, 0.0, factors, state.blocks, empty_sites(state.blocks, rows), order)
        scales = state.log_scales + jnp.sum(passed.sites.log_scale)
        fresh = Filtered(passed.blocks, state.wrong, scales, state.skipped + passed.skipped)
        log_s = scales + log_normaliser(fresh.blocks) - log_normaliser(state.wrong)
        return fresh, {"log_evidence": log_s, "skipped": passed.skipped}

    def result(self, model: Model, data: Any, run: Run) -> Result:
        assert isinstance(model, Enumerable)
        blocks, log_s, proper = _corrected(model, run.states)
        evidence, skipped = np.asarray(log_s), np.asarray(run.states.skipped)
        usable = np.asarray(proper) & np.isfinite(evidence)
        if not usable.any():
            raise NumericalFailure(
                "filtering ended in an improper state in every restart: give more data or a stronger prior"
            )
        # A restart that skipped data did not use them, so its ln s is not comparable.
        best = int(np.lexsort((evidence, -skipped, usable))[-1])
        notes: tuple[str, ...] = (
            "one pass over a stream is not iterated to convergence: ln s depends on the order of the data",
        )
        if skipped[best]:
            notes += (f"{int(skipped[best])} data were skipped because their projection did not exist",)
        return Result(
            state=Posterior(state_of(blocks, best), {}),
            log_evidence=float(evidence[best]),
            history={name: values[:, best] for name, values in run.history.items()} | {"restarts": evidence},
            converged=False,
            details={"restarts_skipped": skipped, "skipped": int(skipped[best])},
            notes=notes,
        )


@dataclasses.dataclass(frozen=True)
class Once(Streamed):
    """A stream whose rows come once, in their order."""

    def pieces(self, skip: int = 0) -> Iterator[Data]:
        with contextlib.closing(self.in_order()) as rows:  # type: ignore[type-var]
            yield from itertools.islice(rows, skip, None)


@eqx.filter_jit
def _corrected(model: Enumerable, states: Filtered) -> tuple[Blocks, Float[Array, " r"], Array]:
    """The approximation with the true prior in place of the wrong one."""

    def one(state: Filtered) -> Any:
        right = exact_prior(model)
        natural = jax.tree.map(
            lambda q, wrong, prior: q - wrong + prior, naturals(state.blocks), naturals(state.wrong), naturals(right)
        )
        blocks = with_naturals(right, natural)
        return blocks, state.log_scales + log_normaliser(blocks) - log_normaliser(right), is_proper(blocks)

    return jax.vmap(one)(states)
