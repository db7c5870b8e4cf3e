"""What a user can get wrong about a mixture: one clear sentence each, or a right and finite answer; never a NaN."""

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter, UnsupportedMethod
from tests.models.small import VB, X, mixture
from tests.tiers import with_slow

COUNTS = np.random.default_rng(0).poisson(3.0, size=(12, 2)).astype(float)
HOLE = np.where(np.arange(24).reshape(12, 2) == 5, np.nan, X)
WISHART = tp.NormalWishart([0.0, 0.0], 1.0, 4.0, np.eye(2))


def model(*arguments: Any, **options: Any) -> Callable[[], Any]:
    return lambda: tp.GaussianMixture(*arguments, **options)


def fitted(model: Callable[[], tp.Mixture], data: Any, **options: Any) -> Callable[[], Any]:
    return lambda: tp.fit(model(), data, VB, **options)


def counted(likelihood: Any, data: Any, **options: Any) -> Callable[[], Any]:
    return lambda: tp.fit(tp.Mixture(2, likelihood, **options), data, VB)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (fitted(model(2), HOLE), r'1 missing values \(the first in row 2, column 1\).* missing="marginalise"'),
        (fitted(model(2), np.where(X > 2.5, np.inf, X)), r"data must be finite, but row \d+, column \d is infinite"),
        (fitted(model(2), 1e200 * X), r"rescale what exceeds 1e\+140"),
        (fitted(model(2), X[None]), r"a matrix of rows and columns, got an array of shape \(1, 12, 2\)"),
        (fitted(model(2), 3.0), r"a matrix of rows and columns, got an array of shape \(\)"),
        (fitted(model(2), X[:0]), r"at least one row and one column, got shape \(0, 2\)"),
        (fitted(model(2, missing="marginalise"), X * [1, np.nan]), r"column 1 of data has no value at all"),
        (fitted(model(2, dim=3), X), r"data has 2 columns, but the model is for 3"),
        (fitted(model(2, covariance=np.eye(3)), X), r"2 columns, but the known covariance is for 3"),
        (fitted(model(2), X, weights=-np.ones(12)), r"weights must be finite and not negative, got -1 for row 0"),
        (fitted(model(2), X, weights=np.ones(11)), r"weights must be one number for each of the 12 rows.*\(11,\)"),
        (fitted(model(2), X, weights=np.zeros(12)), r"weights must not all be zero"),
        (fitted(model(2), X, weights=np.full(12, 1e-320)), r"weights must not all be zero"),
        (fitted(model(2), [[10**400, 1], [2, 3]]), r"data must be numeric, but holds a whole number that no float"),
        (lambda: tp.fit(model(2)(), X, tp.VB(restarts=10**12)), r"restarts=1,000,000,000,000 would take .* GB"),
        (lambda: tp.fit(model(2)(), X, tp.Gibbs(draws=10**13)), r"draws=10,000,000,000,000 would take .* GB"),
        (lambda: tp.fit(model(2)(), X, VB).sample(0, 10**12), r"1,000,000,000,000 new data would take 16,000.0 GB"),
        (counted("poisson", COUNTS - 9), r"Poisson counts must be whole numbers 0, 1, 2, …, found -\d"),
        (counted("poisson", COUNTS + 0.5), r"Poisson counts must be whole numbers 0, 1, 2, …, found \d.5"),
        (counted("poisson", COUNTS + 2.0**54), r"Poisson counts must be at most 2⁵³, .* found 1.80144e\+16 in row 0"),
        (counted("multinomial", COUNTS + 2.0**54), r"multinomial counts must be at most 2⁵³"),
        (counted("bernoulli", COUNTS), r"Bernoulli data must be whole numbers 0 to 1, found \d"),
        (counted("categorical", COUNTS + 0.5), r"categorical data must be whole numbers"),
        (counted(tp.IndependentPair(tp.Categorical(3)), COUNTS), r"categorical data must be whole numbers 0 to 2"),
        (counted("multinomial", COUNTS - 9), r"multinomial counts must be whole numbers"),
        (counted("multinomial", HOLE, missing="marginalise"), r"multinomial counts must not be missing"),
    ],
)
def test_data(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InvalidData) as error:
        call()
    assert re.search(sentence, str(error.value)), error.value
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        *((model(k), r"n_components must be a whole number of at least 1, got") for k in (0, -1, 1.5, None, "3")),
        *((model(k), r"n_components must be a whole number of at least 1, got") for k in (True, np.nan, np.inf)),
        (model(2, dim=0), r"dim must be a whole number of at least 1, got 0"),
        (model(2, covariance="round"), r"covariance must be one of 'full', 'diag', 'diagonal', 'spherical', 'tied'"),
        (model(2, covariance=-np.eye(2)), r"covariance must be positive definite"),
        (model(2, missing="drop"), r"missing must be one of None, 'marginalise', got 'drop'"),
        (model(2, missing=["drop"]), r"missing must be one of None, 'marginalise'"),
        (model(2, weights="free"), r"weights must be one of 'dirichlet', 'point', got 'free'"),
        (model(2, precision="half"), r"precision must be one of 'double', 'single', got 'half'"),
        (model(2, concentration=0.0), r"concentration must be positive and finite, got 0.0"),
        (model(2, concentration=[1.0, 1.0, 1.0]), r"concentration must be one number or 2 of them"),
        (model(2, concentration="a"), r"concentration must be numeric, got a"),
        (lambda: tp.Mixture(2, "weibull"), r"likelihood must be a Pair or one of 'gaussian', .*, got 'weibull'"),
        (model(2, prior=3.0), r"prior must be a family such as"),
        (model(2, prior=tp.NormalWishart(np.zeros((3, 2)), 1.0, 4.0, np.eye(2))), r"prior must be one .* \(3,\)"),
        (fitted(model(2, prior=tp.Gamma(1.0, 1.0)), X), r"prior must be a NormalWishart.*got a Gamma"),
        (fitted(model(2, covariance="diag", prior=WISHART), X), r"prior must be a NormalGamma.*got a NormalWishart"),
        (counted("poisson", COUNTS, prior=tp.Beta(1.0, 1.0)), r"prior must be a Gamma.*got a Beta"),
        (counted("multinomial", COUNTS, prior=tp.Dirichlet([1.0, 1.0, 1.0])), r"prior has parameters of shape \(3,\)"),
        (
            model(2, init="kmeans"),
            r"init must be one of 'mixed', 'kmeans\+\+', 'random', 'uneven', 'annealed', 'prior', an array",
        ),
        (model(2, init=[1.0, 2.0]), r"init must be means \(k, d\) or responsibilities \(n, k\), got shape \(2,\)"),
        (model(2, init=np.zeros((3, 2))), r"means need 2 rows, responsibilities 2 columns"),
        (model(2, init=[["a", "b"]]), r"init must be numbers"),
        (model(2, init=np.full((2, 2), np.nan)), r"init must be finite"),
        (fitted(model(2, init=np.zeros((2, 3))), X), r"init has means of 3 columns, but the data have 2"),
        (fitted(model(2, init=np.full((5, 2), 0.5)), X), r"init has 5 rows of responsibilities, but the data have 12"),
    ],
)
def test_arguments(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InvalidParameter) as error:
        call()
    assert re.search(sentence, str(error.value)), error.value
    assert "\n" not in str(error.value)


