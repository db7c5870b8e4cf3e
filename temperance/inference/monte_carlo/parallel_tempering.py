"""Parallel tempering: replicas on a ladder from the prior to the posterior that exchange their states.

One step sweeps every replica at its own temperature, measures the energies, and offers swaps to neighbours. The replica
at β = 0 is drawn independently from the start of the path, so a state that reaches β = 0 is forgotten.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ...errors import InvalidParameter
from ...kernels import RunEngine, small_tempered
from ...kernels.gaussian_replicas import Standing, generators, pack, sweeper, sweeps_a_call, unpack, when
from ...models import Data, Model
from ...models.mixture import Mixture
from .._method import Info, Method, Result, Run
from ..schedules import as_ladder, equal_rejection, power_ladder
from ._support import check_counts, require_distributions, require_unweighted
from .elsewhere import BRIDGES, elsewhere, foreseen
from .gibbs import State, scattered_start
from .path import Energies, Path
from .reference import Reference, as_path
from .replicas import Replicas, Seen
from .small_runs import REPLICAS
from .tempered_result import tempered_result, torn
from .witness import lower_bounds

SWAPS = ("even-odd", "random")
LONG = 1000  # draws within which a replica should have crossed the ladder
FIRST_ROUND = 16  # sweeps before the first change of the ladder


@dataclasses.dataclass(frozen=True)
class ParallelTempering(Method):
    """`replicas` states between prior and posterior; `draws` sweeps of all of them after `warmup` sweeps.

    `replicas` is the number of temperatures. `draws` are the sweeps that are kept. `warmup` are the sweeps before them,
    which are dropped. During the warm-up the ladder adapts at the ends of rounds of doubling length until neighbours
    reject swaps equally often. Give `ladder` for a fixed one. `swaps` is "even-odd" (all even pairs, then all odd
    pairs: states drift along the ladder instead of diffusing) or "random" (one random pair, as in the thesis).
    `reference` is where the path starts: "prior", "auto" (the best of a few restarts of `tp.VB`, widened), None (the
    prior, and if the path from there is torn, "auto"), "narrowed" (the prior and one datum's worth of the data),
    families by block name, a fit (its posterior, widened by the factor `widen`), or a list of rows of the data whose
    exact posterior is the start (mixtures). `thin` is the number of sweeps between swaps, `chains` that of whole
    ensembles. With `multistate` every draw is weighted at every temperature, not only at its neighbours (MBAR): slower,
    but of all estimates of the evidence it has the least variance.
    """

    draws: int = 2000
    warmup: int = 1000
    replicas: int = 32
    chains: int = 1
    thin: int = 1
    swaps: str = "even-odd"
    ladder: Any = None
    reference: Reference = None
    widen: float = 4.0
    multistate: bool = False
    path: Path = dataclasses.field(default=Path({}), repr=False)
    block: int = dataclasses.field(default=0, repr=False)  # sweeps in a call to the kernel, if there is one

    budget: ClassVar[tuple[str, ...]] = ("draws", "chains")
    one_mode: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_counts(
            draws=(self.draws, 4),
            warmup=(self.warmup, 0),
            replicas=(self.replicas, 2),
            chains=(self.chains, 1),
            thin=(self.thin, 1),
        )
        if self.swaps not in SWAPS:
            raise InvalidParameter(f"swaps must be one of {', '.join(map(repr, SWAPS))}, got {self.swaps!r}")
        if not self.widen >= 1:
            raise InvalidParameter(f"widen must be at least 1, got {self.widen!r}")
        if self.ladder is not None:
            object.__setattr__(self, "ladder", as_ladder(self.ladder))
            object.__setattr__(self, "replicas", len(self.ladder))

    @property
    def name(self) -> str:
        return "parallel tempering"

    @property
    def restarts(self) -> int:
        return self.chains

    @property
    def max_iter(self) -> int:
        return -(-(self.warmup + self.draws) // self.sweeps)

    @property
    def sweeps(self) -> int:
        return max(self.block, 1)

    def prepare(self, model: Model) -> Model:
        return require_distributions(model, self.name)

    def complete(self, model: Model, data: Data) -> Self:
        require_unweighted(data, self.name)
        path = as_path(self.reference, self.widen, model, data)
        complete = dataclasses.replace(self, path=path, reference=None if self.reference is None else "prior")
        if not when(model, data, complete):
            return complete
        assert isinstance(model, Mixture)
        return dataclasses.replace(complete, block=sweeps_a_call(model, data, complete))

    def host_engine(self, model: Model, data: Any) -> RunEngine | None:
        plain = self.block or self.multistate or self.path.reference or self.path.pinned is not None
        return None if plain or not small_tempered.when(model, data) else REPLICAS

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Replicas:
        k = self.replicas
        states = jax.vmap(lambda key: scattered_start(key, model, data))(jax.random.split(key, k))
        betas = jnp.asarray(power_ladder(k) if self.ladder is None else self.ladder)
        zero = jnp.zeros((), dtype=jnp.int64)  # with the dtype that a step returns
        return Replicas(states, betas, jnp.zeros(k - 1), jnp.arange(k), zero, zero)

    def step(self, key: Key[Array, ""], model: Model, state: Replicas, data: Data) -> tuple[Replicas, Info]:
        """`sweeps` sweeps of every replica at its temperature, each followed by swaps between neighbours.

        The ladder changes at the end of a round. The kernel makes many sweeps per call with one ladder, so it is called
        again after each end of a round within its sweeps.
        """
        if not self.block:
            state, seen = self._sweep_and_swap(key, model, state, data)
        else:
            state, seen = self._sweep_by_kernel(key, model, state, data)
        info = {
            "draws": seen.target.draws,
            "log_joint": jax.vmap(lambda one, here: self.path.log_joint(model, one, here))(
                seen.target, seen.energies[:, -1, 1]
            ),
            "forward": seen.forward,
            "backward": seen.backward,
            "slopes": seen.energies[..., 3],
            "acceptance": _acceptance(seen),
            "betas": seen.betas,
            "identity": seen.identity,
        }
        if seen.table is not None:
            info["energies"] = seen.table
        return state, info if self.sweeps > 1 else jax.tree.map(lambda leaf: leaf[0], info)

    def _sweep_and_swap(self, key: Key[Array, ""], model: Model, state: Replicas, data: Data) -> tuple[Replicas, Seen]:
        """One sweep and the swaps after it, for any model."""
        key_sweep, key_swap = jax.random.split(key)
        states = self._sweep(key_sweep, model, state, data)
        energies = jnp.stack(self._energies(model, states, state.betas, data), axis=-1)
        table = None
        if self.multistate:
            potential = jax.vmap(lambda one, beta: self.path.potential(model, one, data, beta), in_axes=(None, 0))
            table = jax.vmap(potential, in_axes=(0, None))(states, state.betas)
        target = jax.tree.map(lambda leaf: leaf[-1], states)
        seen = jax.tree.map(lambda leaf: leaf[None], Seen(target, energies, table, state.betas, state.identity))
        order = self._swap_order(key_swap, _acceptance(seen)[0], state.step)
        swapped = jax.tree.map(lambda leaf: leaf[order], (states, state.identity))
        return self._next_round(state, swapped, seen, jnp.ones(1, dtype=bool)), seen

    def _sweep_by_kernel(self, key: Key[Array, ""], model: Model, state: Replicas, data: Data) -> tuple[Replicas, Seen]:
        """`block` sweeps of a Gaussian mixture, with the swaps after each.

        Draws are packed for the kernel, because the loop copies everything that it carries.
        """
        assert isinstance(model, Mixture)
        numbers = jnp.arange(self.block)
        ends = jnp.asarray(self._round_ends(), dtype=state.step.dtype)
        keys = jax.random.split(jax.random.fold_in(key, 0x5A4B5), self.block)
        offered = jax.vmap(self._offered)(keys, state.step + numbers)
        sweep = sweeper(model, data, self)

        def call(done: Array, state: Replicas, bits: Array) -> tuple[Array, Replicas, Array, Seen]:
            """Make the sweeps from number `done` to the end of the round or of the block, and write their measurements
            to their rows."""
            end = jnp.min(ends, initial=jnp.iinfo(ends.dtype).max, where=ends > state.step)
            # At least one sweep and no more than fit, whatever number of steps a checkpoint holds.
            stop = jnp.clip(done + end - state.step, done + 1, self.block)
            standing = Standing(bits, state.states, state.identity)
            standing, found = sweep(state.betas, standing, offered, jnp.stack([done, stop]))
            betas = jnp.broadcast_to(state.betas, (self.block, self.replicas))
            seen = Seen(found.targets, found.energies, found.tables, betas, found.identity)
            swapped = standing.rows, standing.identity
            state = self._next_round(state, swapped, seen, (done <= numbers) & (numbers < stop))
            return stop, state, standing.generators, seen

        def body(carry: tuple[Array, Replicas, Array, Seen]) -> tuple[Array, Replicas, Array, Seen]:
            done, state, bits, earlier = carry
            stop, state, bits, seen = call(done, state, bits)

            def join(old: Array, new: Array) -> Array:
                return jnp.where((done <= numbers).reshape((-1, *[1] * (new.ndim - 1))), new, old)

            return stop, state, bits, jax.tree.map(join, earlier, seen)

        packed = state._replace(states=pack(model, state.states.draws))
        first = jnp.zeros_like(state.step), packed, generators(key, self.replicas)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(call, *first)[3])
        _, packed, _, seen = jax.lax.while_loop(lambda carry: carry[0] < self.block, body, (*first, nothing))
        states, target = (State(unpack(model, rows), {}) for rows in (packed.states, seen.target))
        return packed._replace(states=states), seen._replace(target=target)

    def result(self, model: Model, data: Data, run: Run) -> Result:
        if self.sweeps > 1:
            run = run._replace(history=jax.tree.map(self._in_a_row, run.history))
        return tempered_result(run, self.warmup, float(self.path.log_start), lambda: lower_bounds(model, data))

    def foreseen(self, model: Model, data: Data) -> tuple[Method, ...]:
        return foreseen(self, model, data) if self.draws >= LONG and not self.multistate else ()

    def instead(self, model: Model, result: Result | None) -> tuple[Method, ...]:
        if result is not None:
            trips = result.details["round_trips"]
            if not torn(result.details["rejection"], trips) and (trips > 0 or self.draws < LONG):
                slow = not result.converged and self.draws >= LONG and self.reference is None
                return BRIDGES if slow else ()
        return elsewhere(dataclasses.replace(self, block=0), model)

    def _in_a_row(self, values: np.ndarray) -> np.ndarray:
        """Reshape (step, chain, sweep, …) to (sweep, chain, …) and drop the sweeps beyond the budget."""
        flat = np.swapaxes(values, 1, 2).reshape((-1, values.shape[1], *values.shape[3:]))
        return flat[: self.warmup + self.draws]

    def _sweep(self, key: Key[Array, ""], model: Model, state: Replicas, data: Data) -> State:
        """A fresh draw at β = 0 and `thin` sweeps of every other replica."""
        key_first, key_others = jax.random.split(key)
        first = self.path.start(key_first, model, data)
        every = jax.vmap(lambda key, one, beta: self.path.sweep(key, model, one, data, beta))

        def sweep(number: Array, others: State) -> State:
            keys = jax.random.split(jax.random.fold_in(key_others, number), self.replicas - 1)
            return every(keys, others, state.betas[1:])

        swept = jax.lax.fori_loop(0, self.thin, sweep, jax.tree.map(lambda leaf: leaf[1:], state.states))
        return jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), first, swept)

    def _energies(self, model: Model, states: State, betas: Float[Array, " k"], data: Data) -> Energies:
        every = jax.vmap(lambda one, three: self.path.energies(model, one, data, three))
        return every(states, _neighbours(betas))

    def _offered(self, key: Key[Array, ""], step: Int[Array, ""]) -> Bool[Array, " k-1"]:
        """Which pairs of neighbours may swap after this sweep; no two of these pairs share a replica."""
        pairs = jnp.arange(self.replicas - 1)
        if self.swaps == "even-odd":
            return pairs % 2 == step % 2
        return pairs == jax.random.randint(key, (), 0, self.replicas - 1)

    def _swap_order(
        self, key: Key[Array, ""], acceptance: Float[Array, " k-1"], step: Int[Array, ""]
    ) -> Int[Array, " k"]:
        """The index of the state at each temperature after the swaps."""
        key_pair, key_accept = jax.random.split(key)
        swap = self._offered(key_pair, step) & (jax.random.uniform(key_accept, acceptance.shape) < acceptance)
        none = jnp.zeros(1, dtype=bool)
        up, down = jnp.concatenate([swap, none]), jnp.concatenate([none, swap])
        return jnp.arange(self.replicas) + up - down

    def _next_round(
        self, state: Replicas, swapped: tuple[Any, Int[Array, " k"]], seen: Seen, now: Bool[Array, " s"]
    ) -> Replicas:
        """Average in the rejections of the sweeps made `now`, and at the end of a round adapt the ladder."""
        states, identity = swapped
        step = state.step + jnp.sum(now, dtype=state.step.dtype)
        change = jnp.sum(jnp.where(now[:, None], 1.0 - _acceptance(seen) - state.rejection[None], 0.0), axis=0)
        rejection = state.rejection + change / (step - state.began)
        ends = jnp.asarray(self._round_ends(), dtype=step.dtype)
        end = jnp.any(step == ends)
        return Replicas(
            states=states,
            betas=jnp.where(end, equal_rejection(state.betas, rejection), state.betas),
            rejection=jnp.where(end, jnp.zeros_like(rejection), rejection),
            identity=identity,
            step=step,
            began=jnp.where(end, step, state.began),
        )

    def _round_ends(self) -> list[int]:
        """The whole warm-up, its half, a quarter, …: rounds of doubling length."""
        if self.ladder is not None:
            return []
        return [self.warmup >> halved for halved in range(32) if self.warmup >> halved >= FIRST_ROUND]


def _acceptance(seen: Seen) -> Float[Array, "s k-1"]:
    """The probability that a pair of neighbours accepts a swap."""
    return jnp.exp(jnp.minimum(seen.forward - seen.backward, 0.0))


def _neighbours(betas: Float[Array, " k"]) -> Float[Array, "k 3"]:
    """The β below, at and above each replica; at the ends a replica is its own neighbour."""
    below, above = jnp.concatenate([betas[:1], betas[:-1]]), jnp.concatenate([betas[1:], betas[-1:]])
    return jnp.stack([below, betas, above], axis=1)


jax.tree_util.register_dataclass(
    ParallelTempering,
    data_fields=["path"],
    meta_fields=[field.name for field in dataclasses.fields(ParallelTempering) if field.name != "path"],
)
