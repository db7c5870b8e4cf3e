"""Sequential Monte Carlo against enumeration and a closed form; its evidence is unbiased."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter, NumericalFailure
from temperance.evidence.populations import judge
from tests.inference.monte_carlo import tiny

SMALL = tp.SMC(particles=64, populations=8, reference="prior")


@cache
def fitted() -> tp.Fit:
    return tp.fit(tiny.MODEL, tiny.X, tp.SMC(), seed=0)


def test_evidence_and_bracket_are_those_of_enumeration() -> None:
    fit = fitted()
    assert set(fit.details["estimates"]) == {"upwards", "both ways", "downwards"}
    for estimate in fit.details["estimates"].values():
        assert estimate.log_evidence == pytest.approx(tiny.LOG_EVIDENCE, abs=4 * estimate.standard_error)
    assert fit.standard_error is not None and fit.standard_error < 0.05
    assert fit.bracket is not None and fit.converged and not fit.notes
    assert fit.bracket[0] < tiny.LOG_EVIDENCE < fit.bracket[1] < fit.bracket[0] + 1
    ladder = fit.details["ladder"]
    assert ladder[0] == 0.0 and ladder[-1] == 1.0 and (np.diff(ladder) > 0).all()


def test_draws_are_of_the_posterior() -> None:
    fit = fitted()
    exact = tiny.same_component()
    share = np.exp(np.asarray(fit.state.flat()[1]))
    for i, j in tiny.PAIRS:
        assert share @ tiny.together(fit, i, j).reshape(-1) == pytest.approx(exact[i, j], abs=0.04)
    for new in (-1.0, 0.5, 2.0):
        assert fit.log_predictive([[new]])[0] == pytest.approx(tiny.log_predictive(new), abs=0.05)


@pytest.mark.parametrize("ladder", [None, (0.0, 0.03, 0.2, 0.5, 1.0)], ids=["adaptive", "fixed"])
def test_the_evidence_is_unbiased(ladder: Any) -> None:
    """The mean of the evidence itself, over 64 runs of 8 independent populations of few particles."""
    method = tp.SMC(particles=16, populations=8, ladder=ladder, reference="prior")
    runs = [tp.fit(tiny.MODEL, tiny.X, method, seed=seed) for seed in range(64)]
    found = np.concatenate([np.exp(run.details["log_evidences"] - tiny.LOG_EVIDENCE) for run in runs])
    assert found.std() > 0.2  # few particles: the log of one estimate would be visibly too low
    assert found.mean() == pytest.approx(1.0, abs=3.0 * found.std() / np.sqrt(len(found)))
    if ladder is not None:
        np.testing.assert_array_equal(runs[0].details["ladder"], ladder)


@pytest.mark.slow
def test_errors_are_calibrated() -> None:
    runs = [tp.fit(tiny.MODEL, tiny.X, SMALL, seed=seed) for seed in range(60)]
    z = np.array([(run.log_evidence - tiny.LOG_EVIDENCE) / run.standard_error for run in runs])  # type: ignore[operator]
    assert np.mean(np.abs(z) < 1.96) >= 0.88
    assert 0.4 < z.var() < 1.6
    held = [run.bracket[0] < tiny.LOG_EVIDENCE < run.bracket[1] for run in runs if run.bracket is not None]
    assert len(held) > 45 and np.mean(held) > 0.97


def test_a_regression_with_known_noise_is_a_gaussian() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(12, 1))
    y = 0.7 - 1.2 * inputs[:, 0] + 0.5 * rng.normal(size=12)
    model = tp.LinearRegression(noise=4.0, prior=tp.Normal([0.0, 0.0], np.eye(2)))
    fit = tp.fit(model, (inputs, y), tp.SMC(), seed=0)
    design = np.column_stack([np.ones(12), inputs])
    exact = multivariate_normal(np.zeros(12), 0.25 * np.eye(12) + design @ design.T).logpdf(y)
    assert fit.standard_error is not None and fit.standard_error < 0.1
    assert fit.log_evidence == pytest.approx(exact, abs=4 * fit.standard_error)


@pytest.mark.slow
def test_a_fit_can_be_the_start() -> None:
    near = tp.fit(tiny.MODEL, tiny.X, tp.VB(restarts=3), seed=0)
    fit = tp.fit(tiny.MODEL, tiny.X, tp.SMC(particles=64, reference=near), seed=0)
    assert fit.standard_error is not None
    assert fit.log_evidence == pytest.approx(tiny.LOG_EVIDENCE, abs=4 * fit.standard_error)


def test_populations_that_disagree_claim_no_bracket() -> None:
    """The galaxies from a prior much wider than they are: some populations find a mode that others miss."""
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    method = tp.SMC(particles=16, populations=8, reference="prior")
    fit = tp.fit(tp.GaussianMixture(3, prior=prior), tp.datasets.load("galaxy"), method, seed=0)
    assert fit.bracket is None and not fit.converged
    assert any("disagree" in note for note in fit.notes)


def test_each_doubt_is_told() -> None:
    rng = np.random.default_rng(0)
    forward = rng.normal(-0.005, 0.1, (16, 200, 1))
    backward = rng.normal(0.005, 0.1, (16, 200, 1))
    fine = judge(forward, backward, -3.0)
    refuted = judge(forward, backward, -3.0, lambda: [("the bound of VB", -2.0)])
    assert refuted.bracket is None and "is a lower bound and lies above the estimate" in refuted.doubts[0]
    assert fine.doubts == () and fine.bracket is not None
    assert fine.bracket[0] < -3.0 < fine.bracket[1]
    two_modes = forward + np.repeat([0.0, 2.0], 8)[:, None, None]
    assert any("halves" in doubt for doubt in judge(two_modes, backward, 0.0).doubts)
    assert any("populations disagree" in doubt for doubt in judge(forward * 1e3, backward, 0.0).doubts)
    assert any("looking back" in doubt for doubt in judge(forward, backward + 1.0, 0.0).doubts)


@pytest.mark.slow
def test_too_few_temperatures_jump_to_the_posterior() -> None:
    method = tp.SMC(particles=64, populations=8, temperatures=3, effective=0.99, reference="prior")
    fit = tp.fit(tiny.MODEL, tiny.X, method, seed=0)
    assert len(fit.details["ladder"]) == 3 and fit.details["ladder"][-1] == 1.0
    assert fit.standard_error is not None
    assert fit.log_evidence == pytest.approx(tiny.LOG_EVIDENCE, abs=4 * fit.standard_error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"particles": 1}, "particles must be a whole number of at least 2"),
        ({"particles": 30, "sweeps": 4}, "particles must be a multiple of sweeps"),
        ({"populations": 3}, "populations must be a whole number of at least 4"),
        ({"effective": 1.0}, "effective must be between 0 and 1"),
        ({"widen": 0.5}, "widen must be at least 1"),
        ({"ladder": [0.1, 1.0]}, "ladder must be increasing numbers from 0 to 1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        tp.SMC(**arguments)


def test_weights_and_overflow_are_refused() -> None:
    with pytest.raises(InvalidData, match="0 or 1 for SMC"):
        tp.fit(tiny.MODEL, tiny.X, SMALL, weights=[2.0] * 6)
    wide = tp.GaussianMixture(2, prior=tp.NormalWishart([0.0], 1e-320, 2.0, [[1e-300]]))
    with pytest.raises(NumericalFailure, match="SMC met a weight that is not finite"):
        tp.fit(wide, tiny.X, SMALL, seed=0)
