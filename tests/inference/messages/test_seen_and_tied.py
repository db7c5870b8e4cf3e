"""Message passing on mixtures with missing columns and with one covariance for all components, against exact sums."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_t

import temperance as tp
from tests.exact import marginals
from tests.tiers import with_slow

PRIOR: dict[str, Any] = {"mean": [0.0, 0.0], "pseudo_count": 0.5, "dof": 4.0, "scatter": [[1.0, 0.2], [0.2, 0.8]]}
ROWS = np.array([[-3.4, -3.0], [3.1, 2.8], [2.9, np.nan], [-3.2, -2.7], [3.0, 3.1]])


def fitted(alpha: float, model: Any, x: Any, **options: Any) -> tp.Fit:
    return tp.fit(model, x, tp.MessagePassing(alpha, max_passes=400, **options), seed=1, progress=False)


def with_gaps(k: int, covariance: str = "full", **options: Any) -> tp.GaussianMixture:
    return tp.GaussianMixture(k, covariance=covariance, missing="marginalise", **options)


def assignments(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Every labelling of n rows, and the log of its probability under uniform Dirichlet weights."""
    labels = np.array(list(itertools.product(range(k), repeat=n)))
    counts = (labels[:, :, None] == np.arange(k)).sum(axis=1)
    return labels, gammaln(k) - gammaln(n + k) + gammaln(1 + counts).sum(axis=1)


def evidence_with_one_gap(x: np.ndarray, k: int) -> float:
    """Every labelling, and the missing number of row 2 on a grid (which ends where the tail is below 1e-9)."""
    grid = np.sinh(np.linspace(-7.5, 7.5, 1501))
    steps = np.gradient(grid)
    labels, logs = assignments(len(x), k)
    filled = np.repeat(x[None], len(grid), axis=0)
    filled[:, 2, 1] = grid
    found = []
    for z, log_p in zip(labels, logs, strict=True):
        other = sum(marginals.gaussian(x[z == j], **PRIOR) for j in range(k) if j != z[2])
        same = [marginals.gaussian(rows[z == z[2]], **PRIOR) for rows in filled]
        found.append(log_p + other + logsumexp(same, b=steps))
    return float(logsumexp(found))


@pytest.mark.parametrize("covariance", with_slow(["full", "spherical"], "full"))
def test_a_power_of_the_seen_columns_is_integrated(covariance: str) -> None:
    """Without gaps it is that of complete rows; with one, at a power next to 1, the integral over what is missing."""
    if covariance == "full":
        family: Any = tp.NormalWishart(**{name: np.asarray(value)[None] for name, value in PRIOR.items()})
        complete, gaps = tp.Gaussian(), tp.GaussianWithMissing()
    else:
        family = tp.IsotropicNormalGamma(np.zeros((1, 2)), [0.5], [4.0], [0.9])
        complete, gaps = tp.SphericalGaussian(), tp.SphericalWithMissing()
    for power in (0.4, 1.7):
        exact = complete.log_predictive(family, ROWS[:2], power)
        np.testing.assert_allclose(gaps.log_predictive(family, ROWS[:2], power), exact, rtol=1e-12)
    grid = np.sinh(np.linspace(-7, 7, 2001))
    rows = np.stack([np.full_like(grid, ROWS[2, 0]), grid], axis=1)
    exact = logsumexp(np.asarray(complete.log_predictive(family, rows))[:, 0], b=np.gradient(grid))
    for power in (1.0, 1.0 + 1e-9):
        assert float(gaps.log_predictive(family, ROWS[2:3], power)[0, 0]) == pytest.approx(exact, abs=2e-5)


@pytest.mark.slow
def test_one_row_with_a_gap_is_exact() -> None:
    """All other factors of one component are conjugate, so that there is nothing to approximate."""
    model = with_gaps(1, prior=tp.NormalWishart(**PRIOR))
    rest = np.delete(ROWS, 2, axis=0)
    seen = tp.fit(model, rest, tp.VB(), progress=False)
    exact = marginals.gaussian(rest, **PRIOR) + float(seen.log_predictive(ROWS[2:3])[0])
    fit = fitted(1.0, model, ROWS)
    assert fit.converged and fit.log_evidence == pytest.approx(exact, abs=1e-8)
    half = fitted(0.5, model, ROWS)
    assert half.converged and exact - 0.05 < half.log_evidence < exact


