"""Every method on every model, each against the exact evidence or predictive density of a tiny problem."""

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance import registry
from temperance.errors import NumericalFailure, UnsupportedMethod
from tests.matrix.cells import CELLS, COVERING, METHODS, REFUSED, WITHOUT_TRUTH
from tests.matrix.page import ALL_METHODS, ALL_MODELS, PAGE, RUNS, mark, marks, refusal
from tests.matrix.setups import METHODS as PAGE_METHODS
from tests.matrix.setups import MODELS
from tests.matrix.truths import PROBLEMS, Problem
from tests.tiers import with_slow

QUICK = {(model, method) for model, methods in COVERING.items() for method in methods}


def check_bound(fit: tp.Fit, problem: Problem) -> None:
    exact = problem.log_evidence
    assert exact - problem.gap < fit.log_evidence < exact + 1e-9
    if isinstance(fit.method, tp.VB):
        assert (np.diff(fit.history["elbo"], axis=0) > -1e-9).all()


def check_below(fit: tp.Fit, problem: Problem) -> None:
    """The bound of a posterior that was not found by raising it: it may miss twice as much."""
    exact = problem.log_evidence
    assert exact - 2.0 * problem.gap < fit.log_evidence < exact + 1e-9


def check_closer(fit: tp.Fit, problem: Problem) -> None:
    """Message passing with α > 0 closes a part of the gap that α = 0, variational Bayes, leaves."""
    bound = tp.fit(problem.model(), problem.data, METHODS["VB"].method, seed=1, progress=False)
    exact = problem.log_evidence
    assert abs(fit.log_evidence - exact) < exact - bound.log_evidence


def check_approximation(fit: tp.Fit, problem: Problem) -> None:
    """One mode, as a bound has, and on either side of the truth."""
    assert abs(fit.log_evidence - problem.log_evidence) < problem.gap


def check_estimate(fit: tp.Fit, problem: Problem) -> None:
    exact, error = problem.log_evidence, fit.standard_error
    assert error is not None and 0 < error < 0.4
    assert abs(fit.log_evidence - exact) < 4 * error
    if fit.bracket is not None:
        assert fit.bracket[0] < exact < fit.bracket[1]


def check_draws(fit: tp.Fit, problem: Problem) -> None:
    assert np.sum(fit.log_predictive(problem.new)) == pytest.approx(problem.log_predictive, abs=0.06)


def check_maximum(fit: tp.Fit, problem: Problem) -> None:
    """The likelihood rises to a maximum, which lies above its average over the prior."""
    rises = np.diff(fit.history["elbo"], axis=0)
    assert fit.converged and (rises > -1e-9).all()
    assert fit.log_evidence > problem.log_evidence


CHECKS = {
    "bound": check_bound,
    "below": check_below,
    "closer": check_closer,
    "approximation": check_approximation,
    "estimate": check_estimate,
    "draws": check_draws,
    "maximum": check_maximum,
}


@pytest.mark.parametrize(("model", "method"), with_slow(CELLS, *(set(CELLS) - QUICK)))
def test_against_the_exact_answer(model: str, method: str) -> None:
    problem, setup = PROBLEMS[model], METHODS[method]
    fit = tp.fit(problem.model(), problem.data, setup.method, seed=1, progress=False)
    CHECKS[setup.answer](fit, problem)


@pytest.mark.parametrize(
    ("model", "method"), [(model, method) for model in REFUSED for method in METHODS if method in REFUSED[model]]
)
def test_what_cannot_be_done_is_one_sentence(model: str, method: str) -> None:
    problem = PROBLEMS[model]
    with pytest.raises(UnsupportedMethod) as error:
        tp.fit(problem.model(), problem.data, METHODS[method].method, seed=1, progress=False)
    sentence = str(error.value)
    assert "\n" not in sentence and ("tp." in sentence or " is for " in sentence)


# ---- the page: more set-ups, each asked without being run ---------------------------------------------------

TEXT = PAGE.read_text("utf-8")
MARKS = marks(TEXT)


@pytest.mark.parametrize("model", ALL_MODELS)
def test_the_page_says_what_the_library_does(model: str) -> None:
    for method in ALL_METHODS:
        sentence = refusal(model, method)
        assert MARKS[model, method] == mark(model, method, sentence), (method, "python -m tests.matrix.page writes it")
        assert sentence in TEXT and "\n" not in sentence


def test_the_page_has_every_set_up() -> None:
    assert set(MARKS) == {(model, method) for model in ALL_MODELS for method in ALL_METHODS}
    assert len(MODELS) * len(PAGE_METHODS) == 640
    assert sum(MARKS[model, method] == RUNS for model in MODELS for method in PAGE_METHODS) >= 520
    named = {model.split(":")[0] for model in ALL_MODELS}
    assert {entry.name for entry in registry.models()} <= named


@pytest.mark.slow
@pytest.mark.parametrize("model", ALL_MODELS)
def test_what_the_page_says_runs_does(model: str) -> None:
    setup = ALL_MODELS[model]
    for method, chosen in ALL_METHODS.items():
        if MARKS[model, method] == RUNS:
            try:
                tp.fit(setup.model(), setup.data, chosen, seed=1, progress=False)
            except NumericalFailure:  # a few sweeps on a few rows: a restart may collapse
                assert method.startswith(("EM", "Laplace", "MessagePassing"))


def public(base: type) -> set[str]:
    found = ((name, getattr(tp, name)) for name in tp.__all__)
    return {name for name, value in found if inspect.isclass(value) and issubclass(value, base)}


def test_the_default_suite_covers_all() -> None:
    assert set(CELLS) >= QUICK and {*QUICK, *WITHOUT_TRUTH}.isdisjoint((m, r) for m in REFUSED for r in REFUSED[m])
    assert public(tp.models.Model) | {"Graph"} == set(PROBLEMS) == set(COVERING)
    assert public(inspect.getmro(tp.VB)[1]) == set(METHODS)
    for model, methods in COVERING.items():
        there = {METHODS[method].kind for name, method in CELLS if name == model}
        assert len({METHODS[name].kind for name in methods}) >= min(3, len(there)), model
    for name in METHODS:
        assert sum(name in methods for methods in COVERING.values()) >= 2, name


def test_the_truths_tell_right_from_wrong() -> None:
    """A bound above the evidence or far below, an approximation worse than the bound: each check can fail."""
    problem = PROBLEMS["LinearRegression"]
    fit: Any = tp.fit(problem.model(), problem.data, METHODS["VB"].method, seed=1)
    for check, shift in ((check_bound, 0.5), (check_bound, -2.0), (check_closer, 0.5), (check_approximation, 2.0)):
        with pytest.raises(AssertionError):
            check(_shifted(fit, shift), problem)


def _shifted(fit: tp.Fit, by: float) -> tp.Fit:
    return dataclasses.replace(fit, log_evidence=fit.log_evidence + by)
