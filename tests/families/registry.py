"""One example of every family and size: random members, typical and extreme, that feed all generic tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, polygamma

import temperance as tp
from temperance.families import matrix_normal_wishart, normal, normal_gamma, normal_wishart, wishart
from tests.tiers import with_slow

Generator = np.random.Generator


@dataclass(frozen=True)
class Example:
    """`draw(rng, n, extreme)` makes a batch of n members; `plain(natural)` is A without a custom derivative."""

    name: str
    draw: Callable[[Generator, int, bool], tp.Family]
    plain: Callable[[Any], Any] | None = None
    # Where the mean and the Hessian are differences that cancel: the sizes of their terms (those of the last
    # coordinates).
    terms: Callable[[Any], tuple[np.ndarray, np.ndarray]] | None = None
    chain: Callable[[Any], np.ndarray] | None = None  # terms of ∇A by the chain rule (of the first coordinates)
    batch: int = 64
    runs: int = 15  # how many batches a test looks at
    minimal: bool = True  # whether η is determined by the density

    def __repr__(self) -> str:
        return self.name


def powers(rng: Generator, low: float, high: float, shape: Any) -> np.ndarray:
    """Numbers spread evenly over orders of magnitude."""
    return 10.0 ** rng.uniform(low, high, shape)


def spread(rng: Generator, extreme: bool, shape: Any, typical: float = 1, largest: float = 8) -> np.ndarray:
    limit = largest if extreme else typical
    return powers(rng, -limit, limit, shape)


def counts(rng: Generator, extreme: bool, shape: Any) -> np.ndarray:
    return powers(rng, -8, 8, shape) if extreme else powers(rng, -1, 3, shape)


def matrices(rng: Generator, extreme: bool, n: int, d: int) -> np.ndarray:
    """Positive-definite matrices in any orientation and units, with condition numbers to 100 (or 10¹⁰)."""
    basis = np.linalg.qr(rng.normal(size=(n, d, d)))[0]
    decades = rng.uniform(0, 10 if extreme else 2, (n, 1))
    spectrum = 10.0 ** (-decades * np.sort(rng.uniform(0, 1, (n, d)), axis=-1))
    matrix = (basis * spectrum[:, None, :]) @ basis.swapaxes(-1, -2)
    matrix = 0.5 * (matrix + matrix.swapaxes(-1, -2))
    return matrix * spread(rng, extreme, (n, 1, 1), largest=4)


def degrees(rng: Generator, extreme: bool, n: int, d: int) -> np.ndarray:
    """Degrees of freedom from just above d − 1."""
    return d - 1 + (powers(rng, -8, 8, n) if extreme else powers(rng, 0, 2, n))


def dirichlet(k: int) -> Callable[..., tp.Family]:
    return lambda rng, n, extreme: tp.Dirichlet(counts(rng, extreme, (n, k)))


def beta(rng: Generator, n: int, extreme: bool) -> tp.Family:
    return tp.Beta(counts(rng, extreme, n), counts(rng, extreme, n))


def gamma(rng: Generator, n: int, extreme: bool) -> tp.Family:
    return tp.Gamma(counts(rng, extreme, n), spread(rng, extreme, n))


def categorical(rng: Generator, n: int, extreme: bool) -> tp.Family:
    return tp.CategoricalDistribution(logits=rng.normal(size=(n, 4)) * (30 if extreme else 2))


def bernoulli(rng: Generator, n: int, extreme: bool) -> tp.Family:
    return tp.BernoulliDistribution(logit=rng.normal(size=n) * (10 if extreme else 2))


def gaussian(d: int) -> Callable[..., tp.Family]:
    def draw(rng: Generator, n: int, extreme: bool) -> tp.Family:
        return tp.Normal(rng.normal(size=(n, d)), precision=matrices(rng, extreme, n, d))

    return draw


def widths(rng: Generator, extreme: bool, shape: Any, largest: float) -> np.ndarray:
    """How many widths a location lies from the origin: η holds the scatter plus the square of that."""
    return rng.normal(size=shape) * (powers(rng, -1, largest, shape) if extreme else 1.0)


def scalar_parameters(rng: Generator, shape: Any, extreme: bool) -> dict[str, np.ndarray]:
    count, scatter = spread(rng, extreme, shape), spread(rng, extreme, shape)
    mean = widths(rng, extreme, shape, 3) * np.sqrt(scatter / count)
    return {"mean": mean, "pseudo_count": count, "dof": counts(rng, extreme, shape), "scatter": scatter}


def normal_gamma_(rng: Generator, n: int, extreme: bool) -> tp.Family:
    return tp.NormalGamma(**scalar_parameters(rng, n, extreme))


def isotropic(rng: Generator, n: int, extreme: bool) -> tp.Family:
    parameters = scalar_parameters(rng, n, extreme)
    return tp.IsotropicNormalGamma(**parameters | {"mean": parameters["mean"][:, None] * rng.normal(size=(n, 3))})


def wishart_(d: int) -> Callable[..., tp.Family]:
    return lambda rng, n, extreme: tp.Wishart(degrees(rng, extreme, n, d), matrices(rng, extreme, n, d))


def normal_wishart_(d: int) -> Callable[..., tp.Family]:
    def draw(rng: Generator, n: int, extreme: bool) -> tp.Family:
        count, scatter = spread(rng, extreme, n), matrices(rng, extreme, n, d)
        mean = np.linalg.cholesky(scatter) @ widths(rng, extreme, (n, d, 1), 1)
        mean = mean[..., 0] / np.sqrt(count)[:, None]
        return tp.NormalWishart(mean, count, degrees(rng, extreme, n, d), scatter)

    return draw


def matrix_normal_wishart_(d: int, p: int) -> Callable[..., tp.Family]:
    def draw(rng: Generator, n: int, extreme: bool) -> tp.Family:
        scatter, inputs = matrices(rng, extreme, n, d), matrices(rng, extreme, n, p)
        right = np.linalg.inv(np.linalg.cholesky(inputs))
        mean = np.linalg.cholesky(scatter) @ widths(rng, extreme, (n, d, p), 1) @ right
        return tp.MatrixNormalWishart(mean, inputs, degrees(rng, extreme, n, d), scatter)

    return draw


def columns(rng: Generator, n: int, extreme: bool) -> tp.Family:
    return tp.Independent(tp.NormalGamma(**scalar_parameters(rng, (n, 2), extreme)))


def product(rng: Generator, n: int, extreme: bool) -> tp.Family:
    return tp.Product(weights=dirichlet(3)(rng, n, extreme), scatter=wishart_(2)(rng, n, extreme))


def digammas(family: Any) -> tuple[np.ndarray, np.ndarray]:
    """E[log π_k] = ψ(δ_k) − ψ(Σδ), and its derivatives ψ′(δ_k) on the diagonal − ψ′(Σδ) everywhere."""
    if isinstance(family, tp.Product):
        return digammas(family.factors["weights"])
    delta = np.stack([family.a, family.b], -1) if isinstance(family, tp.Beta) else np.asarray(family.concentration)
    total = delta.sum(-1, keepdims=True)
    second = polygamma(1, delta)[..., None] * np.eye(delta.shape[-1]) + polygamma(1, total)[..., None]
    return np.abs(digamma(delta)) + np.abs(digamma(total)), second


def probabilities(family: Any) -> tuple[np.ndarray, np.ndarray]:
    """Cov[z] = diag(p) − ppᵀ."""
    p = np.asarray(family.probabilities)
    return p, p[..., :, None] * p[..., None, :] + p[..., None] * np.eye(p.shape[-1])


def products(family: Any) -> np.ndarray:
    """|E[Λ]| |m| and |m|ᵀ|E[Λ]| |m|: where S is badly conditioned these sums cancel, and the chain rule forms them.

    The closed form does not: it has squares of L⁻¹m instead.
    """
    location = np.abs(np.asarray(family.location))
    if location.ndim == 2:
        location = location[..., None]
    precision = np.asarray(family.dof)[:, None, None] * np.abs(np.linalg.inv(family.scatter))
    linear = precision @ location
    rows, columns = np.triu_indices(location.shape[-1])
    quadratic = (location.swapaxes(-1, -2) @ linear)[:, rows, columns]
    return np.concatenate([linear.reshape(len(linear), -1), quadratic], axis=-1)


def value(module: Any) -> Callable[[Any], Any]:
    """The log normaliser before its derivative was replaced by the closed form."""
    return lambda natural: module._value_and_mean(natural)[0]


EXAMPLES = [
    Example("Dirichlet-5", dirichlet(5), terms=digammas),
    Example("Dirichlet-30", dirichlet(30), terms=digammas),
    Example("Beta", beta, terms=digammas),
    Example("Gamma", gamma),
    Example("Categorical-4", categorical, terms=probabilities, minimal=False),
    Example("Bernoulli", bernoulli),
    Example("Normal-1", gaussian(1), value(normal)),
    Example("Normal-5", gaussian(5), value(normal)),
    Example("NormalGamma", normal_gamma_, value(normal_gamma)),
    Example("IsotropicNormalGamma-3", isotropic, value(normal_gamma)),
    Example("Wishart-1", wishart_(1), value(wishart)),
    Example("Wishart-5", wishart_(5), value(wishart)),
    Example("Wishart-30", wishart_(30), value(wishart), batch=2, runs=3),
    Example("NormalWishart-1", normal_wishart_(1), value(normal_wishart), chain=products),
    Example("NormalWishart-5", normal_wishart_(5), value(normal_wishart), chain=products),
    Example("NormalWishart-30", normal_wishart_(30), value(normal_wishart), chain=products, batch=2, runs=3),
    Example("MatrixNormalWishart-4x2", matrix_normal_wishart_(4, 2), value(matrix_normal_wishart), chain=products),
    Example("Independent", columns),
    Example("Product", product, terms=digammas),
]

# For tests that every change must pass: these compile as long as all the others together.
LONG = ("Wishart-30", "NormalWishart-30", "MatrixNormalWishart-4x2", "Dirichlet-30")
PARAMETERS = with_slow(EXAMPLES, *LONG, name=repr)
