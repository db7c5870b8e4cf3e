"""The clutter problem, against figures that were published for it and against quadrature."""

import numpy as np
import pytest
from scipy.stats import norm

import temperance as tp
from examples.clutter import Clutter, exact, fit, main

PUBLISHED = Clutter(mean=15.0, variance=100.0, w=0.4, a=10.0)


def plain(x: list[float], passes: int) -> tuple[float, float]:
    """Mean and variance after some passes of EP as Minka writes it, on the published problem."""
    w, a, sites = 0.4, 10.0, np.zeros((len(x), 2))
    whole = np.array([0.01, 0.15])  # the precision, and times the mean
    for _ in range(passes):
        for i, datum in enumerate(x):
            cavity = whole - sites[i]
            v, m = 1.0 / cavity[0], cavity[1] / cavity[0]
            signal, clutter = norm(m, np.sqrt(v + 1)).pdf(datum), norm(0.0, np.sqrt(a)).pdf(datum)
            r, pull = (1 - w) * signal / ((1 - w) * signal + w * clutter), v * (datum - m) / (v + 1)
            variance = v - r * v**2 / (v + 1) + r * (1 - r) * pull**2
            whole = np.array([1.0, m + r * pull]) / variance
            sites[i] = whole - cavity
    return whole[1] / whole[0], 1.0 / whole[0]


def test_published_figures() -> None:
    """Those of danielkorzekwa/bayes-scala, ClutterProblemEPTest: one datum; two after 1, 2 and 20 passes."""
    assert fit(PUBLISHED, np.array([3.0]), tp.EP())[1:] == pytest.approx((11.8364, 101.21589), abs=1e-3)
    both = [3.0, 5.0]
    for passes, figures in ((1, (8.006, 55.77)), (2, (6.6, 30.016)), (20, (4.311, 4.338))):
        assert plain(both, passes) == pytest.approx(figures, abs=1e-3)
    assert fit(PUBLISHED, np.array(both), tp.EP())[1:] == pytest.approx(plain(both, 500), rel=1e-6)


def test_one_datum_is_exact() -> None:
    x = np.array([3.0])
    assert fit(PUBLISHED, x, tp.EP(damping=0.0)) == pytest.approx(exact(PUBLISHED, x), rel=1e-9)


def test_expectation_propagation_is_closer_than_variational_bayes() -> None:
    found = main()
    right = np.array(found["exact"])
    ep, half, vb = (np.abs(np.array(found[name]) - right) for name in ("EP", "α = ½", "VB"))
    assert (ep < vb).all() and ep[0] < 0.05 and ep[0] < half[0] < vb[0]
    assert found["VB"][0] < right[0]
