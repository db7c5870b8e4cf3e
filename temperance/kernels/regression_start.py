"""Where a generalised regression on many rows begins: next to its maximum.

A step H⁻¹g has the gradient g of all rows, two products of the features with a vector, and the curvature H of a sample
of them, their product with themselves. Sweeps, each of which forms that product twice over all rows, then have little
left to do.
"""

from __future__ import annotations

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
_STEPS = 20  # at most
_ENOUGH = 1e-2  # nats that the next step would gain


class Point(NamedTuple):
    """Weights, and log p(y, w) with its gradient there."""

    weights: Float[Array, " p"]
    value: Float[Array, ""]
    gradient: Float[Array, " p"]


def has_many(features: Float[Array, "n p"]) -> bool:
    return features.shape[0] * features.shape[1] ** 2 >= MANY


def near_maximum(model: GeneralisedRegression, prior: NormalVector, data: Data) -> NormalVector:
    """The natural parameter of a Normal at the maximum of log p(y, w), with the precision of the bound's curvature."""
    few, share = _sample(data)

    def curvature(each: Float[Array, " s"]) -> Float[Array, "p p"]:
        return prior.precision + weighted_squares(few.features, share * each)

    def point(w: Float[Array, " p"]) -> Point:
        return _point(model, prior, data, w)

    def factor(w: Float[Array, " p"]) -> Any:
        _, _, second = model.expansion(few.features @ w + few.offset, few.target)
        return cho_factor(curvature(-second))

    a = model.typical(few.target)
    _, first, second = model.expansion(a, few.target)
    linear = prior.linear + (share * (first - second * (a - few.offset))) @ few.features
    start = cho_solve(cho_factor(curvature(-second)), linear)
    end = _climb(point, factor, point(start)).weights
    a = few.features @ end + few.offset
    slope = jax.grad(lambda square: jnp.sum(model.expected(a, square, few.target)))(jnp.square(a))
    precision = curvature(-2.0 * slope)
    return NormalVector(precision @ end, precision)


def _climb(point: Any, factor: Any, start: Point) -> Point:
    """Newton's steps, a quarter of one where log p(y, w) would fall, until the next would gain nothing."""

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


def _sample(data: Data) -> tuple[Cases, Float[Array, " s"]]:
    """Evenly spaced rows, and weights with which they stand for all of them."""
    stride = max(1, data.weights.shape[0] // _SAMPLE)
    few, weights = jax.tree.map(lambda leaf: leaf[::stride], (data.values, data.weights))
    return few, weights * (jnp.sum(data.weights) / jnp.maximum(jnp.sum(weights), 1e-300))
