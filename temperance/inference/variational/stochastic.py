"""Stochastic variational inference: natural-gradient steps on minibatches.

In natural parameters the natural gradient of the bound is (target − η), where the target is the η that coordinate
ascent would choose. A minibatch weighted so that it represents all data gives an unbiased target, and a step is

    η ← (1 − ρ_t) η + ρ_t (prior + (N/B) Σ_batch messages),        ρ_t = (τ + t)^(−κ).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt32

from ..._arguments import NOT_NEGATIVE, Checks, optional, whole
from ...errors import InvalidParameter
from ...families._family import Family
from ...kernels import Minibatches, TakeSteps, steps_engine
from ...models import Data, Model, Posterior, Way
from ...models._answers import Predicting, require
from ...models._data import make_data, over_blocks
from ...models._model import entropy, means
from ...numerics.place import on_device
from ...programs import program
from .._method import Info, Method, Result, Run, state_of
from ..step_sizes import Adaptive, as_step_size
from ..streamed import Streamed
from ..thermostats import Step, always_cold
from .minibatches import Batches, Plan, minibatch, rows_of_step

_TOGETHER = 64  # minibatches that an engine takes in one call
_FINAL_LOCAL_STEPS = 20  # passes over local blocks for the bound of all the data

Blocks = dict[str, Family]


class Walk(NamedTuple):
    """The state of one restart."""

    blocks: Blocks
    steps: Int[Array, ""]
    seed: UInt32[Array, " 2"]
    best: Blocks  # the best blocks by the held-out data, if there are any
    score: Float[Array, ""]
    waited: Int[Array, ""]  # reports since the last progress
    heat: Any = ()  # the thermostat's knowledge of the temperature
    pace: Any = ()  # what adaptive step sizes know of the gradients


@dataclasses.dataclass(frozen=True)
class SVI(Method):
    """Natural-gradient steps on minibatches of `batch_size` rows, for `steps` of them or for `passes` over the data.

    `batch_size` is the number of rows in a minibatch. `passes` is the budget in passes over the data. `steps` is
    the budget in steps, instead. `step_size` is (delay, decay) for (delay + t)^(−decay), a constant, or "adaptive".
    A pass is a new permutation of the data, or with `replacement` rows are drawn independently. `held_out` is a
    share of the data, or other data, on which the predictive density is watched: the best posterior is kept, and
    the run ends when it has not gained `tol` nats per datum for `patience` reports. A report (an entry of the
    history) is made every `report` steps, by default once per pass; with `elbo` it holds the bound of all the data.
    `local_steps` is the number of passes over the local blocks of a minibatch, which start afresh. `restarts` is
    the number of random starts, of which the best is kept. Defaults depend on the model and the number of data.
    """

    batch_size: int | None = None
    passes: float | None = None
    steps: int | None = None
    step_size: Any = None
    replacement: bool = False
    held_out: Any = None
    patience: int = 5
    tol: float = 1e-4
    elbo: bool = False
    report: int | None = None
    local_steps: int | None = None
    restarts: int = 1
    max_iter: int = dataclasses.field(default=1, repr=False)  # reports, derived from the other fields

    streams: ClassVar[bool] = True
    counts_rows: ClassVar[bool] = True
    budget: ClassVar[tuple[str, ...]] = (
        "restarts", "max_iter", "tol", "passes", "steps", "step_size", "held_out", "patience", "report",
    )  # fmt: skip

    arranges: ClassVar[bool] = True
    name: ClassVar[str] = "SVI"
    checks: ClassVar[Checks] = {
        **Method.checks,
        **dict.fromkeys(("batch_size", "steps", "report", "local_steps"), optional(whole(1))),
        "patience": whole(1),
        "passes": optional(NOT_NEGATIVE),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps is not None and self.passes is not None:
            raise InvalidParameter("give steps or passes, not both")
        if self.step_size is not None:
            as_step_size(self.step_size, adaptive=type(self) is SVI)
        if self._is_share() and (isinstance(self.held_out, bool) or not 0 < self.held_out < 1):
            raise InvalidParameter(f"held_out must be a share between 0 and 1 or data, got {self.held_out!r}")

    # ---- before the run -----------------------------------------------------------------------------------

    def complete(self, model: Model, data: Data | Streamed) -> Self:
        """Fill in what was left open, from the model's defaults and the number of data."""
        usual = model.rows.stochastic
        if isinstance(data, Streamed):
            batch, a_pass, every = self._fit_to_pieces(model, data, usual.batch_size)
        else:
            if self._is_share() and not model.rows.independent:
                raise InvalidParameter("held_out must be data, not a share of them: these rows depend on each other")
            n = model.rows.parts(data) - self._held_out_count(data.size)
            batch = min(n, self.batch_size or usual.batch_size)
            a_pass = max(1, n // batch)
            if batch == n and self._takes_all(model, data):
                batch = data.weights.shape[0]  # padding included, so that programs do not depend on the number of rows
            watched = self.elbo or self.held_out is not None
            every = self.report or (a_pass if watched else min(a_pass, 100))
        steps = self.steps or max(1, round((self.passes or usual.passes) * a_pass))
        report = min(steps, every)
        return dataclasses.replace(
            self,
            batch_size=batch,
            steps=steps,
            passes=None,
            step_size=usual.step_size if self.step_size is None else self.step_size,
            report=report,
            local_steps=self.local_steps or usual.local_steps,
            max_iter=-(-steps // report),
        )

    def _fit_to_pieces(self, model: Model, data: Streamed, usual: int) -> tuple[int, int, int]:
        """The size of a minibatch, the steps of a pass, and the steps of a piece; a report follows each piece."""
        piece = data.stream.piece_rows if model.rows.independent else model.rows.parts(data.piece_shapes())
        batch = self.batch_size or min(piece, usual)
        if batch > piece:
            raise InvalidParameter(
                f"batch_size is {batch}, but a piece of the stream has only {piece}: raise its piece_rows, "
                f"which is {data.stream.piece_rows}"
            )
        if self.elbo or self.report is not None or self._is_share():
            raise InvalidParameter(
                "a stream is reported on after every piece, without the bound of all data (elbo=False, report=None); "
                "held_out must be data, not a share of them"
            )
        return batch, data.stream.pieces_per_pass * (piece // batch), piece // batch

    def _takes_all(self, model: Model, data: Data) -> bool:
        """Whether a minibatch of all data may include the padding, which has weight zero."""
        return type(self) is SVI and model.rows.independent and not self.replacement and not self._is_share()

    def _is_share(self) -> bool:
        return isinstance(self.held_out, int | float | np.number)

    def _held_out_count(self, n: int) -> int:
        if not self._is_share():
            return 0
        count = round(float(self.held_out) * n)
        if not 0 < count < n:
            raise InvalidParameter(f"held_out={self.held_out!r} of {n} data leaves none to watch or none to fit")
        return count

    def arrange(self, key: Key[Array, ""], model: Model, data: Any) -> Any:
        """The rows to fit, the held-out rows, and the plan."""
        if isinstance(data, Streamed):
            held_out = self._rows_to_watch(model, data.sample)
            total = data.size
            wrapped = lambda piece: self._plan(piece, held_out, total)  # noqa: E731
            return dataclasses.replace(data, sample=wrapped(data.sample), wrap=wrapped)
        count = self._held_out_count(data.size)
        if not count:
            whole = data.uncounted() if self.batch_size == data.weights.shape[0] else data
            return self._plan(whole, self._rows_to_watch(model, data), whole.size)
        order = np.asarray(jax.random.permutation(key, data.size))
        rows = _subset(data, np.sort(order[count:]))
        return self._plan(rows, _subset(data, order[:count]), rows.size)

    def _rows_to_watch(self, model: Model, like: Data) -> Data | None:
        if self.held_out is None:
            return None
        if not model.rows.independent:
            return model.rows.piece(self.held_out)
        rows = require(model, Predicting).new_rows(self.held_out)
        return make_data(rows, None, like.block_size, spread=like.is_spread)

    def _plan(self, data: Data, held_out: Data | None, stands_for: int) -> Batches:
        plan = Plan(
            as_step_size(self.step_size, adaptive=True),
            on_device(self.report),
            on_device(self.steps),
            on_device(self.patience),
            on_device(self.tol, np.float64),
        )
        total = on_device(float(stands_for))
        # Cold runs use the same compiled steps as annealed ones, so that T = 1 throughout gives the same bits.
        fields = {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}
        return Batches(**fields, plan=plan, stands_for=total, held_out=held_out, thermostat=always_cold())

    # ---- the run --------------------------------------------------------------------------------------------

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Walk:
        """The initial state, from which VB too would start with this seed."""
        blocks = model.initial(key, data).blocks
        seed = jax.random.key_data(jax.random.fold_in(key, 1))
        zero, worst = jnp.zeros((), dtype=jnp.int64), jnp.full((), -jnp.inf, dtype=jnp.float64)
        heat = data.thermostat.start(data) if isinstance(data, Batches) and data.thermostat is not None else ()
        size = data.plan.step_size if isinstance(data, Batches) and data.plan is not None else None
        pace = size.start(blocks) if isinstance(size, Adaptive) else ()
        return Walk(blocks, zero, seed, blocks, worst, zero, heat, pace)

    def step(self, key: Key[Array, ""], model: Model, state: Walk, data: Data) -> tuple[Walk, Info]:
        """Take the minibatches up to the next report, and make the report."""
        assert isinstance(data, Batches) and data.plan is not None and data.thermostat is not None
        plan, thermostat = data.plan, data.thermostat
        adaptive = plan.step_size if isinstance(plan.step_size, Adaptive) else None
        many = None if adaptive else steps_engine(model, data)
        if many is not None and not self._whole(model, data):
            # All steps but the last one of this report, whose bound is reported.
            last = jnp.minimum(state.steps + plan.round, plan.steps) - 1
            blocks, heat = self._many(many, model, state, last, data)
            state = state._replace(blocks=blocks, heat=heat, steps=last)
            plan = eqx.tree_at(lambda plan: plan.round, plan, jnp.ones_like(plan.round))

        def body(i: Array, carry: tuple[Blocks, Any, Any, Array]) -> tuple[Blocks, Any, Any, Array]:
            blocks, heat, pace, total = carry
            t = state.steps + i
            # The last report may come early, so its remaining steps have length zero.
            active = t < plan.steps
            rate = jnp.where(active, pace.rate if adaptive else plan.step_size(t + 1), 0.0)
            batch = self._batch(model, state.seed, t, data)
            rows = None if self._whole(model, data) else self._rows(model, state.seed, t, data)
            q = Posterior(blocks, model.initial_local(means(blocks), batch.values))
            step = Step(t, rate, self.local_steps or 1, rows)
            swept, heat = thermostat.sweep(model, q, batch, heat, step)
            after = swept.posterior.blocks
            if adaptive:
                learned = adaptive.after(pace, t + 1, blocks, after)
                pace = jax.tree.map(lambda new, old: jnp.where(active, new, old), learned, pace)
            return after, heat, pace, total + jnp.where(active, swept.bound, 0.0)

        begin = (state.blocks, state.heat, state.pace, jnp.zeros(()))
        blocks, heat, pace, total = jax.lax.fori_loop(0, plan.round, body, begin)
        steps = jnp.minimum(state.steps + plan.round, plan.steps)
        rate = pace.rate if adaptive else plan.step_size(steps)
        info = {"step": steps, "rate": rate, "batch_elbo": total / (steps - state.steps)}
        if self.elbo:
            info["elbo"] = global_terms(model, blocks) + local_terms(model, blocks, data)
        return self._watch(model, state._replace(heat=heat, pace=pace), blocks, steps, data, info)

    def _watch(
        self, model: Model, state: Walk, blocks: Blocks, steps: Int[Array, ""], data: Batches, info: Info
    ) -> tuple[Walk, Info]:
        """Keep the blocks that predict the held-out data best, if there are any."""
        assert data.plan is not None
        if data.held_out is None:
            return state._replace(blocks=blocks, steps=steps), info
        score = mean_log_predictive(model, blocks, data.held_out)
        better, progress = score > state.score, score > state.score + data.plan.tol
        waited = jnp.where(progress, 0, state.waited + 1)
        best = jax.tree.map(lambda old, new: jnp.where(better, new, old), state.best, blocks)
        best_score = jnp.maximum(score, state.score)
        fresh = state._replace(blocks=blocks, steps=steps, best=best, score=best_score, waited=waited)
        return fresh, info | {"held_out": score, "done": waited >= data.plan.patience}

    def _many(
        self, take: TakeSteps, model: Model, state: Walk, last: Int[Array, ""], data: Batches
    ) -> tuple[Blocks, Any]:
        """Take the steps before the `last` one by an engine that takes many steps in one call."""
        assert self.batch_size is not None and data.plan is not None and data.stands_for is not None
        plan, key, size = data.plan, jax.random.wrap_key_data(state.seed), min(self.batch_size, data.size)
        scale = data.stands_for / size

        def some(i: Array, carry: tuple[Blocks, Any]) -> tuple[Blocks, Any]:
            blocks, heat = carry
            t = state.steps + _TOGETHER * i + jnp.arange(_TOGETHER)
            rates = jnp.where(t < last, plan.step_size(t + 1), 0.0)
            rows = jax.vmap(lambda step: rows_of_step(key, step, size, data.size, self.replacement))(t)
            steps = Minibatches(t, rows, scale * jnp.take(data.weights, rows), rates, self.local_steps or 1)
            return take(model, blocks, data.values, steps, data.thermostat, heat)

        groups = -((state.steps - last) // _TOGETHER)
        return jax.lax.fori_loop(0, groups, some, (state.blocks, state.heat))

    def _whole(self, model: Model, data: Data) -> bool:
        """Whether a minibatch is all the data."""
        assert self.batch_size is not None
        return self.batch_size >= model.rows.parts(data) and not self.replacement

    def _batch(self, model: Model, seed: UInt32[Array, " 2"], step: Int[Array, ""], data: Batches) -> Data:
        assert self.batch_size is not None and data.stands_for is not None
        if self._whole(model, data):
            whole = data.weights * (data.stands_for / data.size)
            return Data(data.values, whole, data.size, *data.cuts, data.engine)
        rows = self._rows(model, seed, step, data)
        if not model.rows.independent:
            return model.rows.minibatch(data, rows, data.stands_for, self._rows(model, seed, step + 1, data))
        return minibatch(data, rows, data.stands_for)

    def _rows(self, model: Model, seed: UInt32[Array, " 2"], step: Int[Array, ""], data: Batches) -> Int[Array, " b"]:
        assert self.batch_size is not None
        n = model.rows.parts(data)
        return rows_of_step(jax.random.wrap_key_data(seed), step, min(self.batch_size, n), n, self.replacement)

    def finished(self, history: Float[Array, "3"], tol: Float[Array, ""]) -> Bool[Array, ""]:
        """Never, because a noisy bound says little about convergence: only the budget and held-out data end a run."""
        return jnp.asarray(False)

    # ---- after it ---------------------------------------------------------------------------------------------

    def result(self, model: Model, data: Data | Streamed, run: Run) -> Result:
        watched = self.held_out is not None
        blocks = run.states.best if watched else run.states.blocks
        bounds = bound_of_all(model, blocks, data)
        best = int(np.argmax(np.asarray(run.states.score) if watched else bounds))
        # A finished restart goes on reporting while others run; those reports are dropped.
        step = np.asarray(run.history["step"][:, best])
        taken = (step <= np.asarray(run.states.steps)[best]) & (np.diff(step, prepend=0) > 0)
        history = jax.tree.map(lambda values: values[taken, best], run.history)
        return Result(
            state=Posterior(state_of(blocks, best), {}),
            log_evidence=float(bounds[best]),
            history=history | {"restarts": bounds},
            converged=bool(run.converged[best]) and not run.interrupted,
        )


def bound_of_all(model: Model, blocks: Blocks, data: Data | Streamed) -> np.ndarray:
    """The bound of all the data, for each restart (the leading axis of the blocks)."""
    if not isinstance(data, Streamed):
        return np.asarray(_bounds(model, blocks, data.uncounted()))
    bounds = np.asarray(_global_terms(model, blocks))
    for piece in data.in_order():
        bounds = bounds + np.asarray(_local_terms(model, blocks, piece))
    return bounds


def global_terms(model: Model, blocks: Blocks) -> Float[Array, ""]:
    return model.log_prior(means(blocks)) + entropy(blocks)


def local_terms(model: Model, blocks: Blocks, data: Data) -> Float[Array, ""]:
    """The contribution of the data to the bound; their local blocks are inferred anew and not kept."""
    return model.walk(means(blocks), data, Way(local_steps=_FINAL_LOCAL_STEPS)).value


def mean_log_predictive(model: Model, blocks: Blocks, data: Data) -> Float[Array, ""]:
    q, predicting = Posterior(blocks, {}), require(model, Predicting)

    def block(part: Any, _: Array) -> tuple[Float[Array, ""], tuple[()]]:
        x, weights = part
        return jnp.sum(weights * predicting.log_predictive(q, x)), ()

    return over_blocks(block, (data.values, data.weights), *data.cuts)[0] / data.total_weight


@program
def _bounds(model: Model, blocks: Blocks, data: Data) -> Float[Array, " r"]:
    return jax.vmap(lambda here: global_terms(model, here) + local_terms(model, here, data))(blocks)


@program
def _global_terms(model: Model, blocks: Blocks) -> Float[Array, " r"]:
    return jax.vmap(lambda here: global_terms(model, here))(blocks)


@program
def _local_terms(model: Model, blocks: Blocks, data: Data) -> Float[Array, " r"]:
    return jax.vmap(lambda here: local_terms(model, here, data))(blocks)


def _subset(data: Data, rows: np.ndarray) -> Data:
    values = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], data.values)
    found = make_data(values, np.asarray(data.weights)[rows], data.block_size, spread=data.is_spread)
    return dataclasses.replace(found, engine=data.engine)
