"""Parallel tempering against enumeration; ladders, swaps, references and their errors."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter
from temperance.evidence.reweighting import bar
from temperance.evidence.stepping_stone import stepping_stone
from temperance.inference.monte_carlo import parallel_tempering
from temperance.inference.monte_carlo.tempered_result import ladder, round_trips, torn
from temperance.inference.schedules import equal_rejection, power_ladder
from temperance.numerics.autocorrelation import standard_error
from tests.inference.monte_carlo import tiny

METHOD = tp.ParallelTempering(draws=1000, warmup=128, replicas=8, chains=4)


@cache
def fitted() -> tp.Fit:
    return tp.fit(tiny.MODEL, tiny.X, METHOD, seed=0)


def test_evidence_is_that_of_enumeration() -> None:
    fit = fitted()
    assert 0 < fit.standard_error < 0.1
    assert fit.log_evidence == pytest.approx(tiny.LOG_EVIDENCE, abs=4 * fit.standard_error)
    assert fit.bracket is not None
    assert fit.bracket[0] < tiny.LOG_EVIDENCE < fit.bracket[1] < fit.bracket[0] + 1
    stone = fit.details["estimates"]["stepping stone"]
    assert stone.log_evidence == pytest.approx(tiny.LOG_EVIDENCE, abs=4 * stone.standard_error)


def test_expectations_are_those_of_enumeration() -> None:
    exact = tiny.same_component()
    for i, j in tiny.PAIRS:
        series = tiny.together(fitted(), i, j)
        assert series.mean() == pytest.approx(exact[i, j], abs=4 * standard_error(series))


def test_the_ladder_is_adapted_and_travelled() -> None:
    fit = fitted()
    betas, rejection = fit.details["ladder"], fit.details["rejection"]
    assert betas[0] == 0
    assert betas[-1] == 1
    assert (np.diff(betas) > 0).all()
    assert rejection.max() - rejection.min() < 0.2
    assert fit.details["barrier"] == pytest.approx(rejection.sum())
    assert fit.details["round_trips"] > 20
    assert fit.converged


def test_a_saved_fit_comes_back(tmp_path: Path) -> None:
    fitted().save(tmp_path / "fit")
    again = tp.load(tmp_path / "fit")
    assert again.log_evidence == fitted().log_evidence
    assert again.standard_error == fitted().standard_error
    np.testing.assert_array_equal(again.posterior["weights"], fitted().posterior["weights"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"reference": "prior"},
        {"reference": "narrowed"},
        {"reference": [0, 4]},
        {"reference": "fit"},
        {"swaps": "random", "replicas": 6},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_estimates_are_calibrated(options: dict[str, Any]) -> None:
    """Whatever the path starts from and however states are swapped, the same evidence with an honest error.

    The variance of 50 scores is itself uncertain by a fifth, so a right one leaves its interval now and then.
    """
    if options.get("reference") == "fit":
        options = {"reference": tp.fit(tiny.MODEL, tiny.X, tp.VB(restarts=5), seed=0)}
    method = tp.ParallelTempering(**({"draws": 2000, "warmup": 256, "replicas": 10, "chains": 150} | options))
    fit = tp.fit(tiny.MODEL, tiny.X, method, seed=5)
    start = fit.details["log_start"]
    ladders = [ladder(fit.history, chain, start) for chain in range(150)]
    for estimator in (bar, stepping_stone):
        found = [estimator(one) for one in ladders]
        z = np.array([(one.log_evidence - tiny.LOG_EVIDENCE) / one.standard_error for one in found])
        assert np.abs(z).max() < 4, estimator
        assert abs(z.mean()) < 0.6, estimator
        assert 0.6 < z.var() < 1.6, estimator
    exact = tiny.same_component()
    for i, j in tiny.PAIRS:
        series = tiny.together(fit, i, j)
        z = np.array([(one.mean() - exact[i, j]) / standard_error(one) for one in series])
        assert np.abs(z).max() < 4
        assert 0.6 < z.var() < 1.6


@pytest.mark.slow
@pytest.mark.parametrize(("k", "exact"), [(1, -18.924757), (2, -11.082783), (3, -11.248176)])
def test_evidence_of_the_tiny_case_of_the_thesis(k: int, exact: float) -> None:
    x = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1])[:, None]
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    fit = tp.fit(tp.GaussianMixture(k, prior=prior), x, tp.ParallelTempering(draws=5000, replicas=10), seed=0)
    assert fit.standard_error < 0.08
    assert fit.log_evidence == pytest.approx(exact, abs=4 * fit.standard_error)


@pytest.mark.slow
def test_a_torn_path_claims_nothing() -> None:
    """Two clear groups in 272 eruptions: one component or two, and no temperature at which both are seen."""
    method = tp.ParallelTempering(draws=1000, reference="prior")
    fit = tp.fit(tp.GaussianMixture(2), tp.datasets.load("faithful"), method, seed=0)
    assert fit.details["round_trips"] == 0
    assert not fit.converged
    assert fit.bracket is None
    assert "reference=a fit by tp.VB, widen=1.5" in " ".join(fit.notes)


def test_a_path_is_torn_where_more_replicas_do_not_help() -> None:
    open_, closed = np.full(9, 0.3), np.array([0.3, 0.3, 0.1, 0.96, 0.3, 0.3, 0.3, 0.3, 0.3])
    assert torn(closed, 0)
    assert not torn(closed, 1)
    assert not torn(open_, 0)


def test_equal_rejections() -> None:
    """A ladder whose pairs reject in proportion to their part of a known barrier is cut into equal parts."""
    betas = power_ladder(9)
    places = betas**0.2
    moved = np.asarray(equal_rejection(betas, np.diff(places**3)))
    np.testing.assert_allclose(np.diff((moved**0.2) ** 3), 1 / 8, atol=0.03)
    assert moved[0] == 0
    assert moved[-1] == 1


def test_round_trips_are_counted() -> None:
    """Replica 0 goes up, replica 1 down, and 0 comes back: one round trip."""
    identity = np.array([[0, 1, 2], [1, 0, 2], [1, 2, 0], [1, 0, 2], [0, 1, 2]])
    assert round_trips(identity) == 1
    assert round_trips(identity[:3]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"replicas": 1}, "replicas must be a whole number of at least 2"),
        ({"swaps": "all"}, "swaps must be one of 'even-odd', 'random'"),
        ({"ladder": [0.0, 0.5]}, "ladder must be increasing numbers from 0 to 1"),
        ({"widen": 0.5}, "widen must be at least 1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        tp.ParallelTempering(**arguments)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("wide", "reference must be"),
        ([0, 0], "different data from 0 to 5"),
        ([5, 6], "different data from 0 to 5"),
        ({"means": tp.Gamma(1.0, 1.0)}, "blocks that can be replaced are"),
        ({"weights": tp.Dirichlet([1.0, 1.0, 1.0])}, "must be of the prior's form"),
    ],
)
def test_bad_references(reference: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        tp.fit(tiny.MODEL, tiny.X, tp.ParallelTempering(reference=reference))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [True, False])
def test_all_temperatures_at_once(kernel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw weighed at every temperature: the evidence of enumeration, and no worse than pairs of neighbours."""
    monkeypatch.setattr(parallel_tempering, "when", lambda *_: kernel)
    method = tp.ParallelTempering(draws=700, warmup=128, replicas=5, multistate=True)
    fit = tp.fit(tiny.MODEL, tiny.X, method, seed=3)
    estimates = fit.details["estimates"]
    assert fit.log_evidence == estimates["multistate"].log_evidence
    assert fit.log_evidence == pytest.approx(tiny.LOG_EVIDENCE, abs=4 * fit.standard_error)
    assert fit.standard_error < 1.1 * estimates["reweighting"].standard_error
    assert "energies" not in fit.history
