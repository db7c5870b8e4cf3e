"""The values of all quantities of a graph, given statistics of its variables and data, computed on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..families import CategoricalDistribution, CategoricalVector, Gamma, GammaVector, Gaussian, Normal, NormalVector
from ..families._family import Family, Packed
from ..numerics.place import on_device
from . import factors, responses, values
from .spec import RESPONSES, Quantity, Spec
from .tables import Axes, Table, spread, weigh
from .values import Value

Constants = Mapping[str, Any]  # arrays, and the families of variables whose parameters are all known


class Scope:
    """The values of a graph's quantities. `states` holds values of discrete variables that would otherwise be latent,
    as in a simulation; `gaps` says that some data may be missing; `expand` names the point around which factors that
    are not conjugate are expanded."""

    def __init__(
        self,
        spec: Spec,
        constants: Constants,
        m: Mapping[str, Any],
        x: Mapping[str, Array] | None = None,
        rows: int | None = None,
        states: Mapping[str, Array] | None = None,
        gaps: bool = True,
        expand: str = "",
    ):
        self.spec, self.constants, self.m, self.x = spec, constants, m, x or {}
        self.states, self.gaps, self.expand = states or {}, gaps, expand
        self._memo: dict[str, Value] = {}
        if rows is None:
            rows = jax.tree.leaves(self.x)[0].shape[0] if self.x else 0
        self.sizes = {spec.axis(plate): size for plate, size in spec.sizes} | {0: rows}

    def axes(self, q: Quantity) -> Axes:
        return tuple(sorted(self.spec.axis(plate) for plate in q.plates))

    def shape(self, q: Quantity) -> tuple[int, ...]:
        return tuple(self.sizes[axis] for axis in self.axes(q))

    def value(self, name: str) -> Value:
        if name not in self._memo:
            self._memo[name] = self._value(self.spec[name])
        return self._memo[name]

    def _value(self, q: Quantity) -> Value:
        parent = {argument: name for argument, name in q.parents}
        if q.kind == "constant":
            return values.known(q.value, self.constants[q.name], self.axes(q))
        if q.name in self.states:
            return Value(self.axes(q), {"index": self.states[q.name]})
        if q.kind == "input" or q.observed:
            return self._seen(q)
        if q.kind == "gate":
            return self._gate(q)
        if q.kind == "dot":
            return values.dot(self.value(parent["left"]), self.value(parent["right"]))
        if q.kind == "sum":
            return values.sum_of(self.value(parent["left"]), self.value(parent["right"]))
        if q.kind == "map":
            return values.linear_map(self.constants[q.name], self.value(parent["of"]))
        if q.kind == "product":
            return values.product(self.value(parent["left"]), self.value(parent["right"]))
        if q.kind == "switches":
            return self._switches(q)
        if q.kind == "diagonal":
            return values.diagonal(self.value(parent["of"]), self._axis_beyond(q))
        return values.of_statistics(q.value, self.m[q.name], self.axes(q))

    def _seen(self, q: Quantity) -> Value:
        x = self.x[q.name]
        x = jnp.where(jnp.isnan(x), _neutral(q), x) if self.gaps else x
        if q.value == "real":
            return Value(self.axes(q), {"mean": x[..., None] if q.scalar else x})
        return values.known(q.value, x, self.axes(q))

    def _gate(self, q: Quantity) -> Value:
        of, index, axis = self.value(q.parent("of")), q.parent("index"), self._axis_beyond(q)
        if self.spec[index].latent and index not in self.states:
            return values.rename(of, axis, self.spec.state_axis(index))
        return values.pick(of, axis, self.value(index).table("index"))

    def _axis_beyond(self, q: Quantity) -> int:
        return self.spec.axis(self.spec.plate_beyond(q, "of"))

    def _switches(self, q: Quantity) -> Value:
        """Binary variables as a vector of zeros and ones: E[z_k z_l] = E[z_k] E[z_l], but E[z_k²] = E[z_k]."""
        z = self.spec[q.parents[0][1]]
        place = self.axes(z).index(self._axis_beyond(q))
        if z.observed or z.name in self.states:
            return Value(self.axes(q), {"mean": jnp.moveaxis(self.value(z.name).fields["index"], place, -1)})
        mean = jnp.moveaxis(self.m[z.name].indicator[..., 1], place, -1)
        own = (mean - jnp.square(mean))[..., None] * jnp.eye(q.size).reshape((1,) * (mean.ndim - 1) + (q.size, q.size))
        return Value(self.axes(q), {"mean": mean, "second": mean[..., :, None] * mean[..., None, :] + own})

    def missing(self, q: Quantity) -> Table:
        """Where the values of an observed variable are missing."""
        x = jnp.isnan(self.x[q.name])
        event = tuple(range(len(q.plates), x.ndim))
        return Table(self.axes(q), jnp.any(x, axis=event) if event else x)

    # ---- factors --------------------------------------------------------------------------------------------

    def factor(self, name: str, own: Value | None = None) -> Table:
        """E log p(name | parents); for a latent discrete variable, one number for each value."""
        q = self.spec[name]
        if q.kind == "fixed":
            p = broadcast(self.constants[name], self.shape(q))
            own_m = self.m[name]
            return Table(self.axes(q), p.natural.dot(own_m) - p.log_normaliser())
        if q.kind == "normal" and (block := quick_block(self.spec, q)) is not None and own is None:
            (index,) = self.spec.gates(q.parent("mean"))
            weights = self.m[block]
            if index not in self.states:
                packed = weights if isinstance(weights, Packed) else Packed(weights.weights())
                rows = self.value(name).fields["mean"]
                return Table((0, self.spec.state_axis(index)), Gaussian().log_likelihood(packed, rows))
        parents = {argument: self.value(parent) for argument, parent in q.parents}
        if q.discrete:
            if q.latent and name not in self.states:
                return factors.states(parents, self.spec.state_axis(name))
            return factors.seen(self.value(name), parents)
        own = self.value(name) if own is None else own
        if q.kind in RESPONSES:
            return responses.factor(self, q, own, parents)
        if q.kind == "normal":
            return factors.normal(own, parents, q.size)
        return {"gamma": factors.gamma, "poisson": factors.poisson, "multinomial": factors.multinomial}[q.kind](
            own, parents
        )

    def averaged(self, table: Table) -> Table:
        """A factor averaged over the discrete variables that have a block in the posterior."""
        for name in self.spec.factorised:
            axis = self.spec.state_axis(name)
            if axis in table.axes:
                table = weigh(table, self.indicator(name), axis)
        return table

    def indicator(self, name: str) -> Table:
        return Table((*self.axes(self.spec[name]), self.spec.state_axis(name)), self.m[name].indicator)

    # ---- a variable as a member of a family -----------------------------------------------------------------

    def zero(self, name: str) -> Any:
        """The zero of the statistics of a variable."""
        q, shape = self.spec[name], self.shape(self.spec[name])
        if q.kind == "fixed":
            return jax.tree.map(jnp.zeros_like, broadcast(self.constants[name], shape).natural)
        if q.discrete:
            return CategoricalVector(jnp.zeros((*shape, q.size)))
        if q.kind == "gamma":
            return GammaVector(jnp.zeros(shape), jnp.zeros(shape))
        return NormalVector(jnp.zeros((*shape, q.size)), jnp.zeros((*shape, q.size, q.size)))

    def affine(self, name: str, own: Any) -> Array:
        """The factor as a function of the variable's own statistics, for each member of its plates."""
        q = self.spec[name]
        if q.kind == "fixed":
            p = broadcast(self.constants[name], self.shape(q))
            return p.natural.dot(own) - p.log_normaliser()
        if q.discrete:
            axes = (*self.axes(q), self.spec.state_axis(name))
            table = self.factor(name)
            for other in self.spec.factorised:
                if other != name and self.spec.state_axis(other) in table.axes:
                    table = weigh(table, self.indicator(other), self.spec.state_axis(other))
            table = weigh(table, Table(axes, own.indicator), self.spec.state_axis(name))
        else:
            table = self.averaged(self.factor(name, values.of_statistics(q.value, own, self.axes(q))))
        return jnp.broadcast_to(spread(table.array, table.axes, self.axes(q)), self.shape(q))

    def known_natural(self, name: str) -> Any:
        """The natural parameter of a Normal whose parents are numbers, without a compilation; None for other
        variables."""
        q = self.spec[name]
        parents = {argument: self.spec[parent] for argument, parent in q.parents}
        arrays = [self.constants.get(parent.name) for parent in parents.values()]
        if q.kind != "normal" or any(a is None or isinstance(a, jax.core.Tracer) for a in arrays):
            return None
        given = {
            argument: spread(np.asarray(array, dtype=np.float64), self.axes(parent), self.axes(q))
            for (argument, parent), array in zip(parents.items(), arrays, strict=True)
        }
        shape, precision = self.shape(q), given["precision"]
        if parents["precision"].value == "positive":
            precision = precision[..., None, None] * np.eye(q.size)
        linear = (precision @ given["mean"][..., None])[..., 0]
        return NormalVector(_on((*shape, q.size), linear), _on((*shape, q.size, q.size), precision))

    def natural(self, name: str) -> Any:
        """The natural parameter of p(name | parents): the gradient of its factor."""
        return jax.grad(lambda own: jnp.sum(self.affine(name, own)))(self.zero(name))

    def log_normaliser(self, name: str) -> Array:
        return -self.affine(name, self.zero(name))

    def family(self, name: str, natural: Any) -> Family:
        q = self.spec[name]
        if q.kind == "fixed":
            return self.constants[name].with_natural(natural)
        if q.discrete:
            return CategoricalDistribution.from_natural(natural)
        return (Gamma if q.kind == "gamma" else Normal).from_natural(natural)


