"""Estimates of the log evidence from a ladder, against a path that is known in closed form."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import PchipInterpolator

from temperance.evidence.bracket import bracket, crossed, intersect, outwards, riemann
from temperance.evidence.multistate import multistate
from temperance.evidence.reweighting import bar, log_ratios
from temperance.evidence.stepping_stone import reverse_stepping_stone, stepping_stone
from temperance.evidence.tempered import Estimate, combine
from temperance.evidence.thermodynamic import fit_tail, hermite_integral, integrate, thermodynamic
from tests.evidence import toy
from tests.tiers import with_slow

COARSE = np.linspace(0, 1, 6) ** 3
FINE = np.linspace(0, 1, 24) ** 3
REPEATS = 120


def test_toy_is_right() -> None:
    exact, _ = quad(lambda t: np.exp(toy.log_likelihood(np.asarray(t)) - t**2 / 18) / np.sqrt(18 * np.pi), -30, 30)
    assert toy.log_evidence() == pytest.approx(np.log(exact), abs=1e-9)
    step = 1e-5
    slope = (toy.log_evidence(0.3 + step) - toy.log_evidence(0.3 - step)) / (2 * step)
    assert toy.average(np.asarray(0.3)) == pytest.approx(slope, rel=1e-6)


def scores(estimator: Callable[..., Estimate], betas: np.ndarray, draws: int, memory: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    found = [estimator(toy.ladder(rng, betas, draws, memory)) for _ in range(REPEATS)]
    return np.array([(one.log_evidence - toy.log_evidence()) / one.standard_error for one in found])


@pytest.mark.parametrize("memory", [0.0, 0.7])
@pytest.mark.parametrize(
    ("estimator", "betas"),
    [(bar, COARSE), (stepping_stone, FINE), (reverse_stepping_stone, FINE), (thermodynamic, FINE)],
    ids=["reweighting", "stepping stone", "reverse stepping stone", "thermodynamic"],
)
def test_standard_errors_are_calibrated(estimator: Any, betas: np.ndarray, memory: float) -> None:
    z = scores(estimator, betas, 400, memory)
    assert abs(z.mean()) < 0.35
    assert 0.6 < z.var() < 1.6
    assert np.abs(z).max() < 4.5


def all_energies(tempered: Any) -> np.ndarray:
    """On the toy's path an energy is β log p(x | θ)."""
    return tempered.slopes[:, :, None] * tempered.betas[None, None, :]


@pytest.mark.parametrize("memory", with_slow([0.0, 0.7], 0.7))
def test_multistate_is_calibrated_and_no_worse_than_pairs(memory: float) -> None:
    rng = np.random.default_rng(0)
    ladders = [toy.ladder(rng, COARSE, 400, memory) for _ in range(REPEATS)]
    found = [multistate(all_energies(one)) for one in ladders]
    errors = np.array([one.log_evidence for one in found]) - toy.log_evidence()
    z = errors / np.array([one.standard_error for one in found])
    assert abs(z.mean()) < 0.35
    assert 0.6 < z.var() < 1.6
    pairs = np.array([bar(one).log_evidence for one in ladders]) - toy.log_evidence()
    assert np.mean(errors**2) < 1.05 * np.mean(pairs**2)


def test_multistate_of_two_temperatures_is_bennetts_ratio() -> None:
    tempered = toy.ladder(np.random.default_rng(3), np.array([0.2, 1.0]), 500)
    assert multistate(all_energies(tempered)).log_evidence == pytest.approx(bar(tempered).log_evidence, abs=1e-8)
    assert multistate(all_energies(tempered)).standard_error == pytest.approx(bar(tempered).standard_error, rel=1e-6)


def test_multistate_on_a_long_path() -> None:
    """Energies of −10⁵ at the start, as from a wide prior: E ~ Gamma(2, 10⁻⁵) and the likelihood exp −E."""
    shape, rate = 2.0, 1e-5
    betas = np.concatenate([[0.0], np.geomspace(3e-6, 1.0, 23)])
    rng = np.random.default_rng(4)
    energy = rng.gamma(shape, 1.0 / (rate + betas), size=(2000, len(betas)))
    found = multistate(-energy[:, :, None] * betas[None, None])
    exact = shape * np.log(rate / (1.0 + rate))
    assert 0 < found.standard_error < 0.1
    assert found.log_evidence == pytest.approx(exact, abs=4 * found.standard_error)


def test_autocorrelation_forgotten_is_noticed() -> None:
    """A standard error for independent draws would fail the test above."""

    def naive(tempered: Any) -> Estimate:
        value = bar(tempered)
        shuffled = np.random.default_rng(1).permutation(len(tempered.forward))
        apart = tempered._replace(forward=tempered.forward[shuffled], backward=tempered.backward[shuffled])
        return Estimate(value.log_evidence, bar(apart).standard_error)

    assert scores(naive, COARSE, 400, 0.7).var() > 2


