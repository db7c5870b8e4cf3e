"""Mixtures of experts: the Gaussian mixture of inputs and target that they are, and predictions against its density."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import simpson

import temperance as tp
from temperance.errors import InvalidData

RNG = np.random.default_rng(0)
X = RNG.uniform(-3.0, 3.0, 80)
Y = 50.0 + np.where(X < 0, 2.0 * X + 3.0, -X) + 0.3 * RNG.normal(size=80)
LINE = np.linspace(38.0, 62.0, 4001)
METHODS: dict[str, Any] = {
    "VB": tp.VB(restarts=3),
    "EM": tp.EM(restarts=3),
    "Gibbs": tp.Gibbs(draws=200, warmup=100),
}


def fitted(method: str) -> tp.Fit:
    return tp.fit(tp.MixtureOfExperts(2), (X, Y), METHODS[method], seed=0, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_predictions_are_the_moments_of_the_density_along_y(method: str) -> None:
    fit = fitted(method)
    for x in (-2.0, 0.1, 2.5):
        density = np.exp(fit.log_predictive((np.full(4001, x), LINE)))
        density = density / simpson(density, x=LINE)
        centre = simpson(density * LINE, x=LINE)
        mean, variance = fit.predict([x])
        assert mean[0] == pytest.approx(centre, abs=1e-3)
        assert variance[0] == pytest.approx(simpson(density * np.square(LINE - centre), x=LINE), rel=1e-2)


@pytest.mark.slow
def test_the_predictive_density_integrates_to_one() -> None:
    fit = fitted("VB")
    x, y = np.linspace(-15.0, 15.0, 301), np.linspace(20.0, 80.0, 601)
    both = np.meshgrid(x, y, indexing="ij")
    density = np.exp(fit.log_predictive((both[0].reshape((-1, 1)), both[1].ravel()))).reshape(both[0].shape)
    assert simpson(simpson(density, x=y, axis=1), x=x) == pytest.approx(1.0, abs=1e-3)


def test_two_lines_are_found_and_the_evidence_is_that_of_the_pairs() -> None:
    fit = fitted("VB")
    np.testing.assert_allclose(fit.predict([-2.0, -1.0, 1.0, 2.0]).mean, [49.0, 51.0, 49.0, 48.0], atol=0.4)
    pairs = tp.fit(tp.GaussianMixture(2), np.column_stack([X, Y]), METHODS["VB"], seed=0, progress=False)
    assert fit.log_evidence == pytest.approx(pairs.log_evidence, abs=1e-6)
    assert fit.responsibilities((X, Y)).shape == (80, 2)
    with pytest.raises(InvalidData, match="X has 2 columns, but the model was fitted to 1"):
        fit.predict([[1.0, 2.0]])
