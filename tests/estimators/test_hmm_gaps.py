"""Hidden Markov estimators with NaN: likelihoods by enumeration of all paths, and fits at a maximum of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from temperance import estimators
from tests.estimators.test_hmm import CODES, COUNTS, LENGTHS, NUMBERS, PATH, TOTALS
from tests.tiers import with_slow

NAN = np.nan
START, MOVES = np.array([0.3, 0.7]), np.array([[0.8, 0.2], [0.4, 0.6]])
MEANS, COVARS = np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([[[1.0, 0.6], [0.6, 2.0]], [[0.5, 0.0], [0.0, 1.5]]])
RATES, LEVELS = np.array([[2.0, 0.0], [5.0, 1.0]]), np.array([[0.1, 0.6, 0.3], [0.7, 0.1, 0.2]])


def gaussian(x: np.ndarray, k: int) -> float:
    seen = ~np.isnan(x)
    return stats.multivariate_normal.logpdf(x[seen], MEANS[k][seen], COVARS[k][np.ix_(seen, seen)]) if any(seen) else 0


def poisson(x: np.ndarray, k: int) -> float:
    return sum(stats.poisson.logpmf(count, RATES[k, d]) for d, count in enumerate(x) if not np.isnan(count))


def category(x: np.ndarray, k: int) -> float:
    return 0.0 if np.isnan(x[0]) else np.log(LEVELS[k, int(x[0])])


def totals(x: np.ndarray, k: int) -> float:
    return 0.0 if np.isnan(x).all() else stats.multinomial.logpmf(x, 3, LEVELS[k])


KNOWN: dict[str, Any] = {
    "GaussianHMM": (
        {"covariance_type": "full"}, {"means_": MEANS, "covars_": COVARS}, gaussian,
        [[0.1, NAN], [1.5, -0.4], [NAN, NAN], [NAN, 0.3], [2.2, -1.0]],
    ),
    "PoissonHMM": ({}, {"lambdas_": RATES}, poisson, [[1, NAN], [3, 0], [NAN, NAN], [NAN, 2], [4, 0]]),
    "CategoricalHMM": ({}, {"emissionprob_": LEVELS}, category, [[0], [NAN], [2], [1], [NAN]]),
    "MultinomialHMM": (
        {"n_trials": 3}, {"emissionprob_": LEVELS}, totals,
        [[3, 0, 0], [NAN, NAN, NAN], [1, 1, 1], [0, 3, 0], [NAN, NAN, NAN]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_a_score_is_the_sum_over_all_paths_of_what_was_seen(name: str) -> None:
    arguments, given, log_density, rows = KNOWN[name]
    model, x = getattr(estimators, name)(2, **arguments), np.array(rows, dtype=float)
    for attribute, value in {"startprob_": START, "transmat_": MOVES, **given}.items():
        setattr(model, attribute, value)
    paths = list(product(range(2), repeat=5))
    logs = np.array(
        [
            np.log(START[path[0]])
            + sum(np.log(MOVES[path[t], path[t + 1]]) for t in range(4))
            + sum(log_density(x[t], path[t]) for t in range(5))
            for path in paths
        ]
    )
    assert model.score(x) == pytest.approx(logsumexp(logs), rel=1e-12)
    best, path = model.decode(x)
    assert best == pytest.approx(logs.max(), rel=1e-12) and tuple(path) == paths[logs.argmax()]
    shares = np.exp(logs - logsumexp(logs)) @ np.array(paths)
    np.testing.assert_allclose(model.predict_proba(x)[:, 1], shares, rtol=1e-9)


def with_gaps(name: str, x: np.ndarray) -> np.ndarray:
    found, rng = x.astype(float), np.random.default_rng(3)
    found[rng.uniform(size=len(x)) < 0.2 if name == "MultinomialHMM" else rng.uniform(size=x.shape) < 0.2] = NAN
    return found


FITTED = {
    "full": ("GaussianHMM", {"covariance_type": "full"}, NUMBERS, "means_"),
    "diag": ("GaussianHMM", {"covariance_type": "diag"}, NUMBERS, "means_"),
    "spherical": ("GaussianHMM", {"covariance_type": "spherical"}, NUMBERS, "means_"),
    "poisson": ("PoissonHMM", {}, COUNTS, "lambdas_"),
    "categorical": ("CategoricalHMM", {}, CODES, "emissionprob_"),
    "multinomial": ("MultinomialHMM", {}, TOTALS, "emissionprob_"),
}


@pytest.mark.parametrize("case", with_slow(FITTED, *(set(FITTED) - {"poisson"})))
def test_a_fit_is_at_a_maximum_of_that_likelihood(case: str) -> None:
    """The parameters asked about have a flat prior in EM; each moved alone, by little, lowers the score."""
    name, arguments, x, attribute = FITTED[case]
    holes = with_gaps(name, x)
    model = getattr(estimators, name)(2, random_state=4, n_iter=500, tol=1e-10, **arguments).fit(holes, LENGTHS)
    top, at = model.score(holes, LENGTHS), np.array(getattr(model, attribute))
    for place in np.ndindex(at.shape):
        for step in (-1e-2, 1e-2):
            moved = at.copy()
            moved[place] = max(moved[place] + step, 0.0) if attribute != "means_" else moved[place] + step
            if attribute == "emissionprob_":
                moved /= moved.sum(axis=-1, keepdims=True)
            setattr(model, attribute, moved)
            assert model.score(holes, LENGTHS) <= top + 1e-6
    if case != "categorical":  # codes alone tell these states apart with difficulty
        setattr(model, attribute, at)
        agree = np.mean(model.predict(holes, LENGTHS) == PATH)
        assert max(agree, 1 - agree) > 0.9


def test_variational_bayes_takes_gaps_too() -> None:
    holes = with_gaps("GaussianHMM", NUMBERS)
    found = [estimators.GaussianHMM(k, inference="vb", n_iter=50, random_state=0).fit(holes, LENGTHS) for k in (1, 2)]
    assert found[1].log_evidence_ > found[0].log_evidence_ + 3.0


def test_what_gaps_cannot_be_is_said() -> None:
    half = TOTALS.astype(float)
    half[3, 1] = NAN
    with pytest.raises(ValueError, match="the counts of a row must be all there or all NaN"):
        estimators.MultinomialHMM(2).fit(half)
    with pytest.raises(ValueError, match="X must be one column of whole numbers"):
        estimators.CategoricalHMM(2).fit([[0.0], [NAN], [1.5]])
    for name, x in {"GaussianHMM": NUMBERS, "PoissonHMM": COUNTS, "CategoricalHMM": CODES}.items():
        with pytest.raises(ValueError, match=f"every column, but column {x.shape[1] - 1} has only NaN"):
            getattr(estimators, name)(2).fit(np.where(np.arange(x.shape[1]) < x.shape[1] - 1, x, NAN))
