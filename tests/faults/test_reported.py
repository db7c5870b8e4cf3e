"""What new users and attackers have reported, where no other test holds it."""

import os

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import temperance as tp
from tests.faults.attack import CASES, METHODS, fed, method
from tests.tiers import with_slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2)) * [1.0, 3.0] + [0.0, 8.0] * (np.arange(24)[:, None] % 2)
FRAME = pd.DataFrame(X, columns=["height", "weight"])


@pytest.mark.parametrize("name", with_slow(["groups", "states", "factors", "regression"], "states", "factors"))
def test_columns_of_a_frame_are_found_by_their_names(name):
    """In another order they gave other groups, silently."""
    turned = FRAME[["weight", "height"]].assign(more=1.0)[["weight", "more", "height"]]
    if name == "regression":
        fit = tp.fit(tp.LinearRegression(), (FRAME, X[:, 0] - X[:, 1]), tp.VB(), seed=0)
        np.testing.assert_array_equal(fit.predict(turned).mean, fit.predict(FRAME).mean)
        return
    make = {"groups": tp.GaussianMixture, "states": tp.HMM, "factors": lambda _: tp.FactorAnalysis(1)}[name]
    fit = tp.fit(make(2), FRAME, tp.VB(max_iter=20), seed=0)
    np.testing.assert_array_equal(fit.log_predictive(turned), fit.log_predictive(FRAME))
    if name == "groups":
        np.testing.assert_array_equal(fit.responsibilities(turned), fit.responsibilities(FRAME))
    with pytest.raises(tp.errors.InvalidData, match="lacks the column 'height'"):
        fit.log_predictive(turned[["weight", "more"]])


def test_the_predictive_density_of_a_point():
    """After EM the weights are a point, which has no concentration: the density is that of the estimate."""
    fit = tp.fit(tp.GaussianMixture(2), X, tp.EM(restarts=2), seed=0)
    weights, parts = np.asarray(fit.posterior["weights"].mode()), fit.posterior["components"].mode()
    means, precisions = np.asarray(parts.mean), np.asarray(parts.precision)
    densities = [stats.multivariate_normal(means[k], np.linalg.inv(precisions[k])).pdf(X) for k in range(2)]
    np.testing.assert_allclose(fit.log_predictive(X), np.log(weights @ densities), rtol=1e-8)


@pytest.mark.parametrize(
    ("model", "by"),
    [
        pytest.param(model, by, marks=() if (model, by) == ("mixture", "em") else pytest.mark.slow)
        for model in CASES
        for by in METHODS
        if by in ("em", "laplace", "gibbs", "vb")
    ],
)
def test_every_fit_has_a_summary_a_table_and_finite_densities(model, by):
    """Two summaries raised AssertionError, and one density was not finite."""
    case = CASES[model]
    try:
        fit = tp.fit(case.make(), fed(case), method(by), seed=0)
    except tp.errors.UnsupportedMethod:
        return
    assert str(fit.summary()) and fit._repr_html_()
    fit.table()
    try:
        density = fit.log_predictive(fed(case))
    except tp.errors.TemperanceError as error:
        assert "\n" not in str(error)
        return
    assert np.isfinite(density).all()


def test_a_number_of_draws_may_be_one_of_numpy():
    fit = tp.fit(tp.GaussianMixture(2), X, tp.VB(max_iter=5), seed=0)
    np.testing.assert_array_equal(fit.sample(0, np.int64(3)), fit.sample(0, 3))


@pytest.mark.parametrize("content", ["[" * 100_000, '{"text": ' * 100_000, "[" * 100_000 + "\n" + "[" * 100_000])
def test_json_that_is_nested_too_deeply(content, tmp_path):
    (tmp_path / "deep.jsonl").write_text(content)
    with pytest.raises(tp.errors.DamagedFile, match=r"nested too deeply|no JSON") as caught:
        tp.data.read_texts(tmp_path / "deep.jsonl")
    assert "\n" not in str(caught.value)


def test_devices_and_pipes_are_not_loaded(tmp_path):
    """One of them never ends, the other never begins."""
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe"):
        with pytest.raises(tp.errors.DamagedFile, match="is a device, a pipe or a socket"):
            tp.load(path)
