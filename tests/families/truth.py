"""Densities and entropies of every family by SciPy, from ordinary parameters and one member at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from scipy.special import digamma

import temperance as tp


def inverse(matrix: Any) -> np.ndarray:
    return np.linalg.inv(np.asarray(matrix))


def log_prob(family: Any, draw: Any) -> float:
    """log p(draw), by SciPy; `family` and `draw` have no batch axes."""
    match family:
        case tp.Dirichlet():
            return stats.dirichlet.logpdf(draw, family.concentration)
        case tp.Beta():
            return stats.beta.logpdf(draw, family.a, family.b)
        case tp.Gamma():
            return stats.gamma.logpdf(draw, family.shape, scale=1 / family.rate)
        case tp.CategoricalDistribution():
            return np.log(np.asarray(family.probabilities)[np.argmax(draw)])
        case tp.BernoulliDistribution():
            return stats.bernoulli.logpmf(int(draw), family.probability)
        case tp.Normal():
            return stats.multivariate_normal.logpdf(draw, family.location, inverse(family.precision))
        case tp.NormalGamma() | tp.IsotropicNormalGamma():
            d = np.size(draw.mean)
            precision = stats.gamma.logpdf(draw.precision, family.dof / 2, scale=2 / family.scatter)
            spread = np.eye(d) / float(family.pseudo_count * draw.precision)
            return precision + stats.multivariate_normal.logpdf(draw.mean, family.location, spread)
        case tp.Wishart():
            return stats.wishart.logpdf(np.asarray(draw), float(family.dof), inverse(family.scatter))
        case tp.NormalWishart():
            precision = log_prob(tp.Wishart(family.dof, family.scatter), draw.precision)
            spread = inverse(family.pseudo_count * draw.precision)
            return precision + stats.multivariate_normal.logpdf(draw.mean, family.location, spread)
        case tp.MatrixNormalWishart():
            precision = log_prob(tp.Wishart(family.dof, family.scatter), draw.precision)
            rows, columns = inverse(draw.precision), inverse(family.pseudo_inputs)
            return precision + stats.matrix_normal.logpdf(draw.weights, family.location, rows, columns)
        case tp.Independent():
            size = family.inner.batch_shape[-1]
            return sum(log_prob(family.inner[i], type(draw)(*(part[i] for part in draw[:2]))) for i in range(size))
        case tp.Product():
            return sum(log_prob(factor, draw[name]) for name, factor in family.factors.items())
    raise TypeError(type(family).__name__)


def entropy(family: Any) -> float:
    match family:
        case tp.Dirichlet():
            return stats.dirichlet.entropy(np.asarray(family.concentration))
        case tp.Beta():
            return stats.beta.entropy(family.a, family.b)
        case tp.Gamma():
            return stats.gamma.entropy(family.shape, scale=1 / family.rate)
        case tp.CategoricalDistribution():
            return stats.entropy(family.probabilities)
        case tp.BernoulliDistribution():
            return stats.bernoulli.entropy(family.probability)
        case tp.Normal():
            return stats.multivariate_normal.entropy(cov=inverse(family.precision))
        case tp.NormalGamma() | tp.IsotropicNormalGamma():
            d = np.size(family.location)
            mean_log = digamma(family.dof / 2) - np.log(family.scatter / 2)
            precision = stats.gamma.entropy(family.dof / 2, scale=2 / family.scatter)
            return precision + 0.5 * d * (np.log(2 * np.pi * np.e / family.pseudo_count) - mean_log)
        case tp.Wishart():
            return stats.wishart.entropy(float(family.dof), inverse(family.scatter))
        case tp.NormalWishart():
            d = family.location.shape[-1]
            noise = d * np.log(2 * np.pi * np.e / family.pseudo_count)
            return _wishart_entropy(family) + 0.5 * (noise - _mean_log_det(family))
        case tp.MatrixNormalWishart():
            d, p = family.location.shape[-2:]
            noise = d * (p * np.log(2 * np.pi * np.e) - np.linalg.slogdet(family.pseudo_inputs)[1])
            return _wishart_entropy(family) + 0.5 * (noise - p * _mean_log_det(family))
        case tp.Independent():
            return sum(entropy(family.inner[i]) for i in range(family.inner.batch_shape[-1]))
        case tp.Product():
            return sum(entropy(factor) for factor in family.factors.values())
    raise TypeError(type(family).__name__)


def _wishart_entropy(family: Any) -> float:
    return entropy(tp.Wishart(family.dof, family.scatter))


def _mean_log_det(family: Any) -> float:
    """E[log|Λ|]."""
    d = family.scatter.shape[-1]
    digammas = sum(digamma((float(family.dof) - i) / 2) for i in range(d))
    return digammas + d * np.log(2) - np.linalg.slogdet(family.scatter)[1]
