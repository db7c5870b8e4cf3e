"""Matrices of one to three rows, written out: a call to LAPACK costs more than all of their arithmetic."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable

import jax.numpy as jnp
from jax.lax import index_in_dim, optimization_barrier
from jaxtyping import Array, Float

TINY = 3


def _rows(matrix: Float[Array, "*b d m"]) -> list[list[Array]]:
    """The entries, each an array of the batch."""
    rows = [index_in_dim(matrix, i, -2, keepdims=False) for i in range(matrix.shape[-2])]
    return [[index_in_dim(row, j, -1, keepdims=False) for j in range(matrix.shape[-1])] for row in rows]


def _join(rows: list[list[Array]], copied: bool = True) -> Float[Array, "*b d m"]:
    if copied:
        # Fused into what comes before, a concatenation would compute its entries one by one, without vector
        # instructions; behind a barrier it is only a copy.
        rows = optimization_barrier(rows)
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def cholesky(matrix: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    a = _rows(matrix)
    d = len(a)
    factor = [[jnp.zeros_like(a[0][0])] * d for _ in range(d)]
    for j in range(d):
        for i in range(j, d):
            rest = a[i][j]
            for k in range(j):
                rest = rest - factor[i][k] * factor[j][k]
            factor[i][j] = jnp.sqrt(rest) if i == j else rest / factor[j][j]
    # A leading minor that is not positive makes every entry NaN, as LAPACK's failure does.
    valid = factor[d - 1][d - 1] > 0
    # Callers take the entries apart again, so the compiler never assembles the matrix.
    return _join([[jnp.where(valid, entry, jnp.nan) for entry in row] for row in factor], copied=False)


def solve_lower(
    factor: Float[Array, "*b d d"], right: Float[Array, "*b d m"], transposed: bool = False
) -> Float[Array, "*b d m"]:
    """L⁻¹ B, or L⁻ᵀ B."""
    lower, b = _rows(factor), _rows(right)
    d, m = len(b), len(b[0])
    order = range(d - 1, -1, -1) if transposed else range(d)
    solved: dict[int, list[Array]] = {}
    for i in order:
        row = []
        for j in range(m):
            rest = b[i][j]
            for k in solved:
                rest = rest - (lower[k][i] if transposed else lower[i][k]) * solved[k][j]
            row.append(rest / lower[i][i])
        solved[i] = row
    return _join([solved[i] for i in range(d)])


def gram(half: Float[Array, "*b d m"]) -> Float[Array, "*b m m"]:
    """HᵀH."""
    h = _rows(half)
    m = len(h[0])
    entries = {(i, j): add(row[i] * row[j] for row in h) for i in range(m) for j in range(i + 1)}
    return _join([[entries[max(i, j), min(i, j)] for j in range(m)] for i in range(m)])


def add(terms: Iterable[Array]) -> Array:
    """The sum of the terms, without the zero that `sum` starts from."""
    return functools.reduce(operator.add, terms)


def multiply(factors: Iterable[Array]) -> Array:
    return functools.reduce(operator.mul, factors)
