"""The critical temperature, where it is known; and what happens where there is none."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance.inference.variational.annealed import Annealed
from temperance.inference.variational.critical import critical_temperature

rng = np.random.default_rng(1)
SCRIPTS = Path(__file__).parents[2] / "examples" / "papers"


def script(name: str) -> Any:
    sys.path.insert(0, str(SCRIPTS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(SCRIPTS))


def mixture(variance: float) -> tp.Mixture:
    pair = tp.KnownCovarianceGaussian([[variance]])
    return tp.Mixture(2, pair, prior=tp.Normal([0.0], [[1e4]]), init="random")


@pytest.mark.parametrize(("distance", "variance"), [(2.0, 1.0), (3.0, 0.5)])
def test_two_gaussians_melt_at_the_ratio_of_variances(distance: float, variance: float) -> None:
    x = np.concatenate([rng.normal(-distance, 1, (40, 1)), rng.normal(distance, 1, (40, 1))])
    found = critical_temperature(*mixture(variance).prepare(x))
    assert found == pytest.approx(x.var() / variance, rel=0.01)


def test_data_without_structure_have_no_critical_temperature() -> None:
    assert critical_temperature(*mixture(1.0).prepare(rng.normal(0, 1, (80, 1)))) is None


def test_factorial_mixtures_melt_near_the_largest_eigenvalue_over_the_noise() -> None:
    factors = 2.0 * np.eye(3, 6) + 2.0 * np.eye(3, 6, k=1)
    x = (rng.random((200, 3)) < 0.5) @ factors + np.sqrt(0.2) * rng.normal(size=(200, 6))
    found = critical_temperature(*tp.FactorialMixture(3, noise=0.2, probability=0.5, factor_variance=4.0).prepare(x))
    assert found == pytest.approx(np.linalg.eigvalsh(np.cov(x.T)).max() / 0.2, rel=0.25)


def test_the_default_schedule_starts_above_it_and_reports_it() -> None:
    x = np.concatenate([rng.normal(-2, 1, (40, 1)), rng.normal(2, 1, (40, 1))])
    fit = tp.fit(mixture(1.0), x, Annealed(tp.VB(restarts=2), length=50))
    assert fit.details["critical"] == pytest.approx(x.var(), rel=0.01)
    temperatures = fit.history["temperature"]
    assert temperatures[0] == pytest.approx(1.1 * fit.details["critical"])
    np.testing.assert_allclose(temperatures[1:50] / temperatures[:49], temperatures[0] ** (-1 / 50))
    assert (temperatures[50:] == 1).all() and fit.converged
    # Both starts cool to the same solution.
    np.testing.assert_allclose(*fit.history["restarts"], rtol=1e-6)


def test_without_one_a_pilot_decides_and_says_so() -> None:
    fit = tp.fit(mixture(1.0), rng.normal(0, 1, (80, 1)), Annealed(tp.VB(restarts=2)))
    tried = {"cold", "linear from 1.5", "linear from 1.5, a fifth as long", "linear from 3"}
    assert "critical" not in fit.details and set(fit.details["pilot"]) == tried
    assert any("no critical temperature" in note for note in fit.notes)
    chosen = fit.history["temperature"][0]
    assert chosen == 1.0 if "not annealed" in fit.notes[-1] else chosen in (1.5, 3.0)


def test_figure_1_has_one_one_two_and_two_optima() -> None:
    surface = script("tempering_surface")
    assert [surface.optima(surface.surface(t)) for t in surface.TEMPERATURES] == [1, 1, 2, 2]
