"""Shares of topics by group and over time: intervals cover the truth, groups are what the values say."""

import datetime

import numpy as np
import pytest

import temperance as tp
from temperance.data.grouping import group_values
from temperance.errors import InvalidData, InvalidParameter
from temperance.families.dirichlet import Dirichlet
from temperance.models._model import Posterior
from temperance.models.topics.report import _intervals, shares_by


def simulated(rng, mus, beta, documents, length, concentration):
    """Counts of documents of each group, whose proportions are Dirichlet with the group's mean."""
    codes = np.repeat(np.arange(len(mus)), documents)
    theta = np.stack([rng.dirichlet(concentration * mus[g]) for g in codes])
    sizes = np.maximum(rng.poisson(length, len(codes)), 2)
    return codes, np.stack([rng.multinomial(n, row @ beta) for n, row in zip(sizes, theta, strict=True)])


# With other concentrations than the model's documents vary less than it expects: the intervals are then too wide.
@pytest.mark.parametrize("length, concentration, most", [(15, 1.0, 0.98), (20, 5.0, 1.0)])
def test_intervals_cover_the_means_of_groups_given_the_topics(length, concentration, most):
    rng, covered, truth, estimates = np.random.default_rng(0), [], [], []
    model = tp.LDA(4, 40)
    for _ in range(40):
        beta, mus = rng.dirichlet(np.full(40, 0.1), 4), rng.dirichlet(np.full(4, 3.0), 3)
        codes, counts = simulated(rng, mus, beta, 50, length, concentration)
        q = Posterior({"topics": Dirichlet(1e6 * beta + 1e-3)}, {})
        corpus = model.new_corpus(counts)
        found = shares_by(model, q, corpus, group_values([f"group {g}" for g in codes], len(codes)))
        covered.append((found.low <= mus) & (mus <= found.high))
        truth.append(mus)
        estimates.append(found.share)
    # 480 intervals: the standard error of their coverage is 1%.
    assert 0.93 <= np.mean(covered) <= most
    # Groups are not drawn towards each other: estimates differ as much as the truth, on average.
    slope = np.polyfit(np.ravel(truth), np.ravel(estimates), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.05)


def test_a_fit_tells_groups_apart():
    rng = np.random.default_rng(1)
    mus = np.array([[0.8, 0.2], [0.3, 0.7]])
    beta = np.repeat(np.eye(2), 5, axis=1) / 5
    codes, counts = simulated(rng, mus, beta, 40, 30, 4.0)
    fit = tp.fit(tp.LDA(2), counts, tp.CVB0(), seed=0)
    found = fit.topics_by(np.array(["left", "right"], dtype=object)[codes])
    first = int(fit.model.distributions(fit._families())[:, 0].argmax())
    assert found.labels == ("left", "right") and list(found.documents) == [40, 40]
    assert np.allclose(found.share.sum(axis=1), 1.0)
    assert np.allclose(found.share[:, first], mus[:, 0], atol=0.1)
    assert (found.low < found.share).all() and (found.share < found.high).all()
    assert found.low[0, first] > found.high[1, first]
    rows = found.rows()
    assert len(rows) == 4 and rows[0]["value"] == "left" and {row["topic"] for row in rows} == {1, 2}
    narrower = fit.topics_by(codes, level=0.5)
    assert (narrower.high - narrower.low < found.high - found.low).all()
    again = fit.topics_by(codes[20:60], documents=counts[20:60])
    assert list(again.documents) == [20, 20] and again.labels == ("0", "1")


def test_groups_are_what_the_values_say():
    assert group_values(["b", "a", None, "b"], 4).labels == ("a", "b")
    assert list(group_values(["b", "a", None, "b"], 4).codes) == [1, 0, -1, 1]
    years = group_values(np.arange(1790, 2022), 232)
    assert years.labels[0] == "1780–1799" and years.labels[-1] == "2020–2039" and years.positions is not None
    assert years.positions[0] == 1789.5 and (np.diff(years.codes) >= 0).all()
    few = group_values([3, 1, 2, 3], 4)
    assert few.labels == ("1", "2", "3") and list(few.codes) == [2, 0, 1, 2]
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=20 * i) for i in range(20)]
    assert group_values(days, 20).labels[:3] == ("2020-01", "2020-02", "2020-03")
    assert group_values([str(day) for day in days], 20).labels[-1] == "2021-01"
    months = group_values([f"2020-{1 + i % 12:02d}" for i in range(24)], 24)
    assert months.labels[::11] == ("2020-01", "2020-12") and months.positions is not None
    reals = group_values(np.linspace(0.0, 1.0, 30), 30)
    assert reals.labels[0] == "0 to 0.1" and reals.positions is not None and reals.positions[0] == pytest.approx(0.05)


def test_values_that_make_no_groups_are_refused():
    with pytest.raises(InvalidParameter, match="one for each of 3 documents, got 2"):
        group_values([1, 2], 3)
    with pytest.raises(InvalidData, match="make 60 groups"):
        group_values([f"c{i % 60}" for i in range(2400)], 2400)
    with pytest.raises(InvalidData, match="the same in every row"):
        group_values([1, 1, 1], 3)


def test_a_share_of_almost_nothing_has_an_interval_that_says_so():
    squares, sizes = np.array([[0.02, 0.02], [0.3, 0.3]]), np.array([4, 40])
    low, high = _intervals(np.array([[1e-13, 1 - 1e-13], [0.4, 0.6]]), squares, np.full((2, 2), 1e-4), sizes, 0.95)
    assert high[0, 0] < 0.3 and low[0, 1] > 0.7  # the logit scale alone says 0 to 1
    assert np.allclose(low, 1.0 - high[:, ::-1], atol=1e-9)


def test_groups_of_a_document_or_two_are_not_sure():
    """Each document is about one topic; what a group is about in general, one or two of them cannot tell."""
    beta = np.repeat(np.eye(2), 5, axis=1) / 5
    counts = np.array([[2] * 5 + [0] * 5, [2] * 5 + [0] * 5, [0] * 5 + [2] * 5, [0] * 5 + [2] * 5])
    q, model = Posterior({"topics": Dirichlet(1e6 * beta + 1e-3)}, {}), tp.LDA(2, 10)
    for values in ([1, 2, 3, 4], ["a", "a", "b", "b"]):
        found = shares_by(model, q, model.new_corpus(counts), group_values(values, 4))
        assert found.share[0, 0] > 0.9 and found.share[-1, 0] < 0.1
        assert (found.high - found.low > 0.3).all()
        assert ((found.low <= found.share) & (found.share <= found.high)).all() and found.low.min() >= 0


def test_intervals_of_small_groups_cover():
    """Groups of two documents, with the concentration that the model has."""
    rng, covered, model = np.random.default_rng(0), [], tp.LDA(3, 30, document_prior=0.5)
    for _ in range(60):
        beta, mus = rng.dirichlet(np.full(30, 0.1), 3), rng.dirichlet(np.full(3, 3.0), 6)
        codes, counts = simulated(rng, mus, beta, 2, 20, 1.5)
        q = Posterior({"topics": Dirichlet(1e6 * beta + 1e-3)}, {})
        found = shares_by(model, q, model.new_corpus(counts), group_values([f"group {g}" for g in codes], len(codes)))
        covered.append((found.low <= mus) & (mus <= found.high))
    assert 0.93 <= np.mean(covered) <= 1.0
