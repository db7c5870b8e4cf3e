"""The exact predictive density of a new datum that depends on each block through one factor at most.

Then log ∫ q(θ) p(x | θ) dθ = log h(x) + A(η + T(x)) − A(η) for each value of the discrete latents, and T(x) and
log h(x) are the gradient and the value of the factor at zero statistics.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..families import Beta, BetaVector, Dirichlet, DirichletVector, Gaussian, NormalWishart
from ..models._model import Means, Posterior, means
from .scope import Scope, quick_block
from .spec import RESPONSES, Quantity, Spec
from .tables import Table

if TYPE_CHECKING:
    from .compiled import GraphModel


def expected_probabilities(q: Posterior) -> Means:
    """Statistics of Dirichlet and Beta blocks with log E[π] in place of E[log π]."""
    found: Means = {}
    for name, block in q.blocks.items():
        if isinstance(block, Dirichlet):
            delta = block.concentration
            found[name] = DirichletVector(jnp.log(delta) - jnp.log(jnp.sum(delta, axis=-1, keepdims=True)))
        elif isinstance(block, Beta):
            total = jnp.log(block.a + block.b)
            found[name] = BetaVector(jnp.log(block.a) - total, jnp.log(block.b) - total)
    return found


def exact_predictive(model: GraphModel, q: Posterior, x: Any) -> Float[Array, " n"] | None:
    spec = model.spec
    if model.local_groups or not meets_once(spec):
        return None
    m = means(q.blocks) | expected_probabilities(q)
    tables = {}
    for v in spec.observed:
        if not v.discrete:
            table = _table(model, q, x, v)
            if table is None:
                return None
            tables[v.name] = table
    return model.evaluate(Scope(spec, model.constants, m, x), tables=tables)


def meets_once(spec: Spec) -> bool:
    """Whether no two factors of one datum, and no two members of a plate, depend on the same member of a block."""
    met: set[str] = set()
    for v in spec:
        if not v.random or not spec.local(v):
            continue
        if v.kind in ("markov_chain", "gaussian_chain", *RESPONSES) or (v.kind == "normal" and v.parent("precision")):
            return False
        blocks = spec.factor_blocks(v.name) - {v.name}
        for _, parent in v.parents:
            here = spec[parent]
            if here.kind == "gate":
                here = spec[here.parent("of")]
            if here.kind not in ("fixed", "constant"):
                return False
            # On further plates of the variable, each member must depend on a different member of the block.
            if here.kind == "fixed" and not set(v.plates) - {spec.data_plate} <= set(here.plates):
                return False
        if blocks & met or len(blocks) > 1:
            return False
        met |= blocks
    return True


def _table(model: GraphModel, q: Posterior, x: Any, v: Quantity) -> Table | None:
    spec = model.spec
    blocks = spec.factor_blocks(v.name)
    if not blocks:
        return None
    (name,) = blocks
    block = q.blocks[name]
    if type(block).__name__ != spec[name].family:
        return None  # of another family, such as a point
    if quick_block(spec, v) == name and isinstance(block, NormalWishart):
        (index,) = spec.gates(v.parent("mean"))
        rows = jnp.nan_to_num(x[v.name])
        return Table((0, spec.state_axis(index)), Gaussian().log_predictive(block, rows))
    # A copy of the block for each datum, so that the gradient is T(x) of each.
    copies = dataclasses.replace(spec[name], plates=(spec.data_plate, *spec[name].plates))
    others = tuple(copies if u.name == name else u for u in spec)
    wide = dataclasses.replace(spec, quantities=others)
    n = jax.tree.leaves(x)[0].shape[0]
    zero = jax.tree.map(lambda leaf: jnp.zeros((n, *leaf.shape)), block.natural)

    def factor(m: Any) -> Table:
        return Scope(wide, model.constants, {name: m}, x).factor(v.name)

    axes = factor(zero).axes
    statistics = jax.grad(lambda m: jnp.sum(factor(m).array))(zero)
    updated = block.with_natural(jax.tree.map(lambda eta, t: eta[None] + t, block.natural, statistics))
    gain = updated.log_normaliser() - block.log_normaliser()[None]
    # The gain has the axes of the block's plates; a gate has turned one of them into the values of its index.
    plates = (0, *sorted(spec.axis(p) for p in spec[name].plates))
    base = factor(zero).array
    gates = spec.factor_gates(v.name)
    if gates:
        (index,) = gates
        (selected,) = set(spec[name].plates) - set(v.plates)
        place = plates.index(spec.axis(selected))
        gain = jnp.moveaxis(gain, place, -1)
        assert axes[-1] == spec.state_axis(index)
    if gain.shape != jnp.broadcast_shapes(base.shape, gain.shape) or gain.ndim != base.ndim:
        return None
    return Table(axes, gain + base)
