"""Models: each is a prior and one scalar function (see `_model.py`)."""

from ._data import Data
from ._model import Conditional, Each, Model, Posterior, Powers
from .dirichlet_process import DirichletProcessMixture
from .gaussian_mixture import GaussianMixture
from .mixture import Mixture

__all__ = [
    "Conditional",
    "Data",
    "DirichletProcessMixture",
    "Each",
    "GaussianMixture",
    "Mixture",
    "Model",
    "Posterior",
    "Powers",
]
