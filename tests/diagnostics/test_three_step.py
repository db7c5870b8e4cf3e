"""Membership on covariates and outcomes by class: exact where classes are certain, unbiased where they overlap."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter

BETA = np.array([[0.0, 0.0], [0.3, 0.8], [-0.4, -1.0]])  # intercept and slope of the log odds, against the first class
MEANS = np.array([1.0, 2.0, 4.0])


def simulated(seed, n, apart):
    """Classes that depend on z, a table that shows them, and an outcome that depends on them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    odds = np.exp(np.stack([np.ones(n), z], axis=1) @ BETA.T)
    x = (rng.uniform(size=n)[:, None] > (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)).sum(axis=1)
    frame = pd.DataFrame(
        {
            "a": rng.normal(apart * x, 1),
            "b": rng.normal(apart * (x == 1), 1),
            "c": rng.poisson(2 + apart * (x == 2)),
            "d": np.where(rng.uniform(size=n) < 0.15 + 0.3 * x, "yes", "no"),
        }
    )
    return frame, z, x, rng.normal(MEANS[x], 1)


def fitted(frame, seed=0):
    """A fit, and the labels of its classes in the order of the truth."""
    fit = tp.fit(tp.ClassMixture(3), frame, tp.VB(restarts=5), seed=seed)
    found = fit.profiles()
    (mean,) = [item.estimate for item in found.items if item.column == "a"]
    return fit, [found.labels[k] for k in np.argsort(mean)]


def test_classes_that_are_certain_give_the_plain_logit_and_plain_means():
    frame, z, x, y = simulated(0, 200, 40.0)
    fit, labels = fitted(frame)
    design = np.stack([np.ones(len(z)), z], axis=1)

    def loss(beta):
        logits = np.concatenate([np.zeros((len(z), 1)), design @ beta.reshape((2, 2)).T], axis=1)
        return -(logits[np.arange(len(z)), x] - np.log(np.exp(logits).sum(axis=1))).sum()

    plain = minimize(loss, np.zeros(4), tol=1e-12).x.reshape((2, 2))
    for correction in ("three-step", "two-step", "none"):
        found = fit.classes_by({"z": z}, reference=labels[0], correction=correction)
        rows = [found.labels.index(label) for label in labels[1:]]
        np.testing.assert_allclose(found.estimate[rows], plain, atol=2e-3)  # but for the weak prior
        assert found.names == ("intercept", "z") and found.p_value < 1e-6
    outcome = fit.outcome_by_class(pd.Series(y, name="income"))
    rows = [outcome.labels.index(label) for label in labels]
    means = [y[x == k].mean() for k in range(3)]
    errors = [np.sqrt(np.square(y[x == k] - y[x == k].mean()).sum()) / (x == k).sum() for k in range(3)]
    np.testing.assert_allclose(outcome.estimate[rows, 0], means, rtol=1e-6)
    last = fit.outcome_by_class(pd.Series(y, name="income"), replicates=0)
    np.testing.assert_allclose(last.standard_error[rows, 0], errors, rtol=1e-5)
    np.testing.assert_allclose(outcome.standard_error[rows, 0], errors, rtol=0.25)  # by 100 replicates
    shares = fit.outcome_by_class(np.where(y > 2, "high", "low"))
    assert shares.what == "probability" and shares.names == ("outcome = high",)
    np.testing.assert_allclose(shares.estimate[rows, 0], [(y[x == k] > 2).mean() for k in range(3)], atol=1e-6)


@pytest.mark.slow
def test_overlapping_classes_bias_plain_assignment_and_not_the_corrected_one():
    """7% of rows are classified wrongly. Ten tables of 1,000 rows: the mean error is within three of its standard
    errors (or 0.05), and that of plain assignment is not."""
    errors = {"three-step": [], "two-step": [], "none": []}
    means = {"three-step": [], "none": []}
    for seed in range(10):
        frame, z, _, y = simulated(seed, 1000, 2.2)
        fit, labels = fitted(frame, seed)
        for correction, kept in errors.items():
            found = fit.classes_by({"z": z}, reference=labels[0], correction=correction, replicates=0)
            kept.append(found.estimate[[found.labels.index(label) for label in labels[1:]]] - BETA[1:])
        for correction, kept in means.items():
            found = fit.outcome_by_class(y, correction=correction)
            rows = [found.labels.index(label) for label in labels]
            kept.append(found.estimate[rows, 0] - MEANS)
    for correction in ("three-step", "two-step"):
        bias, spread = np.mean(errors[correction], axis=0), np.std(errors[correction], axis=0) / np.sqrt(10)
        assert (np.abs(bias) < np.maximum(3 * spread, 0.05)).all()
    assert np.abs(np.mean(errors["none"], axis=0)).max() > 0.15
    assert np.abs(np.mean(means["three-step"], axis=0)).max() < 0.05 < np.abs(np.mean(means["none"], axis=0)).max()


def test_intervals_carry_the_uncertainty_of_the_classes():
    """Intervals from all steps are wider than those of the last step, by less than 60%."""
    frame, z, _, y = simulated(1, 500, 2.2)
    fit, _ = fitted(frame)
    last, every = (fit.classes_by({"z": z}, replicates=count) for count in (0, 100))
    assert 1.0 < np.mean(every.standard_error / last.standard_error) < 1.6
    assert every.all_steps and not last.all_steps and "groups themselves for known" in str(last)
    last, every = (fit.outcome_by_class(y, replicates=count) for count in (0, 100))
    assert 1.0 < np.mean(every.standard_error / last.standard_error) < 1.6
    np.testing.assert_array_equal(last.estimate, every.estimate)


