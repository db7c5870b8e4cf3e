"""Temperance: approximate Bayesian inference in latent-variable models.

One model, every method, an honest log evidence.
"""

from typing import TYPE_CHECKING, Any

from ._configure import configure

configure()

from . import datasets  # noqa: E402
from .compare import compare  # noqa: E402
from .comparison.agreement import bracket  # noqa: E402
from .comparison.comparison import Comparison  # noqa: E402
from .data.stream import Stream  # noqa: E402
from .diagnostics.coherence import coherence  # noqa: E402
from .families import *  # noqa: E402, F403
from .families import __all__ as _families  # noqa: E402
from .fit import Fit, fit, load  # noqa: E402
from .graph import Graph  # noqa: E402
from .inference.messages.alpha_divergence import MessagePassing  # noqa: E402
from .inference.messages.ep import EP  # noqa: E402
from .inference.monte_carlo.annealed_importance import AIS  # noqa: E402
from .inference.monte_carlo.collapsed import CollapsedGibbs  # noqa: E402
from .inference.monte_carlo.gibbs import Gibbs  # noqa: E402
from .inference.monte_carlo.importance import ImportanceSampling  # noqa: E402
from .inference.monte_carlo.parallel_tempering import ParallelTempering  # noqa: E402
from .inference.monte_carlo.variational_kernel import VariationalKernel  # noqa: E402
from .inference.point.em import EM  # noqa: E402
from .inference.point.laplace import Laplace  # noqa: E402
from .inference.variational.annealed import Annealed  # noqa: E402
from .inference.variational.coordinate import VB  # noqa: E402
from .inference.variational.cvb0 import CVB0  # noqa: E402
from .inference.variational.local_tempered import LVT  # noqa: E402
from .inference.variational.stochastic import SVI  # noqa: E402
from .inference.variational.tempered import VT  # noqa: E402
from .models import (  # noqa: E402
    HMM,
    LDA,
    DirichletProcessMixture,
    FactorAnalysis,
    FactorialMixture,
    GaussianMixture,
    LinearRegression,
    Mixture,
    Polynomial,
    Prediction,
    StateSpace,
)
from .models.topics.report import Completion, document_completion, perplexity  # noqa: E402
from .report import report  # noqa: E402

if TYPE_CHECKING:
    from .report import plots as plot


def __getattr__(name: str) -> Any:
    """`tp.plot` is imported when it is first used: Matplotlib takes its time."""
    if name == "plot":
        from .report import plots

        return plots
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AIS",
    "CVB0",
    "EM",
    "EP",
    "HMM",
    "LDA",
    "LVT",
    "SVI",
    "VB",
    "VT",
    "Annealed",
    "CollapsedGibbs",
    "Comparison",
    "Completion",
    "DirichletProcessMixture",
    "FactorAnalysis",
    "FactorialMixture",
    "Fit",
    "GaussianMixture",
    "Gibbs",
    "Graph",
    "ImportanceSampling",
    "Laplace",
    "LinearRegression",
    "MessagePassing",
    "Mixture",
    "ParallelTempering",
    "Polynomial",
    "Prediction",
    "StateSpace",
    "VariationalKernel",
    "bracket",
    "coherence",
    "compare",
    "Stream",
    "datasets",
    "document_completion",
    "fit",
    "load",
    "perplexity",
    "plot",
    "report",
    *_families,
]
