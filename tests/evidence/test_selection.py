"""Comparing models: against exact evidence, known choices, and what must never decide."""

import dataclasses
from concurrent.futures import ProcessPoolExecutor
from math import factorial, log
from multiprocessing import get_context

import numpy as np
import pytest
from scipy.special import logsumexp

import temperance as tp
from temperance.comparison import tasks
from temperance.comparison.tasks import Task, firsts_first
from temperance.errors import InvalidParameter, NumericalFailure, UnsupportedMethod
from temperance.evidence.multiplicity import _group_sizes, log_arrangements
from temperance.inference.progress import TimeLeft

X = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1])[:, None]
EXACT = np.array([-18.924757, -11.082783, -11.248176])  # all assignments enumerated
PRIOR = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])


def mixtures(*sizes):
    return [tp.GaussianMixture(k, prior=PRIOR) for k in sizes]


@pytest.fixture(scope="module")
def tiny():
    return tp.compare(mixtures(1, 2, 3), X, tp.VB(restarts=10, tol=1e-10), seed=0)


def test_the_evidence_is_that_of_the_fits(tiny):
    np.testing.assert_allclose(tiny.log_evidence, [-18.924757, -11.777076, -13.281153], atol=2e-6)
    assert tiny.log_evidence[0] == pytest.approx(EXACT[0], abs=1e-6)  # one component: the bound is exact
    again = tp.fit(mixtures(2)[0], X, tp.VB(restarts=10, tol=1e-10), seed=0)
    assert tiny.log_evidence[1] == again.log_evidence


def test_labels_count_as_often_as_they_differ(tiny):
    """Three components, of which two hold data: 3!/1! labellings."""
    np.testing.assert_allclose(tiny.label_correction, [0.0, log(2), log(6)], rtol=1e-12)
    np.testing.assert_allclose(tiny.total_log_evidence, tiny.log_evidence + tiny.label_correction)
    assert abs(tiny.total_log_evidence[1] - EXACT[1]) < 0.01 < abs(tiny.log_evidence[1] - EXACT[1])
    assert abs(tiny.total_log_evidence[2] - EXACT[2]) < 0.3 < abs(tiny.log_evidence[2] - EXACT[2])
    assert (tiny.total_log_evidence <= EXACT + 1e-6).all()


@pytest.mark.slow
def test_probabilities_are_near_the_exact_ones(tiny):
    exact = np.exp(EXACT - logsumexp(EXACT))
    assert tiny.best == 2 and tiny.best_fit.model.n_components == 2 and tiny.models == (1, 2, 3)
    np.testing.assert_allclose(tiny.probabilities, exact, atol=0.07)
    assert tiny.probabilities.sum() == pytest.approx(1.0)


def test_predictions_are_averaged_over_models(tiny):
    new = np.array([[-3.0], [0.0], [1.0]])
    parts = [tiny.fit(k).log_predictive(new) for k in (1, 2, 3)]
    expected = logsumexp(np.stack(parts), axis=0, b=tiny.probabilities[:, None])
    np.testing.assert_allclose(tiny.log_predictive(new), expected, rtol=1e-12)
    assert (tiny.log_predictive(new) != tiny.best_fit.log_predictive(new)).all()


def test_a_prior_over_models_shifts_the_log_odds(tiny):
    prior = np.array([1.0, 1.0, 8.0])
    other = tp.compare(mixtures(1, 2, 3), X, tp.VB(restarts=10, tol=1e-10), seed=0, prior=prior, resume=tiny)
    expected = tiny.probabilities * prior / np.sum(tiny.probabilities * prior)
    np.testing.assert_allclose(other.probabilities, expected)
    assert other.best == 3
    assert other.fit(2) is tiny.fit(2)  # taken over, not fitted again


def test_side_by_side_is_the_same(tiny):
    method = tp.VB(restarts=10, tol=1e-10)
    again = tp.compare(mixtures(1, 2, 3), X, method, workers=2)
    np.testing.assert_array_equal(again.log_evidence, tiny.log_evidence)
    assert again.fit(1).data is again.fit(3).data
    with pytest.raises(InvalidParameter, match="workers must be"):
        tp.compare(mixtures(1), X, method, workers=0)


def test_a_pool_of_processes_is_the_same(tiny):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        again = tp.compare(mixtures(1, 2), X, tp.VB(restarts=10, tol=1e-10), engine=pool)
        np.testing.assert_allclose(again.log_evidence, tiny.log_evidence[:2], rtol=1e-12)
        assert again.fit(1).data is again.fit(2).data
        with pytest.raises(InvalidParameter, match="data must be in memory"):
            tp.compare(mixtures(1), tp.Stream(X), engine=pool)


