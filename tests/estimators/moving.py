"""The same script with one changed line, for every class that stands in for another library's: the table of
docs/measurements/estimators.md, printed by `python -m tests.estimators.moving`."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from temperance import estimators

N = 300
_rng = np.random.default_rng(0)
_z = _rng.integers(3, size=N)
GROUPS = np.array([[0.0, 0.0], [6.0, 1.0], [1.0, 7.0]])[_z] + _rng.normal(size=(N, 2)) * [1.0, 0.6]
FACTORS = 3.0 + _rng.normal(size=(N, 2)) @ (2.0 * _rng.normal(size=(2, 6))) + 0.5 * _rng.normal(size=(N, 6))
INPUTS = _rng.normal(size=(N, 4))
TARGETS = 1.0 + INPUTS @ [2.0, 0.0, -1.0, 0.0] + 0.5 * _rng.normal(size=N)
YES = (INPUTS @ [1.0, 0.0, -2.0, 0.5] + _rng.logistic(size=N) > 0).astype(int)
_topics = _rng.dirichlet(np.full(30, 0.1), 4)
COUNTS = np.stack([_rng.multinomial(60, _rng.dirichlet(np.full(4, 0.3)) @ _topics) for _ in range(80)])
_path = np.repeat([0, 1, 0, 1, 1, 0], 40)
NUMBERS = np.array([[0.0, 0.0], [4.0, -2.0]])[_path] + _rng.normal(size=(240, 2)) * [1.0, 0.5]
RATES = _rng.poisson(np.array([[2.0, 9.0], [8.0, 3.0]])[_path])
_shares = np.array([[0.1, 0.2, 0.7], [0.7, 0.2, 0.1]])[_path]
CODES = (_rng.uniform(size=(240, 1)) > np.cumsum(_shares, axis=1)).sum(axis=1)[:, None]
TOTALS = np.stack([_rng.multinomial(9, row) for row in _shares])


class Case(NamedTuple):
    """A class of another library, its arguments and data, what is compared, and how close it is (relative to the
    largest number)."""

    module: str
    arguments: dict[str, Any]
    data: tuple[Any, ...]
    compared: str
    answer: Callable[[Any, tuple[Any, ...]], Any]
    tolerance: float


def labels(model: Any, data: tuple[Any, ...]) -> Any:
    """Labels numbered by their first occurrence."""
    found = model.predict(data[0])
    _, first = np.unique(found, return_index=True)
    return np.argsort(np.argsort(first))[np.searchsorted(np.unique(found), found)]


def predicted(model: Any, data: tuple[Any, ...]) -> Any:
    return model.predict(data[0])


def scores(model: Any, data: tuple[Any, ...]) -> Any:
    return model.score_samples(data[0])


def states(model: Any, data: tuple[Any, ...]) -> Any:
    return np.append(model.predict(data[0]), model.score(data[0]))


_MIXTURE: dict[str, Any] = {"n_components": 3, "random_state": 0, "max_iter": 500, "tol": 1e-6}
_CHAIN: dict[str, Any] = {"n_components": 2, "random_state": 4, "n_iter": 20, "tol": 0.0}
CASES = {
    "GaussianMixture": Case("sklearn.mixture", _MIXTURE, (GROUPS,), "scores of the rows", scores, 1e-3),
    "BayesianGaussianMixture": Case(
        "sklearn.mixture", _MIXTURE | {"weight_concentration_prior_type": "dirichlet_distribution"}, (GROUPS,),
        "labels", labels, 0.0,
    ),
    "LatentDirichletAllocation": Case(
        "sklearn.decomposition",
        {"n_components": 4, "random_state": 0, "mean_change_tol": 1e-8, "max_doc_update_iter": 1000},
        (COUNTS,), "topics", lambda model, data: model.components_, 1e-6,
    ),
    "FactorAnalysis": Case(
        "sklearn.decomposition", {"n_components": 2, "tol": 1e-8, "max_iter": 20_000, "svd_method": "lapack"},
        (FACTORS,), "scores of the rows", scores, 1e-4,
    ),
    "PCA": Case(
        "sklearn.decomposition", {"n_components": 2}, (FACTORS,), "components along the axes",
        lambda model, data: model.transform(data[0]), 1e-4,
    ),
    "BayesianRidge": Case("sklearn.linear_model", {}, (INPUTS, TARGETS), "predictions", predicted, 1e-5),
    "ARDRegression": Case("sklearn.linear_model", {}, (INPUTS, TARGETS), "predictions", predicted, 1e-3),
    "LogisticRegression": Case(
        "sklearn.linear_model", {"tol": 1e-8}, (INPUTS, YES), "probabilities",
        lambda model, data: model.predict_proba(data[0]), 1e-4,
    ),
    "GaussianHMM": Case("hmmlearn.hmm", _CHAIN, (NUMBERS,), "states and the score", states, 1e-6),
    "CategoricalHMM": Case("hmmlearn.hmm", _CHAIN, (CODES,), "states and the score", states, 1e-6),
    "MultinomialHMM": Case("hmmlearn.hmm", _CHAIN | {"n_trials": 9}, (TOTALS,), "states and the score", states, 1e-6),
    "PoissonHMM": Case("hmmlearn.hmm", _CHAIN, (RATES,), "states and the score", states, 1e-6),
}  # fmt: skip


def both(name: str) -> tuple[Any, Any]:
    """Ours and theirs, fitted."""
    case = CASES[name]
    modules = (estimators, importlib.import_module(case.module))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MultinomialHMM says that it has changed
        ours, theirs = (getattr(module, name)(**case.arguments).fit(*case.data) for module in modules)
    return ours, theirs


def distance(name: str, ours: Any, theirs: Any) -> float:
    """The largest difference of what is compared, relative to the largest number."""
    case = CASES[name]
    found, wanted = (np.asarray(case.answer(model, case.data), dtype=float) for model in (ours, theirs))
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def table() -> str:
    lines = ["| class | compared | within | theirs | ours, first fit | later fits |", "|---|---|---|---|---|---|"]
    for name, case in CASES.items():
        seconds = []
        module = importlib.import_module(case.module)
        for kind in (getattr(module, name), getattr(estimators, name), getattr(estimators, name)):
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kind(**case.arguments).fit(*case.data)
            seconds.append(time.process_time() - began)
        within = f"{case.tolerance:.0e}" if case.tolerance else "the same"
        cells = (f"`{name}`", case.compared, within, *(f"{1000 * value:,.0f} ms" for value in seconds))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
