"""Generalised regressions on many rows: E[a²] = (E a)² + φᵀΣφ, its second part in single precision.

Autodiff of `log_evidence` forms φᵀ E[wwᵀ] φ wholly in double precision, and both triangles of a symmetric product.
Single precision does not visibly change the bound: φᵀΣφ enters the bound as ½ Σ_n 2λ_n φᵀΣφ ≤ ½ tr(ΛΣ), half the number
of weights, and seven digits of that are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..families import NormalVector
from ..models._blocks import Means, Walked, Way
from ..models._data import Data, over_blocks
from ..models.linear.regression import weighted_squares
from . import engine
from .regression_start import has_many

if TYPE_CHECKING:
    from ..models.linear.generalised import Cases, GeneralisedRegression

_FAMILIES = (
    "LogisticRegression",
    "ProbitRegression",
    "PoissonRegression",
    "OrderedRegression",
    "CensoredRegression",
    "TruncatedRegression",
)


def when(model: GeneralisedRegression, data: Data, way: Way) -> bool:
    return (
        has_many(data.values.features)
        and way.heat is None
        and not way.energy
        and not any(jnp.ndim(power) for power in way.powers)
        and jax.default_backend() == "cpu"
        and not data.is_spread
    )


@engine(*_FAMILIES, name="products in parts", when=when)
def walk(model: GeneralisedRegression, m: Means, data: Data, way: Way, local: Any = None) -> Walked:
    linear = m["weights"].linear
    covariance = -2.0 * m["weights"].precision - linear[:, None] * linear[None]
    size = jnp.max(jnp.abs(covariance)) + 1e-300
    single = (covariance / size).astype(jnp.float32)

    def block(part: tuple[Cases, Array], _: Array) -> tuple[Any, tuple[()]]:
        x, weights = part
        product = x.features @ linear
        rough = x.features.astype(jnp.float32)
        variance = size * jnp.sum((rough @ single) * rough, axis=1)
        mean = product + x.offset

        def total(mean: Array, square: Array) -> Float[Array, ""]:
            return jnp.sum(weights * model.expected(mean, square, x.target))

        value, (first, second) = jax.value_and_grad(total, argnums=(0, 1))(mean, jnp.square(mean) + variance)
        message = NormalVector(
            (first + 2.0 * second * x.offset) @ x.features, -2.0 * weighted_squares(x.features, second)
        )
        return (value, message), ()

    value, message = over_blocks(block, (data.values, data.weights), *data.cuts)[0]
    power = jnp.asarray(way.powers.observation)
    messages = jax.tree.map(jnp.zeros_like, m) | {"weights": jax.tree.map(lambda leaf: power * leaf, message)}
    return Walked(power * value, messages, None, {})