@pytest.mark.slow
def test_intervals_of_outcomes_hold_the_truth_as_often_as_they_say():
    """A fifth of the rows are classified wrongly. Sixty tables of 400 rows: the errors of the means have the spread
    that their standard errors say, and those of the last step alone understate it."""
    scaled: dict[int, list[np.ndarray]] = {0: [], 60: []}
    for seed in range(60):
        frame, _, _, y = simulated(seed, 400, 1.6)
        fit, labels = fitted(frame, seed)
        for replicates, kept in scaled.items():
            found = fit.outcome_by_class(y, replicates=replicates)
            rows = [found.labels.index(label) for label in labels]
            kept.append((found.estimate[rows, 0] - MEANS) / found.standard_error[rows, 0])
    spread = {replicates: np.square(kept).mean() for replicates, kept in scaled.items()}
    held = {replicates: (np.abs(kept) < 1.96).mean() for replicates, kept in scaled.items()}
    assert 0.7 < spread[60] < 1.3 < 1.4 < spread[0]  # 180 squares: a standard error of 0.11
    assert held[60] > 0.9 > held[0]


def test_a_part_of_large_data_stands_for_all_of_them(monkeypatch):
    """Standard errors from half of the rows are those from all rows, within the error of 100 replicates."""
    frame, z, _, y = simulated(3, 2000, 2.2)
    fit, _ = fitted(frame)
    means, odds = fit.outcome_by_class(y).standard_error, fit.classes_by({"z": z}).standard_error
    monkeypatch.setattr("temperance.diagnostics.three_step._PART", 4000)
    np.testing.assert_allclose(fit.outcome_by_class(y).standard_error, means, rtol=0.25)
    np.testing.assert_allclose(fit.classes_by({"z": z}).standard_error, odds, rtol=0.25)


def test_rows_without_weight_change_nothing():
    frame, z, _, y = simulated(4, 300, 3.0)
    frame["w"] = np.where(np.arange(300) < 280, 1.0, 0.0)
    y[280:] = 1e6
    fit, _ = fitted(tp.read_table(frame, kinds={"w": "weight"}))
    found = fit.outcome_by_class(y)
    assert found.rows_used == 280 and found.all_steps and np.abs(found.estimate).max() < 10
    assert np.isfinite(fit.classes_by({"z": z}).standard_error).all()


def test_covariates_as_people_have_them():
    frame, z, _, y = simulated(2, 300, 3.0)
    fit, _ = fitted(frame)
    more = pd.DataFrame({"z": z, "sex": np.where(y > 2, "f", "m"), "town": np.resize(["a", "b", "c"], 300)})
    more.loc[4, "z"] = np.nan
    found = fit.classes_by(more, replicates=0)
    assert found.names == ("intercept", "z", "sex = m", "town = b", "town = c") and found.rows_used == 299
    assert list(found.to_frame()["group"].unique()) == ["B", "C"] and "log odds against group A" in str(found)
    held = fit.outcome_by_class(y, more[["z"]])
    assert held.rows_used == 299 and held.what == "mean"
    with pytest.raises(InvalidData, match="one row for each of the 300 rows"):
        fit.classes_by(more[:10])
    with pytest.raises(InvalidParameter, match="reference must be one of A, B, C"):
        fit.classes_by(more, reference="Z")
    with pytest.raises(InvalidParameter, match="correction must be one of"):
        fit.classes_by(more, correction="four-step")


def test_one_step_is_the_maximum_of_the_whole_likelihood():
    """Two classes of five yes or no that depend on a covariate: all parameters at once, by BFGS."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=300)
    z = (z - z.mean()) / z.std()
    x = rng.uniform(size=300) < 1 / (1 + np.exp(0.4 + 1.1 * z))
    answers = (rng.uniform(size=(300, 5)) < np.where(x[:, None], 0.75, 0.2)).astype(float)

    def lost(at):
        p = 1 / (1 + np.exp(-at[2:].reshape((2, 5))))
        log = answers @ np.log(p).T + (1 - answers) @ np.log1p(-p).T
        first = np.stack([np.zeros(300), at[0] + at[1] * z], axis=1)
        first -= np.logaddexp(0, first[:, 1])[:, None]
        return -np.logaddexp(*(log + first).T).sum() + 0.005 * at[1] ** 2  # the weak prior of slopes

    best = minimize(lost, np.r_[0.0, -0.5, np.full(5, -1.0), np.full(5, 1.0)], method="BFGS").x
    fit = tp.fit(tp.ClassMixture(2), {f"q{j}": answers[:, j] for j in range(5)}, tp.VB(restarts=5))
    label = "A" if fit.profiles().items[0].estimate[0] < 0.5 else "B"
    found = fit.classes_by({"z": z}, reference=label, correction="one-step", replicates=0)
    np.testing.assert_allclose(found.estimate[0], best[:2], atol=2e-3)
    assert (fit.classes_by({"z": z}, correction="one-step", replicates=5).standard_error > 0).all()
