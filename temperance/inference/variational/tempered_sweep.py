"""A sweep of coordinate ascent at any temperature, with the energy that temperature acts on.

At power s = 1/T what the data add to the bound is V(s) = max_q(z) { s E + H }, with the energy E = Σ_n E log p(x_n,
z_n | θ) and the entropy H of the latents. By the envelope theorem dV/ds = E, which the backward pass that gives the
messages yields too; and V + (1 − s) E is the bound at T = 1 of the same q.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ...families import Pair
from ...families._family import Family
from ...models import HMM, LDA, Data, Each, Mixture, Model, Posterior, Powers, Way
from ...models._blocks import move, rows_sum
from ...models._data import over_blocks
from ...models._model import Means, add, entropy, means

Power = Float[Array, ""] | Float[Array, " n"]
Respond = Callable[[Power], Float[Array, ""]]


class Walked(NamedTuple):
    """What one walk over the data gives."""

    value: Float[Array, ""]
    messages: Means
    energy: Power  # Σ_n E log p(x_n, z_n | θ); or for each datum, where each has its own power
    local: dict[str, Family]
    power: Power | None = None  # of the messages, where data have found one of their own


class Swept(NamedTuple):
    posterior: Posterior
    bound: Float[Array, ""]  # at the start, after the first local step, at the temperature
    energy: Power  # at the same place
    power: Power  # after it
    acting: Power  # the energy that a temperature for all data is found from


@functools.singledispatch
def walk_with_energy(
    model: Model,
    m: Means,
    data: Data,
    power: Power,
    local: dict[str, Family],
    local_steps: int,
) -> Walked:
    """`Model.walk`, and the derivatives of its value in the powers."""
    if isinstance(model, LDA) and model.engine != "autodiff":
        return _walk_topics(model, m, data, power, local, local_steps)
    each = jnp.ndim(power) == 1
    if not each and _is_linear(model):
        return _walk_linear(model, m, data, power, local, local_steps)
    ready, unpack = jax.vjp(model.packed, m)

    def block(part: Any, _: Array) -> tuple[Any, Any]:
        x, weights, rows, q_local = part
        here = rows.get("power", power)
        q_local = model.ascend_local(m, x, Powers(here, here), q_local or model.initial_local(m, x), local_steps)
        m_local = means(q_local)

        def total(m_global: Means, both: Power) -> Float[Array, ""]:
            return jnp.sum(weights * model._datum(m_global | m_local, x, Powers(both, both), None))

        value, (messages, energy) = jax.value_and_grad(total, argnums=(0, 1))(ready, here)
        spread = sum((rows_sum(q.entropy()) for q in q_local.values()), start=jnp.zeros(()))
        sums = (value + jnp.sum(weights * spread), messages, {} if each else {"energy": energy})
        return sums, (q_local, {"energy": energy} if each else {})

    rows = (data.values, data.weights, {"power": power} if each else {}, local)
    (value, messages, of_all), (fresh, by_row) = over_blocks(block, rows, *data.cuts)
    return Walked(value, unpack(messages)[0], (by_row | of_all)["energy"], fresh)


def _is_linear(model: Model) -> bool:
    """Whether E log p(x, z | θ) is linear in all statistics together, but for the base measure of the data."""
    if isinstance(model, Mixture) and (model.known is not None or type(model).log_joint_z is not Mixture.log_joint_z):
        return False
    pair = model.pair if isinstance(model, Mixture | HMM) else None
    return pair is not None and type(pair).tempered_log_likelihood is Pair.tempered_log_likelihood


def _walk_linear(model: Any, m: Means, data: Data, power: Power, local: dict[str, Family], local_steps: int) -> Walked:
    """No second derivative is needed: by Euler's theorem ⟨messages, m⟩ / s is the energy without the base measure."""
    terms, fresh = model.walk(m, data, Way(Powers(power, power), local_steps), local)
    products = jax.tree.map(lambda message, mean: jnp.sum(message * mean), terms.messages, m)
    x, cuts = (data.values.x, (data.values.blocks,)) if isinstance(model, HMM) else (data.values, data.cuts)

    def base(part: Any, _: Array) -> tuple[Float[Array, ""], tuple[()]]:
        rows, weights = part
        return jnp.sum(weights * model.pair.log_base(rows)), ()

    constant = over_blocks(base, (x, data.weights), *cuts)[0]
    return Walked(terms.value, terms.messages, sum(jax.tree.leaves(products)) / power + constant, fresh)


