"""Models: each is a prior and one scalar function (see `_model.py`). A model is imported when it is first used."""

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


def __getattr__(name: str) -> object:
    """The public names that `registry.py` finds in this folder."""
    from ..registry import EXPORTS, resolve

    if not EXPORTS.get(name, "").startswith("models."):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = resolve(name)
    return globals()[name]
