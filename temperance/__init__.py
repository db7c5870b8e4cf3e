"""Temperance: approximate Bayesian inference in latent-variable models.

One model, every method, an honest log evidence.

Names are imported when they are first used (PEP 562), from the modules that `temperance.registry` lists. The modules
that every fit needs are imported at once, except by the command line, whose help and error messages need no JAX.
"""

import importlib as _importlib
import sys as _sys
import typing as _typing
from pathlib import Path as _Path
from types import ModuleType as _ModuleType

from . import registry as _registry
from ._configure import configure_jax as _configure_jax
from ._uncollected import uncollected as _uncollected

_configure_jax()

if _typing.TYPE_CHECKING:  # the same names for type checkers
    from . import datasets as datasets
    from . import errors as errors
    from . import estimators as estimators
    from . import models as models
    from .compare import compare as compare
    from .comparison.agreement import bracket as bracket
    from .comparison.comparison import Comparison as Comparison
    from .comparison.topic_sizes import TopicSizes as TopicSizes
    from .comparison.topic_sizes import topic_sizes as topic_sizes
    from .data import Corpus as Corpus
    from .data import Schema as Schema
    from .data import Table as Table
    from .data import read_table as read_table
    from .data import read_texts as read_texts
    from .data.features import Polynomial as Polynomial
    from .data.stream import Stream as Stream
    from .diagnostics.coherence import coherence as coherence
    from .diagnostics.completion import Completion as Completion
    from .diagnostics.completion import document_completion as document_completion
    from .diagnostics.completion import perplexity as perplexity
    from .diagnostics.left_to_right import left_to_right as left_to_right
    from .families import *  # noqa: F403
    from .fit import Fit as Fit
    from .fit import fit as fit
    from .fit import load as load
    from .graph.language import Graph as Graph
    from .inference.messages.alpha_divergence import MessagePassing as MessagePassing
    from .inference.messages.ep import EP as EP
    from .inference.monte_carlo.annealed_importance import AIS as AIS
    from .inference.monte_carlo.collapsed import CollapsedGibbs as CollapsedGibbs
    from .inference.monte_carlo.effects import Effects as Effects
    from .inference.monte_carlo.gibbs import Gibbs as Gibbs
    from .inference.monte_carlo.importance import ImportanceSampling as ImportanceSampling
    from .inference.monte_carlo.parallel_tempering import ParallelTempering as ParallelTempering
    from .inference.monte_carlo.sequential import SMC as SMC
    from .inference.monte_carlo.variational_kernel import VariationalKernel as VariationalKernel
    from .inference.point.em import EM as EM
    from .inference.point.laplace import Laplace as Laplace
    from .inference.variational.annealed import Annealed as Annealed
    from .inference.variational.coordinate import VB as VB
    from .inference.variational.cvb0 import CVB0 as CVB0
    from .inference.variational.local_tempered import LVT as LVT
    from .inference.variational.stochastic import SVI as SVI
    from .inference.variational.tempered import VT as VT
    from .models.factorial import FactorialMixture as FactorialMixture
    from .models.hidden_markov import HMM as HMM
    from .models.linear import Prediction as Prediction
    from .models.linear.factor_analysis import FactorAnalysis as FactorAnalysis
    from .models.linear.generalised import CensoredRegression as CensoredRegression
    from .models.linear.generalised import LogisticRegression as LogisticRegression
    from .models.linear.generalised import OrderedRegression as OrderedRegression
    from .models.linear.generalised import PoissonRegression as PoissonRegression
    from .models.linear.generalised import ProbitRegression as ProbitRegression
    from .models.linear.generalised import TruncatedRegression as TruncatedRegression
    from .models.linear.regression import LinearRegression as LinearRegression
    from .models.linear.state_space import StateSpace as StateSpace
    from .models.linear.switching import SwitchingStateSpace as SwitchingStateSpace
    from .models.mixture import Mixture as Mixture
    from .models.mixture.experts import MixtureOfExperts as MixtureOfExperts
    from .models.mixture.student import StudentMixture as StudentMixture
    from .models.mixture.variants import ClassMixture as ClassMixture
    from .models.mixture.variants import DirichletProcessMixture as DirichletProcessMixture
    from .models.mixture.variants import GaussianMixture as GaussianMixture
    from .models.topics import LDA as LDA
    from .models.topics.report import TopicsBy as TopicsBy
    from .models.topics.variants import HDP as HDP
    from .models.topics.variants import StructuralTopics as StructuralTopics
    from .report import plots as plot  # noqa: F401
    from .report import report as report

    __version__: str

__all__ = sorted([*_registry.EXPORTS, "datasets", "plot"])


class _Package(_ModuleType):
    """`fit`, `compare` and `report` are functions, although the modules that define them have the same names."""

    def __setattr__(self, name: str, value: object) -> None:
        # The import system sets a submodule as an attribute of its package as soon as it is imported.
        if isinstance(value, _ModuleType) and _registry.EXPORTS.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    if name in _registry.EXPORTS:
        value = _registry.resolve(name)
    elif name == "plot":
        value = _importlib.import_module(f"{__name__}.report.plots")
    elif name == "__version__":
        from importlib.metadata import version

        value = version(__name__)
    else:
        return _submodule(name)
    globals()[name] = value
    return value


def _submodule(name: str) -> _ModuleType:
    path = f"{__name__}.{name}"
    try:
        if not name.startswith("_"):
            return _importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _is_command_line() -> bool:
    """Whether this process was started as `temperance …` or `python -m temperance …`."""
    started = _sys.argv[0] if _sys.argv else ""
    return started == "-m" or _Path(started).stem.removesuffix("-script") == "temperance"


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "errors", "estimators", "models", "registry"])


if not _is_command_line():
    with _uncollected():
        _importlib.import_module(f"{__name__}.families")
