"""A variational step as a Metropolis–Hastings proposal (thesis, chapter 5).

At θ′ the latents have the posterior p(z | x, θ′); the variational step with it proposes θ from

    q(θ | θ′) ∝ p(θ) exp{E_{p(z | x, θ′)} log p(x, z | θ)}        (5.26)

whose natural parameters are the gradient of the model's one function at t(θ′): Gibbs sampling with responsibilities
in place of drawn latents. It is narrower than the exact kernel, and where it is much too narrow, far from the mode,
almost nothing is accepted: alone it is not geometrically ergodic (proposition 1). Mixed with a random walk or with
Gibbs sweeps it is.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..._arguments import Checks, number
from ...errors import InvalidParameter, UnsupportedMethod
from ...families._family import Family
from ...families.unconstrained import chart, dimension
from ...models import Conditional, Data, Model
from ...models._answers import summed
from ...models._blocks import add, member
from .._method import Info, Result, Run
from .gibbs import Gibbs, State, scattered_start
from .local_weights import log_joint


class At(NamedTuple):
    """A draw, and its log joint density, or an estimate of it (kept with the draw) if latents cannot be summed out."""

    draws: dict[str, Any]
    log_joint: Float[Array, ""]


@dataclasses.dataclass(frozen=True)
class VariationalKernel(Gibbs):
    """Chains of Metropolis–Hastings steps with the variational proposal; the other arguments are those of `Gibbs`.

    `walk` is the part of the steps that are a symmetric random walk instead (in unconstrained coordinates, with
    steps of size `size`), `gibbs` the part that are Gibbs sweeps. With `cycle` every step makes all the moves that
    have a part, one after the other, instead of one of them at random.
    """

    walk: float = 0.1
    gibbs: float = 0.0
    size: float = 0.1
    cycle: bool = False

    budget: ClassVar[tuple[str, ...]] = ("draws", "warmup", "chains")
    checks: ClassVar[Checks] = {
        **Gibbs.checks,
        **dict.fromkeys(("walk", "gibbs"), number("between 0 and 1", lambda part: 0 <= part <= 1)),
        "size": number("positive", lambda size: size > 0),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.walk + self.gibbs > 1:
            raise InvalidParameter(f"walk and gibbs are parts of a whole, but together {self.walk + self.gibbs:g}")

    @property
    def name(self) -> str:
        return "variational kernel"

    def prepare(self, model: Model) -> Model:
        model = summed(model)
        if model.local_groups and self.gibbs > 0:
            raise UnsupportedMethod(
                f"gibbs is for models whose latents are summed out, and those of {type(model).__name__} are not; "
                "leave it out, or use tp.Gibbs"
            )
        return super().prepare(model)

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> State:
        draws = scattered_start(key, model, data).draws
        return State(draws, {"log_joint": log_joint(key, model, draws, data)})

    def step(self, key: Key[Array, ""], model: Model, state: State, data: Data) -> tuple[State, Info]:
        def once(number: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            at, total = carry
            at, accepted = self._move(jax.random.fold_in(key, number), model, at, data)
            return at, total + accepted

        at, accepted = jax.lax.fori_loop(0, self.thin, once, (At(state.draws, state.local["log_joint"]), jnp.zeros(())))
        info = {"draws": at.draws, "log_joint": at.log_joint, "acceptance": accepted / self.thin}
        return State(at.draws, {"log_joint": at.log_joint}), info

    def _move(self, key: Key[Array, ""], model: Model, at: At, data: Data) -> tuple[At, Float[Array, ""]]:
        """One step, and the acceptance probability of its variational proposal (or of the other move made)."""
        keys = jax.random.split(key, 4)

        def vary(at: At) -> tuple[At, Array]:
            return variational_step(keys[0], model, at, data)

        def walk(at: At) -> tuple[At, Array]:
            return random_walk(keys[1], model, at, data, self.size)

        def sweep(at: At) -> tuple[At, Array]:
            draws = model.gibbs(keys[2], at.draws, data)[0]
            return At(draws, model.log_joint(draws, data)), jnp.ones(())

        moves = [(vary, 1.0 - self.walk - self.gibbs), (walk, self.walk), (sweep, self.gibbs)]
        moves = [(move, part) for move, part in moves if part > 0]
        if self.cycle:
            acceptance = jnp.zeros(())
            for number, (move, _) in enumerate(moves):
                at, accepted = move(at)
                acceptance = accepted if number == 0 else acceptance
            return at, acceptance
        if len(moves) == 1:
            return moves[0][0](at)
        pick = jax.random.choice(keys[3], len(moves), p=jnp.asarray([part for _, part in moves]))
        return jax.lax.switch(pick, [move for move, _ in moves], at)

    def result(self, model: Model, data: Data, run: Run) -> Result:
        result = super().result(model, data, run)
        acceptance = float(np.mean(result.history["acceptance"]))
        return result._replace(details={"acceptance": acceptance})


def variational_proposal(model: Model, draws: Any, data: Data) -> dict[str, Family]:
    """q(θ | θ′), a family for each block."""
    m = model.statistics(draws)
    walked = model.walk(m, data)
    natural = add(jax.grad(model.log_prior)(m), walked.messages)
    return {name: member(p, natural[name]) for name, p in model.prior.items()}


def variational_step(key: Key[Array, ""], model: Model, at: At, data: Data) -> tuple[At, Float[Array, ""]]:
    """A Metropolis–Hastings step with the variational proposal, and the probability with which it was accepted."""
    key_draw, key_accept = jax.random.split(key)
    forward = variational_proposal(model, at.draws, data)
    keys = jax.random.split(key_draw, len(forward))
    draws = {name: q.sample(key) for key, (name, q) in zip(keys, forward.items(), strict=True)}
    fresh = At(draws, log_joint(jax.random.fold_in(key_draw, 0), model, draws, data))
    back = variational_proposal(model, draws, data)
    ratio = fresh.log_joint - at.log_joint + _log_density(back, at.draws) - _log_density(forward, draws)
    return _decide(key_accept, ratio, fresh, at)


def random_walk(key: Key[Array, ""], model: Model, at: At, data: Data, size: float) -> tuple[At, Float[Array, ""]]:
    """A step with a symmetric Gaussian proposal in unconstrained coordinates u; the target there has a Jacobian."""
    key_step, key_accept = jax.random.split(key)
    draws, known = at.draws, _families(model, at.draws)
    keys = jax.random.split(key_step, len(known))
    fresh = {}
    for key, (name, family) in zip(keys, known.items(), strict=True):
        u = chart(family).to_line(draws[name])
        step = jax.random.normal(key, (*family.batch_shape, dimension(family))).reshape(u.shape)
        fresh[name] = chart(family).from_line(u + size * step)
    moved = At(fresh, log_joint(jax.random.fold_in(key_step, 0), model, fresh, data))
    ratio = moved.log_joint - at.log_joint
    for name, family in known.items():
        change = family.statistics(fresh[name]) - family.statistics(draws[name])
        ratio = ratio + jnp.sum(chart(family).jacobian().vector.dot(change))
    return _decide(key_accept, ratio, moved, at)


def acceptance_at(key: Key[Array, ""], model: Model, draws: Any, data: Data, proposals: int = 1000) -> Float[Array, ""]:
    """The probability that a variational proposal from this θ′ is accepted, averaged over proposals (5.38)."""
    at, keys = At(draws, log_joint(key, model, draws, data)), jax.random.split(key, proposals)
    return jnp.mean(jax.vmap(lambda key: variational_step(key, model, at, data)[1])(keys))


def _families(model: Model, draws: Any) -> dict[str, Family]:
    m = model.statistics(draws)
    return {name: p.family(p.natural(m)) if isinstance(p, Conditional) else p for name, p in model.prior.items()}


def _log_density(families: dict[str, Family], draws: Any) -> Float[Array, ""]:
    return sum((jnp.sum(q.log_prob(draws[name])) for name, q in families.items()), start=jnp.zeros(()))


def _decide(key: Key[Array, ""], ratio: Float[Array, ""], fresh: Any, draws: Any) -> tuple[Any, Float[Array, ""]]:
    # A proposal whose density overflows is refused.
    acceptance = jnp.exp(jnp.minimum(jnp.where(jnp.isnan(ratio), -jnp.inf, ratio), 0.0))
    accept = jax.random.uniform(key) < acceptance
    return jax.tree.map(lambda new, old: jnp.where(accept, new, old), fresh, draws), acceptance
