"""scikit-learn estimators, thin over `fit`: the same models and methods behind the interface of that library.

Classes with the name of one of scikit-learn or hmmlearn take its arguments and set its attributes, so changing the
import line is enough; `inference` chooses another method than theirs.
"""

from .classes import ClassMixture
from .factorial import FactorialMixture
from .factors import PCA, FactorAnalysis
from .gaussian import BayesianGaussianMixture
from .gaussian_em import GaussianMixture
from .hmm import CategoricalHMM, GaussianHMM, MultinomialHMM, PoissonHMM
from .logistic import LogisticRegression
from .mixture import BayesianMixture, DirichletProcessMixture
from .regression import BayesianLinearRegression
from .ridge import ARDRegression, BayesianRidge
from .state_space import StateSpace
from .topic_model import TopicModel
from .topics import LatentDirichletAllocation

__all__ = [
    "PCA",
    "ARDRegression",
    "BayesianGaussianMixture",
    "BayesianLinearRegression",
    "BayesianMixture",
    "BayesianRidge",
    "CategoricalHMM",
    "ClassMixture",
    "DirichletProcessMixture",
    "FactorAnalysis",
    "FactorialMixture",
    "GaussianHMM",
    "GaussianMixture",
    "LatentDirichletAllocation",
    "LogisticRegression",
    "MultinomialHMM",
    "PoissonHMM",
    "StateSpace",
    "TopicModel",
]
