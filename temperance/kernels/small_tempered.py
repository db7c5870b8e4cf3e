"""Tempered Gibbs sweeps of small Gaussian mixtures in NumPy: XLA would compile for longer than they run.

Many draws (axis b) at once, each at its own temperature. With ℓ_nk = log p(x_n | θ_k) and ℓ_n its largest,

    U(β) = Σ_n [β ℓ_n + log Σ_k π_k exp β(ℓ_nk − ℓ_n)],        z_n ~ π_k exp β(ℓ_nk − ℓ_n),

and given z all blocks are drawn from their conditionals at once, as `Path` does for a path that starts at the prior.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ..families import Dirichlet, Gaussian, NormalWishart
from ..families.normal_wishart import BeforeRounding, MeanAndPrecision
from ..families.wishart import TINY
from ..numerics.keys import is_host
from ..numerics.special import LOG_2PI
from ..numerics.streams import Streams
from . import run_module
from .small_mixture import _STARTS, Flat, _cholesky, flat, suits

if TYPE_CHECKING:
    from ..models import Data
    from ..models.mixture import Mixture

_LEAST = np.finfo(np.float64).tiny


def when(model: Any, data: Any) -> bool:
    """Whether NumPy can follow a path from this model's prior, and finishes before XLA would have compiled."""
    return (
        run_module(model) == "small_mixture"
        and type(model.pair) is Gaussian
        and data.engine == "auto"
        and type(model.prior["components"]) is NormalWishart
        and isinstance(model.prior.get("weights", None), Dirichlet | None)
        and model.start.kind in _STARTS
        and is_host()
        and suits(model, data)
    )


class Drawn(NamedTuple):
    """Draws of the parameters; the leading axes are (b, k)."""

    mean: np.ndarray
    precision: np.ndarray
    linear: np.ndarray  # Λμ
    square: np.ndarray  # μᵀΛμ
    log_det: np.ndarray
    weights: np.ndarray

    def at(self, index: Any) -> Drawn:
        return Drawn(*(leaf[index] for leaf in self))


class Levels(NamedTuple):
    """The log densities of each datum under the components."""

    highest: np.ndarray  # b n: ℓ_n
    below: np.ndarray  # b k n: ℓ_nk − ℓ_n


