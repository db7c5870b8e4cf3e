"""The interface of a family: natural parameters in a vector space, and one log normaliser.

A family is q(θ) = exp{⟨η, t(θ)⟩ − A(η)} with base measure 1. Its author writes `log_normaliser`, `is_proper`,
`sample`, `statistics` and `from_mean`; everything else follows from A:

    mean = ∇A(η) = E[t(θ)],   entropy = A − ⟨η, ∇A⟩,   KL(η‖η′) = ⟨η − η′, ∇A(η)⟩ − A(η) + A(η′).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from .._module import Module
from ..cards import Card, card
from ..numerics.special import LOG_2PI as LOG_2PI
from ._parameters import as_float as as_float
from ._parameters import require_finite_positive as require_finite_positive

_RANK = {"scalar": 0, "vector": 1, "matrix": 2, "symmetric": 2}


class Vector(Module):
    """A point in the natural-parameter space of one family: η, t(θ), E[t(θ)] or a message.

    Fields are arrays with the same leading batch axes; `kinds` says what the trailing axes of each field are:
    "scalar", "vector", "matrix" or "symmetric". In what follows `other` is a vector of the same family.
    """

    kinds: ClassVar[tuple[str, ...]]

    @property
    def ranks(self) -> tuple[int, ...]:
        """How many trailing axes of each field belong to one event."""
        return tuple(_RANK[kind] for kind in self.kinds)

    def __add__(self, other: Self) -> Self:
        return jax.tree.map(jnp.add, self, other)

    def __sub__(self, other: Self) -> Self:
        return jax.tree.map(jnp.subtract, self, other)

    def __neg__(self) -> Self:
        return jax.tree.map(jnp.negative, self)

    def scale(self, factor: ArrayLike) -> Self:
        """The vector times `factor`, a scalar or an array of the batch shape."""
        if isinstance(factor, float):
            return jax.tree.map(lambda leaf: leaf * factor, self)
        return self._map(lambda leaf, rank: leaf * _right_pad(jnp.asarray(factor), rank))

    __mul__ = scale
    __rmul__ = scale

    def __truediv__(self, divisor: ArrayLike) -> Self:
        return self.scale(1.0 / jnp.asarray(divisor))

    def __getitem__(self, index: Any) -> Self:
        """Index the batch axes."""
        return jax.tree.map(lambda leaf: leaf[index], self)

    def _map(self, function: Callable[[Array, int], Array]) -> Self:
        leaves, structure = jax.tree.flatten(self)
        return jax.tree.unflatten(
            structure, [function(leaf, rank) for leaf, rank in zip(leaves, self.ranks, strict=True)]
        )

    @property
    def batch_shape(self) -> tuple[int, ...]:
        leaf = jax.tree.leaves(self)[0]
        return leaf.shape[: leaf.ndim - self.ranks[0]]

    def dot(self, other: Self) -> Float[Array, "*b"]:
        """⟨self, other⟩ per batch element."""
        total: Any = 0.0
        for left, right, rank in zip(jax.tree.leaves(self), jax.tree.leaves(other), self.ranks, strict=True):
            total = total + jnp.sum(left * right, axis=tuple(range(-rank, 0)))
        return total

    def mix(self, other: Self, rate: ArrayLike) -> Self:
        """(1 − `rate`) · self + `rate` · other: a damped, stochastic or tempered step."""
        return self * (1.0 - jnp.asarray(rate)) + other * rate

    def sum(self, axis: int = 0) -> Self:
        """The sum over one (leading, non-negative) batch `axis`."""
        return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=axis), self)

    def expand(self, axis: int) -> Self:
        """The vector with a batch axis of size one at the (non-negative) position `axis`."""
        return jax.tree.map(lambda leaf: jnp.expand_dims(leaf, axis), self)

    @property
    def width(self) -> int | None:
        """The number of columns that a location has; None where the family is over no location."""
        return None

    def moved(self, shift: Any) -> Self:
        """The natural parameter of θ + `shift` when this one is that of θ."""
        raise TypeError(f"{type(self).__name__} has no location to move")

    def features(self) -> Float[Array, "*b f"]:
        """The vector flattened to one row per batch element, each distinct coordinate once."""
        return jnp.concatenate(
            [_flatten(leaf, kind) for leaf, kind in zip(jax.tree.leaves(self), self.kinds, strict=True)],
            axis=-1,
        )

    def weights(self) -> Float[Array, "*b f"]:
        """The dual of `features`: a.dot(b) = Σ a.features() · b.weights(); off-diagonals count twice."""
        return jnp.concatenate(
            [_flatten(leaf, kind, dual=True) for leaf, kind in zip(jax.tree.leaves(self), self.kinds, strict=True)],
            axis=-1,
        )


class Packed(Module):
    """A vector known by its weights alone, which is all that a product with features needs."""

    flat: Float[Array, "*b f"]

    def weights(self) -> Float[Array, "*b f"]:
        return self.flat


def along_last(shift: Array, target: Array) -> Array:
    """A vector with leading axes of one, as many as the target has."""
    return shift.reshape((1,) * (target.ndim - 1) + (-1,))


def _right_pad(scale: Array, rank: int) -> Array:
    return scale if scale.ndim == 0 else scale.reshape(scale.shape + (1,) * rank)


def _flatten(leaf: Array, kind: str, dual: bool = False) -> Array:
    if kind == "scalar":
        return leaf[..., None]
    if kind == "vector":
        return leaf
    if kind == "matrix":
        return leaf.reshape((*leaf.shape[:-2], -1))
    # A symmetric matrix: its upper triangle holds every coordinate, at half the arithmetic.
    rows, columns = np.triu_indices(leaf.shape[-1])
    if not dual:
        return leaf[..., rows, columns]
    # Both halves, so that the derivative of a product with the dual is a symmetric matrix again.
    scale = np.where(rows == columns, 0.5, 1.0).reshape((1,) * (leaf.ndim - 2) + (-1,))
    return (leaf[..., rows, columns] + leaf[..., columns, rows]) * scale


class ClosedForm(NamedTuple):
    """A(η) and ∇A(η), as `closed_form` makes them from a function that returns both."""

    log_normaliser: Callable[[Any], Array]
    value_and_mean: Callable[[Any], tuple[Array, Any]]


def family_line(family: Any) -> str:
    """A family in a few words: its name and its batch."""
    batch = " × ".join(map(str, getattr(family, "batch_shape", ())))
    return type(family).__name__ + (f" ({batch})" if batch else "")


class Family(Card, Module):
    """An exponential family with base measure 1, stored by its `natural` parameters, a `Vector`.

    In what follows `other` is a member of the same family, and `key` is a JAX key.
    """

    def _card(self) -> str:
        found = {name: np.asarray(values) for name, values in self.described().items()}
        rank = len(self.batch_shape)
        size = int(np.prod(self.batch_shape, dtype=int))
        flat = {name: values.reshape((size, *values.shape[rank:])) for name, values in found.items()}
        cells = [
            [np.array2string(value, precision=4, threshold=6) for value in values[:12]] for values in flat.values()
        ]
        rows = [[str(place), *row] for place, row in enumerate(zip(*cells, strict=True))]
        lines = [f"and {size - 12} more"] if size > 12 else []
        return card(family_line(self), lines, table=[["", *flat], *rows] if flat else ())

    if TYPE_CHECKING:

        @property
        def natural(self) -> Any: ...
    else:
        natural: eqx.AbstractVar[Any]  # a field, or a property of a family made of families

    closed: ClassVar[ClosedForm | None] = None  # A(η) and ∇A(η), where they have a closed form

    def log_normaliser(self) -> Float[Array, "*b"]:
        """A(η)."""
        assert self.closed is not None, "a family without a closed form says how A(η) is computed"
        return self.closed.log_normaliser(self.natural)

    @abstractmethod
    def is_proper(self) -> Bool[Array, "*b"]:
        """Whether η is inside the domain, so that the density can be normalised."""

    @abstractmethod
    def sample(self, key: Key[Array, ""]) -> Any:
        """One draw per batch element."""

    @abstractmethod
    def statistics(self, draw: Any) -> Any:
        """t(θ) of a `draw` θ."""

    @abstractmethod
    def mode(self) -> Any:
        """The θ that maximises ⟨η, t(θ)⟩ (on the boundary where there is no interior maximum)."""

    @classmethod
    @abstractmethod
    def from_mean(cls, mean: Any, guess: Self | None = None) -> Self:
        """The member with E[t(θ)] = `mean`; an iterative family starts from `guess`."""

    def described(self) -> dict[str, Any]:
        """Parameters that people read, as columns with the batch axes; empty where a family has none."""
        return {}

    @classmethod
    def from_natural(cls, natural: Any) -> Self:
        family = object.__new__(cls)
        object.__setattr__(family, "natural", natural)
        return family

    def with_natural(self, natural: Any) -> Self:
        """The member of the same family with this `natural` parameter."""
        return type(self).from_natural(natural)

    def worth(self, times: float) -> Self:
        """The prior that counts as `times` as many observations: this density to the power `times`, normalised."""
        return self.with_natural(self.natural.scale(times))

    def match(self, mean: Any) -> Self:
        """The member of the same family with E[t(θ)] = `mean`; a search for it starts from this member."""
        return type(self).from_mean(mean, self)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.natural.batch_shape

    def __getitem__(self, index: Any) -> Self:
        """Index the batch axes."""
        return self.with_natural(self.natural[index])

    def mean(self) -> Any:
        """E[t(θ)] = ∇A(η)."""
        return self.value_and_mean()[1]

    def value_and_mean(self) -> tuple[Float[Array, "*b"], Any]:
        """(A(η), ∇A(η)) together, sharing the factorisation that both need."""
        if self.closed is not None:  # faster to trace than a derivative
            return self.closed.value_and_mean(self.natural)
        value, pull = jax.vjp(lambda natural: self.with_natural(natural).log_normaliser(), self.natural)
        return value, pull(jnp.ones_like(value))[0]

    def log_prob(self, draw: Any) -> Float[Array, "*b"]:
        """The log density of a `draw` θ: ⟨η, t(θ)⟩ − A(η)."""
        return self.natural.dot(self.statistics(draw)) - self.log_normaliser()

    def entropy(self) -> Float[Array, "*b"]:
        """A(η) − ⟨η, E[t(θ)]⟩."""
        return self.log_normaliser() - self.natural.dot(self.mean())

    def kl(self, other: Self) -> Float[Array, "*b"]:
        """KL(self ‖ other), by its Bregman form."""
        difference = self.natural - other.natural
        divergence = difference.dot(self.mean()) - self.log_normaliser() + other.log_normaliser()
        return jnp.maximum(divergence, 0.0)  # between near neighbours rounding can leave it just below zero

    def mix(self, other: Self, rate: ArrayLike) -> Self:
        """The member at (1 − `rate`) η + `rate` η′: a point on the geometric path between the two densities."""
        return self.with_natural(self.natural.mix(other.natural, rate))

    def mix_means(self, other: Self, rate: ArrayLike) -> Self:
        """The member with the mean (1 − `rate`) E[t] + `rate` E′[t]: the closest in KL to a mixture of the two
        densities."""
        return self.match(self.mean().mix(other.mean(), rate))

    def scale(self, power: ArrayLike) -> Self:
        """The density to this `power`, normalised again (the base measure is 1)."""
        return self.with_natural(self.natural.scale(power))

    def __add__(self, message: Any) -> Self:
        """Posterior = prior + statistics."""
        return self.with_natural(self.natural + message)

    def __sub__(self, message: Any) -> Self:
        """Cavity = posterior − message; it may be improper."""
        return self.with_natural(self.natural - message)


def closed_form(value_and_mean: Callable[[Any], tuple[Array, Any]]) -> ClosedForm:
    """A(η) with a derivative rule that shares the factorisation of `value_and_mean(natural)`, which returns (A, ∇A).

    Both may be differentiated in either mode and again.
    """
    # Traced once per shape, however often a sweep uses it.
    value_and_mean = jax.jit(value_and_mean)

    @jax.custom_jvp
    def log_normaliser(natural: Any) -> Array:
        return value_and_mean(natural)[0]

    @log_normaliser.defjvp
    def _(primals, tangents):  # type: ignore[no-untyped-def]
        (natural,), (tangent,) = primals, tangents
        value, mean = value_and_mean(natural)
        return value, mean.dot(tangent)

    return ClosedForm(log_normaliser, value_and_mean)