def _on(shape: tuple[int, ...], array: np.ndarray) -> Array:
    return on_device(np.broadcast_to(array, shape))


def _neutral(q: Quantity) -> float:
    """A value inside the support, which stands for a missing one."""
    return 1.0 if q.value == "positive" else 0.5 if q.value == "probability" else 0.0


def broadcast(family: Family, shape: tuple[int, ...]) -> Family:
    """The family with its batch axes broadcast to `shape`, the sizes of its plates."""
    if family.batch_shape == shape:
        return family
    missing = len(shape) - len(family.batch_shape)

    def spread(leaf: Array, rank: int) -> Array:
        event = leaf.shape[leaf.ndim - rank :]
        return jnp.broadcast_to(leaf.reshape((1,) * missing + leaf.shape), shape + event)

    leaves, structure = jax.tree.flatten(family.natural)
    ranks = family.natural.ranks
    return family.with_natural(
        jax.tree.unflatten(structure, [spread(leaf, rank) for leaf, rank in zip(leaves, ranks, strict=True)])
    )


def quick_block(spec: Spec, q: Quantity) -> str | None:
    """The block of Normal-Wishart components of an observed vector chosen by one latent, whose densities are one
    product of packed features."""
    gate = q.parent("mean")
    if not gate or not q.observed or q.plates != (spec.data_plate,) or spec[gate].kind != "gate":
        return None
    of = spec[gate].parent("of")
    block = spec[of]
    if block.kind != "fixed" or block.family != "NormalWishart" or not block.latent or len(block.plates) != 1:
        return None
    return of if spec.gates(gate) else None


def packable(spec: Spec) -> tuple[str, ...]:
    """The `quick_block`s that the graph uses in no other way."""
    quick = {block: q for q in spec if q.kind == "normal" and (block := quick_block(spec, q)) is not None}
    found = []
    for block in quick:
        users = [q for q in spec if q.kind != "gate" and any(block in spec.ancestors(p) for _, p in q.parents)]
        if all(quick_block(spec, q) == block for q in users):
            found.append(block)
    return tuple(found)
