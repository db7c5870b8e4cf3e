"""Independent copies along the last batch axis, treated as one event: the columns of a table."""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..errors import InvalidParameter
from ..numerics.place import on_device
from ._family import Family, Vector
from ._pair import Pair
from .normal_gamma import NormalGammaVector


class IndependentVector(Vector):
    """A vector of the `inner` family whose last batch axis belongs to the event."""

    inner: Any

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.inner.kinds

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(rank + 1 for rank in self.inner.ranks)

    @property
    def width(self) -> int | None:
        return self.inner.batch_shape[-1] if isinstance(self.inner, NormalGammaVector) else None

    def moved(self, shift: Float[Array, " d"]) -> Self:
        return type(self)(self.inner.moved(shift))

    def features(self) -> Float[Array, "*b f"]:
        return _join(self.inner.features())

    def weights(self) -> Float[Array, "*b f"]:
        return _join(self.inner.weights())


def _join(columns: Float[Array, "*b d f"]) -> Float[Array, "*b g"]:
    return columns.reshape((*columns.shape[:-2], -1))


class Independent(Family):
    """A product of independent members of one family, one for each column: the last batch axis of `inner`."""

    inner: Family

    def __init__(self, inner: Family):
        self.inner = inner

    @property
    def natural(self) -> IndependentVector:
        return IndependentVector(self.inner.natural)

    def with_natural(self, natural: IndependentVector) -> Self:
        return type(self)(self.inner.with_natural(natural.inner))

    def log_normaliser(self) -> Float[Array, "*b"]:
        return jnp.sum(self.inner.log_normaliser(), axis=-1)

    def is_proper(self) -> Bool[Array, "*b"]:
        return self.inner.is_proper().all(axis=-1)

    def sample(self, key: Key[Array, ""]) -> Any:
        return self.inner.sample(key)

    def statistics(self, draw: Any) -> IndependentVector:
        return IndependentVector(self.inner.statistics(draw))

    def mode(self) -> Any:
        return self.inner.mode()

    def described(self) -> dict[str, Any]:
        return self.inner.described()

    @classmethod
    def from_mean(cls, mean: IndependentVector, guess: Self | None = None) -> Self:
        if guess is None:
            raise InvalidParameter("Independent.from_mean needs a guess, which says what the inner family is")
        return cls(guess.inner.match(mean.inner))

    def worth(self, times: float) -> Self:
        return type(self)(self.inner.worth(times))

    def mix_means(self, other: Self, rate: ArrayLike) -> Self:
        return type(self)(self.inner.mix_means(other.inner, jnp.asarray(rate)[..., None]))


class IndependentPair(Pair):
    """The likelihood `inner` for every column; NaN stands for a column that was not seen, which adds nothing."""

    inner: Pair

    def check(self, x: np.ndarray) -> np.ndarray:
        return self.inner.check(x)

    def complete(self, x: np.ndarray) -> Self:
        return type(self)(self.inner.complete(x))

    def coordinates(self, x: Float[Array, "n d"]) -> Float[Array, "n c"]:
        filled = jnp.where(jnp.isnan(x), 0.0, x)
        rows = self.inner.coordinates(filled)
        return rows.reshape((x.shape[0], -1))

    def statistics(self, x: Float[Array, "n d"]) -> IndependentVector:
        seen = ~jnp.isnan(x)
        inner = self.inner.statistics(jnp.where(seen, x, 0.0))
        return IndependentVector(inner * seen.astype(x.dtype))

    def log_base(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        seen = ~jnp.isnan(x)
        return jnp.sum(jnp.where(seen, self.inner.log_base(jnp.where(seen, x, 0.0)), 0.0), axis=-1)

    def sample(self, key: Key[Array, ""], draw: Any) -> Float[Array, "*b d"]:
        return self.inner.sample(key, draw)

    def default_prior(self, x: Float[Array, "n d"], size: int) -> Independent:
        columns = [self.inner.default_prior(x[:, d], size) for d in range(x.shape[1])]
        return Independent(jax.tree.map(lambda *leaves: on_device(np.stack(leaves, axis=1)), *columns))
