"""A Normal vector of each datum, integrated out.

The factors of a graph are affine in the statistics (z, −½ z zᵀ) of the vector. Their value at zero and the derivatives
in both statistics are all that log ∫ exp(c + hᵀz − ½ zᵀPz) dz needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..families import Normal, NormalVector
from ..families._family import Family
from ..models._model import Means, Powers, means
from .gaussian_chain import chain_of, expected_steps
from .spec import Spec
from .values import Nought

if TYPE_CHECKING:
    from .compiled import GraphModel


def local_gaussian(
    model: GraphModel, m: Means, x: Any, powers: Powers = Powers()
) -> tuple[Float[Array, " n"], NormalVector]:
    """c and (h, P); P is a single matrix if all data share it."""
    name = model.spec.integrated
    zero = model.scope({}, x).zero(name)

    def value(own: NormalVector, x: Any) -> Float[Array, " n"]:
        scope = model.scope({**m, name: own}, x)
        # As with a discrete latent, the temperature acts on the prior too.
        return model.evaluate(scope, powers) + powers.latent * scope.affine(name, own)

    constant = value(Nought(zero.linear[:1], None), x)  # type: ignore[arg-type]
    # z zᵀ is left out, because it adds nothing to the derivative in z.
    _, pull = jax.vjp(lambda linear: value(NormalVector(linear, None), x), zero.linear)  # type: ignore[arg-type]
    (linear,) = pull(jnp.ones_like(constant))
    if model.masked or jnp.ndim(powers.observation) or jnp.ndim(powers.latent) or not _alike(model.spec):
        part, rows = zero, x
    else:
        part, rows = (jax.tree.map(lambda leaf: leaf[:1], tree) for tree in (zero, x))
    precision = jax.grad(lambda p: jnp.sum(value(NormalVector(part.linear, p), rows)))(part.precision)
    return constant, NormalVector(linear, precision[0] if part is not zero else precision)


def _alike(spec: Spec) -> bool:
    """Whether data differ only in h, not in P."""
    parents = {parent for q in spec for _, parent in q.parents}
    return not any(q.kind == "input" for q in spec) and not any(q.name in parents for q in spec.observed)


def scores(model: GraphModel, m: Means, x: Any) -> dict[str, Family]:
    """The posterior of the integrated vectors."""
    if not model.spec.integrated or chain_of(model.spec) is not None:
        return {}
    _, natural = local_gaussian(model, m, x)
    n, d = natural.linear.shape
    precision = jnp.broadcast_to(natural.precision, (n, d, d))
    return {model.spec.integrated: Normal.from_natural(NormalVector(natural.linear, precision))}


def hidden_means(model: GraphModel, m: Means, x: Any) -> Means:
    """The expected statistics of the integrated-out variables, including every step of a chain."""
    chain = chain_of(model.spec)
    return means(scores(model, m, x)) if chain is None else {chain.name: expected_steps(model, m, x)}
