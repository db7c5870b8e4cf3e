"""Mixtures of mixed columns: exact against enumeration, whatever the file, the order of its columns and its gaps."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.special import gammaln, logsumexp
from scipy.stats import beta as beta_law

import temperance as tp
from temperance.errors import InvalidData, UnsupportedMethod
from temperance.kernels import small_mixture
from temperance.models._answers import compiled_occupancy
from temperance.numerics import keys
from tests.matrix.truths import COLUMNS, KINDS, MORE_TABLE, TABLE, columns, columns_prior, sticks

RNG = np.random.default_rng(0)
VB = tp.VB(restarts=3)


def survey(n: int = 60) -> pd.DataFrame:
    old = RNG.uniform(size=n) < 0.4
    frame = pd.DataFrame(
        {
            "age": np.where(old, RNG.normal(62, 7, n), RNG.normal(35, 8, n)),
            "income": np.exp(np.where(old, RNG.normal(10, 0.4, n), RNG.normal(10.6, 0.4, n))),
            "smokes": np.where(RNG.uniform(size=n) < np.where(old, 0.8, 0.1), "yes", "no"),
            "region": np.where(old, "north", RNG.choice(["north", "south", "east"], n)),
            "visits": RNG.poisson(np.where(old, 6, 1.5)),
        }
    )
    return frame.mask(RNG.uniform(size=frame.shape) < 0.08)


FRAME = survey()


def only(table: tp.Table, name: str, values: list) -> tp.Table:
    """Rows of which only one column is known."""
    blank = {column: [None] * len(values) for column in table.columns}
    return tp.read_table(blank | {name: values}, like=table.schema)


def test_the_predictive_density_sums_and_integrates_to_one():
    fit = tp.fit(tp.ClassMixture(2, prior=columns_prior()), TABLE, VB)
    for name, values in (("smokes", ["no", "yes"]), ("region", ["a", "b", "c"]), ("visits", list(range(2000)))):
        assert logsumexp(fit.log_predictive(only(TABLE, name, values))) == pytest.approx(0.0, abs=1e-6)
    grid = np.sinh(np.linspace(-12, 12, 40_001))
    density = np.exp(fit.log_predictive(only(TABLE, "height", grid.tolist())))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-4)
    logs = np.linspace(-200, 200, 40_001)
    density = np.exp(fit.log_predictive(only(TABLE, "income", np.exp(logs).tolist())) + logs)
    assert np.trapezoid(density, logs) == pytest.approx(1.0, abs=1e-2)  # a Student-t of few degrees in the logarithm
    both = [(a, b, c) for a in range(40) for b in ("no", "yes") for c in ("a", "b", "c")]
    rows = dict(zip(("visits", "smokes", "region"), map(list, zip(*both, strict=True)), strict=True))
    joint = tp.read_table({"height": [None] * len(both), "income": [None] * len(both)} | rows, like=TABLE.schema)
    assert logsumexp(fit.log_predictive(joint)) == pytest.approx(0.0, abs=0.02)


def test_a_row_of_gaps_has_density_one_and_the_shares_of_the_weights():
    fit = tp.fit(tp.ClassMixture(2, prior=columns_prior()), TABLE, VB)
    nothing = only(TABLE, "height", [None])
    assert fit.log_predictive(nothing) == pytest.approx([0.0], abs=1e-12)


def test_the_evidence_of_a_positive_column_is_in_its_own_units():
    """In cents in place of euros: log p changes by log 100 for each value."""
    prior = tp.Product(real=tp.Independent(tp.NormalGamma([0.0], 0.1, 3.0, [1.0])))
    moved = tp.Product(real=tp.Independent(tp.NormalGamma([np.log(100)], 0.1, 3.0, [1.0])))
    euros = np.array([1.5, 2.5, 7.0, 3.0])
    ours, theirs = (
        tp.fit(tp.ClassMixture(1, kinds={"x": "positive"}, prior=p), {"x": x}, VB).log_evidence
        for p, x in ((prior, euros), (moved, 100 * euros))
    )
    assert theirs == pytest.approx(ours - 4 * np.log(100), abs=1e-9)


@pytest.mark.slow
def test_dirichlet_process_of_mixed_columns():
    rows = np.stack([TABLE[name] for name in COLUMNS], axis=1)
    exact = sticks(rows, 1.5, 3, columns)
    fit = tp.fit(
        tp.DirichletProcessMixture(3, "columns", prior=columns_prior(), concentration=1.5), TABLE, tp.AIS(particles=200)
    )
    assert abs(fit.log_evidence - exact) < 4 * fit.standard_error


@pytest.mark.slow
def test_full_covariance_is_that_of_a_gaussian_mixture_with_gaps():
    x = RNG.normal(size=(30, 3)) @ RNG.normal(size=(3, 3))
    x[2, 1] = x[5, 0] = np.nan
    prior = tp.NormalWishart(np.zeros(3), 0.1, 5.0, np.eye(3))
    theirs = tp.fit(tp.GaussianMixture(2, prior=prior, missing="marginalise"), x, VB)
    kinds = {f"column {i}": "real" for i in (1, 2, 3)}
    ours = tp.fit(tp.ClassMixture(2, kinds=kinds, covariance="full", prior=tp.Product(real=prior)), x, VB)
    assert ours.log_evidence == pytest.approx(theirs.log_evidence, abs=1e-6)
    np.testing.assert_allclose(ours.log_predictive(x), theirs.log_predictive(x), atol=1e-5)


@pytest.mark.parametrize("weights", ["dirichlet", [0.5, 0.25, 0.25]])
def test_a_sweep_in_numpy_is_the_derived_one(weights):
    model = tp.ClassMixture(3, weights=weights, kinds={"income": "positive"})
    model, data = model.prepare(FRAME, RNG.uniform(0.0, 2.0, len(FRAME)))
    several = keys.split(keys.make_key(1), 2)
    q = small_mixture.start(tp.VB(), model, data, several)
    derived_start = jax.vmap(lambda key: model.initial(key, data))(several)
    for here, there in zip(jax.tree.leaves(q), jax.tree.leaves(derived_start), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9)
    problem = small_mixture.flat(model, data)
    fresh, bounds = problem.sweep(small_mixture._pack(jax.tree.leaves(q)))
    after = problem.posterior(fresh)
    for restart in range(2):
        here = jax.tree.map(lambda leaf, restart=restart: jnp.asarray(leaf[restart]), q)
        derived, bound = model.sweep(here, data)
        np.testing.assert_allclose(bounds[restart], bound, rtol=1e-10)
        for ours, theirs in zip(jax.tree.leaves(after), jax.tree.leaves(derived), strict=True):
            np.testing.assert_allclose(ours[restart], theirs, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(theirs).max()))
        ours = small_mixture.shares(model, here, data).sum(axis=0)
        np.testing.assert_allclose(ours, compiled_occupancy(model, here, data), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_columns_are_found_by_their_names_and_a_file_is_a_frame(tmp_path):
    fit = tp.fit(tp.ClassMixture(2, kinds={"income": "positive"}), FRAME, VB)
    assert fit.details["engine"] == "small mixture (numpy)"
    shares = fit.responsibilities(FRAME)
    other = FRAME[["visits", "region", "age", "smokes", "income"]].assign(more=1)
    np.testing.assert_array_equal(fit.responsibilities(other), shares)
    FRAME.to_csv(tmp_path / "survey.csv", index=False)
    np.testing.assert_allclose(fit.responsibilities(tmp_path / "survey.csv"), shares, atol=1e-9)
    np.testing.assert_allclose(fit.responsibilities(tp.read_table(FRAME.iloc[:3])), shares[:3], atol=1e-9)
    fit.save(tmp_path / "fit.tp")
    np.testing.assert_array_equal(tp.load(tmp_path / "fit.tp").responsibilities(FRAME), shares)
    with pytest.raises(InvalidData, match="lacks the column 'age'"):
        fit.responsibilities(FRAME.drop(columns="age"))
    drawn = fit.sample(0, 50)
    assert list(drawn) == list(FRAME.columns) and set(drawn["region"]) <= {"north", "south", "east"}
    assert (drawn["income"] > 0).all() and np.isfinite(fit.log_predictive(drawn)).all()


def test_a_gaussian_mixture_finds_columns_by_name_too():
    frame = pd.DataFrame(RNG.normal(size=(40, 2)) * [1.0, 9.0], columns=["a", "b"])
    fit = tp.fit(tp.GaussianMixture(2), frame, VB)
    np.testing.assert_array_equal(fit.responsibilities(frame[["b", "a"]]), fit.responsibilities(frame))
    with pytest.raises(InvalidData, match="lacks the column 'b'"):
        fit.log_predictive(frame[["a"]])


def test_weights_are_repeated_rows():
    twice = pd.concat([FRAME, FRAME])
    model = tp.ClassMixture(2, prior=tp.fit(tp.ClassMixture(2), FRAME, VB).posterior["components"][0])
    ours = tp.fit(model, FRAME, tp.VB(restarts=1, tol=1e-10), weights=np.full(len(FRAME), 2.0))
    theirs = tp.fit(model, twice, tp.VB(restarts=8, tol=1e-10))
    assert ours.log_evidence <= theirs.log_evidence + 1e-6
    assert tp.fit(model, FRAME, tp.VB(restarts=8, tol=1e-10), weights=np.full(len(FRAME), 2.0)).log_evidence == (
        pytest.approx(theirs.log_evidence, abs=1e-4)
    )


def test_levels_that_are_declared_but_not_seen_are_levels():
    declared = pd.Series(pd.Categorical(["a", "b"] * 10, categories=["a", "b", "c", "d"]))
    fit = tp.fit(tp.ClassMixture(1), pd.DataFrame({"kind": declared}), VB)
    unseen = np.exp(fit.log_predictive(pd.DataFrame({"kind": ["d"]})))
    assert unseen == pytest.approx([1 / 24])  # one of 20 + 4, each level counted once before
    prior = tp.Dirichlet(np.ones(4))
    codes = np.array([[0], [1]] * 10)
    assert np.exp(tp.fit(tp.Mixture(1, "categorical", prior=prior), codes, VB).log_predictive([[3]])) == (
        pytest.approx([1 / 24])
    )


def test_what_cannot_be_done_is_said_in_a_sentence():
    product = tp.ProductPair(age=tp.ScalarGaussian(), visits=tp.Poisson())
    with pytest.raises(InvalidData, match=r"use tp\.ClassMixture"):
        tp.fit(tp.Mixture(2, product), FRAME)
    with pytest.raises(InvalidData, match="no column that can be used"):
        tp.fit(tp.ClassMixture(2), {"id": list(range(30))})
    with pytest.raises(tp.errors.InvalidParameter, match="'income' must be one of real"):
        tp.fit(tp.ClassMixture(2, kinds={"income": "money"}), FRAME)


def test_two_groups_are_chosen_where_two_made_the_data():
    hill = tp.compare([tp.ClassMixture(k, kinds={"income": "positive"}) for k in (1, 2, 3)], survey(200), VB)
    assert hill.best == 2 and hill.size_name == "groups"


def test_the_kinds_of_the_tiny_table_are_those_asked_for():
    assert {column.name: column.kind for column in MORE_TABLE.schema} == KINDS


def test_classes_have_the_same_letters_in_the_table_and_in_membership():
    fit = tp.fit(tp.ClassMixture(3, kinds={"income": "real"}), FRAME, VB)
    table, found = fit.columns(), fit.membership(FRAME)
    assert table["group"] == ["A", "B", "C"] and table["data"] == sorted(table["data"], reverse=True)
    shares = np.stack([found[f"probability of {name}"] for name in table["group"]], axis=1)
    np.testing.assert_allclose(shares, fit.responsibilities(FRAME)[:, fit.order], rtol=1e-6)
    np.testing.assert_allclose(shares.sum(axis=0), table["data"], rtol=1e-2)
    assert found["group"] == [table["group"][k] for k in shares.argmax(axis=1)]
    assert found["row"] == list(range(1, 61)) and "id" not in found
    assert fit.membership(FRAME.set_index(FRAME.index + 100))["id"] == list(range(100, 160))


def test_a_class_is_described_by_the_names_of_the_columns():
    """With one class and no gaps the posterior is known: Beta and Gamma with the counts added."""
    frame = pd.DataFrame({"smokes": ["yes", "no", "yes", "yes"] * 5, "visits": [0, 1, 2, 6] * 5})
    fit = tp.fit(tp.ClassMixture(1, kinds={"visits": "count"}), frame, VB)
    table = fit.columns()
    beta = fit.posterior["components"].factors["binary"].inner
    assert table["smokes = yes"] == pytest.approx([16 / 22]) and float(beta.a[0, 0]) == pytest.approx(16.0)
    assert table["visits"] == pytest.approx([2.25], abs=0.01)
    low, high = (beta_law.ppf(tail, 16, 6) for tail in (0.05, 0.95))
    (item,) = [item for item in fit.model.pair.profile(fit.posterior["components"], 0.9) if item.column == "smokes"]
    assert (item.low[0], item.high[0]) == pytest.approx((low, high))


def test_contributions_are_those_of_the_evidence_where_classes_are_certain():
    """One class for each half against one class for all, column by column, by the exact evidence of one class."""
    z = np.repeat([0, 1], 20)
    table = tp.read_table({"x": RNG.normal(100.0 * z, 1.0), "visits": RNG.poisson(3, 40), "idle": ["no", "yes"] * 20})
    fit = tp.fit(tp.ClassMixture(2), table, tp.VB(restarts=3))
    found = fit.contributions()
    assert next(iter(found)) == "x" and found["x"] > 50 and found["visits"] < 3 and found["idle"] < 0

    def evidence(rows, prior):
        a, b = float(prior.inner.shape[0, 0]), float(prior.inner.rate[0, 0])
        y = table["visits"][rows]
        return a * np.log(b) - gammaln(a) + gammaln(a + y.sum()) - (a + y.sum()) * np.log(b + len(y))

    prior = fit.model.prior["components"].factors["count"]
    split = sum(evidence(z == k, prior) for k in (0, 1)) - evidence(z >= 0, prior)
    assert found["visits"] == pytest.approx(split, abs=1e-6)
    with pytest.raises(UnsupportedMethod, match="contribute"):
        tp.fit(tp.GaussianMixture(1), table["x"][:, None]).contributions()


def test_weights_of_a_table_are_weights():
    frame = {"x": RNG.normal(size=12), "w": RNG.uniform(0.5, 2.0, 12)}
    table = tp.read_table(frame, kinds={"w": "weight"})
    one = tp.fit(tp.ClassMixture(1), table)
    other = tp.fit(tp.ClassMixture(1), {"x": frame["x"]}, weights=frame["w"] / frame["w"].mean())
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-9)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (lambda x: scipy.sparse.csr_matrix(x), "sparse matrix"),
        (lambda x: scipy.sparse.coo_array(x), "sparse matrix"),
        (lambda x: [[1.0, 2.0], [3.0]], "different lengths"),
    ],
)
def test_data_that_are_no_table_are_refused_by_name(data, told):
    with pytest.raises(InvalidData, match=told):
        tp.ClassMixture(2).prepare(data(np.arange(12.0).reshape(6, 2)))


def test_what_a_mask_hides_is_missing():
    x = np.arange(24.0).reshape(12, 2)
    holes = x.copy()
    holes[3, 1] = np.nan
    x[3, 1] = 1e6
    masked = np.ma.masked_array(x, x == 1e6)
    (_, seen), (_, kept) = (tp.ClassMixture(2).prepare(data) for data in (masked, holes))
    np.testing.assert_array_equal(np.asarray(seen.values), np.asarray(kept.values))
    assert np.isnan(np.asarray(seen.values)).sum() == 1
