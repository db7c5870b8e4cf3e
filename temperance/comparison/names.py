"""Labels for the models and methods of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._arguments import given as met
from ..errors import InvalidParameter, UnsupportedMethod
from ..inference._method import Method
from ..inference.point.em import EM
from ..inference.variational.coordinate import VB
from ..models import Model
from ..models._about import counted

Label = int | str  # of a model: its size if the models differ in size, else its name


def named_models(models: Sequence[Model] | Mapping[Label, Model]) -> tuple[dict[Label, Model], str]:
    given = list(models.values()) if isinstance(models, Mapping) else _listed(models, Model, "models")
    if not given or not all(isinstance(model, Model) for model in given):
        wrong = next((each for each in given if not isinstance(each, Model)), models)
        raise InvalidParameter(f"models must be models such as tp.GaussianMixture(3), got {met(wrong)}")
    sizes = [size_of(model) for model in given]
    kinds = {type(model) for model in given}
    if isinstance(models, Mapping):
        labels: list[Label] = list(models)
        counted = labels == [size and size[1] for size in sizes]
    else:
        numbers = [size[1] for size in sizes if size]
        counted = len(kinds) == 1 and len(set(numbers)) == len(given)
        labels = list(numbers) if counted else _distinct([_model_name(model) for model in given])
    return dict(zip(labels, given, strict=True)), sizes[0][0] if counted and sizes[0] else "model"


def named_methods(methods: Any) -> dict[str, Method]:
    if methods is None:
        return {"VB": VB(restarts=10)}
    if isinstance(methods, Mapping):
        named = dict(methods)
    else:
        given = _listed(methods, Method, "methods")
        named = dict(zip(_distinct([getattr(m, "name", "?") for m in given]), given, strict=True))
    for name, method in named.items():
        if not isinstance(method, Method):
            raise UnsupportedMethod(f"methods must be methods such as tp.VB(), got {method!r}")
        if isinstance(method, EM):
            raise UnsupportedMethod(
                f"methods holds {name}, whose value is a likelihood or a density and not an evidence: it grows with "
                "the size of the model; use tp.VB() or tp.Laplace()"
            )
    if not named:
        raise InvalidParameter("methods must not be empty")
    return named


def _listed(given: Any, kind: type, name: str) -> list[Any]:
    if isinstance(given, kind):
        return [given]
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InvalidParameter(f"{name} must be a list, got {given!r}")
    return list(given)


def size_of(model: Model) -> tuple[str, int] | None:
    """What the size of a model counts ("components", …) and the size; None without one."""
    words = model.words
    return None if words.size is None else (words.parts or words.part, words.size)


def _model_name(model: Model) -> str:
    size = size_of(model)
    return type(model).__name__ + (f"({size[1]})" if size else "")


def sized(label: Label, size_name: str) -> str:
    """3 components, 1 component, degree 2, or the name of a model."""
    return str(label) if size_name == "model" else counted(label, size_name)


def _distinct(names: list[str]) -> list[Any]:
    """The names, with numbers added to those that occur twice."""
    return [
        name if names.count(name) == 1 else f"{name} #{names[:index].count(name) + 1}"
        for index, name in enumerate(names)
    ]


def log_prior_of(prior: Any, n: int) -> np.ndarray:
    if prior is None:
        return np.full(n, -np.log(n))
    weights = np.asarray(prior, dtype=np.float64)
    if weights.shape != (n,) or not (np.isfinite(weights) & (weights > 0)).all():
        raise InvalidParameter(f"prior must be one positive weight for each of the {n} models, got {prior!r}")
    return np.log(weights / weights.sum())