def test_the_first_of_each_method_goes_first():
    model, vb = mixtures(1)[0], tp.VB()
    names = [(label, name) for name in ("VB", "EP") for label in (1, 2, 3)]
    order = firsts_first([Task(label, name, model, vb) for label, name in names])
    assert [task[:2] for task in order] == [(1, "EP"), (1, "VB"), (3, "EP"), (2, "EP"), (3, "VB"), (2, "VB")]


def test_an_error_beside_other_fits_ends_them_all(tiny, monkeypatch):
    def fails(model, *arguments, **options):
        if model.n_components == 1:
            raise UnsupportedMethod("not this one")
        return tiny.fit(2)

    monkeypatch.setattr(tasks, "fit", fails)
    with pytest.raises(UnsupportedMethod, match="not this one"):
        tp.compare(mixtures(1, 2, 3), X, workers=2)


def test_rows_frame_and_file(tiny, tmp_path):
    tiny.save(tmp_path / "hill.tp")
    again = tp.load(tmp_path / "hill.tp")
    assert again.rows() == tiny.rows()
    np.testing.assert_array_equal(again.log_predictive(X), tiny.log_predictive(X))
    frame = tiny.to_frame()
    assert list(frame["components"]) == [1, 2, 3] and frame["low"].equals(frame["log_evidence"])
    np.testing.assert_array_equal(frame["log_evidence"], tiny.log_evidence)
    assert tiny.rows()[0]["high"] is None


def test_fits_of_one_comparison_share_their_data_in_memory_and_on_disk(tiny, tmp_path):
    assert tiny.fit(1).data is tiny.fit(3).data
    size = {}
    for copies in (1, 3):
        tp.storage.save([np.arange(10_000.0) for _ in range(copies)], tmp_path / f"{copies}")
        size[copies] = (tmp_path / f"{copies}").stat().st_size
    assert size[3] < 1.01 * size[1]


def test_the_summary_says_what_is_best_and_both_evidences(tiny, capsys):
    print(tiny.summary())
    printed = capsys.readouterr().out
    assert "2 components" in printed and f"{tiny.probabilities[1]:.1%}" in printed
    assert "log K!" in printed and "Without it the choice would be the same" in printed


@pytest.mark.slow
def test_message_passing_that_has_not_converged_never_decides():
    """ln s of a frozen run can exceed the truth (errata)."""
    methods = {"short": tp.EP(max_passes=1), "EP": tp.EP(restarts=2)}
    hill = tp.compare(mixtures(2), X, methods)
    assert not hill.cells[0][0].usable and not hill.probabilities_by("short").any()
    assert hill.decided_by == "EP" and hill.best == 2
    assert hill.choices == {"short": None, "EP": 2}
    assert hill.log_evidence.shape == (2, 1)
    assert hill.log_evidence[1, 0] == pytest.approx(-11.776216, abs=1e-4)


def test_a_failed_cell_is_named_and_the_rest_goes_on(tiny, monkeypatch):
    def fails(model, *arguments, **options):
        if model.n_components == 3:
            raise NumericalFailure("VB met an impossible state")
        return tiny.fit(model.n_components)

    monkeypatch.setattr(tasks, "fit", fails)
    hill = tp.compare(mixtures(1, 2, 3), X)
    assert hill.best == 2 and hill.complete
    assert hill.rows()[2]["failure"] == "VB met an impossible state" and hill.rows()[2]["log_evidence"] is None
    with pytest.raises(NumericalFailure, match="impossible state"):
        hill.fit(3)


