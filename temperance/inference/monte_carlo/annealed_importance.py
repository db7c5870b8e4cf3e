"""Annealed importance sampling (Neal, 2001; thesis 4.6), upwards, and downwards from posterior draws.

A particle starts with an exact draw at β = 0 and is swept at every temperature on the way to the posterior; its weight
is the product of the ratios of neighbouring densities (thesis 4.53). A particle that starts with a draw from the
posterior and goes the way back down, every sweep run backwards in time, bounds the evidence from above (Grosse,
Ghahramani and Adams, 2015). Upwards and downwards together enclose it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ...errors import InvalidParameter
from ...evidence.bracket import crossed, outwards
from ...evidence.tempered import Estimate, few
from ...evidence.weights import both_ways, downwards, effective_draws, halves, upwards
from ...evidence.witnesses import CLOSER, contradictions
from ...kernels import RunEngine, small_tempered
from ...models import Data, Each, Model, Powers
from ...numerics.host import softmax
from ...numerics.keys import is_host, uniforms
from ...numerics.place import on_device
from .._method import Again, Info, Method, Result, Run
from ..schedules import power_ladder
from ._support import check_counts, check_path, finite, require_distributions, require_unweighted
from .draws import Draws
from .elsewhere import elsewhere, foreseen
from .gibbs import State
from .path import Path
from .reference import Reference, as_path, inside
from .small_runs import PARTICLES
from .witness import lower_bounds

CERTAIN = 0.02  # least effective share of the particles for the weights to be informative
FEWEST = 10.0  # least number of effective particles for that
MANY = 100  # with this many particles, a low effective number is due to the path, not to their number
SETTLING = 50  # sweeps of the latents alone at the start of a way down from the draws of another fit


class Particle(NamedTuple):
    """A particle on its way up or down."""

    state: State
    log_weight: Float[Array, ""]  # including the density ratio for the temperature of the next sweep
    rung: Int[Array, ""]  # the temperature of the next sweep
    move: Int[Array, ""]  # 1 upwards, −1 downwards


class Returning(Particle):
    """A particle on the way down, where sweeps run backwards in time; a separate type, so that it is compiled
    separately."""


@dataclasses.dataclass(frozen=True)
class AIS(Method):
    """`particles` independent runs over `temperatures`, with `sweeps` Gibbs sweeps at each.

    `particles` is the number of runs. `temperatures` is the number of rungs of the ladder. `sweeps` is the number of
    Gibbs sweeps at each. `reference` and `widen` say where the path starts, as in `ParallelTempering`. With `reverse`
    as many particles go back from posterior draws: those of `posterior` (a fit by a method that draws, or the draw that
    data were simulated with, by block), or, if there is none, the particles themselves, resampled: the upper side of
    the bracket is then an approximation. `ladder` is a fixed ladder of inverse temperatures. Without a `reference` the
    path starts at the prior; if no weight is left there, a second path starts at the best fit of `tp.VB`, widened.
    """

    particles: int = 200
    temperatures: int = 200
    sweeps: int = 1
    reverse: bool = True
    posterior: Any = None
    reference: Reference = None
    widen: float = 4.0
    ladder: Any = None
    max_iter: int = dataclasses.field(default=0, repr=False)  # from the ladder
    path: Path = dataclasses.field(default=Path({}), repr=False)
    draws: Any = dataclasses.field(default=None, repr=False)  # given draws from the posterior

    budget: ClassVar[tuple[str, ...]] = ("particles", "max_iter", "posterior", "draws", "reverse")
    one_mode: ClassVar[bool] = False
    needs_unknowns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_counts(particles=(self.particles, 2), temperatures=(self.temperatures, 2), sweeps=(self.sweeps, 1))
        if not isinstance(self.reverse, bool):
            raise InvalidParameter(f"reverse must be True or False, got {self.reverse!r}")
        check_path(self)

    @property
    def name(self) -> str:
        return "AIS"

    @property
    def restarts(self) -> int:
        return self.particles

    def prepare(self, model: Model) -> Model:
        return require_distributions(model, self.name)

    def complete(self, model: Model, data: Data) -> Self:
        require_unweighted(data, self.name)
        return dataclasses.replace(
            self,
            path=as_path(self.reference, self.widen, model, data),
            reference=None if self.reference is None else "prior",
            draws=self.draws if self.posterior is None else inside(model, self.posterior, data),
            posterior=None,
            max_iter=self.temperatures - 1,
        )

    def host_engine(self, model: Model, data: Any) -> RunEngine | None:
        plain = self.path.reference or self.path.pinned is not None
        return None if plain or not small_tempered.when(model, data) else PARTICLES

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Particle:
        start, up = self.path.start(key, model, data), jnp.ones((), dtype=jnp.int64)
        return Particle(start, self._log_ratio(model, start, data, 0 * up, up), up, up)

    def step(self, key: Key[Array, ""], model: Model, state: Particle, data: Data) -> tuple[Particle, Info]:
        """`sweeps` sweeps at one temperature, and the ratio of densities on the way to the next one."""
        backwards, beta = isinstance(state, Returning), self._betas()[state.rung]

        def sweep(number: Array, particle: State) -> State:
            return self.path.sweep(jax.random.fold_in(key, number), model, particle, data, beta, backwards)

        moved = jax.lax.fori_loop(0, self.sweeps, sweep, state.state)
        rung = jnp.clip(state.rung + state.move, 0, self.temperatures - 1)
        ratio = state.move * self._log_ratio(model, moved, data, state.rung, rung)
        return state._replace(state=moved, log_weight=state.log_weight + ratio, rung=rung), {
            "log_weight": state.log_weight
        }

    @property
    def betas(self) -> np.ndarray:
        return np.asarray(power_ladder(self.temperatures) if self.ladder is None else self.ladder)

    def _betas(self) -> Float[Array, " t"]:
        return jnp.asarray(self.betas)

    def _log_ratio(
        self, model: Model, particle: State, data: Data, here: Int[Array, ""], there: Int[Array, ""]
    ) -> Float[Array, ""]:
        """log p_there(θ)/p_here(θ), unnormalised; 0 at the end of the way."""
        potentials = jax.vmap(lambda beta: self.path.potential(model, particle, data, beta))
        before, after = potentials(self._betas()[jnp.stack([here, there])])
        return jnp.where(here == there, 0.0, after - before)

    def result(self, model: Model, data: Data, run: Run) -> Result:
        log_weights = finite(np.asarray(run.states.log_weight), self.name, "up")
        start = float(self.path.log_start)
        particles = effective_draws(log_weights)
        estimate = few(upwards(start + log_weights, cautious=True), int(particles))
        blocks = jax.tree.map(lambda leaf: np.asarray(leaf)[None], run.states.state.draws)
        trusted = particles >= max(FEWEST, CERTAIN * self.particles)
        notes = [] if trusted else [_few(particles, self.particles)]
        return Result(
            state=Draws(blocks, on_device(log_weights[None])),
            log_evidence=estimate.log_evidence,
            history={"log_weight": run.history["log_weight"]},
            converged=trusted and not run.interrupted,
            details={
                "standard_error": estimate.standard_error,
                "log_start": start,
                "effective_draws": particles,
                "log_weights": start + log_weights,
                "estimates": {"upwards": estimate},
                "local": run.states.state.local,
            },
            notes=tuple(notes),
        )

    def foreseen(self, model: Model, data: Data) -> tuple[Method, ...]:
        return foreseen(self, model, data) if self.particles >= MANY and self.draws is None else ()

    def instead(self, model: Model, result: Result | None) -> tuple[Method, ...]:
        fair = result is not None and (result.converged or self.particles < MANY)
        return () if fair else elsewhere(self, model)

    def improve(self, key: Key[Array, ""], model: Model, data: Data, result: Result, again: Again) -> Result:
        """Send particles down the path from posterior draws, which gives the upper side of the bracket."""
        details = dict(result.details)
        local = details.pop("local")
        result = result._replace(details=details)
        if not self.reverse:
            return self._judged(model, data, result, [])
        approximate = self.draws is None or bool(model.local_groups)
        if self.draws is None:
            start, parents = _resampled(key, result.state, local, self.particles)
        else:
            blocks, given = _spread(self.draws, self.particles)
            start, parents = State(blocks, local), -1 - given
            if model.local_groups:
                start = _settled(key, model, start, data)
        kind = Particle if _reversible(model, self.path) else Returning
        size = self.particles
        last, down = (on_device(np.full(size, number)) for number in (self.temperatures - 1, -1))
        states = kind(start, on_device(np.zeros(size)), last, down)
        done = again(states, self.temperatures - 1)
        if done.interrupted:
            return result._replace(converged=False)
        forward = details["log_weights"]
        backward = details["log_start"] + finite(np.asarray(done.states.log_weight), self.name, "down")
        families = np.arange(len(forward)), parents  # particles that go down from one particle depend on it
        pieces = int(details["effective_draws"])
        below = few(upwards(forward, cautious=True), pieces)
        above = few(downwards(backward, parents, cautious=True), pieces)
        best = few(both_ways(forward, backward, families, cautious=True), pieces)
        notes = list(result.notes)
        if approximate:
            why = (
                "its particles came from resampled weights; give posterior=, a fit by tp.ParallelTempering, for draws "
                "that are closer to the posterior"
                if self.draws is None
                else f"the latents of {type(model).__name__} were drawn anew for the draws of the posterior"
            )
            notes.append(f"the upper side of the bracket is approximate: {why}")
        result = result._replace(
            log_evidence=best.log_evidence,
            details=details
            | {
                "standard_error": best.standard_error,
                "reverse_log_weights": backward,
                "estimates": {"both ways": best, "upwards": below, "downwards": above},
                "upper_is_approximate": approximate,
            },
            notes=tuple(notes),
        )
        return self._judged(model, data, result, [above])

    def _judged(self, model: Model, data: Data, result: Result, above: list[Estimate]) -> Result:
        """The result, with a bracket if enough particles are effective and nothing speaks against the estimate."""
        if not result.converged:
            return result
        assert result.log_evidence is not None
        estimate = Estimate(result.log_evidence, result.details["standard_error"])
        forward = result.details["log_weights"]
        below = few(upwards(forward, cautious=True), int(result.details["effective_draws"]))
        ends = outwards([below], above)
        doubts = [*contradictions(estimate, halves(forward), lower_bounds(model, data), CLOSER), *crossed(ends)]
        return result._replace(
            converged=not doubts,
            bracket=None if doubts else ends,
            notes=(*result.notes, *(f"no bracket: {doubt}" for doubt in doubts)),
        )


def _reversible(model: Model, path: Path) -> bool:
    """Whether a sweep is its own reverse: all blocks are drawn at once, given one draw of the latents."""
    one = len(model.groups) == 1 and not isinstance(model.groups[0], Each) and not model.local_groups
    return one and not path.move_labels


def _few(effective: float, particles: int) -> str:
    return (
        f"the weights are worth {effective:.1f} of {particles} particles: use more temperatures, or a `reference` "
        "closer to the posterior"
    )


def _resampled(key: Key[Array, ""], draws: Draws, local: dict[str, Any], count: int) -> tuple[State, np.ndarray]:
    """`Draws.resampled` in NumPy, because eager JAX would compile each operation. Latents go with their draw. Also
    returns the index of each resampled draw."""
    assert draws.log_weights is not None
    log_weights = np.asarray(draws.log_weights).ravel()
    offset = uniforms(np.asarray(jax.random.key_data(key))[None], 1)[0, 0] if is_host() else jax.random.uniform(key)
    places = (np.arange(count) + float(offset)) / count
    index = np.searchsorted(np.cumsum(softmax(log_weights, 0)), places)
    index = np.minimum(index, len(log_weights) - 1)
    blocks = jax.tree.map(lambda leaf: np.asarray(leaf)[0], draws.blocks)
    return State(*jax.tree.map(lambda leaf: on_device(np.asarray(leaf)[index]), (blocks, local))), index


@eqx.filter_jit
def _settled(key: Key[Array, ""], model: Model, start: State, data: Data) -> State:
    """Latents, which a fit does not keep, drawn anew by sweeps in which the draws of the globals stay fixed."""

    def one(key: Key[Array, ""], state: State) -> State:
        def sweep(number: Array, local: dict[str, Any]) -> dict[str, Any]:
            return model.gibbs_local(jax.random.fold_in(key, number), state.draws, data, Powers(), local)

        return state._replace(local=jax.lax.fori_loop(0, SETTLING, sweep, state.local))

    return jax.vmap(one)(jax.random.split(key, jax.tree.leaves(start)[0].shape[0]), start)


def _spread(draws: Any, count: int) -> tuple[Any, np.ndarray]:
    """`count` of the draws, evenly spaced, and their numbers; fewer are repeated."""
    size = jax.tree.leaves(draws)[0].shape[0]
    index = np.arange(count) % size if size < count else np.linspace(0, size - 1, count).astype(int)
    return jax.tree.map(lambda leaf: on_device(np.asarray(leaf)[index]), draws), index


jax.tree_util.register_dataclass(
    AIS,
    data_fields=["path", "draws"],
    meta_fields=[field.name for field in dataclasses.fields(AIS) if field.name not in ("path", "draws")],
)
