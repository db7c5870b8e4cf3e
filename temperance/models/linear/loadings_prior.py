"""The prior of the loadings of linear Gaussian models: in units of their columns, with a precision for each factor."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...families import Normal, NormalVector
from ...numerics.special import LOG_2PI
from .._model import Conditional, Means


class LoadingsPrior(Conditional):
    """p(w_d | α): w_dk ~ N(0, s_d²/α_k), one precision for each factor; the last entries, which are no loadings (the
    column's mean), have known precisions κ/s_d²."""

    scale: Float[Array, " d"]
    others: Float[Array, " r"]  # κ
    parents: tuple[str, ...] = eqx.field(static=True, default=("relevance",), kw_only=True)

    def natural(self, m: Means) -> NormalVector:
        return _natural(self.scale, jnp.append(m["relevance"].value, self.others))

    def log_normaliser(self, m: Means) -> Float[Array, " d"]:
        logs = jnp.append(m["relevance"].log, jnp.log(self.others))
        return 0.5 * (len(logs) * (LOG_2PI + 2.0 * jnp.log(self.scale)) - jnp.sum(logs))

    def family(self, natural: Any) -> Normal:
        return Normal.from_natural(natural)


def known_loadings_prior(
    scale: Float[Array, " d"], relevance: Float[Array, " k"], others: Float[Array, " r"]
) -> Normal:
    """The same with known α."""
    return Normal.from_natural(_natural(scale, jnp.append(relevance, others)))


def _natural(scale: Float[Array, " d"], precision: Float[Array, " k"]) -> NormalVector:
    each = precision[None] / jnp.square(scale)[:, None]
    return NormalVector(jnp.zeros_like(each), each[:, :, None] * np.eye(precision.shape[0])[None])