def _walk_topics(model: LDA, m: Means, data: Data, power: Power, local: dict[str, Family], local_steps: int) -> Walked:
    """The walk in closed form has no derivative. Its energy is ⟨messages, E log β⟩ / s + Σ (γ − α) E log θ / s, exact
    where the local steps have converged."""
    terms, fresh = model.walk(m, data, Way(Powers(power, power), local_steps), local)
    documents = data.weights @ document_energies(model, m, fresh, jnp.broadcast_to(power, data.weights.shape))
    words = jnp.sum(terms.messages["topics"].dot(m["topics"])) / power
    return Walked(terms.value, terms.messages, words + documents, fresh)


def document_energies(model: LDA, m: Means, local: dict[str, Any], powers: Float[Array, " n"]) -> Float[Array, " n"]:
    """Σ_k N_dk E log θ_dk, with the counts that the concentrations tell of."""
    counts = local["proportions"].concentration - model.concentration(m)[None]
    return jnp.sum(counts * local["proportions"].mean().log, axis=1) / powers


def acting_energy(model: Model, blocks: dict[str, Any], walked: Walked, data: Data) -> Power:
    """The energy that belongs to the model's normaliser. From that of topic models the topics of tokens are summed
    out, and the energy that does not temper twice is that of the mean parameters (errata to B.1)."""
    if isinstance(model, LDA):
        return model.mean_energy(blocks, walked.local, data)
    return walked.energy


def tempered_sweep(
    model: Model,
    q: Posterior,
    data: Data,
    power: Power,
    local_steps: int = 1,
    respond: Respond | None = None,
    rate: ArrayLike = 1.0,
    walk: Callable[[dict[str, Family]], Walked] | None = None,
) -> Swept:
    """`Model.sweep` at a power.

    `respond` makes a new power out of the energy, once the latents and before the globals are updated: the
    messages, proportional to the power at fixed latents, follow it. Or `walk` is the first walk, in which data find
    powers of their own.
    """
    blocks, local = dict(q.blocks), q.locals
    first: tuple[Array, Power] | None = None
    acting: Power = jnp.zeros(())
    for group in model.groups:
        names = (group.block,) if isinstance(group, Each) else group
        m = means(blocks)
        value, target = jax.value_and_grad(model.log_prior)(m)
        if first is None or not (set(names) <= set(model.apart) or isinstance(group, Each)):
            if first is None and walk is not None:
                walked = walk(blocks)
            else:
                walked = walk_with_energy(model, m, data, power, local, local_steps)
            local, messages = walked.local, walked.messages
            if first is None:
                first = (value + walked.value + entropy(blocks), walked.energy)
                power = power if walked.power is None else walked.power
                if respond is not None:
                    acting = acting_energy(model, blocks, walked, data)
                    fresh = respond(acting)
                    messages = jax.tree.map(lambda leaf, ratio=fresh / power: leaf * ratio, messages)
                    power = fresh
            target = add(target, messages)
        if isinstance(group, Each):
            way = Way(Powers(power, power), local_steps)
            blocks, local = model._sweep_slices(group, Posterior(blocks, local), data, way, rate, model.walk)
        else:
            blocks |= {name: move(blocks[name], target[name], rate) for name in names}
    assert first is not None
    return Swept(Posterior(blocks, local), *first, power, acting)
