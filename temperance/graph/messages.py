"""The factors of a graph for message passing: each datum's discrete latents, jointly, are its configurations.

In a Markov chain every step is a factor, whose configurations are pairs: the state before the step and the state at it.

Given their values c, the graph is log p(x, c | θ) = ⟨T_c, t(θ)⟩ + log h_c wherever no two blocks meet in one factor;
T_c is its derivative in the statistics.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..families import Family
from ..models._data import Data
from ..models._factors import Factors, LinearTerms, written_out
from ..numerics.chains import FIRST, ON
from .analysis import coupling
from .elimination import LARGEST, chain_tables
from .spec import RESPONSES, Quantity, Spec
from .tables import Table

if TYPE_CHECKING:
    from .compiled import GraphModel


def obstacle(model: GraphModel) -> str:
    """Why a graph has no factors for message passing, as the end of a sentence; empty if it has them."""
    spec = model.spec
    for q in spec:
        if q.kind in RESPONSES:
            return f"the factor of {q.name!r} ({q.kind.replace('_', ' ')}) is no finite sum of conjugate terms"
        if not q.latent or q.kind == "fixed":
            continue
        if q.kind == "markov_chain":
            if reason := _broken_chain(spec, q):
                return reason
            continue
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


def chain(spec: Spec) -> Quantity | None:
    return next((q for q in spec if q.kind == "markov_chain"), None)


def _broken_chain(spec: Spec, q: Quantity) -> str:
    """Why the steps of a chain are not its factors; empty if they are."""
    if set(q.plates[:-1]) != {spec.data_plate} or any(other.discrete and other.latent for other in spec if other != q):
        return f"{q.name!r} is not the only discrete latent of each series"
    met = [other for other in spec if spec.local(other) and (other.random or other.kind == "input")]
    apart = [other.name for other in met if q.plates[-1] not in other.plates]
    if apart:
        return f"{apart[0]!r} belongs to a whole series, not to a step of {q.name!r}"
    return "" if q.size**2 <= LARGEST else f"{q.name!r} has {q.size} states, and pairs of them are written out"


def factors(model: GraphModel, data: Data) -> Factors:
    if chain(model.spec) is not None:
        return _steps(model, data)

    def log_terms(m: Any, row: Any) -> Float[Array, " c"]:
        return log_configurations(model, m, jax.tree.map(lambda leaf: leaf[None], row))[0]

    prior = {name: p for name, p in model.prior.items() if isinstance(p, Family)}
    return Factors(written_out(log_terms, prior, data.values), data.weights > 0, LinearTerms())


def _steps(model: GraphModel, data: Data) -> Factors:
    """Factors for every step as a series of length one: without the prior of its state, only the emission remains."""
    q = chain(model.spec)
    assert q is not None
    time, state = q.plates[-1], model.spec.state_axis(q.name)
    spec = dataclasses.replace(
        model.spec, sizes=tuple((plate, 1 if plate == time else size) for plate, size in model.spec.sizes)
    )
    alone = model._with(spec=spec)
    length = dict(model.spec.sizes)[time]

    def place(name: str) -> int:
        """The axis of time in a column."""
        return sorted(spec.axis(plate) for plate in spec[name].plates).index(spec.axis(time))

    def log_terms(m: Any, row: Any) -> Float[Array, " c"]:
        x = {name: jnp.moveaxis(column[None, None], 1, place(name)) for name, column in row[0].items()}
        scope = alone.scope(m, x)
        first, step = (table.array for table in chain_tables(scope, q))
        sure = jnp.eye(q.size)[:, None, None]
        each = [alone.evaluate(scope, shares={q.name: Table((0, state), one)})[0] for one in sure]
        enters = jnp.where(jnp.arange(q.size)[:, None] == 0, first[None], -jnp.inf)
        return (jnp.where(row[1], enters, step.T) + (jnp.stack(each) - first)[None]).reshape(-1)

    moved = {name: jnp.moveaxis(column, place(name), 1) for name, column in data.values.items()}
    rows = {name: column.reshape((-1, *column.shape[2:])) for name, column in moved.items()}
    n = data.weights.shape[0]
    starts = jnp.full((n, length), ON, dtype=jnp.int8).at[:, 0].set(FIRST).reshape(-1)
    prior = {name: p for name, p in model.prior.items() if isinstance(p, Family)}
    each = written_out(log_terms, prior, (rows, starts == FIRST))
    return Factors(each, jnp.repeat(data.weights > 0, length), LinearTerms(), starts)


def log_configurations(model: GraphModel, m: Any, x: Any) -> Float[Array, "n c"]:
    """log p(x, c | θ) of each datum: the factors of the graph with every latent fixed at its value in c."""
    spec, scope = model.spec, model.scope(m, x)
    n = jax.tree.leaves(x)[0].shape[0]
    names = spec.summed_out
    found = []
    for values in itertools.product(*(range(spec[name].size) for name in names)):
        sure = {
            name: Table((0, spec.state_axis(name)), jax.nn.one_hot(jnp.full(n, value), spec[name].size))
            for name, value in zip(names, values, strict=True)
        }
        found.append(model.evaluate(scope, shares=sure))
    return jnp.stack(found, axis=1)