def test_prior_for_other_columns() -> None:
    prior = tp.NormalWishart(np.zeros(3), 1.0, 4.0, np.eye(3))
    with pytest.raises(InvalidData, match="data has 2 columns, but the model is for 3"):
        tp.fit(tp.GaussianMixture(2, prior=prior), X)


def test_new_data() -> None:
    fit = tp.fit(mixture(), X, VB)
    for ask in (fit.log_predictive, fit.responsibilities):
        with pytest.raises(InvalidData, match="data has 3 columns, but the model is for 2"):
            ask(np.zeros((4, 3)))
        with pytest.raises(InvalidData, match="missing values"):
            ask(HOLE)
        with pytest.raises(InvalidData, match="at least one row"):
            ask(X[:0])
    for n in (0, 1.5, "a", True):
        with pytest.raises(InvalidParameter, match="n must be a whole number of at least 1"):
            fit.sample(0, n)


def test_multinomial_needs_a_total_to_sample() -> None:
    model, data = tp.Mixture(2, "multinomial").prepare(COUNTS)
    with pytest.raises(InvalidParameter, match=r"Multinomial\(total=…\) is needed"):
        model.pair.sample(jax.random.key(0), model.prior["components"].mode())
    assert data.size == 12


def finite(fit: tp.Fit, rows: np.ndarray) -> None:
    assert np.isfinite(fit.log_evidence)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(fit.posterior))
    assert np.isfinite(fit.log_predictive(rows)).all()
    np.testing.assert_allclose(fit.responsibilities(rows).sum(axis=1), 1.0)


@pytest.mark.parametrize("form", with_slow(["full", "diag", "spherical", "known"], "diag", "spherical", "known"))
def test_degenerate_data_have_finite_answers(form: str) -> None:
    constant = X * [1.0, 0.0] + [0.0, 0.1]
    cases = {
        "a constant column": constant,
        "a column of zeros": X * [1.0, 0.0],
        "one value": np.full((12, 2), 0.1),
        "duplicates": np.repeat(X[:2], 6, axis=0),
        "huge": 1e130 * X,
        "tiny": 1e-160 * X,
    }
    for name, rows in cases.items():
        if form == "known" and name == "huge":
            continue  # 10¹³⁰ standard deviations from a known covariance of about 1
        fit = tp.fit(mixture(form), rows, VB)
        finite(fit, rows)
        constants = [note for note in fit.notes if "never varies" in note]
        assert len(constants) == {"a constant column": 1, "a column of zeros": 1, "one value": 2}.get(name, 0)


def test_all_weight_on_one_datum() -> None:
    weights = np.zeros(12)
    weights[3] = 1.0
    finite(tp.fit(mixture(), X, VB, weights=weights), X)


@pytest.mark.slow
def test_counts_of_nothing() -> None:
    zeros = np.zeros((12, 2))
    finite(tp.fit(tp.Mixture(2, "poisson"), zeros, VB), zeros)


def test_methods_and_models_are_not_names() -> None:
    with pytest.raises(UnsupportedMethod, match=r"method must be a method such as tp.VB\(\), got 'VB'"):
        tp.fit(mixture(), X, "VB")
    with pytest.raises(InvalidParameter, match="model must be a model such as"):
        tp.fit("mixture", X)
