"""Models: each is a prior and one scalar function (see `_model.py`)."""

from ._data import Data
from ._model import Conditional, Each, Model, Posterior, Powers, Way
from .dirichlet_process import DirichletProcessMixture
from .factor_analysis import FactorAnalysis
from .factorial import FactorialMixture
from .features import Polynomial
from .gaussian_mixture import GaussianMixture
from .hidden_markov import HMM
from .mixture import Mixture
from .prediction import Prediction
from .regression import LinearRegression
from .state_space import StateSpace
from .topics import LDA

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
    "Mixture",
    "Model",
    "Polynomial",
    "Posterior",
    "Powers",
    "Prediction",
    "StateSpace",
    "Way",
]
