"""Small problems whose log evidence is known, from the data files in `problems/`.

Each file describes one model in words and numbers and says how the log evidence follows: every assignment of data,
tokens or steps enumerated with the parameters integrated out, or quadrature over what is left after the Gaussian
integrals. Its `problems` have a name, settings, data, the log evidence and its uncertainty (0 where it is exact). Some
data are well described by the model and some not. The derivations are those of the test suite
(`tests/matrix/truths.py`, `tests/exact`), which use nothing of the package; `Problem.derived` goes through them again.
Real data are too many to enumerate: two long computations that share no code bracket their log evidence (`chib.py` is
one).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import temperance as tp
from temperance.datasets import UnknownDataset
from tests.exact import enumeration, marginals, pairs
from tests.matrix import truths

FOLDER = Path(__file__).parent / "problems"
SLOW = ("LDA", "StudentMixture")
PAIRS = {
    f"{pair.name} mixture": pair
    for pair in (
        pairs.FULL, pairs.DIAGONAL, pairs.SPHERICAL, pairs.KNOWN, pairs.POISSON, pairs.BERNOULLI, pairs.CATEGORICAL,
        pairs.MULTINOMIAL,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Problem:
    family: str  # those of one family share their compiled programs
    model: Callable[[], Any]
    data: Any
    log_evidence: float
    uncertainty: float  # of the log evidence
    derived: Callable[[], float] | None  # the log evidence again; None where it took long runs
    slow: bool = False


@functools.cache
def problems() -> dict[str, Problem]:
    """By name: the family and a number. Data that are not on this machine leave their problems out."""
    return dict(made for path in sorted(FOLDER.glob("*.json")) for made in _read(path))


def how_many() -> int:
    """All problems, those of data that are not on this machine too."""
    return sum(len(json.loads(path.read_text())["problems"]) for path in FOLDER.glob("*.json"))


def _read(path: Path) -> Iterator[tuple[str, Problem]]:
    for one in json.loads(path.read_text())["problems"]:
        try:
            model, data, derived = _made(one["family"], one["settings"], one["data"])
        except UnknownDataset:
            continue
        slow = one["family"] in SLOW or isinstance(one["data"], str)
        yield one["name"], Problem(one["family"], model, data, one["log_evidence"], one["uncertainty"], derived, slow)


def _made(family: str, settings: dict[str, Any], data: Any) -> tuple[Callable[[], Any], Any, Any]:
    """The model, the data as it takes them, and the derivation."""
    size, prior = settings.get("components", 0), settings.get("prior", {})
    if family in PAIRS:
        pair, hyper, x = PAIRS[family], _arrays(prior), np.array(data, float)
        mixture = functools.partial(pair.mixture, size, hyper)
        return mixture, x, lambda: enumeration.log_evidence(x, pair.marginal(hyper), np.ones(size))
    if family in truths.PROBLEMS:
        problem, x = truths.PROBLEMS[family], _taken(family, data)
        return problem.model, x, lambda: problem.evidence(x)
    x = tp.datasets.load(data) if isinstance(data, str) else np.array(data, float)
    gaussian = functools.partial(tp.GaussianMixture, size, prior=tp.NormalWishart(**prior))

    def marginal(rows: np.ndarray) -> float:
        return marginals.gaussian(rows, **prior)

    if not isinstance(data, str):
        return gaussian, x, lambda: enumeration.log_evidence(x, marginal, np.ones(size))
    return gaussian, x, (lambda: marginal(x)) if size == 1 else None


def _arrays(hyper: dict[str, Any]) -> dict[str, Any]:
    return {name: np.array(value, float) if isinstance(value, list) else value for name, value in hyper.items()}


def _taken(family: str, data: Any) -> Any:
    """Plain lists as the model of this family takes them."""
    if family == "ClassMixture":
        return tp.read_table(data, like=truths.TABLE.schema)
    if family in ("LDA", "HDP"):
        return data
    if family == "StructuralTopics":
        return tuple(data)
    if family.endswith("Regression") or family == "MixtureOfExperts":
        return tuple(np.array(part, float) for part in data)
    return np.array(data, float)
