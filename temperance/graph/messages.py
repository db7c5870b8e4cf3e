"""The factors of a graph for message passing: each datum's discrete latents, jointly, are its configurations.

Given their values c, the graph is log p(x, c | θ) = ⟨T_c, t(θ)⟩ + log h_c wherever no two blocks meet in one factor;
T_c is its derivative in the statistics.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..families import Family
from ..models._data import Data
from ..models._factors import Factors, LinearTerms, written_out
from .analysis import coupling
from .elimination import LARGEST
from .tables import Table

if TYPE_CHECKING:
    from .compiled import GraphModel


def obstacle(model: GraphModel) -> str:
    """Why a graph has no such factors, as the end of a sentence; empty where it has."""
    spec = model.spec
    for q in spec:
        if not q.latent or q.kind == "fixed":
            continue
        if q.kind == "markov_chain":
            return f"the paths of {q.name!r} cannot be written out; tp.HMM can sum along them"
        if spec.local(q) and q.name not in spec.summed_out:
            return f"{q.name!r} of each datum is not summed out"
        if q.discrete and set(q.plates) != {spec.data_plate}:
            return f"{q.name!r} " + ("has several values for each datum" if spec.local(q) else "is shared by all data")
    names = tuple(q.name for q in spec if q.latent and not spec.local(q))
    for name, others in coupling(spec, names).items():
        if others:
            return f"{name!r} and {min(others)!r} meet in one factor, which is not linear in both together"
    size = 1
    for name in spec.summed_out:
        size *= spec[name].size
    return f"its discrete latents have {size} joint values, and at most {LARGEST} are written out" * (size > LARGEST)


def factors(model: GraphModel, data: Data) -> Factors:
    def log_terms(m: Any, row: Any) -> Float[Array, " c"]:
        return _each_configuration(model, m, jax.tree.map(lambda leaf: leaf[None], row))

    prior = {name: p for name, p in model.prior.items() if isinstance(p, Family)}
    return Factors(written_out(log_terms, prior, data.values), data.weights > 0, LinearTerms())


def _each_configuration(model: GraphModel, m: Any, x: Any) -> Float[Array, " c"]:
    """log p(x, c | θ) of one datum: the graph averaged over latents that are certain."""
    spec, scope = model.spec, model.scope(m, x)
    names = spec.summed_out
    found = []
    for values in itertools.product(*(range(spec[name].size) for name in names)):
        sure = {
            name: Table((0, spec.state_axis(name)), jax.nn.one_hot(jnp.full(1, value), spec[name].size))
            for name, value in zip(names, values, strict=True)
        }
        found.append(model.evaluate(scope, shares=sure)[0])
    return jnp.stack(found)
