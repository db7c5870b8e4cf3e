"""Gibbs sampling, plain and collapsed, against enumeration; and everything a fit does with draws."""

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter, UnsupportedMethod
from temperance.numerics.autocorrelation import standard_error
from tests.inference.monte_carlo import tiny

METHODS = {"plain": tp.Gibbs(draws=1500, warmup=100), "collapsed": tp.CollapsedGibbs(draws=1500, warmup=100)}


@cache
def fitted(kind: str = "plain") -> tp.Fit:
    return tp.fit(tiny.MODEL, tiny.X, METHODS[kind], seed=1)


@pytest.mark.parametrize("kind", ["plain", pytest.param("collapsed", marks=pytest.mark.slow)])
def test_expectations_are_those_of_enumeration(kind: str) -> None:
    exact = tiny.same_component()
    for i, j in tiny.PAIRS:
        series = tiny.together(fitted(kind), i, j)
        error = standard_error(series)
        assert 0 < error < 0.02
        assert series.mean() == pytest.approx(exact[i, j], abs=4 * error)


@pytest.mark.slow
@pytest.mark.parametrize("method", [tp.Gibbs, tp.CollapsedGibbs], ids=["plain", "collapsed"])
def test_errors_are_calibrated_over_fifty_chains(method: Any) -> None:
    fit = tp.fit(tiny.MODEL, tiny.X, method(draws=1000, warmup=100, chains=50), seed=3)
    exact = tiny.same_component()
    for i, j in tiny.PAIRS:
        series = tiny.together(fit, i, j)
        z = np.array([(one.mean() - exact[i, j]) / standard_error(one) for one in series])
        assert np.abs(z).max() < 4
        assert 0.6 < z.var() < 1.6


def test_predictive_density_is_that_of_enumeration() -> None:
    new = np.array([-1.5, 0.0, 1.0, 2.0])
    exact = [tiny.log_predictive(value) for value in new]
    np.testing.assert_allclose(fitted().log_predictive(new[:, None]), exact, atol=0.03)


@pytest.mark.slow
def test_answers_of_a_fit() -> None:
    fit = fitted()
    assert fit.converged
    assert fit.posterior["weights"].shape == (4, 1500, 2)
    assert fit.posterior["components"].precision.shape == (4, 1500, 2, 1, 1)
    assert fit.history["log_joint"].shape == (1500, 4)
    np.testing.assert_allclose(fit.posterior["weights"].sum(axis=-1), 1.0)
    rows = fit.sample(0, 2000)
    assert rows.shape == (2000, 1)
    # The share of new data below zero, by quadrature over the exact predictive density.
    grid = np.linspace(-8, 0, 33)
    exact = np.trapezoid([np.exp(tiny.log_predictive(value)) for value in grid], grid)
    assert np.mean(rows < 0) == pytest.approx(exact, abs=0.05)


def test_draws_are_in_the_users_coordinates() -> None:
    """Data far from the origin are centred inside; the draws come back where the data are."""
    means = np.asarray(fitted().posterior["components"].mean)[..., 0]
    weights = np.asarray(fitted().posterior["weights"])
    assert np.sum(means * weights, axis=-1).mean() == pytest.approx(tiny.X.mean(), abs=0.2)


@pytest.mark.slow
def test_labels_are_aligned_for_summaries_and_not_in_the_draws() -> None:
    fit = fitted()
    means = np.asarray(fit.posterior["components"].mean)[..., 0]
    # The sampler exchanges the labels, or its chains start with different ones: the draws keep that.
    assert (means[..., 0] > means[..., 1]).any()
    assert (means[..., 0] < means[..., 1]).any()
    share = fit.responsibilities(tiny.X)
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    # Without alignment all would be near one half.
    first = share[:, int(np.argmax(share[0]))]
    assert first[0] > 0.65
    assert first[5] < 0.4
    assert (np.diff(first) < 0.02).all()
    table = fit.table()
    assert sum(table["data"]) == pytest.approx(6)
    low, high = sorted(np.ravel(table["mean"]))
    assert low < 0 < high


def test_a_saved_fit_comes_back(tmp_path: Path) -> None:
    fitted().save(tmp_path / "fit")
    again = tp.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.posterior["weights"], fitted().posterior["weights"])
    np.testing.assert_array_equal(again.log_predictive(tiny.X), fitted().log_predictive(tiny.X))
    assert again.method == fitted().method


def test_the_seed_decides() -> None:
    again = tp.fit(tiny.MODEL, tiny.X, METHODS["plain"], seed=1)
    np.testing.assert_array_equal(again.history["log_joint"], fitted().history["log_joint"])


def test_evidence_is_not_claimed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sampler estimates none: None everywhere, and nothing that reads it stumbles."""
    fit = fitted()
    assert fit.log_evidence is None and fit.bracket is None and fit.standard_error is None
    assert any("no evidence" in note for note in fit.notes)
    fit.save(tmp_path / "fit")
    assert tp.load(tmp_path / "fit").log_evidence is None
    print(fit.summary())
    assert "log evidence not estimated" in capsys.readouterr().out
    page = Path(tp.report(fit, tmp_path / "page.html")).read_text()
    assert "None" not in page and "-inf" not in page and "−inf" not in page


def test_a_file_with_an_infinite_evidence_is_read_as_one_without(tmp_path: Path) -> None:
    dataclasses.replace(fitted(), log_evidence=-np.inf).save(tmp_path / "fit")
    assert tp.load(tmp_path / "fit").log_evidence is None


@pytest.mark.parametrize(
    "arguments", [{"draws": 3}, {"warmup": -1}, {"chains": 0}, {"thin": 0}, {"draws": 10.5}, {"chains": True}]
)
def test_bad_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=f"{next(iter(arguments))} must be a whole number"):
        tp.Gibbs(**arguments)


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (
            lambda: tp.fit(tp.GaussianMixture(2, weights="point"), tiny.X, tp.Gibbs()),
            UnsupportedMethod,
            "point estimate",
        ),
        (
            lambda: tp.fit(tiny.MODEL, tiny.X, tp.Gibbs(), weights=np.full(6, 2.0)),
            InvalidData,
            "weights must all be 0 or 1",
        ),
        (
            lambda: tp.fit(tp.LinearRegression(), (tiny.X, tiny.X[:, 0]), tp.CollapsedGibbs()),
            UnsupportedMethod,
            "collapsed Gibbs integrates out every parameter.*LinearRegression",
        ),
    ],
)
def test_what_cannot_be_drawn(attempt: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        attempt()
