"""Sequential Monte Carlo: annealed importance sampling with resampling and adaptive temperatures.

Populations of particles go from an exact draw at β = 0 to the posterior. At every temperature the particles are
weighed for the next one, a part of them is drawn by weight, and each of those starts a chain of Gibbs sweeps whose
states are all particles: no sweep is wasted (Dau and Chopin, 2022). The next temperature is the one at which the
conditional effective sample size falls to a given share of the particles (Zhou, Johansen and Aston, 2016). The product
of the average weights has the evidence as its expectation, exactly so with a fixed ladder (Del Moral, 2004).

The particles also give an estimate downwards: the inverse of the average weight from a temperature to the previous one
is too high on average. Populations share nothing but the temperatures, so their spread is an honest error.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ...errors import InvalidParameter
from ...evidence.populations import Judged, judge
from ...models import Data, Model
from .._method import Info, Method, Result, Run
from ..schedules import POWER
from ._support import check_counts, check_path, finite, require_distributions, require_unweighted
from .draws import Draws, systematic
from .elsewhere import elsewhere
from .gibbs import State
from .path import Path
from .reference import Reference, as_path
from .witness import lower_bounds

_HALVINGS = 24  # halvings of the interval in which the next temperature is searched
_PILOT = 256  # particles used for that choice
_MANY = 256  # with this many particles, populations disagree because of the path, not because of their number


class Populations(NamedTuple):
    """All particles at one temperature; leading axes of every leaf: sweep, population, chain."""

    states: State
    potential: Float[Array, "s g c"]  # U at this temperature
    beta: Float[Array, ""]
    rung: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class SMC(Method):
    """`populations` independent populations of `particles` particles each, in chains of `sweeps` Gibbs sweeps.

    `particles` is the number in each population. `populations` share only their temperatures, so that their spread
    gives the error. `sweeps` is the length of each chain, all of whose states are particles.

    The next temperature is where the conditional effective sample size is the share `effective` of the particles; there
    are at most `temperatures`, the last of which jumps to the posterior. With a `ladder` of inverse temperatures
    nothing adapts, and the estimate of the evidence (not of its log) is unbiased. `reference` and `widen` say where
    the path starts, as in `ParallelTempering`; None is the prior, and "auto" if populations from there disagree.
    """

    particles: int = 256
    populations: int = 16
    sweeps: int = 4
    effective: float = 0.7
    temperatures: int = 500
    reference: Reference = None
    widen: float = 4.0
    ladder: Any = None
    path: Path = dataclasses.field(default=Path({}), repr=False)

    one_mode: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_counts(
            particles=(self.particles, 2),
            populations=(self.populations, 4),
            sweeps=(self.sweeps, 1),
            temperatures=(self.temperatures, 2),
        )
        if self.particles % self.sweeps or self.particles < 2 * self.sweeps:
            raise InvalidParameter(
                f"particles must be a multiple of sweeps ({self.sweeps}), at least twice as large, got "
                f"{self.particles}: every chain of sweeps makes that many particles"
            )
        if not 0.0 < self.effective < 1.0:
            raise InvalidParameter(f"effective must be between 0 and 1, got {self.effective!r}")
        check_path(self)

    @property
    def name(self) -> str:
        return "SMC"

    @property
    def max_iter(self) -> int:
        return self.temperatures - 1

    def prepare(self, model: Model) -> Model:
        return require_distributions(model, self.name)

    def complete(self, model: Model, data: Data) -> Self:
        require_unweighted(data, self.name)
        path = as_path(self.reference, self.widen, model, data)
        return dataclasses.replace(self, path=path, reference=None if self.reference is None else "prior")

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Populations:
        shape = (self.sweeps, self.populations, self.particles // self.sweeps)
        starts = jax.vmap(lambda key: self.path.start(key, model, data))(
            jax.random.split(key, self.populations * self.particles)
        )
        states = jax.tree.map(lambda leaf: leaf.reshape(shape + leaf.shape[1:]), starts)
        zero = jnp.zeros(())
        return Populations(states, self._potentials(model, states, data, zero), zero, jnp.zeros((), dtype=jnp.int64))

    def step(self, key: Key[Array, ""], model: Model, state: Populations, data: Data) -> tuple[Populations, Info]:
        """Choose the next temperature, weigh, resample, and move at it."""
        key_choice, key_moves = jax.random.split(key)
        beta = self._next_beta(model, state, data)
        forward = self._potentials(model, state.states, data, beta) - state.potential
        chosen = self._resampled(key_choice, state.states, forward)
        both = jnp.stack([state.beta, beta])

        def sweep(now: State, number: Array) -> tuple[State, tuple[State, Array]]:
            keys = jax.random.split(jax.random.fold_in(key_moves, number), forward.shape[1:])
            move = jax.vmap(jax.vmap(lambda key, one: self.path.sweep(key, model, one, data, beta)))
            now = move(keys, now)
            at = jax.vmap(lambda b: self._potential(model, now, data, b))
            return now, (now, at(both))

        _, (states, potentials) = jax.lax.scan(sweep, chosen, jnp.arange(self.sweeps))
        before, here = potentials[:, 0], potentials[:, 1]
        fresh = Populations(states, here, beta, state.rung + 1)
        info = {
            "beta": beta,
            "forward": _by_population(forward),
            "backward": _by_population(here - before),
            "done": (beta >= 1.0) | ~jnp.isfinite(jnp.sum(forward)),
        }
        return fresh, info

    def _potential(self, model: Model, states: State, data: Data, beta: Array) -> Float[Array, "g c"]:
        return jax.vmap(jax.vmap(lambda one: self.path.potential(model, one, data, beta)))(states)

    def _potentials(self, model: Model, states: State, data: Data, beta: Array) -> Float[Array, "s g c"]:
        """U of all particles, computed for the chains of one sweep at a time, so that no more memory is needed than by
        a sweep."""
        return jax.lax.map(lambda layer: self._potential(model, layer, data, beta), states)

    def _next_beta(self, model: Model, state: Populations, data: Data) -> Float[Array, ""]:
        """The next temperature, by bisection in s = β^(1/5) with a few of the particles, because the choice need not be
        exact."""
        if self.ladder is not None:
            return jnp.asarray(self.ladder)[jnp.minimum(state.rung + 1, len(self.ladder) - 1)]
        chains = min(state.potential.shape[2], max(1, _PILOT // self.populations))
        pilot = jax.tree.map(lambda leaf: leaf[-1, :, :chains], state.states)
        here = state.potential[-1, :, :chains]

        def falls(place: Float[Array, ""]) -> Bool[Array, ""]:
            log_weights = (self._potential(model, pilot, data, place**POWER) - here).reshape(-1)
            log_share = 2.0 * jax.nn.logsumexp(log_weights) - jax.nn.logsumexp(2.0 * log_weights)
            return ~(log_share - jnp.log(log_weights.shape[0]) >= jnp.log(self.effective))

        def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = 0.5 * (ends[0] + ends[1])
            fell = falls(middle)
            return jnp.where(fell, ends[0], middle), jnp.where(fell, middle, ends[1])

        one = jnp.ones(())
        place = jax.lax.fori_loop(0, _HALVINGS, halve, (state.beta ** (1.0 / POWER), one))[1]
        at_once = (state.rung + 1 >= self.max_iter) | ~falls(one)
        return jnp.where(at_once, one, place**POWER)

    def _resampled(self, key: Key[Array, ""], states: State, log_weights: Float[Array, "s g c"]) -> State:
        """Resample each population to one particle per chain."""
        chains = log_weights.shape[2]
        offsets = jax.random.uniform(key, (self.populations,))
        flat = jax.tree.map(_by_population, states)
        log_shares = jax.nn.log_softmax(_by_population(log_weights), axis=1)
        index = jax.vmap(lambda offset, log_share: systematic(offset, log_share, chains))(offsets, log_shares)
        return jax.vmap(lambda one, order: jax.tree.map(lambda leaf: leaf[order], one))(flat, index)

    def result(self, model: Model, data: Data, run: Run) -> Result:
        betas = np.asarray(run.history["beta"])[:, 0]
        forward, backward = (
            np.moveaxis(finite(np.asarray(run.history[name])[:, 0], self.name, way), 0, -1)
            for name, way in (("forward", "up"), ("backward", "down"))
        )
        judged = judge(forward, backward, float(self.path.log_start), lambda: lower_bounds(model, data))
        states = jax.tree.map(lambda leaf: np.asarray(leaf)[0], run.states.states.draws)
        blocks = jax.tree.map(lambda leaf: np.asarray(_by_population(leaf)), states)
        arrived = bool(betas[-1] >= 1.0) and not run.interrupted
        share = np.broadcast_to(judged.log_evidences[:, None], forward.shape[:2])
        return Result(
            state=Draws(blocks, jnp.asarray(share)),
            log_evidence=judged.estimates["upwards"].log_evidence if arrived else None,
            history={"beta": betas, "log_weight": judged.path},
            converged=arrived and not judged.doubts,
            bracket=judged.bracket if arrived else None,
            details=self._details(judged, betas),
            notes=_notes(judged, arrived),
        )

    def instead(self, model: Model, result: Result | None) -> tuple[Method, ...]:
        fair = result is not None and (result.converged or self.particles < _MANY)
        return () if fair else elsewhere(self, model)

    def _details(self, judged: Judged, betas: np.ndarray) -> dict[str, Any]:
        return {
            "standard_error": judged.estimates["upwards"].standard_error,
            "estimates": judged.estimates,
            "log_evidences": judged.log_evidences,
            "effective_populations": judged.effective,
            "ladder": np.concatenate([[0.0], betas]),
        }


def _notes(judged: Judged, arrived: bool) -> tuple[str, ...]:
    if not arrived:
        return ("the particles did not arrive at the posterior, so there is no log evidence",)
    return tuple(f"no bracket: {doubt}; use more particles, or a `reference` closer to the posterior"
                 for doubt in judged.doubts)  # fmt: skip


def _by_population(leaf: Array) -> Array:
    """From (sweep, population, chain, …) to (population, particle, …)."""
    moved = jnp.swapaxes(leaf, 0, 1)
    return moved.reshape((moved.shape[0], -1, *moved.shape[3:]))


jax.tree_util.register_dataclass(
    SMC,
    data_fields=["path"],
    meta_fields=[field.name for field in dataclasses.fields(SMC) if field.name != "path"],
)
