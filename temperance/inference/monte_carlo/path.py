"""The path from a distribution that can be drawn from (β = 0) to the posterior (β = 1).

    p_β(θ) ∝ p(θ)^β q(θ)^(1−β) Π_n Σ_z p(z | θ) p(x_n | θ, z)^β

The likelihood is tempered given its latents z and z is then summed out, so that Gibbs sampling at β is exact (thesis
4.31; z belongs to the conditional and is drawn anew in every sweep). Without a surrogate q is the prior. As all
densities on the path depend on θ alone, swaps, importance weights and reweighting use

    U(θ, β) = Σ_n log Σ_z p(z | θ) p(x_n | θ, z)^β + β log p(θ)/q(θ),

which has less noise than the thesis's log p(x | θ, z) at a drawn z (its average over z, Rao–Blackwell): a swap then
compares U at both temperatures, because U is not linear in β. Its derivative is the integrand of thermodynamic
integration, and log Z(β), as a log sum of exponentials linear in β, is convex: the integrand's average never falls.

Data can also be *pinned*: they keep power 1, so that the path starts at their exact posterior (thesis 4.7.2).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ...families._family import Family
from ...models import Data, Model, Powers
from ...models._about import Symmetry
from .gibbs import State
from .pinned import Pinned


class Energies(NamedTuple):
    """U of a state at its temperature and at both neighbouring ones, and its slope."""

    below: Float[Array, ""]
    here: Float[Array, ""]
    above: Float[Array, ""]
    slope: Float[Array, ""]


class Path(eqx.Module):
    """The path. `reference` holds the surrogate's blocks (other blocks keep their prior), `pinned` the data at power
    1."""

    reference: dict[str, Family]
    pinned: Pinned | None = None
    move_labels: Symmetry | Literal[False] = eqx.field(static=True, default=False)  # of parts it distinguishes

    @property
    def log_start(self) -> Float[Array, ""]:
        """log Z(0)."""
        return jnp.zeros(()) if self.pinned is None else self.pinned.log_evidence

    def start(self, key: Key[Array, ""], model: Model, data: Data) -> State:
        """An exact draw at β = 0."""
        if self.pinned is not None:
            return State(self.pinned.sample(key), {})
        key_global, key_local = jax.random.split(key)
        draws = self._prior_at(model, jnp.zeros(())).sample_prior(key_global)
        return State(draws, model.sample_local_prior(key_local, data.values, draws))

    def sweep(
        self,
        key: Key[Array, ""],
        model: Model,
        state: State,
        data: Data,
        beta: Float[Array, ""],
        backwards: bool = False,
    ) -> State:
        """One Gibbs sweep, which leaves p_β invariant; `backwards` takes the groups in the opposite order."""
        prior, key_labels = self._prior_at(model, beta), jax.random.fold_in(key, 0x1ABE1)
        if self.move_labels and backwards:
            state = self._exchange_labels(key_labels, state, beta)
        state = State(*prior.gibbs(key, state.draws, data, self._powers(beta), state.local, backwards))
        if self.move_labels and not backwards:
            state = self._exchange_labels(key_labels, state, beta)
        return state

    def potential(self, model: Model, state: State, data: Data, beta: Float[Array, ""]) -> Float[Array, ""]:
        """U(θ, β), up to a term that does not depend on β."""
        value = model.log_likelihood(state.draws, data, self._powers(beta), state.local)
        return value + beta * self._from_surrogate(model, state) if self.reference else value

    def log_joint(self, model: Model, state: State, potential: Float[Array, ""]) -> Float[Array, ""]:
        """log p(x, θ), from the potential at β = 1."""
        return model.log_prior(model.statistics(state.draws)) + potential - self._from_surrogate(model, state)

    def _from_surrogate(self, model: Model, state: State) -> Float[Array, ""]:
        """log p(θ) − log q(θ)."""
        value = jnp.zeros(())
        for name, q in self.reference.items():
            p = model.prior[name]
            assert isinstance(p, Family)
            value = value + jnp.sum(p.log_prob(state.draws[name]) - q.log_prob(state.draws[name]))
        return value

    def energies(self, model: Model, state: State, data: Data, betas: Float[Array, "3"]) -> Energies:
        def potential(beta: Float[Array, ""]) -> Float[Array, ""]:
            return self.potential(model, state, data, beta)

        # The inner products of statistics and parameters do not depend on β: computed once for all three.
        here, slope = jax.jvp(potential, (betas[1],), (jnp.ones(()),))
        below, above = jax.vmap(potential)(betas[::2])
        return Energies(below, here, above, slope)

    def _exchange_labels(self, key: Key[Array, ""], state: State, beta: Float[Array, ""]) -> State:
        """Propose the parts in a random order.

        Everything but the surrogate is symmetric, so the acceptance ratio is (q(proposed)/q(now))^(1−β). Without
        this move a surrogate around one of the K! copies of a mode would never find the others.
        """
        assert self.move_labels
        key_order, key_accept = jax.random.split(key)
        orders = self.move_labels.random_orders(key_order)
        proposed = State(*(self.move_labels.rearranged(blocks, orders) for blocks in (state.draws, state.local)))
        gain = jnp.zeros(())
        for name, q in self.reference.items():
            gain = gain + jnp.sum(q.log_prob(proposed.draws[name]) - q.log_prob(state.draws[name]))
        accept = jnp.log(jax.random.uniform(key_accept)) < (1.0 - beta) * gain
        return jax.tree.map(lambda new, old: jnp.where(accept, new, old), proposed, state)

    def _prior_at(self, model: Model, beta: Float[Array, ""]) -> Model:
        """The prior's natural parameters at β are β η_p + (1 − β) η_q: all of thesis 4.43–4.48."""
        if not self.reference:
            return model
        mixed = {name: q.mix(model.prior[name], beta) for name, q in self.reference.items()}  # type: ignore[arg-type]
        return eqx.tree_at(lambda m: m.prior, model, model.prior | mixed)

    def _powers(self, beta: Float[Array, ""]) -> Powers:
        if self.pinned is None:
            return Powers(observation=beta)
        return Powers(observation=jnp.where(self.pinned.mask, 1.0, beta))
