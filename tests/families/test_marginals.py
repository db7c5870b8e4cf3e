"""Quantiles of single parameters, against SciPy's distributions."""

import numpy as np
import pytest
from scipy import stats

import temperance as tp
from temperance.families.independent import Independent
from temperance.families.marginals import marginal
from temperance.families.normal_gamma import NormalGamma
from temperance.families.point import Point

RNG = np.random.default_rng(0)
MEAN, COUNT, DOF, SCATTER = (RNG.uniform(1.5, 9.0, size=(3, 2)) for _ in range(4))
WHOLE = np.array([[2.0, 0.3], [0.3, 1.0]]) * np.arange(1, 4)[:, None, None]
FREE = DOF[:, :1] + 1.0  # degrees of freedom of one of two means
CASES = {
    "real columns": (
        Independent(NormalGamma(MEAN, COUNT, DOF, SCATTER)), stats.t(DOF, MEAN, np.sqrt(SCATTER / (DOF * COUNT)))
    ),
    "full covariance": (
        tp.NormalWishart(MEAN, COUNT[:, 0], DOF[:, 0] + 2.0, WHOLE),
        stats.t(FREE, MEAN, np.sqrt(np.diagonal(WHOLE, axis1=1, axis2=2) / (FREE * COUNT[:, :1]))),
    ),
    "counts": (Independent(tp.Gamma(MEAN, COUNT)), stats.gamma(MEAN, scale=1.0 / COUNT)),
    "yes or no": (Independent(tp.Beta(MEAN, 0.01 * COUNT)), stats.beta(MEAN, 0.01 * COUNT)),
    "levels": (tp.Dirichlet(MEAN), stats.beta(MEAN, MEAN[:, ::-1])),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_quantiles_are_those_of_scipy(kind: str) -> None:
    family, truth = CASES[kind]
    found = marginal(family)
    assert found is not None
    for p in (0.025, 0.2, 0.5, 0.975):
        np.testing.assert_allclose(found.quantile(p), truth.ppf(p), rtol=1e-8, atol=1e-300)
    np.testing.assert_allclose(found.estimate, truth.mean(), rtol=1e-9)


def test_a_point_has_no_quantiles() -> None:
    assert marginal(Point(tp.Gamma(1.0, 1.0))) is None
