"""Hidden Markov estimators against hmmlearn's: the same start, the same iterations, the same answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hmmlearn import hmm
from sklearn.base import clone

from temperance import estimators

# hmmlearn's own, with NumPy 2.5.
pytestmark = pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")

rng = np.random.default_rng(0)
PATH = np.concatenate([np.repeat([0, 1, 0, 1], 15), np.repeat([1, 0], 20)])
LENGTHS = [60, 40]
NUMBERS = np.array([[0.0, 0.0], [4.0, -2.0]])[PATH] + rng.normal(size=(100, 2)) * [1.0, 0.5]
COUNTS = rng.poisson(np.array([[2.0, 9.0], [8.0, 3.0]])[PATH])
LEVELS = np.array([[0.1, 0.3, 1.0], [0.7, 0.9, 1.0]])
CODES = (rng.uniform(size=(100, 1)) > LEVELS[PATH]).sum(axis=1)[:, None]

TOTALS = np.stack([rng.multinomial(9, row) for row in np.diff(LEVELS, axis=1, prepend=0.0)[PATH]])

CASES = {
    "full": (
        "GaussianHMM",
        {"covariance_type": "full", "covars_prior": 0.01 * np.eye(2)},
        NUMBERS,
        ("means_", "covars_"),
    ),
    "diag": ("GaussianHMM", {"covariance_type": "diag"}, NUMBERS, ("means_", "covars_")),
    "poisson": ("PoissonHMM", {}, COUNTS, ("lambdas_",)),
    "categorical": ("CategoricalHMM", {}, CODES, ("emissionprob_",)),
    "multinomial": ("MultinomialHMM", {"n_trials": 9}, TOTALS, ("emissionprob_",)),
}


def both(case: str, **arguments: Any) -> tuple[Any, Any, np.ndarray]:
    name, given, X, _ = CASES[case]
    made = [getattr(module, name)(2, **given, **arguments) for module in (estimators, hmm)]
    return *(model.fit(X, LENGTHS) for model in made), X


@pytest.mark.parametrize("case", list(CASES))
def test_the_same_iterations_from_the_same_start(case: str) -> None:
    # A start that EM takes to states that last: of paths that switch at every step many are equally probable.
    ours, theirs, X = both(case, random_state=4, n_iter=8, tol=0.0)
    assert set(theirs.get_params()) <= set(ours.get_params())
    for attribute in ("startprob_", "transmat_", *CASES[case][3]):
        np.testing.assert_allclose(getattr(ours, attribute), getattr(theirs, attribute), atol=1e-6, err_msg=attribute)
    assert ours.score(X, LENGTHS) == pytest.approx(theirs.score(X, LENGTHS), rel=1e-8)
    for algorithm in ("viterbi", "map"):
        mine, other = (model.decode(X, LENGTHS, algorithm) for model in (ours, theirs))
        assert mine[0] == pytest.approx(other[0], rel=1e-7)
        np.testing.assert_array_equal(mine[1], other[1])
    np.testing.assert_array_equal(ours.predict(X, LENGTHS), theirs.predict(X, LENGTHS))
    np.testing.assert_allclose(ours.predict_proba(X, LENGTHS), theirs.predict_proba(X, LENGTHS), atol=1e-6)
    np.testing.assert_allclose(ours.get_stationary_distribution(), theirs.get_stationary_distribution(), atol=1e-6)
    assert ours.aic(X, LENGTHS) == pytest.approx(theirs.aic(X, LENGTHS))
    assert ours.bic(X, LENGTHS) == pytest.approx(theirs.bic(X, LENGTHS))


@pytest.mark.parametrize(
    ("case", "params"),
    [("full", "tmc"), ("diag", "m"), ("diag", "st"), ("poisson", "l"), ("poisson", ""), ("categorical", "e"),
     ("categorical", "st"), ("multinomial", "st")],
)  # fmt: skip
def test_what_params_leaves_out_stays_at_its_start(case: str, params: str) -> None:
    """hmmlearn needs "m" among them to learn "c"."""
    ours, theirs, _ = both(case, random_state=4, n_iter=6, tol=0.0, params=params)
    still, _, _ = both(case, random_state=4, params="")
    letters = {
        "startprob_": "s",
        "transmat_": "t",
        "means_": "m",
        "covars_": "c",
        "lambdas_": "l",
        "emissionprob_": "e",
    }
    for attribute in ("startprob_", "transmat_", *CASES[case][3]):
        found = getattr(ours, attribute)
        np.testing.assert_allclose(found, getattr(theirs, attribute), rtol=2e-5, atol=1e-6, err_msg=attribute)
        assert np.array_equal(found, getattr(still, attribute)) == (letters[attribute] not in params)


@pytest.mark.parametrize("form", ["full", "diag"])
def test_covariances_alone_are_the_spread_about_the_means_that_stay(form: str) -> None:
    model = estimators.GaussianHMM(2, form, params="c", random_state=0, n_iter=300, tol=1e-9).fit(NUMBERS)
    shares = model.predict_proba(NUMBERS)
    away = NUMBERS[:, None] - model.means_
    spread = np.einsum("nk,nki,nkj->kij", shares, away, away) + 0.01 * np.eye(2)
    expected = spread / shares.sum(axis=0)[:, None, None]
    expected = expected if form == "full" else expected * np.eye(2)
    np.testing.assert_allclose(model.covars_, expected, rtol=1e-4, atol=1e-4)


def test_spherical_ends_close_to_hmmlearns() -> None:
    """Its proper prior is worth less than one of about 50 steps for each state."""
    models = [module.GaussianHMM(2, "spherical", random_state=0, n_iter=50) for module in (estimators, hmm)]
    ours, theirs = (model.fit(NUMBERS, LENGTHS) for model in models)
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=0.02)
    # hmmlearn's `covars_` repeats a spherical covariance too often: four matrices for two states.
    np.testing.assert_allclose(np.einsum("kii->ki", ours.covars_), theirs._covars_, rtol=0.03)
    np.testing.assert_array_equal(ours.predict(NUMBERS, LENGTHS), theirs.predict(NUMBERS, LENGTHS))


def test_attributes_that_were_set_are_used_without_a_fit() -> None:
    made = []
    for module in (estimators, hmm):
        model = module.GaussianHMM(2, "full")
        model.startprob_ = np.array([1.0, 0.0])
        model.transmat_ = np.array([[0.9, 0.1], [0.0, 1.0]])
        model.means_ = np.array([[0.0, 0.0], [4.0, -2.0]])
        model.covars_ = np.stack([np.eye(2), 2.0 * np.eye(2)])
        made.append(model)
    ours, theirs = made
    assert ours.score(NUMBERS) == pytest.approx(theirs.score(NUMBERS), rel=1e-10)
    np.testing.assert_array_equal(ours.predict(NUMBERS), theirs.predict(NUMBERS))
    rows, states = ours.sample(4000, random_state=1)
    assert states[0] == 0 and (np.diff(states) >= 0).all() and rows.shape == (4000, 2)
    assert np.abs(rows[states == 1].mean(axis=0) - [4.0, -2.0]).max() < 5 * np.sqrt(2.0 / 3900)
    assert ours.sample(3, currstate=1)[1].tolist() == [1, 1, 1]
    model = clone(ours).set_params(init_params="", n_iter=5, random_state=0)
    for name in ("startprob_", "transmat_", "means_", "covars_"):
        setattr(model, name, getattr(ours, name))
    assert model.fit(NUMBERS, LENGTHS).transmat_[1, 0] == 0.0  # what is impossible stays so


@pytest.mark.parametrize("name, X", [("GaussianHMM", NUMBERS), ("PoissonHMM", COUNTS), ("CategoricalHMM", CODES)])
def test_variational_bayes_has_evidence_for_two_states(name: str, X: np.ndarray) -> None:
    found = [getattr(estimators, name)(k, inference="vb", n_iter=200, random_state=0).fit(X, LENGTHS) for k in (1, 2)]
    assert found[1].log_evidence_ > found[0].log_evidence_ + 3.0
    agree = np.mean(found[1].predict(X, LENGTHS) == PATH)
    assert max(agree, 1 - agree) > 0.8


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="lengths must be positive and add up to the 100 rows"):
        estimators.GaussianHMM(2).fit(NUMBERS, [10, 20])
    with pytest.raises(ValueError, match="params must be some of the letters 'stmc', got 'ste'"):
        estimators.GaussianHMM(2, params="ste").fit(NUMBERS)
    with pytest.raises(ValueError, match="params must be 'stmc' unless inference='em', got 'st'"):
        estimators.GaussianHMM(2, params="st", inference="vb").fit(NUMBERS)
    with pytest.raises(ValueError, match="X must be one column of whole numbers"):
        estimators.CategoricalHMM(2).fit(NUMBERS)
    with pytest.raises(ValueError, match="algorithm must be 'viterbi' or 'map'"):
        estimators.GaussianHMM(2, random_state=0).fit(NUMBERS).decode(NUMBERS, algorithm="best")