class Problem(NamedTuple):
    """A mixture and its data."""

    flat: Flat
    features: np.ndarray  # 1, x and x xᵀ; f n
    natural: Any  # of the components' prior
    delta: np.ndarray | None  # of the weights' prior; None where they are known
    known: np.ndarray | None

    def prior_draws(self, streams: Streams, count: int) -> Drawn:
        """`count` draws of each stream."""
        k, f = len(self.natural.count), len(self.features)
        b = len(streams.seeds) * count
        return self._draw(streams, np.zeros(b), np.zeros((b, k, f)))

    def levels(self, drawn: Drawn) -> Levels:
        b, k, d = drawn.mean.shape
        constant = 0.5 * (drawn.log_det - drawn.square - d * LOG_2PI)
        parts = [constant[..., None], drawn.linear, -0.5 * drawn.precision.reshape((b, k, -1))]
        table = (np.concatenate(parts, axis=2).reshape((b * k, -1)) @ self.features).reshape((b, k, -1))
        highest = table.max(axis=1)
        table -= highest[:, None]
        return Levels(highest, table)

    def potential(self, drawn: Drawn, levels: Levels, betas: np.ndarray) -> np.ndarray:
        """U(β) of each draw."""
        return self.potential_and_powers(drawn, levels, betas)[0]

    def potential_and_slope(self, drawn: Drawn, levels: Levels, betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """U(β) and U′(β)."""
        value, terms, total = self.potential_and_powers(drawn, levels, betas)
        terms *= levels.below
        inside = (_least(drawn.weights)[:, None] @ terms)[:, 0] / total
        return value, (levels.highest + inside).sum(axis=1)

    def potential_and_powers(self, drawn: Drawn, levels: Levels, betas: np.ndarray) -> tuple[np.ndarray, ...]:
        """U(β), exp β(ℓ_nk − ℓ_n), and their weighted sum over the components."""
        terms = _powers(levels, betas)
        total = (_least(drawn.weights)[:, None] @ terms)[:, 0]
        return betas * levels.highest.sum(axis=1) + np.log(total).sum(axis=1), terms, total

    def sweep(
        self, streams: Streams, drawn: Drawn, levels: Levels, betas: np.ndarray, terms: np.ndarray | None = None
    ) -> Drawn:
        """Draw the labels at these temperatures, then the parameters; at β = 0 this is an independent draw from the
        prior."""
        return self._draw(streams, betas, self.tallies(streams, drawn, levels, betas, terms))

    def tallies(
        self, streams: Streams, drawn: Drawn, levels: Levels, betas: np.ndarray, terms: np.ndarray | None = None
    ) -> np.ndarray:
        """Σ_n z_nk (1, x_n, x_n x_nᵀ) of labels drawn at these temperatures; overwrites the powers in `terms`."""
        b, k, n = levels.below.shape
        terms = _powers(levels, betas) if terms is None else terms
        terms *= drawn.weights[:, :, None]
        for number in range(1, k):
            terms[:, number] += terms[:, number - 1]
        level = streams.uniform(b // len(streams.seeds), n).reshape((b, n))
        level *= terms[:, -1]
        passed = terms > level[:, None]
        passed[:, -1] = True
        labels = passed.copy()
        np.logical_xor(passed[:, 1:], passed[:, :-1], out=labels[:, 1:])
        return (labels.astype(np.float64).reshape((b * k, n)) @ self.features.T).reshape((b, k, -1))

    def posterior(self, tallies: np.ndarray) -> tuple[np.ndarray, ...]:
        """The natural parameters of the components given their tallies."""
        d, number = self.natural.first.shape[1], tallies[..., 0]
        second = self.natural.second + tallies[..., 1 + d :].reshape((*number.shape, d, d))
        first = self.natural.first + tallies[..., 1 : 1 + d]
        return first, self.natural.count + number, second, self.natural.dof + number

    def _draw(self, streams: Streams, betas: np.ndarray, tallies: np.ndarray) -> Drawn:
        """The parameters given the tallies, as `NormalWishart.sample` draws them."""
        natural = self.posterior(tallies * betas[:, None, None])
        delta = None if self.known is not None else self.delta + tallies[..., 0] * (betas > 0)[:, None]
        return draw_given(streams, natural, self.known, delta)

    def log_prior(self, drawn: Drawn) -> np.ndarray:
        """log p(θ) of each draw, as the density of an exponential family."""
        natural = self.natural
        value = (natural.first * drawn.linear).sum(axis=(1, 2)) + 0.5 * (
            (natural.dof * drawn.log_det - natural.count * drawn.square).sum(axis=1)
            - (natural.second * drawn.precision).sum(axis=(1, 2, 3))
        )
        if self.delta is not None:
            value = value + ((self.delta - 1.0) * np.log(_least(drawn.weights))).sum(axis=1)
        return value - self.flat.log_prior

    def started(self, streams: Streams, blocks: dict[str, Any]) -> Drawn:
        """One draw from each of these posteriors (the leading axis of every leaf)."""
        natural = blocks["components"].natural
        parts = (natural.first, natural.count, natural.second, natural.dof)
        delta = None if self.known is not None else np.asarray(blocks["weights"].natural.log) + 1.0
        return draw_given(streams, tuple(map(np.asarray, parts)), self.known, delta)

    def to_draws(self, drawn: Drawn) -> dict[str, Any]:
        """The draws in the form that `Model.sample_prior` returns."""
        mean, precision, *before, weights = drawn
        draws: dict[str, Any] = {"components": MeanAndPrecision(mean, precision, BeforeRounding(*before))}  # type: ignore[arg-type]
        return draws if self.known is not None else draws | {"weights": weights}

    def from_draws(self, draws: dict[str, Any]) -> Drawn:
        mean, precision, before = jax.tree.map(np.asarray, draws["components"])
        weights = np.asarray(draws["weights"]) if self.known is None else np.exp(self.known)
        linear, square, log_det = before
        return Drawn(mean, precision, linear, square, log_det, np.broadcast_to(weights, log_det.shape))


def problem(model: Mixture, data: Data) -> Problem:
    whole = flat(model, data)
    x = whole.rows
    features = np.concatenate([np.ones((1, len(x))), x.T, (x.T[:, None] * x.T).reshape((-1, len(x)))])
    natural = jax.tree.map(np.asarray, model.prior["components"].natural)
    known = None if model.known is None else np.asarray(model.known)
    delta = None if known is not None else np.asarray(model.prior["weights"].natural.log) + 1.0  # type: ignore[union-attr]
    return Problem(whole, features, natural, delta, known)


def _least(weights: np.ndarray) -> np.ndarray:
    return np.maximum(weights, _LEAST)


def _powers(levels: Levels, betas: np.ndarray) -> np.ndarray:
    """exp β(ℓ_nk − ℓ_n)."""
    if (betas == 1.0).all():
        return np.exp(levels.below)
    terms = levels.below * betas[:, None, None]
    return np.exp(terms, out=terms)


def draw_given(
    streams: Streams, natural: tuple[np.ndarray, ...], known: np.ndarray | None, delta: np.ndarray | None
) -> Drawn:
    """A draw of each posterior, with these natural parameters of the components (b, k, …), known weights or their δ, as
    `NormalWishart.sample` draws them: Λ = R Rᵀ with R = L⁻ᵀB, and μ = m + L B⁻ᵀε/√v."""
    first, count, second, dof = natural
    (b, k, d), rows = first.shape, len(streams.seeds)
    dof = dof + d
    location = first / count[..., None]
    lower = _cholesky(second - first[..., :, None] * location[..., None, :])
    halves = 0.5 * (dof[..., None] - np.arange(d))
    shapes = [halves] if delta is None else [halves, delta]
    logs, normals = streams.gammas_and_normals([shape.reshape((rows, -1)) for shape in shapes], b // rows * k, d + 1, d)
    normals = normals.reshape((b, k, d + 1, d))
    weights = _shares(logs[1].reshape((b, k))) if known is None else np.broadcast_to(np.exp(known), (b, k))
    log_chi2 = math.log(2.0) + logs[0].reshape(halves.shape)
    log_chi2 = np.maximum(log_chi2, np.log(TINY * dof)[..., None])
    bartlett = np.tril(normals[..., :d, :], -1)
    bartlett[..., range(d), range(d)] = np.exp(0.5 * log_chi2)
    noise = normals[..., d, :] / np.sqrt(count)[..., None]
    root, turned = np.empty_like(lower), np.empty_like(noise)
    for i in reversed(range(d)):  # Lᵀ R = B and Bᵀ y = ε, from the last row up
        rest = (lower[..., i + 1 :, i, None] * root[..., i + 1 :, :]).sum(axis=-2)
        root[..., i, :] = (bartlett[..., i, :] - rest) / lower[..., i, i, None]
        rest = (bartlett[..., i + 1 :, i] * turned[..., i + 1 :]).sum(axis=-1)
        turned[..., i] = (noise[..., i] - rest) / bartlett[..., i, i]
    white = (root * location[..., None]).sum(axis=-2) + noise
    log_det = log_chi2.sum(axis=-1) - 2.0 * np.log(lower[..., range(d), range(d)]).sum(axis=-1)
    mean = location + (lower * turned[..., None, :]).sum(axis=-1)
    linear = (root * white[..., None, :]).sum(axis=-1)
    precision = root @ np.swapaxes(root, -1, -2)
    return Drawn(mean, precision, linear, np.square(white).sum(axis=-1), log_det, weights)


def _shares(logs: np.ndarray) -> np.ndarray:
    found = np.exp(logs - logs.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)
