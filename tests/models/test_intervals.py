"""Ordered and censored regressions: what they become in special cases, and their predictive probabilities."""

import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter

RNG = np.random.default_rng(3)
X = RNG.normal(size=(12, 1))
Y = 0.4 + X[:, 0] + RNG.normal(size=12) / np.sqrt(2.0)
EXACT = tp.EP(tol=1e-11)


@pytest.mark.slow
def test_one_cut_at_zero_is_probit() -> None:
    yes = (Y > 0.5).astype(float)
    ours = tp.fit(tp.OrderedRegression([0.0], prior=0.5), (X, yes), EXACT)
    probit = tp.fit(tp.ProbitRegression(prior=0.5), (X, yes), EXACT)
    assert ours.log_evidence == pytest.approx(probit.log_evidence, abs=1e-8)
    np.testing.assert_allclose(ours.predict(X).mean, probit.predict(X).mean, atol=1e-8)


def test_without_limits_every_target_is_seen() -> None:
    fit = tp.fit(tp.CensoredRegression(noise=2.0, prior=0.5, intercept="shared"), (X, Y), EXACT)
    phi = np.column_stack([np.ones(12), X])
    exact = multivariate_normal(np.zeros(12), phi @ phi.T / 0.5 + np.eye(12) / 2.0).logpdf(Y)
    assert fit.log_evidence == pytest.approx(exact, abs=1e-8)


@pytest.mark.slow
def test_predictive_probabilities_sum_to_one() -> None:
    grades = np.digitize(Y, [0.0, 1.0]).astype(float)
    fit = tp.fit(tp.OrderedRegression([0.0, 1.0]), (X, grades), tp.EP())
    log_p = fit.log_predictive((np.full((3, 1), 0.7), np.arange(3.0)))
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-6)
    mean, variance = fit.predict([[0.7]])
    assert mean[0] == pytest.approx(np.exp(log_p) @ np.arange(3), abs=1e-6)
    assert variance[0] == pytest.approx(np.exp(log_p) @ np.square(np.arange(3) - mean[0]), abs=1e-6)
    cut = tp.fit(tp.CensoredRegression(lower=0.0, noise=2.0), (X, Y), tp.EP())
    line = np.append(np.linspace(1e-9, 12.0, 401), 0.0)
    p = np.exp(cut.log_predictive((np.full((402, 1), 0.7), line)))
    assert simpson(p[:-1], x=line[:-1]) + p[-1] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.slow
def test_truncated_targets() -> None:
    """The evidence by a sum over a grid of one weight, predictive densities that integrate to one, and their mean."""
    y, one = np.minimum(np.abs(Y), 2.9), np.ones((301, 1))
    model = tp.TruncatedRegression(lower=0.0, upper=3.0, noise=2.0, prior=0.5, intercept=False)
    fit = tp.fit(model, (one[:12], y), EXACT)
    a = np.linspace(-12.0, 12.0, 2401)
    around = norm(a, 0.5**0.5)
    inside = np.where(a < 0.0, around.sf(0.0) - around.sf(3.0), around.cdf(3.0) - around.cdf(0.0))
    log_p = norm(a[:, None], 0.5**0.5).logpdf(y[None]).sum(1) - 12 * np.log(inside) + norm(0, 2**0.5).logpdf(a)
    assert fit.log_evidence == pytest.approx(logsumexp(log_p) + np.log(0.01), abs=0.01)
    assert tp.fit(model, (one[:12], y)).log_evidence < logsumexp(log_p) + np.log(0.01)
    line = np.linspace(0.0, 3.0, 301)
    p = np.exp(fit.log_predictive((one, line)))
    assert simpson(p, x=line) == pytest.approx(1.0, abs=1e-6)
    mean, variance = fit.predict(one[:1])
    assert mean[0] == pytest.approx(simpson(p * line, x=line), abs=1e-6)
    assert variance[0] == pytest.approx(simpson(p * np.square(line - mean[0]), x=line), abs=1e-6)


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(InvalidParameter, match="cuts must be a row of increasing finite numbers"):
        tp.OrderedRegression([1.0, 0.0])
    with pytest.raises(InvalidParameter, match=r"lower must be below upper, got 1\.0 and 0\.0"):
        tp.CensoredRegression(lower=1.0, upper=0.0)
    with pytest.raises(InvalidData, match=r"y must lie between 0 and 1, where targets are recorded, got "):
        tp.fit(tp.TruncatedRegression(lower=0.0, upper=1.0), (X, Y))
    with pytest.raises(InvalidData, match="y must be categories 0 to 1, as there are 1 cuts, got 3"):
        tp.fit(tp.OrderedRegression([0.0]), (X, np.full(12, 3.0)))
