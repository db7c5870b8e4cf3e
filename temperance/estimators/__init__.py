"""scikit-learn estimators: a thin layer over `fit` with the interface of that library.

Classes named after a class of scikit-learn or hmmlearn take its arguments and set its attributes, so that changing the
import line is enough; `inference` chooses a method other than the original's.

`n_components` is the number of components, classes, factors or states. `inference` is a method such as `tp.EP()`, or
its name: "vb", "ep", "pt", …. A run ends when its bound gains less than `tol`, in the units of the method, or after
`max_iter` iterations. The best of `n_init` runs from random starts is kept. `random_state` is a whole number, or a
NumPy generator to draw one from.
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
