"""Every method on every model: which pairs are refused, and which of the rest every change must pass.

A method is checked by its kind. Budgets are tiny, and the same on every model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import temperance as tp
from tests.matrix.truths import PROBLEMS


class Setup(NamedTuple):
    kind: str  # variational, messages, Monte Carlo or point
    answer: str  # bound, closer than the bound, approximation, estimate, draws or maximum
    method: Any


VB = tp.VB(restarts=4, tol=1e-9)
WARM = (1.0, 1.5, 2.5)
METHODS = {
    "VB": Setup("variational", "bound", VB),
    "SVI": Setup("variational", "bound", tp.SVI(batch_size=2, passes=600)),
    "Annealed": Setup("variational", "bound", tp.Annealed(VB, length=10)),
    "VT": Setup("variational", "bound", tp.VT(WARM, VB, length=10)),
    "LVT": Setup("variational", "bound", tp.LVT(WARM, VB, length=10)),
    "CVB0": Setup("variational", "below", tp.CVB0(restarts=2)),
    "EP": Setup("messages", "closer", tp.EP(restarts=4)),
    "MessagePassing": Setup("messages", "closer", tp.MessagePassing(0.5, restarts=4, max_passes=400)),
    "Gibbs": Setup("Monte Carlo", "draws", tp.Gibbs(draws=1500, warmup=100)),
    "CollapsedGibbs": Setup("Monte Carlo", "draws", tp.CollapsedGibbs(draws=1500, warmup=100)),
    "VariationalKernel": Setup("Monte Carlo", "draws", tp.VariationalKernel(draws=1500, warmup=100)),
    "ParallelTempering": Setup("Monte Carlo", "estimate", tp.ParallelTempering(draws=600, warmup=200, replicas=4)),
    "AIS": Setup("Monte Carlo", "estimate", tp.AIS(particles=100, temperatures=60)),
    "SMC": Setup("Monte Carlo", "estimate", tp.SMC(particles=64, populations=8)),
    "ImportanceSampling": Setup("Monte Carlo", "estimate", tp.ImportanceSampling(draws=4000)),
    "EM": Setup("point", "maximum", tp.EM(prior=False, restarts=4)),
    "Laplace": Setup("point", "approximation", tp.Laplace(restarts=4)),
}

_FACTORS = {"EP", "MessagePassing"}
_LABELS = {"CVB0", "CollapsedGibbs"}
# What is refused, each in one sentence that says what to use instead.
REFUSED = {
    "GaussianMixture": {"VT"},
    "Mixture": set(),
    "MixtureOfExperts": {"VT"},
    "ClassMixture": {"VT", "LVT"},
    "DirichletProcessMixture": {"VT"},
    "StudentMixture": {"VT", "LVT", "Laplace", "VariationalKernel", *_FACTORS, *_LABELS},
    "HMM": {"LVT"},
    "LDA": {"Laplace", *_FACTORS},
    "HDP": {
        "VT", "Gibbs", "EM", "ParallelTempering", "AIS", "SMC", "ImportanceSampling", "VariationalKernel", "Laplace",
        *_FACTORS, *_LABELS,
    },
    "StructuralTopics": {
        "VT", "Gibbs", "ParallelTempering", "AIS", "SMC", "ImportanceSampling", "VariationalKernel", "Laplace",
        *_FACTORS, *_LABELS,
    },
    "FactorialMixture": set(),
    "LinearRegression": {"VT", "EM", *_LABELS},  # EM without a prior
    "LogisticRegression": {"VT", "LVT", "EM", *_LABELS},
    "ProbitRegression": {"VT", "LVT", "EM", *_LABELS},
    "PoissonRegression": {"VT", "LVT", "EM", *_LABELS},
    "OrderedRegression": {"VT", "LVT", "EM", *_LABELS},
    "CensoredRegression": {"VT", "LVT", "EM", *_LABELS},
    "TruncatedRegression": {"VT", "LVT", "EM", *_LABELS},
    "FactorAnalysis": {*_LABELS},
    "StateSpace": {"VT", "LVT", *_LABELS},
    "SwitchingStateSpace": {"VT", "LVT", "Laplace", *_FACTORS, *_LABELS},
    "Graph": {"VT", "LVT"},
}  # fmt: skip
# Draws of these have no predictive density to compare; their joint distribution is tested (test_geweke.py). The
# likelihood of a mixture with more Gaussians than the data need has no maximum, nor that of coefficients that a few
# documents do not settle. Importance sampling of a graph proposes
# one order of the labels, and its estimate lacks the others, as its notes say.
WITHOUT_TRUTH = {
    ("LDA", "Gibbs"),
    ("LDA", "CollapsedGibbs"),
    ("LDA", "VariationalKernel"),
    ("StructuralTopics", "EM"),
    ("FactorialMixture", "Gibbs"),
    ("FactorialMixture", "CollapsedGibbs"),
    ("FactorialMixture", "VariationalKernel"),
    ("StateSpace", "Gibbs"),
    ("StateSpace", "VariationalKernel"),
    ("SwitchingStateSpace", "Gibbs"),
    ("SwitchingStateSpace", "VariationalKernel"),
    ("DirichletProcessMixture", "EM"),
    ("ClassMixture", "EM"),
    ("MixtureOfExperts", "EM"),
    ("Graph", "ImportanceSampling"),
}

CELLS = [
    (model, method)
    for model in PROBLEMS
    for method in METHODS
    if method not in REFUSED[model] and (model, method) not in WITHOUT_TRUTH
]

# The default suite: every model by at least three kinds of methods, or all there are; every method on two models. Not
# here is what other tests hold to the exact answer: Laplace of Gaussian mixtures (tests/inference/test_laplace.py), VB
# of factorial mixtures and EP of probit and logistic regressions (tests/models).
COVERING = {
    "GaussianMixture": (
        "VB",
        "Annealed",
        "LVT",
        "EP",
        "MessagePassing",
        "Gibbs",
        "VariationalKernel",
        "ImportanceSampling",
    ),
    "Mixture": ("VT", "CVB0", "EP", "CollapsedGibbs", "VariationalKernel", "EM"),
    "ClassMixture": ("VB", "EP", "CollapsedGibbs"),
    "MixtureOfExperts": ("VB", "EP", "Gibbs"),
    "DirichletProcessMixture": ("VB", "Gibbs", "Laplace"),
    "StudentMixture": ("VB", "Gibbs", "EM"),
    "HMM": ("VB", "CollapsedGibbs", "EM"),
    "LDA": ("SVI", "VT", "LVT", "CVB0", "ParallelTempering", "EM"),
    "HDP": ("VB", "SVI"),
    "StructuralTopics": ("VB", "SVI"),
    "FactorialMixture": ("EP", "ParallelTempering", "SMC", "EM"),
    "LinearRegression": ("SVI", "EP", "ImportanceSampling", "SMC", "Laplace"),
    "LogisticRegression": ("VB", "AIS", "Laplace"),
    "ProbitRegression": ("VB", "MessagePassing", "Gibbs", "Laplace"),
    "PoissonRegression": ("VB", "EP", "Gibbs", "Laplace"),
    "OrderedRegression": ("VB", "EP", "Laplace"),
    "CensoredRegression": ("VB", "EP", "Laplace"),
    "TruncatedRegression": ("VB", "EP", "Laplace"),
    "FactorAnalysis": ("Annealed", "EP", "ParallelTempering", "EM"),
    "StateSpace": ("VB", "AIS", "EM"),
    "SwitchingStateSpace": ("VB", "ParallelTempering", "EM"),
    "Graph": ("VB", "CVB0", "EP", "Gibbs", "Laplace"),
}
