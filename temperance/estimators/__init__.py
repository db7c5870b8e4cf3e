"""scikit-learn estimators, thin over `fit`: the same models and methods behind the interface of that library.

`BayesianGaussianMixture`, `LatentDirichletAllocation`, `BayesianRidge` and `ARDRegression` take the arguments of
scikit-learn's classes of those names, so changing the import line is enough; `inference` chooses
another method than theirs.
"""

from .factorial import FactorialMixture
from .factors import PCA, FactorAnalysis
from .gaussian import BayesianGaussianMixture
from .gaussian_em import GaussianMixture
from .mixture import BayesianMixture, DirichletProcessMixture
from .regression import BayesianLinearRegression
from .ridge import ARDRegression, BayesianRidge
from .topic_model import TopicModel
from .topics import LatentDirichletAllocation

__all__ = [
    "PCA",
    "ARDRegression",
    "BayesianGaussianMixture",
    "BayesianLinearRegression",
    "BayesianMixture",
    "BayesianRidge",
    "DirichletProcessMixture",
    "FactorAnalysis",
    "FactorialMixture",
    "GaussianMixture",
    "LatentDirichletAllocation",
    "TopicModel",
]