def test_an_interrupted_comparison_keeps_what_it_has_and_resumes(tiny, monkeypatch):
    fitted = []

    def interrupted(model, *arguments, **options):
        fitted.append(model.n_components)
        if model.n_components == 2:
            return dataclasses.replace(tiny.fit(2), interrupted=True)
        return tiny.fit(model.n_components)

    method = tp.VB(restarts=10, tol=1e-10)
    monkeypatch.setattr(tasks, "fit", interrupted)
    part = tp.compare(mixtures(1, 2, 3), X, method)
    assert fitted == [1, 2] and not part.complete and part.best == 1
    assert "interrupted" in part.rows()[1]["failure"]

    monkeypatch.setattr(tasks, "fit", lambda model, *a, **o: fitted.append(model.n_components) or tiny.fit(2))
    tp.compare(mixtures(1, 2), X, method, resume=part)
    assert fitted == [1, 2, 2]  # the first was taken over
    for changed in ({"data": X + 1}, {"seed": 1}, {"method": tp.VB(restarts=9, tol=1e-10)}):
        arguments = {"data": X, "seed": 0, "method": method} | changed
        tp.compare(mixtures(1), arguments["data"], arguments["method"], arguments["seed"], resume=part)
    assert fitted == [1, 2, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (lambda: tp.compare(mixtures(1), X, [tp.VB(), tp.EM()]), UnsupportedMethod, "methods holds EM"),
        (lambda: tp.compare([3], X), InvalidParameter, "models must be"),
        (
            lambda: tp.compare(mixtures(1, 2), X, prior=[1.0, 0.0]),
            InvalidParameter,
            "prior must be one positive weight",
        ),
        (lambda: tp.compare(mixtures(1), X, {"vb": "VB"}), UnsupportedMethod, "methods must be"),
    ],
)
def test_wrong_arguments_are_named(attempt, error, message):
    with pytest.raises(error, match=message):
        attempt()


def test_models_of_one_size_are_named_or_numbered(tiny, monkeypatch):
    monkeypatch.setattr(tasks, "fit", lambda *a, **o: tiny.fit(2))
    two = mixtures(2, 2)
    assert tp.compare(two, X).models == ("GaussianMixture(2) #1", "GaussianMixture(2) #2")
    assert tp.compare({"wide": two[0], "narrow": two[1]}, X).models == ("wide", "narrow")


def test_groups_of_components_that_can_be_exchanged():
    assert log_arrangements([0, 1, 1, 1]) == pytest.approx(log(6))
    assert log_arrangements([2, 1, 2]) == pytest.approx(log(factorial(5) / (2 * 2)))
    held = np.array([3.0, 0.1, 3.0, 0.0, 4.0])
    features = np.array([[1.0, 2.0], [9.0, 9.0], [1.0 + 1e-9, 2.0], [0.0, 0.0], [1.0, 2.1]])
    assert sorted(_group_sizes(held, features)) == [1, 2, 2]


@pytest.mark.slow
def test_no_correction_where_labels_are_told_apart(tiny):
    fit = tiny.fit(2)
    unequal = tp.GaussianMixture(2, prior=PRIOR, concentration=[1.0, 2.0]).prepare(X)[0]
    assert dataclasses.replace(fit, model=unequal).label_correction == 0.0
    process = tp.DirichletProcessMixture(2, prior=PRIOR).prepare(X)[0]
    assert dataclasses.replace(fit, model=process).label_correction == 0.0


def test_time_left_follows_the_kind_of_fit():
    clock = TimeLeft(["fast", "fast", "slow", "slow"])
    assert clock.seconds(5.0) is None
    clock.finish(1.0)
    assert clock.seconds(0.25) == pytest.approx(0.75 + 1.0 + 1.0)
    clock.finish(1.0)
    clock.finish(7.0)
    assert clock.seconds(2.0) == pytest.approx(5.0)
    assert clock.seconds(20.0) == 0.0


@pytest.mark.slow
def test_galaxies_form_three_groups():
    hill = tp.compare(mixtures(2, 3, 4), tp.datasets.load("galaxy"), tp.VB(restarts=12))
    assert hill.best == 3
    np.testing.assert_allclose(hill.log_evidence, [-239.27, -232.63, -238.23], atol=0.01)


@pytest.mark.slow
def test_galaxies_form_three_groups_by_every_method():
    methods = [tp.VB(restarts=20), tp.MessagePassing(0.5, restarts=20), tp.EP(restarts=20)]
    hill = tp.compare(mixtures(*range(1, 7)), tp.datasets.load("galaxy"), methods)
    assert set(hill.choices.values()) == {3}
    np.testing.assert_allclose(hill.log_evidence[:, 0], -251.205, atol=0.001)
    np.testing.assert_allclose(hill.log_evidence[2, 1:3], [-239.25, -232.42], atol=0.01)


@pytest.mark.slow
def test_old_faithful_has_two_kinds_of_eruption():
    """By the default method; with the default prior EP prefers three (see docs/compare.md)."""
    models = [tp.GaussianMixture(k) for k in range(1, 5)]
    assert tp.compare(models, tp.datasets.load("faithful"), tp.VB(restarts=10)).best == 2
