"""Models: each is a prior and one scalar function (see `_model.py`)."""

from ..data.features import Polynomial
from ._data import Data
from ._model import Conditional, Each, Model, Posterior, Powers, Way
from .factorial import FactorialMixture
from .hidden_markov.model import HMM
from .linear.answers import Prediction
from .linear.factor_analysis import FactorAnalysis
from .linear.generalised import LogisticRegression, PoissonRegression, ProbitRegression
from .linear.regression import LinearRegression
from .linear.state_space import StateSpace
from .mixture.dirichlet_process import DirichletProcessMixture
from .mixture.finite import Mixture
from .mixture.gaussian import GaussianMixture
from .topics.lda import LDA

__all__ = [
    "HMM",
    "LDA",
    "Conditional",
    "Data",
    "DirichletProcessMixture",
    "Each",
    "FactorAnalysis",
    "FactorialMixture",
    "GaussianMixture",
    "LinearRegression",
    "LogisticRegression",
    "Mixture",
    "Model",
    "PoissonRegression",
    "Polynomial",
    "Posterior",
    "Powers",
    "Prediction",
    "ProbitRegression",
    "StateSpace",
    "Way",
]