@pytest.mark.slow
def test_two_components_with_a_gap() -> None:
    model = with_gaps(2, prior=tp.NormalWishart(**PRIOR))
    exact = evidence_with_one_gap(ROWS, 2)
    bound = tp.fit(model, ROWS, tp.VB(restarts=4, tol=1e-10, max_iter=2000), seed=1, progress=False)
    fit = fitted(1.0, model, ROWS, restarts=4)
    missing = fit.details["log_labellings"]
    assert fit.converged and bound.log_evidence < exact
    assert abs(fit.log_evidence + missing - exact) < abs(bound.log_evidence + np.log(2) - exact)


@pytest.mark.slow
def test_rows_without_gaps_are_those_of_a_mixture_that_takes_none() -> None:
    """There the factors are refreshed one by one, by another engine."""
    full, prior = np.where(np.isnan(ROWS), 2.5, ROWS), tp.NormalWishart(**PRIOR)
    plain = tp.fit(tp.GaussianMixture(2, prior=prior), full, tp.EP(restarts=4, tol=1e-9), seed=1, progress=False)
    fit = fitted(1.0, with_gaps(2, prior=prior), full, restarts=4)
    assert fit.log_evidence == pytest.approx(plain.log_evidence, abs=1e-8)


@pytest.mark.parametrize("covariance", [pytest.param("full", marks=pytest.mark.slow), "spherical"])
def test_alpha_zero_is_variational_bayes_with_gaps(covariance: str) -> None:
    model = with_gaps(2, covariance, init=[[-1.0, -1.0], [1.0, 1.0]])
    bound = tp.fit(model, ROWS, tp.VB(tol=1e-13, max_iter=5000), seed=1, progress=False)
    fit = fitted(0.0, model, ROWS)
    assert fit.converged and fit.log_evidence == pytest.approx(bound.log_evidence, abs=1e-7)
    assert np.isfinite(fit.log_predictive(ROWS)).all()


# ---- one covariance for all ---------------------------------------------------------------------------------

LINE = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2])[:, None]
SHARED: dict[str, Any] = {"mean": [0.0], "pseudo_count": 0.2, "dof": 3.0, "scatter": [[0.5]]}


def tied_evidence(x: np.ndarray, k: int) -> float:
    """Given the labels all numbers together are a multivariate t."""
    labels, logs = assignments(len(x), k)
    each = []
    for z in labels:
        same = (z[:, None] == z[None]).astype(float)
        shape = (0.5 / 3.0) * (np.eye(len(x)) + same / 0.2)
        each.append(multivariate_t(np.zeros(len(x)), shape, df=3.0).logpdf(x[:, 0]))
    return float(logsumexp(logs + np.array(each)))


def tied(k: int = 2, **options: Any) -> tp.GaussianMixture:
    return tp.GaussianMixture(k, covariance="tied", **{"prior": tp.NormalWishart(**SHARED)} | options)


@pytest.mark.slow
def test_a_shared_covariance() -> None:
    assert isinstance(tied(), tp.GaussianMixture)
    one = fitted(1.0, tied(1), LINE)
    assert one.log_evidence == pytest.approx(marginals.gaussian(LINE, **SHARED), abs=1e-8)
    exact = tied_evidence(LINE, 2)
    bound = tp.fit(tied(), LINE, tp.VB(restarts=4, tol=1e-10), seed=1, progress=False)
    fit = fitted(1.0, tied(), LINE, restarts=4)
    assert fit.converged and bound.log_evidence < exact
    whole = fit.log_evidence + fit.details["log_labellings"]
    assert abs(whole - exact) < abs(bound.log_evidence + np.log(2) - exact)
    zero = fitted(0.0, tied(init=[[-2.0], [1.0]]), LINE)
    vb = tp.fit(tied(init=[[-2.0], [1.0]]), LINE, tp.VB(tol=1e-13, max_iter=5000), seed=1, progress=False)
    assert zero.log_evidence == pytest.approx(vb.log_evidence, abs=1e-7)


@pytest.mark.slow
def test_a_shared_covariance_with_the_default_prior_by_other_methods() -> None:
    x = np.concatenate([LINE, LINE + 0.1])
    model = tied(prior=None)
    bound = tp.fit(model, x, tp.VB(restarts=3), seed=1, progress=False)
    draws = tp.fit(model, x, tp.Gibbs(draws=200, warmup=50), seed=1, progress=False)
    assert np.isfinite(bound.log_evidence)
    np.testing.assert_allclose(bound.log_predictive(LINE), draws.log_predictive(LINE), atol=0.5)
    with pytest.raises(tp.errors.InvalidParameter, match="missing values"):
        tp.fit(tied(missing="marginalise"), [[np.nan], [1.0]])
