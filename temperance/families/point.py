"""A family at zero temperature: all its mass on the mode. Coordinate ascent over it is EM."""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from ._family import Family


class Point(Family):
    """All mass at the mode of `inner`, a family: A(η) = max_θ ⟨η, t(θ)⟩, so that the mean is t(mode) and the entropy 0.

    As a prior, the zero vector is flat: it adds nothing, which makes EM maximum likelihood.
    """

    inner: Family

    def __init__(self, inner: Family):
        self.inner = inner

    @property
    def natural(self) -> Any:
        return self.inner.natural

    def with_natural(self, natural: Any) -> Self:
        return type(self)(self.inner.with_natural(natural))

    def mean(self) -> Any:
        return self.inner.statistics(self.inner.mode())

    def log_normaliser(self) -> Float[Array, "*b"]:
        leaves = jax.tree.leaves(self.natural)
        flat = jnp.all(jnp.asarray([jnp.all(leaf == 0.0) for leaf in leaves]))
        return jnp.where(flat, 0.0, self.natural.dot(self.mean()))

    def entropy(self) -> Float[Array, "*b"]:
        return jnp.zeros(self.batch_shape)

    def is_proper(self) -> Bool[Array, "*b"]:
        mode = jax.tree.leaves(self.inner.mode())
        batch = len(self.batch_shape)
        finite = [jnp.all(jnp.isfinite(leaf), axis=tuple(range(batch, leaf.ndim))) for leaf in mode]
        return jnp.all(jnp.stack(finite), axis=0)

    def sample(self, key: Key[Array, ""]) -> Any:
        return self.inner.mode()

    def statistics(self, draw: Any) -> Any:
        return self.inner.statistics(draw)

    def mode(self) -> Any:
        return self.inner.mode()

    def described(self) -> dict[str, Any]:
        mode = self.mode()
        if not hasattr(mode, "_asdict"):
            return {"mode": mode}
        return {name: value for name, value in mode._asdict().items() if value is not None}

    @classmethod
    def from_mean(cls, mean: Any, guess: Self | None = None) -> Self:
        raise TypeError("a point mass has no unique natural parameter, so from_mean is not defined for it")
