"""A product of different families: mixed columns, or all the blocks of a model as one family."""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..errors import InvalidParameter
from ._family import Family, Vector
from ._pair import Pair

REAL = "real"  # the name of the factor whose locations are moved; its columns come first


class ProductVector(Vector):
    """One vector for each of the `factors`, by name."""

    factors: dict[str, Any]

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(kind for name in sorted(self.factors) for kind in self.factors[name].kinds)

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(rank for name in sorted(self.factors) for rank in self.factors[name].ranks)

    @property
    def width(self) -> int | None:
        return self.factors[REAL].width if REAL in self.factors else None

    def moved(self, shift: Float[Array, " d"]) -> Self:
        return type(self)(self.factors | {REAL: self.factors[REAL].moved(shift[: self.width])})

    def features(self) -> Float[Array, "*b f"]:
        return jnp.concatenate([self.factors[name].features() for name in sorted(self.factors)], axis=-1)

    def weights(self) -> Float[Array, "*b f"]:
        return jnp.concatenate([self.factors[name].weights() for name in sorted(self.factors)], axis=-1)


class Product(Family):
    """Independent `factors`, given by name (`rate=tp.Gamma(1, 1)`); a draw is a dictionary."""

    factors: dict[str, Family]

    def __init__(self, **factors: Family):
        self.factors = factors

    @property
    def natural(self) -> ProductVector:
        return ProductVector({name: factor.natural for name, factor in self.factors.items()})

    def with_natural(self, natural: ProductVector) -> Self:
        return type(self)(**{name: factor.with_natural(natural.factors[name]) for name, factor in self.factors.items()})

    def log_normaliser(self) -> Float[Array, "*b"]:
        return sum((factor.log_normaliser() for factor in self.factors.values()), start=jnp.zeros(()))

    def is_proper(self) -> Bool[Array, "*b"]:
        proper: Any = True
        for factor in self.factors.values():
            proper = proper & factor.is_proper()
        return proper

    def sample(self, key: Key[Array, ""]) -> dict[str, Any]:
        keys = jax.random.split(key, len(self.factors))
        return {name: factor.sample(k) for (name, factor), k in zip(self.factors.items(), keys, strict=True)}

    def statistics(self, draw: dict[str, Any]) -> ProductVector:
        return ProductVector({name: factor.statistics(draw[name]) for name, factor in self.factors.items()})

    def mode(self) -> dict[str, Any]:
        return {name: factor.mode() for name, factor in self.factors.items()}

    def described(self) -> dict[str, Any]:
        return {
            f"{name} {column}": value
            for name, factor in self.factors.items()
            for column, value in factor.described().items()
        }

    @classmethod
    def from_mean(cls, mean: ProductVector, guess: Self | None = None) -> Self:
        if guess is None:
            raise InvalidParameter("Product.from_mean needs a guess, which says what the factors are")
        return cls(**{name: factor.match(mean.factors[name]) for name, factor in guess.factors.items()})

    def worth(self, times: float) -> Self:
        return type(self)(**{name: factor.worth(times) for name, factor in self.factors.items()})

    def mix_means(self, other: Self, rate: ArrayLike) -> Self:
        return type(self)(
            **{name: factor.mix_means(other.factors[name], rate) for name, factor in self.factors.items()}
        )


class ProductPair(Pair):
    """Likelihoods as `factors`, given by name, one for each part of a datum, which is a dictionary with the same
    names."""

    factors: dict[str, Pair]

    def __init__(self, **factors: Pair):
        self.factors = factors

    def statistics(self, x: dict[str, Any]) -> ProductVector:
        return ProductVector({name: pair.statistics(x[name]) for name, pair in self.factors.items()})

    def log_base(self, x: dict[str, Any]) -> Float[Array, " n"]:
        return sum((pair.log_base(x[name]) for name, pair in self.factors.items()), start=jnp.zeros(()))

    def sample(self, key: Key[Array, ""], draw: dict[str, Any]) -> dict[str, Any]:
        keys = jax.random.split(key, len(self.factors))
        return {name: pair.sample(k, draw[name]) for (name, pair), k in zip(self.factors.items(), keys, strict=True)}

    def default_prior(self, x: dict[str, Any], size: int) -> Product:
        return Product(**{name: pair.default_prior(x[name], size) for name, pair in self.factors.items()})
