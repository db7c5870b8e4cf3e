"""Parallel tempering: replicas on a ladder from the prior to the posterior that exchange their states.

One step sweeps every replica at its own temperature, measures the energies, and offers swaps to neighbours. The
replica at β = 0 draws independently from the start of the path, so whatever reaches it is forgotten.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ...errors import InvalidParameter
from ...kernels.gaussian_replicas import Rules, has_kernel, sweep_replicas, sweeps_a_call
from ...models import Data, Mixture, Model
from .._method import Info, Method, Result, Run
from ..schedules import as_ladder, equal_rejection, power_ladder
from ._support import check_counts, require_distributions, require_unweighted
from .gibbs import State, scattered_start
from .path import Energies, Path
from .reference import Reference, as_path
from .replicas import Replicas
from .tempered_result import tempered_result

SWAPS = ("even-odd", "random")
FIRST_ROUND = 16  # sweeps before which a ladder is not judged


@dataclasses.dataclass(frozen=True)
class ParallelTempering(Method):
    """`replicas` states between prior and posterior; `draws` sweeps of all of them after `warmup` sweeps.

    During the warm-up the ladder adapts at the ends of rounds of doubling length until neighbours reject swaps
    equally often; give `ladder` for a fixed one. `swaps` is "even-odd" (all even pairs, then all odd pairs: states
    drift along the ladder instead of diffusing) or "random" (one random pair, as in the thesis). `reference` is
    where the path starts: "prior", "narrowed" (the prior and one datum's worth of the data), families by block
    name, a fit (its posterior, widened by the factor `widen`), or a list of rows of the data whose exact posterior
    is the start (mixtures). `thin` is the number of sweeps between swaps, `chains` that of whole ensembles. With
    `multistate` every draw is weighed at every temperature, not at its neighbours only (MBAR): slower, but the
    estimate of the evidence of least variance.
    """

    draws: int = 2000
    warmup: int = 1000
    replicas: int = 32
    chains: int = 1
    thin: int = 1
    swaps: str = "even-odd"
    ladder: Any = None
    reference: Reference = "prior"
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
        complete = dataclasses.replace(self, path=path, reference="prior")
        if not has_kernel(model, data, path):
            return complete
        assert isinstance(model, Mixture)
        return dataclasses.replace(
            complete, block=sweeps_a_call(model, data, self.replicas, self.thin, self.multistate)
        )

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Replicas:
        k = self.replicas
        states = jax.vmap(lambda key: scattered_start(key, model, data))(jax.random.split(key, k))
        betas = jnp.asarray(power_ladder(k) if self.ladder is None else self.ladder)
        zero = jnp.zeros((), dtype=jnp.int64)  # with a type of its own, as it comes back from a step
        return Replicas(states, betas, jnp.zeros(k - 1), jnp.arange(k), zero, zero)

    def step(self, key: Key[Array, ""], model: Model, state: Replicas, data: Data) -> tuple[Replicas, Info]:
        if self.block:
            return self._step_by_kernel(key, model, state, data)
        key_sweep, key_swap = jax.random.split(key)
        states = self._sweep(key_sweep, model, state, data)
        energies = self._energies(model, states, state.betas, data)
        forward = (energies.above - energies.here)[:-1]
        backward = (energies.here - energies.below)[1:]
        acceptance = jnp.exp(jnp.minimum(forward - backward, 0.0))
        target = jax.tree.map(lambda leaf: leaf[-1], states)
        info = {
            "draws": target.draws,
            "log_joint": self.path.log_joint(model, target, energies.here[-1]),
            "forward": forward,
            "backward": backward,
            "slopes": energies.slope,
            "acceptance": acceptance,
            "betas": state.betas,
            "identity": state.identity,
        }
        if self.multistate:
            potential = jax.vmap(lambda one, beta: self.path.potential(model, one, data, beta), in_axes=(None, 0))
            info["energies"] = jax.vmap(potential, in_axes=(0, None))(states, state.betas)
        order = self._swap_order(key_swap, acceptance, state.step)
        swapped = jax.tree.map(lambda leaf: leaf[order], (states, state.identity))
        return self._next_round(state, swapped, acceptance), info

    def _step_by_kernel(self, key: Key[Array, ""], model: Model, state: Replicas, data: Data) -> tuple[Replicas, Info]:
        """Several sweeps and swaps at once; what they report has an axis for them if they are more than one."""
        assert isinstance(model, Mixture)
        rules = Rules(self.block, self.thin, self.swaps == "random", tuple(self._round_ends()), self.multistate)
        state, found = sweep_replicas(key, model, data, state, rules)
        info = {
            "draws": found.target.draws,
            "log_joint": jax.vmap(lambda one, here: self.path.log_joint(model, one, here))(
                found.target, found.potential
            ),
            "forward": found.forward,
            "backward": found.backward,
            "slopes": found.slopes,
            "acceptance": jnp.exp(jnp.minimum(found.forward - found.backward, 0.0)),
            "betas": found.betas,
            "identity": found.identity,
        }
        if found.energies is not None:
            info["energies"] = found.energies
        return state, info if self.block > 1 else jax.tree.map(lambda leaf: leaf[0], info)

    def result(self, model: Model, data: Data, run: Run) -> Result:
        if self.sweeps > 1:
            run = run._replace(history=jax.tree.map(self._in_a_row, run.history))
        return tempered_result(run, self.warmup, float(self.path.log_start))

    def _in_a_row(self, values: np.ndarray) -> np.ndarray:
        """From (step, chain, sweep, …) to (sweep, chain, …), without those that were not asked for."""
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

    def _swap_order(
        self, key: Key[Array, ""], acceptance: Float[Array, " k-1"], step: Int[Array, ""]
    ) -> Int[Array, " k"]:
        """Which state stands at each temperature after the swaps."""
        key_pair, key_accept = jax.random.split(key)
        pairs = jnp.arange(self.replicas - 1)
        if self.swaps == "even-odd":
            offered = pairs % 2 == step % 2
        else:
            offered = pairs == jax.random.randint(key_pair, (), 0, self.replicas - 1)
        swap = offered & (jax.random.uniform(key_accept, pairs.shape) < acceptance)
        none = jnp.zeros(1, dtype=bool)
        up, down = jnp.concatenate([swap, none]), jnp.concatenate([none, swap])
        return jnp.arange(self.replicas) + up - down

    def _next_round(
        self, state: Replicas, swapped: tuple[State, Int[Array, " k"]], acceptance: Float[Array, " k-1"]
    ) -> Replicas:
        """Average the rejections, and at the end of a round move the ladder."""
        states, identity = swapped
        step = state.step + 1
        done = step - state.began
        rejection = state.rejection + (1.0 - acceptance - state.rejection) / done
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


def _neighbours(betas: Float[Array, " k"]) -> Float[Array, "k 3"]:
    """The temperatures below, here and above; at the ends a replica is its own neighbour."""
    below, above = jnp.concatenate([betas[:1], betas[:-1]]), jnp.concatenate([betas[1:], betas[-1:]])
    return jnp.stack([below, betas, above], axis=1)


jax.tree_util.register_dataclass(
    ParallelTempering,
    data_fields=["path"],
    meta_fields=[field.name for field in dataclasses.fields(ParallelTempering) if field.name != "path"],
)
