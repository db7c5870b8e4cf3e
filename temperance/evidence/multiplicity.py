"""How many ways there are to number the parts of a solution: log K!, or less.

The posterior of a model with exchangeable components has a copy of every mode for each way to number them. A method
that sees one copy (VB, message passing, Laplace) leaves the others out, and its log evidence is too low by the log of
their number. That is K! only where all K components differ: components that hold no data, or that are equal, can be
exchanged without giving another mode, so with groups of m₁, m₂, … such components there are K!/(m₁! m₂! …) copies.

It is the right correction where the copies hardly overlap, and an upper limit where they do.
"""

from __future__ import annotations

from math import lgamma
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..graph import GraphModel
from ..graph.exchangeable import exchangeable_latents, features, held
from ..models import (
    HMM,
    LDA,
    DirichletProcessMixture,
    FactorAnalysis,
    FactorialMixture,
    Mixture,
    Model,
    Posterior,
    StateSpace,
)
from .factor_multiplicity import log_signed_orders

if TYPE_CHECKING:
    from ..fit import Fit

_HELD = 0.5  # expected data (tokens) below which a component counts as empty
_SAME = 1e-6  # relative difference below which two components are equal


def log_multiplicity(fit: Fit) -> float:
    """The log of the number of different modes that renumbering the parts of a solution gives; 0 where there is no
    such symmetry, and where the method visits all modes by itself."""
    if fit.method.one_mode and isinstance(fit.model, FactorAnalysis | StateSpace):
        return log_signed_orders(fit.model, fit._families())
    if fit.method.one_mode and isinstance(fit.model, GraphModel):
        return _of_graph(fit.model, fit._families(), fit.data)
    if not fit.method.one_mode or not _symmetric(fit.model):
        return 0.0
    q = fit.state if isinstance(fit.state, Posterior) else fit.state.matched(fit.model, fit.data)
    held = _held(fit.model, q, fit.data)
    if held is None:
        return 0.0
    features = _features(fit.model, q, len(held))
    return log_arrangements(_group_sizes(held, features))


def _of_graph(model: GraphModel, q: Posterior, data: Any) -> float:
    """The values of each discrete latent; that whole parts of a graph may be exchanged is not counted."""
    plates = exchangeable_latents(model)
    if not plates:
        return 0.0
    counts = held(model, q, data)
    return sum(log_arrangements(_group_sizes(counts[z], features(model, q, plate))) for z, plate in plates.items())


def log_arrangements(sizes: list[int]) -> float:
    """log (Σ m)! / Π m!"""
    return lgamma(sum(sizes) + 1) - sum(lgamma(m + 1) for m in sizes)


def _group_sizes(held: np.ndarray, features: np.ndarray) -> list[int]:
    """Empty components are one group; others belong together if their posteriors are equal."""
    empty = held < _HELD
    sizes = [int(empty.sum())]
    left = list(np.flatnonzero(~empty))
    while left:
        first, *rest = left
        scale = _SAME * (1e-12 + np.abs(features[first]))
        same = [k for k in rest if (np.abs(features[k] - features[first]) <= scale).all()]
        sizes.append(1 + len(same))
        left = [k for k in rest if k not in same]
    return sizes


def _symmetric(model: Model) -> bool:
    """Whether the prior is the same however the parts are numbered."""
    if isinstance(model, HMM):
        return model.exchangeable
    if isinstance(model, DirichletProcessMixture) or not isinstance(model, Mixture | LDA | FactorialMixture):
        return False
    if isinstance(model, LDA):
        leaves: list[Any] = [model.alpha, *([model.eta] if model.eta.ndim == 2 else [])]
        return "document_prior" in model.learn or all(_constant(leaf) for leaf in leaves)
    if isinstance(model, FactorialMixture):
        known = [] if model.probability is None else [model.probability]
        return all(_constant(leaf) for leaf in [*known, *jax.tree.leaves(model.prior.get("probability"))])
    return all(_constant(leaf) for leaf in jax.tree.leaves((model.prior["weights"], model.prior["components"])))


def _constant(leaf: Any) -> bool:
    array = np.asarray(leaf)
    return array.ndim == 0 or bool((array == array[:1]).all())


def _held(model: Model, q: Posterior, data: Any) -> np.ndarray | None:
    """The expected number of data (tokens, appearances) in each part."""
    if isinstance(model, Mixture):
        from ..models.mixture.finite import occupancy

        return occupancy(model, q, data)
    if isinstance(model, HMM):
        from ..models.hidden_markov.model import _occupancy as in_states

        return np.asarray(in_states(model, q, data))
    if isinstance(model, LDA):
        topics = np.asarray(q.blocks["topics"].concentration)  # type: ignore[attr-defined]
        return np.asarray((topics - np.asarray(model.eta)).sum(axis=1))
    if "z" not in q.locals:
        return None
    z = np.asarray(q.locals["z"].mean().indicator)
    return np.asarray(np.asarray(data.weights) @ z)


def _features(model: Model, q: Posterior, k: int) -> np.ndarray:
    """A row of numbers for each part that two equal parts share."""
    if isinstance(model, FactorialMixture):
        return np.asarray(model.components(q)).reshape((k, -1))
    names = ("topics",) if isinstance(model, LDA) else ("weights", "components")
    names = ("emissions", "initial") if isinstance(model, HMM) else names
    leaves = [np.asarray(leaf) for name in names for leaf in jax.tree.leaves(q.blocks[name])]
    return np.concatenate([leaf.reshape((k, -1)) for leaf in leaves if leaf.shape[:1] == (k,)], axis=1)
