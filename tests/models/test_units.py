"""Other units and another origin change the evidence by their Jacobian, and nothing else."""

import numpy as np
import pytest

import temperance as tp
from tests.models.units import CELLS, MODELS, N, X, Y, look

VB = tp.VB(max_iter=100, restarts=2)
QUICK = ("full", "factor analysis", "factorial")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
@pytest.mark.parametrize("unit", [1e8, 1e-8])
def test_units(name, unit):
    make, apart, shifts = MODELS[name]
    scale = np.array([unit, 1.0]) if apart else np.array([unit, unit])
    plain, moved = (tp.fit(make(), x, VB, seed=0) for x in (X, X * scale))
    jacobian = N * np.log(scale).sum()
    assert moved.log_evidence + jacobian == pytest.approx(plain.log_evidence, abs=1e-6)
    if shifts:  # X is a multiple of 2⁻²⁰, so that 1e9 is added without rounding but for what both lose
        far = X + np.array([1e9, 0.0])
        near, away = (tp.fit(make(), x, VB, seed=0) for x in (far - np.array([1e9, 0.0]), far))
        assert away.log_evidence == pytest.approx(near.log_evidence, abs=1e-5)


@pytest.mark.parametrize("unit", [1e8, 1e-8])
@pytest.mark.parametrize("ard", [False, True])
def test_units_of_inputs_and_targets(unit, ard):
    plain = tp.fit(tp.LinearRegression(ard=ard), (X, Y), VB, seed=0)
    moved = tp.fit(tp.LinearRegression(ard=ard), (X * [unit, 1.0], Y / unit), VB, seed=0)
    assert moved.log_evidence - N * np.log(unit) == pytest.approx(plain.log_evidence, abs=1e-6)


@pytest.mark.parametrize("unit", [1e50, 1e100, 1e-100])
def test_tempering_in_extreme_units(unit):
    """A precision drawn from the prior has a floor: it is relative to the data's unit."""
    method = tp.ParallelTempering(draws=50, warmup=20, replicas=4, reference="prior")
    model = tp.GaussianMixture(2, covariance="spherical")
    plain, moved = (tp.fit(model, x, method, seed=0) for x in (X, X * unit))
    assert moved.log_evidence + X.size * np.log(unit) == pytest.approx(plain.log_evidence, abs=1e-6)


# ---- every model of real numbers by every method ---------------------------------------------------------------

FIRST = [
    ("full", "VB"),
    ("diagonal", "VB"),
    ("spherical", "ParallelTempering"),
    ("spherical", "ImportanceSampling"),
    ("relevance", "ParallelTempering"),
    ("relevance", "AIS"),
    ("state space", "VB"),  # whose leaps were longer or shorter in other units
    ("full", "EP"),  # whose determinants left the range of floats
    ("regression", "EP"),
]


@pytest.mark.parametrize(
    ("name", "method"),
    [pytest.param(*cell, marks=() if cell in FIRST else pytest.mark.slow) for cell in CELLS],
)
def test_extreme_units(name, method):
    """The default prior follows the data; the evidence changes by the Jacobian to 1e-9 of the bound's largest term."""
    found = look(name, method)
    assert found["outcome"] in ("holds", "unsupported", "without evidence"), found
