"""The start of a generalised regression on many rows: next to the maximum of its posterior density.

A step H⁻¹g takes the gradient g from all rows (two products of the features with a vector) and the curvature H from a
sample of rows (a product of the features with themselves). Sweeps, each of which forms the latter product twice over
all rows, then have little left to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve
from jaxtyping import Array, Float

from ..families import NormalVector
from ..models._data import Data, over_blocks
from ..models.linear.regression import weighted_squares

if TYPE_CHECKING:
    from ..models.linear.generalised import Cases, GeneralisedRegression

MANY = 2**26  # rows · columns² from which work on the rows outweighs the compilation of more code
_SAMPLE = 2**14  # rows
_BLOCK = 2**10  # rows of a sample at a time
_STEPS = 20  # at most
_ENOUGH = 1e-2  # nats that the next step would gain


class Point(NamedTuple):
    """Weights, and log p(y, w) with its gradient there."""

    weights: Float[Array, " p"]
    value: Float[Array, ""]
    gradient: Float[Array, " p"]


class Sample(NamedTuple):
    cases: Cases
    weights: Float[Array, " s"]


def has_many(features: Float[Array, "n p"]) -> bool:
    return features.shape[0] * features.shape[1] ** 2 >= MANY


def near_maximum(model: GeneralisedRegression, prior: NormalVector, data: Data) -> NormalVector:
    """The natural parameter of a Normal at the maximum of log p(y, w), with the precision of the bound's curvature."""
    few = _sample(data)

    def point(w: Float[Array, " p"]) -> Point:
        return _point(model, prior, data, w)

    def factor(w: Float[Array, " p"]) -> Any:
        def second(x: Cases) -> Array:
            return model.expansion(x.features @ w + x.offset, x.target)[2]

        return cho_factor(prior.precision + _curvature(few, second))

    def slope(x: Cases) -> Array:
        a = x.features @ end + x.offset
        return 2.0 * jax.grad(lambda square: jnp.sum(model.expected(a, square, x.target)))(jnp.square(a))

    end = _climb(point, factor, point(_typical(model, prior, few))).weights
    precision = prior.precision + _curvature(few, slope)
    return NormalVector(precision @ end, precision)


def _typical(model: GeneralisedRegression, prior: NormalVector, few: Sample) -> Float[Array, " p"]:
    """The weights after a step from typical a."""
    x, weights = few
    a = model.typical(x.target)
    _, first, second = model.expansion(a, x.target)
    linear = prior.linear + (weights * (first - second * (a - x.offset))) @ x.features
    curvature = _curvature(few, lambda x: model.expansion(model.typical(x.target), x.target)[2])
    return cho_solve(cho_factor(prior.precision + curvature), linear)


def _climb(point: Any, factor: Any, start: Point) -> Point:
    """Take Newton steps, each shortened to a quarter where log p(y, w) would fall, until the next would gain almost
    nothing."""

    def step(loop: tuple[Point, Array, Array, Array]) -> tuple[Point, Array, Array, Array]:
        here, share, _, number = loop
        curvature = factor(here.weights)
        there = point(here.weights + share * cho_solve(curvature, here.gradient))
        rises = there.value > here.value
        gain = jnp.where(rises, 0.5 * there.gradient @ cho_solve(curvature, there.gradient), jnp.inf)
        kept = jax.tree.map(lambda new, old: jnp.where(rises, new, old), there, here)
        return kept, jnp.where(rises, 1.0, 0.25 * share), gain, number + 1

    def going(loop: tuple[Point, Array, Array, Array]) -> Array:
        return (loop[2] > _ENOUGH) & (loop[3] < _STEPS)

    first = (start, jnp.asarray(1.0), jnp.asarray(jnp.inf), jnp.asarray(0))
    return jax.lax.while_loop(going, step, first)[0]


def _point(model: GeneralisedRegression, prior: NormalVector, data: Data, w: Float[Array, " p"]) -> Point:
    def block(part: tuple[Cases, Array], _: Array) -> tuple[tuple[Array, Array], tuple[()]]:
        x, weights = part
        value, first, _ = model.expansion(x.features @ w + x.offset, x.target)
        return (weights @ value, (weights * first) @ x.features), ()

    (value, gradient), _ = over_blocks(block, (data.values, data.weights), *data.cuts)
    pull = prior.precision @ w
    return Point(w, value + (prior.linear - 0.5 * pull) @ w, gradient + prior.linear - pull)


def _sample(data: Data) -> Sample:
    """Evenly spaced rows, a whole number of blocks of them, and weights with which they stand for all."""
    stride = max(1, data.weights.shape[0] // _SAMPLE)
    size = -(-data.weights.shape[0] // stride)
    size -= size % _blocks(size)
    few, weights = jax.tree.map(lambda leaf: leaf[: size * stride : stride], (data.values, data.weights))
    return Sample(few, weights * (jnp.sum(data.weights) / jnp.maximum(jnp.sum(weights), 1e-300)))


def _curvature(sample: Sample, second: Callable[[Cases], Array]) -> Float[Array, "p p"]:
    """−Σ_n w_n s_n φ_n φ_nᵀ, where `second` gives s_n."""

    def block(part: Sample, _: Array) -> tuple[Array, tuple[()]]:
        return weighted_squares(part.cases.features, -part.weights * second(part.cases)), ()

    return over_blocks(block, sample, _blocks(sample.weights.shape[0]))[0]


def _blocks(rows: int) -> int:
    return max(1, rows // _BLOCK)
