"""`reference="auto"`: the evidence from a start that nobody had to choose, against enumeration and quadrature."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import gamma

import temperance as tp
from temperance.inference._method import Method
from tests.inference.monte_carlo import tiny

SHORT = tp.ParallelTempering(draws=800, warmup=300, replicas=10, reference="auto")
X = np.array([-1.2, -0.5, 0.1, 0.4, 1.1, 1.6])[:, None]
Y = np.array([-2.3, -1.2, 0.4, 0.7, 2.4, 3.1])


def by_quadrature(fit: tp.Fit) -> float:
    """One weight of its own precision: log α and log β on a grid, the weight in closed form."""
    rows = fit.data.values
    phi, y = (np.asarray(part)[: fit.data.size] for part in (rows.features, rows.target))
    values, vectors = np.linalg.eigh(phi @ phi.T)
    rotated = vectors.T @ y
    t = np.linspace(-60.0, 30.0, 901)
    a, b = (np.exp(axis).ravel() for axis in np.meshgrid(t, t))
    variance = np.maximum(values, 0.0)[None] / a[:, None] + 1 / b[:, None]
    log_p = -0.5 * np.sum(np.log(2 * np.pi * variance) + rotated**2 / variance, axis=1)
    for name, value in (("alpha", a), ("noise", b)):
        prior = fit.model.prior[name]
        shape, rate = (float(np.ravel(part)[0]) for part in (prior.shape, prior.rate))
        log_p += gamma(shape, scale=1 / rate).logpdf(value) + np.log(value)
    return float(logsumexp(log_p) + 2 * np.log(t[1] - t[0]))


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(SHORT, marks=pytest.mark.slow),
        pytest.param(tp.AIS(particles=200, temperatures=100, reference="auto"), marks=pytest.mark.slow),
        tp.SMC(reference="auto"),
    ],
)
def test_the_evidence_of_a_mixture_is_the_same_from_this_start(method: Method) -> None:
    found = tp.fit(tiny.MODEL, tiny.X, method, seed=0)
    assert found.converged and found.bracket is not None
    assert found.bracket[0] < tiny.LOG_EVIDENCE < found.bracket[1]
    assert abs(found.log_evidence - tiny.LOG_EVIDENCE) < 0.2


@pytest.mark.slow
def test_vague_relevances_are_far_from_the_posterior_and_another_way_is_found() -> None:
    model = tp.LinearRegression(ard=True, intercept=False)
    for method in (
        tp.AIS(particles=20, temperatures=20, reference="prior"),
        tp.ParallelTempering(draws=20, warmup=20, replicas=4, reference="prior"),
    ):
        short = tp.fit(model, (X, Y), method, seed=0)
        assert not short.converged and short.bracket is None and short.notes
    exact = by_quadrature(tp.fit(model, (X, Y), tp.VB(), seed=0))
    found = tp.fit(model, (X, Y), tp.AIS(), seed=0)  # which finds it by itself
    assert any("found no way from the prior" in note for note in found.notes) and found.converged
    assert found.bracket is None or found.bracket[0] < exact < found.bracket[1]
    assert abs(found.log_evidence - exact) < 4 * found.standard_error + 0.05
