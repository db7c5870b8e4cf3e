"""A user's mistake is one clear sentence; an odd but possible request is a correct answer. Never a NaN."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter, TemperanceError, UnsupportedMethod
from tests.tiers import with_slow

X = np.random.default_rng(0).normal(size=(12, 2))
PRIOR = tp.NormalWishart([0.0, 0.0], 1.0, 4.0, np.eye(2))


def with_value(value: float) -> np.ndarray:
    x = X.copy()
    x[3, 1] = value
    return x


def coded(value: float) -> np.ndarray:
    x = np.tile([[0.0, 1.0], [1.0, 2.0]], (6, 1))
    x[3, 1] = value
    return x


def sparse_with(column: int) -> sparse.csr_matrix:
    matrix = sparse.csr_matrix(np.eye(4))
    matrix.indices[2] = column
    return matrix


def endless():
    found: list = []
    found.append(found)
    return found


class Failing:
    def __array__(self, *_, **__):
        raise RuntimeError("two\nlines")


class Vast:
    """An array of more columns than a covariance of them fits in memory."""

    def __array__(self, *_, **__):
        raise MemoryError("728 TiB")


REFUSED = {
    "missing without asking": (
        lambda: tp.fit(tp.GaussianMixture(2), with_value(np.nan)),
        'missing values.*row 3, column 1.*missing="marginalise"',
    ),
    "infinite": (lambda: tp.fit(tp.GaussianMixture(2), with_value(np.inf)), "row 3, column 1 is infinite"),
    "three axes": (lambda: tp.fit(tp.GaussianMixture(2), np.zeros((3, 2, 2))), r"shape \(3, 2, 2\)"),
    "no rows": (lambda: tp.fit(tp.GaussianMixture(2), np.zeros((0, 2))), "at least one row"),
    "ragged": (lambda: tp.fit(tp.GaussianMixture(2), [[1.0, 2.0], [3.0]]), "different lengths"),
    "text": (lambda: tp.fit(tp.GaussianMixture(2), np.array([["a", "b"]])), "real numbers, got text"),
    "a name": (lambda: tp.fit(tp.GaussianMixture(2), "galaxy"), "must be an array or a frame"),
    "no components": (lambda: tp.GaussianMixture(0), "n_components must be a whole number of at least 1, got 0"),
    "half a component": (lambda: tp.GaussianMixture(1.5), "n_components must be a whole number"),
    "covariance": (lambda: tp.GaussianMixture(2, covariance="round"), "covariance must be one of .*'full'"),
    "likelihood": (lambda: tp.Mixture(2, "weibull"), "likelihood must be a Pair or one of .*'poisson'"),
    "start": (lambda: tp.GaussianMixture(2, init="guess"), "init must be one of .*got 'guess'"),
    "concentration": (lambda: tp.GaussianMixture(2, concentration=-1.0), "concentration must be positive"),
    "concentrations": (lambda: tp.GaussianMixture(2, concentration=[1.0] * 3), "one number or 2 of them"),
    "columns": (lambda: tp.fit(tp.GaussianMixture(2, dim=3), X), "2 columns, but the model is for 3"),
    "columns of the prior": (lambda: tp.fit(tp.GaussianMixture(2, prior=PRIOR), X[:, :1]), "1 columns"),
    "negative weights": (
        lambda: tp.fit(tp.GaussianMixture(2), X, weights=-np.ones(12)),
        "weights must be finite and not negative",
    ),
    "too few weights": (lambda: tp.fit(tp.GaussianMixture(2), X, weights=[1.0]), "for each of the 12 rows"),
    "zero weights": (lambda: tp.fit(tp.GaussianMixture(2), X, weights=np.zeros(12)), "not all be zero"),
    "fractional counts": (lambda: tp.fit(tp.Mixture(2, "poisson"), [[0.5]]), "whole numbers.*found 0.5"),
    "negative counts": (lambda: tp.fit(tp.Mixture(2, "poisson"), [[-1.0]]), "whole numbers.*found -1"),
    "a code that asks for a level each": (
        lambda: tp.fit(tp.Mixture(2, "categorical"), coded(1e9)),
        r"0 to 9999, found 1e\+09 in row 3, column 1.*levels",
    ),
    "a code beyond all": (
        lambda: tp.fit(tp.Mixture(2, "categorical"), coded(1e139)),
        "found 1e\\+139 in row 3, column 1",
    ),
    "a code for missing": (lambda: tp.fit(tp.Mixture(2, "categorical"), coded(-999)), "found -999 in row 3, column 1"),
    "half a code": (lambda: tp.fit(tp.Mixture(2, "categorical"), coded(0.5)), "found 0.5 in row 3, column 1"),
    "a code in a frame": (
        lambda: tp.fit(tp.Mixture(2, "categorical"), pd.DataFrame(coded(1e9), columns=["sex", "region"])),
        "found 1e\\+09 in row 3, column 'region'",
    ),
    "a code in sequences": (lambda: tp.fit(tp.HMM(2, "categorical"), coded(1e9)), "found 1e\\+09 in row 3, column 1"),
    "more levels than memory": (
        lambda: tp.fit(tp.Mixture(2, tp.IndependentPair(tp.Categorical(10**13))), coded(1)),
        "would take .* GB",
    ),
    "more words than memory": (lambda: tp.fit(tp.LDA(10**6), [[2**30, 1]]), "would take .* GB"),
    "words that are not numbered": (lambda: tp.fit(tp.LDA(2), [[2**31, 1]]), "has 2147483649 words"),
    "words beyond 64 bits": (lambda: tp.fit(tp.LDA(2), [[2**80, 1]]), "words, and a vocabulary"),
    "a list that holds itself": (lambda: tp.fit(tp.GaussianMixture(2), endless()), "rows have different lengths"),
    "texts that hold themselves": (lambda: tp.fit(tp.LDA(2), endless()), "must be all text"),
    "more than memory": (lambda: tp.fit(tp.GaussianMixture(2), Vast()), "do not fit in memory: 728 TiB"),
    "a column that is not there": (lambda: tp.fit(tp.LDA(2), sparse_with(99_999_999)), "in column 99999999, and"),
    "a column before the first": (lambda: tp.fit(tp.LDA(2), sparse_with(-5)), "in column -5, and"),
    "not a flag": (lambda: tp.fit(tp.Mixture(2, "bernoulli"), [[2.0]]), "0 to 1, found 2"),
    "method": (lambda: tp.fit(tp.GaussianMixture(2), X, "vb"), r"method must be a method such as tp.VB\(\)"),
    "a method's class": (lambda: tp.fit(tp.GaussianMixture(2), X, tp.VB), r"the class itself: write VB\("),
    "model": (lambda: tp.fit("mixture", X), "model must be a model"),
    "a graph": (lambda: tp.fit(tp.Graph(), X), r"got a Graph: give its .model\(\)"),
    "data first": (lambda: tp.fit(X, tp.GaussianMixture(2)), r"got an array of shape \("),
    "data as models": (lambda: tp.compare([X], X), r"got an array of shape \("),
    "a column for numbers": (lambda: tp.fit(numbers(), [[1.0], [2.0]]), r"as in data\[:, 0\]"),
    "weights that fail": (lambda: tp.fit(tp.GaussianMixture(2), X, weights=Failing()), "read as an array: two lines"),
    "weights of sequences": (lambda: tp.fit(tp.HMM(2), X, weights=[[1.0], [1.0, 2.0]]), "rows have different lengths"),
    "seed": (lambda: tp.fit(tp.GaussianMixture(2), X, seed="now"), "seed must be"),
    "restarts": (lambda: tp.VB(restarts=0), "restarts must be"),
    "tolerance": (lambda: tp.VB(tol=-1.0), "tol must be"),
    "iterations": (lambda: tp.VB(max_iter=0), "max_iter must be"),
}


def numbers():
    g = tp.Graph()
    g.normal("x", g.normal("mu", 0.0, 1.0), 1.0, plates="n", observed=True)
    return g.model()


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_one_clear_sentence(name):
    attempt, message = REFUSED[name]
    with pytest.raises(TemperanceError, match=message) as caught:
        attempt()
    assert isinstance(caught.value, InvalidData | InvalidParameter | UnsupportedMethod)
    assert isinstance(caught.value, ValueError | TypeError)
    assert "\n" not in str(caught.value)


ODD = {
    "one datum": X[:1],
    "duplicates": np.repeat(X[:1], 12, axis=0),
    "constant column": np.column_stack([X[:, 0], np.full(12, 7.0)]),
    "huge offset": X + 1e9,
    "tiny scale": 1e-150 * X,
    "integers": np.arange(24).reshape(12, 2),
    "booleans": X > 0,
}


@pytest.mark.parametrize("name", with_slow(ODD, "duplicates", "integers", "one datum", "tiny scale"))
def test_odd_data_give_finite_answers(name):
    x = np.resize(ODD[name], (12, 2)) if name != "one datum" else ODD[name]
    fit = tp.fit(tp.GaussianMixture(3), x, tp.VB(max_iter=50), seed=0)
    assert np.isfinite(fit.log_evidence)
    assert np.isfinite(fit.log_predictive(x)).all()
    np.testing.assert_allclose(fit.responsibilities(x).sum(axis=1), 1.0)


def test_more_components_than_data_is_allowed_with_a_note():
    fit = tp.fit(tp.GaussianMixture(3), X[:2], tp.VB(max_iter=50), seed=0)
    assert np.isfinite(fit.log_evidence)
    assert any("more components (3) than data (2)" in note for note in fit.notes)
