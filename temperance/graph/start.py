"""The start of inference in a graph: symmetries are broken at random, then one pass of coordinate ascent follows.

Exchangeable components and the factors of a product of latents can start at a point where they are equal and stay
equal. So the values of each discrete latent that is summed out are drawn first: around k-means++ seeds of the data
where it has one value per datum, else as random shares; and a Normal variable in a product of latents starts at a draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..families import NormalVector
from ..families._family import Family
from ..models._answers import Start
from ..models._blocks import prior_terms, rows_sum
from ..models._data import Data, over_blocks
from ..models._model import Conditional, Each, Means, Posterior, Powers, add, means
from ..models.mixture.starts import start_labels
from .scope import Scope
from .spec import Spec
from .tables import Table

if TYPE_CHECKING:
    from .compiled import GraphModel


def start(model: GraphModel, key: Key[Array, ""], data: Data) -> Posterior:
    key_states, key_draws = jax.random.split(key)
    blocks = _prior_blocks(model, key_draws)
    m = means(blocks)
    shares = draw_shares(model, key_states, data)
    local = model.initial_local(m, data.values)
    for group in model.groups:
        names = (group.block,) if isinstance(group, Each) else group
        m = means(blocks)
        target = add(jax.grad(model.log_prior)(m), _messages(model, m, data, shares, local))
        blocks |= {name: blocks[name].with_natural(target[name]) for name in names}
    return Posterior(blocks, model.initial_local(means(blocks), data.values) if local else {})


def _prior_blocks(model: GraphModel, key: Key[Array, ""]) -> dict[str, Family]:
    """The blocks at their prior, given the means of their parents; Normal variables in a product are moved to a
    draw."""
    blocks: dict[str, Family] = {}
    moved = products(model.spec)
    # In the order of definition, because a compiled function does not keep the order of a dictionary.
    for number, name in enumerate(q.name for q in model.spec if q.name in model.prior):
        p, m = model.prior[name], means(blocks)
        family = p.family(p.natural(m)) if isinstance(p, Conditional) else p
        if name in moved and isinstance(family.natural, NormalVector):
            draw = family.sample(jax.random.fold_in(key, number))
            precision = family.natural.precision
            linear = (precision @ draw[..., None])[..., 0]
            family = family.with_natural(NormalVector(linear, precision))
        elif model.spec[name].discrete:
            # Equal shares would stay equal.
            noise = jax.random.normal(jax.random.fold_in(key, number), family.natural.indicator.shape)
            family = family.with_natural(type(family.natural)(family.natural.indicator + noise))
        blocks[name] = family
    return blocks


def products(spec: Spec) -> frozenset[str]:
    """The Normal variables that enter a product with another latent."""
    found: frozenset[str] = frozenset()
    for q in spec:
        if q.kind == "dot":
            sides = [spec.ancestors(parent) for _, parent in q.parents]
            if all(sides):
                found |= sides[0] | sides[1]
    return found


def draw_shares(model: GraphModel, key: Key[Array, ""], data: Data) -> dict[str, Array]:
    """Random shares of each discrete latent that is summed out: (rows, other plates, values)."""
    spec = model.spec
    rows = data.weights.shape[0]
    shares: dict[str, Array] = {}
    for name in spec.summed_out:
        q = spec[name]
        part = jax.random.fold_in(key, spec.state_axis(name))
        scope = Scope(spec, model.constants, {}, data.values)
        if q.plates == (spec.data_plate,):
            labels = start_labels(part, Start("kmeans++"), _coordinates(spec, data), data, q.size)
            shares[name] = jax.nn.one_hot(labels, q.size, dtype=jnp.float64)
        else:
            drawn = jax.random.exponential(part, (*scope.shape(q), q.size))
            shares[name] = drawn / jnp.sum(drawn, axis=-1, keepdims=True)
            assert drawn.shape[0] == rows
    return shares


def _coordinates(spec: Spec, data: Data) -> Float[Array, "n c"]:
    """All observed values of each datum as one row of numbers."""
    columns = []
    for q in spec.columns:
        x = data.values[q.name]
        x = jnp.where(jnp.isnan(x), 0.0, x)
        if q.value == "category":
            x = jax.nn.one_hot(x.astype(int), q.size, dtype=jnp.float64)
        columns.append(x.reshape((x.shape[0], -1)))
    return jnp.concatenate(columns, axis=1)


def _messages(model: GraphModel, m: Means, data: Data, shares: dict[str, Array], local: dict[str, Family]) -> Means:
    """The messages to the global blocks, given shares of the latents' values."""

    def block(part: Any, _: Array) -> tuple[Means, tuple[()]]:
        x, weights, here, q_local = part
        q_local = model.ascend_local(m, x, Powers(), q_local, 1)
        m_local = means(q_local)

        def total(m_global: Means) -> Array:
            if model.spec.integrated:
                return jnp.sum(weights * model._datum(m_global | m_local, x, Powers(), None))
            scope = Scope(model.spec, model.constants, m_global | m_local, x, expand="typical")
            given = {
                name: Table((*scope.axes(model.spec[name]), model.spec.state_axis(name)), share)
                for name, share in here.items()
            }
            value = model.evaluate(scope, shares=given)
            for name, p in model.local_prior(x).items():
                value = value + _rows(p, m_global | m_local, name)
            return jnp.sum(weights * value)

        return jax.grad(total)(m), ()

    return over_blocks(block, (data.values, data.weights, shares, local), *data.cuts)[0]


def _rows(p: Any, m: Means, name: str) -> Array:
    return rows_sum(prior_terms(p, m, name))
