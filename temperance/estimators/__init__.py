"""scikit-learn estimators, thin over `fit`: the same models and methods behind the interface of that library.

`BayesianGaussianMixture` and `LatentDirichletAllocation` take the arguments of scikit-learn's classes of those names,
so changing the import line is enough; `inference` chooses another method than theirs.
"""

from .factorial import FactorialMixture
from .gaussian import BayesianGaussianMixture
from .mixture import BayesianMixture, DirichletProcessMixture
from .regression import BayesianLinearRegression
from .topic_model import TopicModel
from .topics import LatentDirichletAllocation

__all__ = [
    "BayesianGaussianMixture",
    "BayesianLinearRegression",
    "BayesianMixture",
    "DirichletProcessMixture",
    "FactorialMixture",
    "LatentDirichletAllocation",
    "TopicModel",
]
