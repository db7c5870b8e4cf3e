"""The critical temperature, where it is known; and what happens where there is none."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance.inference.variational import pilot
from temperance.inference.variational.annealed import Annealed
from temperance.inference.variational.critical import critical_temperature
from tests.tiers import with_slow

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


@pytest.mark.parametrize(("distance", "variance"), with_slow([(2.0, 1.0), (3.0, 0.5)], (2.0, 1.0)))
def test_two_gaussians_melt_at_the_ratio_of_variances(distance: float, variance: float) -> None:
    x = np.concatenate([rng.normal(-distance, 1, (40, 1)), rng.normal(distance, 1, (40, 1))])
    found = critical_temperature(*mixture(variance).prepare(x))
    assert found == pytest.approx(x.var() / variance, rel=0.01)


def test_data_without_structure_have_no_critical_temperature() -> None:
    assert critical_temperature(*mixture(1.0).prepare(rng.normal(0, 1, (80, 1)))) is None


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [101, 102])
def test_components_that_melted_into_one_part_again(seed: int) -> None:
    """Four clear clusters, covariances learned: from ten starts the mean bound is that of VB, which begins close to
    them. Equal components would stay equal, and two clusters under one of them, 10 and 14 nats below."""
    many = np.random.default_rng(seed)
    centres = many.normal(size=(4, 2)) * (2 + 1.5 * (seed - 100))
    x = centres[many.integers(4, size=120)] + many.normal(size=(120, 2))
    plain, cooled = (
        tp.fit(tp.GaussianMixture(4), x, method, seed=0).history["restarts"]
        for method in (tp.VB(restarts=10), Annealed(tp.VB(restarts=10)))
    )
    assert cooled.mean() > plain.mean() - 1.0 and cooled.std() < 1.0


def test_without_one_a_pilot_decides_and_says_so() -> None:
    fit = tp.fit(mixture(1.0), rng.normal(0, 1, (80, 1)), Annealed(tp.VB(restarts=2)))
    tried = {"cold", "linear from 1.5", "linear from 1.5, a fifth as long", "linear from 3"}
    assert "critical" not in fit.details and set(fit.details["pilot"]) == tried
    assert any("no critical temperature" in note for note in fit.notes)
    chosen = fit.history["temperature"][0]
    assert chosen == 1.0 if "not annealed" in fit.notes[-1] else chosen in (1.5, 3.0)


@pytest.mark.parametrize(
    ("gains", "temperatures", "runs"),
    [
        (
            {"linear from 1.5": [0.1, 0.2, 0.15], "linear from 3": [0.3, -0.2, 0.2]},
            [1.5, 1.4, 1.3, 1.2, 1.1],
            4 + 3 + 3,
        ),
        ({"linear from 1.5, a fifth as long": [0.1, 0.2, 0.15]}, [1.5], 4 + 2 + 2),
        ({"linear from 1.5, a fifth as long": [0.2, 0.21, 0.0]}, [1.5], 4 + 2),  # clear from two starts
        ({"linear from 3": [0.3, -0.05, 0.3]}, [], 4 + 2 + 2),  # not two standard errors
        ({name: [-0.1, -0.2, 0.9] for name in pilot._SCHEDULES}, [], 4 + 2),  # nothing to gain
    ],
)
def test_schedules_race_and_the_best_is_taken_if_it_gains_more_than_its_error(
    gains: dict[str, list[float]], temperatures: list[float], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold, done = np.array([-7.0, -8.0, -7.5]), []

    def score(name: str, start: int) -> float:
        done.append((name, start))
        return float(cold[start] + (0.0 if name == "cold" else gains.get(name, [-0.1, 0.1, -0.2])[start]))

    monkeypatch.setattr(pilot, "critical_temperature", lambda *_: None)
    monkeypatch.setattr(pilot, "_pilot", lambda *_: score)
    found = pilot.choose(*mixture(1.0).prepare(np.zeros((4, 1))), tp.VB(), 5, 1)
    np.testing.assert_allclose(found.temperatures, temperatures)
    assert found.steps == len(temperatures) and len(done) == len(set(done)) == runs
    assert found.pilot is not None and sum(len(scores) for scores in found.pilot.values()) == runs


def test_few_steps_have_no_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heat only costs some of them."""
    tried = []
    monkeypatch.setattr(pilot, "_pilot", lambda *_: lambda name, start: tried.append(name) or 1.0 - start)
    model, data = tp.LDA(2).prepare(np.eye(6, dtype=int))
    few, enough = (pilot.choose(model, data, tp.SVI(batch_size=2, steps=steps), 5, 1) for steps in (19, 20))
    assert len(few.temperatures) == 0 and few.pilot is None and "19 steps are too few" in few.notes[0]
    assert enough.pilot is not None and set(tried) == set(enough.pilot)


@pytest.mark.slow
def test_minibatches_are_judged_by_documents_left_out() -> None:
    """What the pilot takes predicts new documents at least as well as plain SVI; and its scores are nats a document,
    far below what the documents that were fitted would give."""
    many = np.random.default_rng(6)
    topics, shares = many.dirichlet(np.full(200, 0.05), 10), many.dirichlet(np.full(10, 0.1), 500)
    counts = np.array([many.multinomial(60, share @ topics) for share in shares])
    svi = tp.SVI(batch_size=40, passes=8)
    gains = []
    for seed in range(4):
        fits = [tp.fit(tp.LDA(10), counts[:400], method, seed=seed) for method in (Annealed(svi), svi)]
        one, plain = (np.mean(fit.log_predictive(counts[400:])) for fit in fits)
        gains.append(one - plain)
        assert all((-60 * np.log(200) < scores).all() for scores in fits[0].details["pilot"].values())
        assert np.mean(fits[0].details["pilot"]["cold"]) == pytest.approx(plain, rel=0.05)
    assert np.mean(gains) > -2 * np.std(gains, ddof=1) / 2


def test_figure_1_has_one_one_two_and_two_optima() -> None:
    surface = script("tempering_surface")
    assert [surface.optima(surface.surface(t)) for t in surface.TEMPERATURES] == [1, 1, 2, 2]


def test_a_gain_of_rounding_size_is_none() -> None:
    """From every start the same gain: however sure, it is nothing."""
    scores = pilot.race(lambda name, start: -100.0 - start + (0.0 if name == "cold" else 1e-9))
    assert pilot._worth_it(pilot._leader(scores)[1]) is False
    scores = pilot.race(lambda name, start: -100.0 - start + (0.0 if name == "cold" else 0.01))
    assert pilot._worth_it(pilot._leader(scores)[1]) is True