def test_ratio_from_unequal_numbers_of_draws() -> None:
    """Two Gaussians of known normalisers, 300 draws of one and 1500 of the other."""
    rng = np.random.default_rng(0)

    def ratio(x: np.ndarray) -> np.ndarray:
        return (-0.5 * np.square((x - 1) / 2)) - (-0.5 * np.square(x))

    found = []
    for _ in range(200):
        forward, backward = ratio(rng.normal(size=300)), ratio(1 + 2 * rng.normal(size=1500))
        found.append(log_ratios(forward[:, None], backward[:, None])[0])
    assert np.mean(found) == pytest.approx(np.log(2), abs=4 * np.std(found) / np.sqrt(200))


def test_sums_enclose_the_answer() -> None:
    tempered = toy.ladder(np.random.default_rng(0), COARSE, 4000)
    left, right = riemann(tempered)
    exact = toy.average(COARSE)
    assert left.log_evidence == pytest.approx(exact[:-1] @ np.diff(COARSE), abs=4 * left.standard_error)
    assert right.log_evidence == pytest.approx(exact[1:] @ np.diff(COARSE), abs=4 * right.standard_error)
    assert left.log_evidence < toy.log_evidence() < right.log_evidence


def test_brackets_hold_and_are_tight() -> None:
    rng = np.random.default_rng(2)
    found = np.array([bracket([toy.ladder(rng, COARSE, 1000, 0.5)]) for _ in range(REPEATS)])
    held = (found[:, 0] <= toy.log_evidence()) & (toy.log_evidence() <= found[:, 1])
    assert held.mean() >= 0.97
    assert np.median(found[:, 1] - found[:, 0]) < 0.5


def test_brackets_whose_ends_cross_are_told_and_not_mended() -> None:
    agreed = intersect((-3.0, np.inf), (-4.0, -1.0))
    assert agreed == (-3.0, -1.0) and not crossed(agreed)
    for apart in (
        intersect((-1.0, 0.0), (-4.0, -2.0)),
        outwards([Estimate(-0.7, 0.1)], [Estimate(-1.0, 0.1), Estimate(-2.3, 0.1)]),
    ):
        assert apart == pytest.approx((-1.0, -2.0))
        assert len(crossed(apart)) == 1 and "-1.00, lies above an upper one, -2.00" in crossed(apart)[0]


def test_tail_is_the_fixed_point_of_the_thesis() -> None:
    """Iterations (4.17)–(4.19) from c = L_k."""
    betas, averages = np.array([0.0, 1e-3, 5e-3]), np.array([-1.7e5, -1.9e3, -7e2])
    (_, second, third), (one, two, three) = betas, averages
    c = three
    for _ in range(5000):
        a = (1 / (c - one) - 1 / (c - two)) / (0.0 - second)
        b = 1 / (c - two) - a * second
        c = three + 1 / (a * third + b)
    tail = fit_tail(betas, averages)
    assert tail is not None
    assert tail == pytest.approx((a, b, c), rel=1e-6)
    assert tail(betas) == pytest.approx(averages, rel=1e-9)
    assert tail.integral(second) == pytest.approx(quad(tail, 0, second, epsabs=0, epsrel=1e-9)[0], rel=1e-8)


def test_no_tail_through_a_convex_curve() -> None:
    assert fit_tail(np.array([0.0, 0.1, 0.2]), np.array([-3.0, -2.9, -2.0])) is None


def test_interpolation_of_exact_averages() -> None:
    fine = np.linspace(0, 1, 200) ** 2
    assert integrate(fine, toy.average(fine)) == pytest.approx(toy.log_evidence(), abs=1e-4)


def test_ensembles_that_disagree_have_a_larger_error() -> None:
    together = combine([Estimate(value, 0.1) for value in (0.0, 1.0, 2.0, 3.0)])
    assert together.log_evidence == 1.5
    assert together.standard_error == pytest.approx(np.std([0, 1, 2, 3], ddof=1) / 2)
    assert combine([Estimate(0.0, 0.1), Estimate(0.1, 0.1)]).standard_error == pytest.approx(0.1 / np.sqrt(2))


@pytest.mark.parametrize("points", range(2, 9))
def test_the_cubic_through_the_averages_is_scipys(points: int) -> None:
    rng = np.random.default_rng(points)
    for rounding in (0, 12):  # whole numbers have ties, and slopes of zero
        for _ in range(50):
            x = np.sort(np.append(rng.uniform(size=points - 2), [0.0, 1.0]))
            y = np.round(3.0 * rng.normal(size=points), rounding)
            assert hermite_integral(x, y) == pytest.approx(PchipInterpolator(x, y).integrate(0, 1), abs=1e-12)
