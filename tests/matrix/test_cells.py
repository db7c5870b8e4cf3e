"""Every method on every model, each against the exact evidence or predictive density of a tiny problem."""

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest

import temperance as tp
from tests.matrix.cells import CELLS, COVERING, METHODS, REFUSED, WITHOUT_TRUTH
from tests.matrix.page import PAGE, line, refusal, table
from tests.matrix.truths import PROBLEMS, Problem
from tests.tiers import with_slow

QUICK = {(model, method) for model, methods in COVERING.items() for method in methods}


def check_bound(fit: tp.Fit, problem: Problem) -> None:
    exact = problem.log_evidence
    assert exact - problem.gap < fit.log_evidence < exact + 1e-9
    if isinstance(fit.method, tp.VB):
        assert (np.diff(fit.history["elbo"], axis=0) > -1e-9).all()


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
    sentence = refusal(model, method)
    assert "\n" not in sentence and ("tp." in sentence or " is for " in sentence)
    assert line(model, method, sentence) in PAGE.read_text("utf-8"), "python -m tests.matrix.page writes docs/matrix.md"


def test_the_page_has_the_table_and_no_other_refusals() -> None:
    text = PAGE.read_text("utf-8")
    assert table() in text, "python -m tests.matrix.page writes docs/matrix.md"
    assert text.count("\n- `") == sum(len(refused) for refused in REFUSED.values())


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
    for name in set(METHODS) - {"CVB0"}:  # which is for topics
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
