"""The contract of a model: few names for an author, and none of those that are derived written again."""

import importlib
import inspect

from temperance import registry
from temperance.models import Model, _derive
from temperance.models._model import Wrapped

MOST = 20


def own_names() -> set[str]:
    """What an author of a model can write: everything public, that of the bases included, that is not derived."""
    names = {"prior"} | {name for name in dir(Model) if not name.startswith("_")}
    return names - derived()


def derived() -> set[str]:
    return {name for name, value in vars(Model).items() if inspect.getmodule(value) is _derive}


def every_model() -> list[type[Model]]:
    for entry in registry.models():
        importlib.import_module(f"temperance.{entry.module}")
    importlib.import_module("temperance.graph.compiled")
    importlib.import_module("temperance.cluster.model")
    found, waiting = [], [Model]
    while waiting:
        kinds = waiting.pop().__subclasses__()
        found += kinds
        waiting += kinds
    return [kind for kind in found if kind.__module__.startswith("temperance.")]


def test_an_author_meets_few_names() -> None:
    assert {"prior", "log_evidence", "symmetry", "words", "units", "rows", "tempering"} <= own_names()
    assert len(own_names()) <= MOST, sorted(own_names())


def test_what_is_derived_is_never_written_again() -> None:
    kinds = every_model()
    assert Wrapped in kinds and len(kinds) > 25
    assert {"walk", "sweep", "bound", "gibbs"} <= derived()
    assert [f"{kind.__name__}.{name}" for kind in kinds for name in derived() if name in vars(kind)] == []
