"""The names of likelihoods, and how a prior given by the user becomes one for each component."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._arguments import check_choice
from ...errors import InvalidData, InvalidParameter
from ...families import (
    Bernoulli,
    Categorical,
    Dirichlet,
    Family,
    Gaussian,
    GaussianWithMissing,
    Independent,
    IndependentPair,
    Multinomial,
    Pair,
    Point,
    Poisson,
    ScalarGaussian,
    SphericalGaussian,
    SphericalWithMissing,
)
from ...families._parameters import parameters, require_concentration
from ...numerics.place import on_device
from .._blocks import Conditional
from .._data import Data, over_blocks
from .columns import ColumnsPair

# name → (the pair, the pair that takes missing values)
_PAIRS: dict[str, tuple[Callable[[], Pair], Callable[[], Pair]]] = {
    "gaussian": (Gaussian, GaussianWithMissing),
    "diagonal": (lambda: IndependentPair(ScalarGaussian()),) * 2,
    "spherical": (SphericalGaussian, SphericalWithMissing),
    "poisson": (lambda: IndependentPair(Poisson()),) * 2,
    "bernoulli": (lambda: IndependentPair(Bernoulli()),) * 2,
    "categorical": (lambda: IndependentPair(Categorical()),) * 2,
    "multinomial": (Multinomial, Multinomial),
    "columns": (ColumnsPair, ColumnsPair),
}


def as_pair(likelihood: str | Pair, missing: bool = False, prior: Any = None) -> Pair:
    """The conjugate pair of that name; of categories, with as many levels as the prior has, seen or not."""
    if isinstance(likelihood, Pair):
        return likelihood
    of_columns = prior.inner if isinstance(prior, Independent) else prior
    if likelihood == "categorical" and isinstance(of_columns, Dirichlet):
        return IndependentPair(Categorical(of_columns.concentration.shape[-1]))
    if likelihood not in _PAIRS:
        accepted = ", ".join(repr(name) for name in _PAIRS)
        raise InvalidParameter(f"likelihood must be a Pair or one of {accepted}, got {likelihood!r}")
    return _PAIRS[likelihood][missing]()


def log_known_weights(weights: Any, size: int) -> Float[Array, " k"]:
    values = np.asarray(parameters(weights=(weights, 1))[0])
    if values.shape != (size,) or (values < 0).any() or abs(values.sum() - 1.0) > 1e-8:
        raise InvalidParameter(
            f"weights must be 'dirichlet', 'point' or {size} numbers from 0 that sum to one, got {weights!r}"
        )
    with np.errstate(divide="ignore"):
        return on_device(np.log(values))


def stack_prior(prior: Family, pair: Pair, size: int, columns: int | None) -> Family | None:
    """One copy of the prior for each of `size` components, unless it has one for each already.

    For a pair of independent columns, a prior of scalars is read as one for each column, and a single scalar as
    the same for all; None while the number of columns is not known.
    """
    if not isinstance(prior, Family):
        raise InvalidParameter(f"prior must be a family such as tp.NormalWishart(…), got {prior!r}")
    if isinstance(pair, IndependentPair) and not isinstance(prior, Independent):
        if prior.batch_shape == ():
            if columns is None:
                return None
            prior = _repeat(prior, columns)
        prior = Independent(prior)
    if prior.batch_shape == (size,):
        return prior
    if prior.batch_shape == ():
        return _repeat(prior, size)
    raise InvalidParameter(
        f"prior must be one distribution or {size} of them, got a batch of shape {prior.batch_shape}"
    )


def match_rows(components: Family, x: np.ndarray) -> None:
    """Refuse new rows with another number of columns than the components, of whichever family, are for."""
    width = x.shape[1]
    if isinstance(components, Independent):
        width = components.inner.natural.batch_shape[-1]
    elif isinstance(components, Dirichlet):
        width = components.concentration.shape[-1]
    if x.shape[1] != width:
        raise InvalidData(f"data has {x.shape[1]} columns, but the model is for {width}")


def require_conjugate(prior: Family, pair: Pair, x: np.ndarray) -> None:
    """Refuse a prior that is not of the likelihood's conjugate family, or is for another number of columns."""
    wanted = jax.eval_shape(pair.statistics, jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype))
    structures: set[Any] = {jax.tree.structure(wanted), jax.tree.structure(prior.natural)}
    if len(structures) > 1:
        raise InvalidParameter(
            f"prior must be a {_family_name(wanted)}, which is conjugate to this likelihood, "
            f"got a {_family_name(prior.natural)}"
        )
    for here, there in zip(jax.tree.leaves(prior.natural), jax.tree.leaves(wanted), strict=True):
        if here.shape[1:] != there.shape[1:]:
            raise InvalidParameter(
                f"prior has parameters of shape {here.shape[1:]}, but the data need {there.shape[1:]}"
            )


def _family_name(vector: Any) -> str:
    return type(getattr(vector, "inner", vector)).__name__.removesuffix("Vector")


def _repeat(prior: Family, size: int) -> Family:
    copies = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (size, *leaf.shape)), prior.natural)
    return prior.with_natural(copies)


def axes_of(pair: Pair) -> tuple[str, ...]:
    """What the axes of a component's parameters count."""
    return ("feature", "level") if isinstance(getattr(pair, "inner", None), Categorical) else ("feature",)


def pair_log_base(pair: Pair, data: Data) -> Float[Array, ""] | None:
    """Σ_n log h(x_n), unless the pair has latents of its own: then E log p(x, z | θ) is not linear."""
    if pair.has_latents:
        return None

    def base(part: Any, _: Array) -> tuple[Float[Array, ""], tuple[()]]:
        rows, weights = part
        return jnp.sum(weights * pair.log_base(rows)), ()

    return over_blocks(base, (data.values, data.weights), *data.cuts)[0]


def weights_prior(n: int, concentration: Any, weights: str) -> dict[str, Family | Conditional]:
    """The prior of n weights with this concentration, or of weights at a point."""
    if check_choice("weights", weights, {"dirichlet": False, "point": True}):
        return {"weights": Point(Dirichlet(np.ones(n)))}
    delta = parameters(concentration=(concentration, 0))[0]
    require_concentration(concentration=delta)
    if delta.ndim > 1 or (delta.ndim == 1 and delta.shape[0] != n):
        raise InvalidParameter(f"concentration must be one number or {n} of them, got shape {delta.shape}")
    return {"weights": Dirichlet(np.broadcast_to(delta, (n,)))}
