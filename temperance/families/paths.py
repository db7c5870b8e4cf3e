"""Paths of a Markov chain whose tables differ from step to step: q(s) ∝ exp{a_(s_1) + Σ_t b_t(s_(t−1), s_t)}."""

from __future__ import annotations

from typing import ClassVar, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from ._family import Family, Vector


class PathsVector(Vector):
    """η = (a, b), t(s) = (1[s_1 = k], 1[s_(t−1) = i, s_t = j])."""

    first: Float[Array, "*b k"]
    moves: Float[Array, "*b t k k"]

    kinds: ClassVar[tuple[str, ...]] = ("vector", "matrix")

    @property
    def ranks(self) -> tuple[int, ...]:
        return 1, 3

    @property
    def shares(self) -> Float[Array, "*b u k"]:
        """The probability of each state at every step, when `self` holds statistics or means."""
        return jnp.concatenate([self.first[..., None, :], jnp.sum(self.moves, axis=-2)], axis=-2)


class Paths(Family):
    """A distribution over whole paths, with a leading axis of sequences; draws are the numbers of the states."""

    natural: PathsVector

    def __init__(self, natural: PathsVector):
        self.natural = natural

    def _ahead(self) -> tuple[Float[Array, "n k"], Float[Array, "t n k"]]:
        """The log of the sum over all steps after a step, given its state: for the first step (n, k), and for the
        second to the last (t, n, k)."""
        moves = jnp.moveaxis(self.natural.moves, 1, 0)

        def back(after: Array, table: Array) -> tuple[Array, Array]:
            return jax.nn.logsumexp(table + after[:, None, :], axis=-1), after

        return jax.lax.scan(back, jnp.zeros_like(self.natural.first), moves, reverse=True)

    def log_normaliser(self) -> Float[Array, " n"]:
        return jax.nn.logsumexp(self.natural.first + self._ahead()[0], axis=-1)

    def is_proper(self) -> Bool[Array, " n"]:
        return jnp.isfinite(self.log_normaliser())

    def sample(self, key: Key[Array, ""]) -> Int[Array, "n u"]:
        first, after = self._ahead()
        key_first, key_rest = jax.random.split(key)
        state = jax.random.categorical(key_first, self.natural.first + first)

        def step(state: Array, part: tuple[Array, Array, Key[Array, ""]]) -> tuple[Array, Array]:
            table, after, key = part
            rows = jnp.take_along_axis(table, state[:, None, None], axis=1)[:, 0]
            fresh = jax.random.categorical(key, rows + after)
            return fresh, fresh

        moves = jnp.moveaxis(self.natural.moves, 1, 0)
        keys = jax.random.split(key_rest, moves.shape[0])
        rest = jax.lax.scan(step, state, (moves, after, keys))[1]
        return jnp.concatenate([state[:, None], rest.T], axis=1)

    def statistics(self, draw: Int[Array, "n u"]) -> PathsVector:
        share = jax.nn.one_hot(draw, self.natural.first.shape[-1], dtype=jnp.float64)
        return PathsVector(share[:, 0], share[:, :-1, :, None] * share[:, 1:, None, :])

    def mode(self) -> Int[Array, "n u"]:
        """The most probable state of every step, step by step (not the most probable path)."""
        return jnp.argmax(self.mean().shares, axis=-1)

    @classmethod
    def from_mean(cls, mean: PathsVector, guess: Self | None = None) -> Self:
        """The member with these means: a Markov chain is known by its first state and its moves given the state
        before."""
        before = jnp.sum(mean.moves, axis=-1, keepdims=True)
        return cls.from_natural(PathsVector(jnp.log(mean.first), jnp.log(mean.moves) - jnp.log(before)))
