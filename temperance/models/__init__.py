"""Models: each is a prior and one scalar function (see `_model.py`). A model is imported when it is first used."""

import typing as _typing

from .._lazy import lazy as _lazy
from ._data import Data as Data
from ._factors import Factored as Factored
from ._factors import Factors as Factors
from ._factors import LinearTerms as LinearTerms
from ._factors import written_out as written_out
from ._model import Conditional as Conditional
from ._model import Each as Each
from ._model import Model as Model
from ._model import Posterior as Posterior
from ._model import Powers as Powers
from ._model import Way as Way

if _typing.TYPE_CHECKING:
    from ..data.features import Polynomial as Polynomial
    from .factorial import FactorialMixture as FactorialMixture
    from .hidden_markov import HMM as HMM
    from .linear import Prediction as Prediction
    from .linear.factor_analysis import FactorAnalysis as FactorAnalysis
    from .linear.generalised import CensoredRegression as CensoredRegression
    from .linear.generalised import LogisticRegression as LogisticRegression
    from .linear.generalised import OrderedRegression as OrderedRegression
    from .linear.generalised import PoissonRegression as PoissonRegression
    from .linear.generalised import ProbitRegression as ProbitRegression
    from .linear.generalised import TruncatedRegression as TruncatedRegression
    from .linear.regression import LinearRegression as LinearRegression
    from .linear.state_space import StateSpace as StateSpace
    from .linear.switching import SwitchingStateSpace as SwitchingStateSpace
    from .mixture import Mixture as Mixture
    from .mixture.variants import DirichletProcessMixture as DirichletProcessMixture
    from .mixture.variants import GaussianMixture as GaussianMixture
    from .topics import LDA as LDA

_names, __getattr__ = _lazy(
    __name__,
    {
        ".data.features": ("Polynomial",),
        "factorial": ("FactorialMixture",),
        "hidden_markov": ("HMM",),
        "linear": ("Prediction",),
        "linear.factor_analysis": ("FactorAnalysis",),
        "linear.generalised": (
            "CensoredRegression",
            "LogisticRegression",
            "OrderedRegression",
            "PoissonRegression",
            "ProbitRegression",
            "TruncatedRegression",
        ),
        "linear.regression": ("LinearRegression",),
        "linear.state_space": ("StateSpace",),
        "linear.switching": ("SwitchingStateSpace",),
        "mixture": ("Mixture",),
        "mixture.variants": ("DirichletProcessMixture", "GaussianMixture"),
        "topics": ("LDA",),
    },
)
_contract = "Conditional Data Each Factored Factors LinearTerms Model Posterior Powers Way written_out"
__all__ = sorted([*_names, *_contract.split()])
