"""Message passing on graphs: the ready model's numbers, sums over every value of the latents, and refusals."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln, gammaln, logsumexp

import temperance as tp
from temperance.errors import UnsupportedMethod
from tests.graph import models
from tests.matrix.truths import LINE, PRIOR, graph_of_a_mixture
from tests.tiers import with_slow


def fitted(model: Any, x: Any, alpha: float = 1.0) -> tp.Fit:
    return tp.fit(model, x, tp.MessagePassing(alpha, restarts=4, max_passes=400), seed=1, progress=False)


@pytest.mark.parametrize("alpha", [0.5, pytest.param(1.0, marks=pytest.mark.slow)])
def test_a_mixture_as_a_graph_is_the_mixture(alpha: float) -> None:
    ready = tp.GaussianMixture(2, prior=tp.NormalWishart(**PRIOR))
    method = tp.MessagePassing(alpha, restarts=4, max_passes=400, tol=1e-10)
    expected = tp.fit(ready, LINE, method, seed=1, progress=False).log_evidence
    assert fitted(graph_of_a_mixture(), LINE[:, 0], alpha).log_evidence == pytest.approx(expected, abs=1e-8)


COINS = np.array([1, 1, 0, 1, 1, 0], float)


def test_without_latents_it_is_exact() -> None:
    g = tp.Graph()
    g.bernoulli("x", g.beta("p", 0.6, 0.8), plates="n", observed=True)
    exact = betaln(0.6 + 4, 0.8 + 2) - betaln(0.6, 0.8)
    assert fitted(g.model(), COINS).log_evidence == pytest.approx(exact, abs=1e-8)


def two_latents() -> Any:
    """Whether the coin of a datum is the first one depends on a switch that a second flip shows as well."""
    g = tp.Graph()
    first = g.dirichlet("first", [2.0, 1.0])
    second = g.dirichlet("second", np.array([[3.0, 1.0], [1.0, 2.0]]), plates=g.plate("a", 2))
    heads = g.beta("heads", np.array([4.0, 1.0]), np.array([1.0, 4.0]), plates=g.plate("b", 2))
    tails = g.beta("tails", np.array([1.0, 5.0]), np.array([2.0, 1.0]), plates="a")
    u = g.categorical("u", first, plates="n")
    v = g.categorical("v", second[u], plates="n")
    g.bernoulli("x", heads[v], observed=True)
    g.bernoulli("y", tails[u], observed=True)
    return g.model()


def both(x: np.ndarray, y: np.ndarray) -> float:
    """The evidence of `two_latents`: a sum over u and v of every datum."""

    def counts(prior: Any, seen: Any) -> float:
        prior, seen = np.asarray(prior, float), np.asarray(seen, float)
        change = gammaln(prior + seen).sum() - gammaln(prior).sum()
        return float(change + gammaln(prior.sum()) - gammaln((prior + seen).sum()))

    def flips(a: Any, b: Any, values: np.ndarray, chosen: np.ndarray) -> float:
        seen = ~np.isnan(values)
        each = [(chosen == k) & seen for k in range(2)]
        return sum(counts([a[k], b[k]], [values[on].sum(), (1 - values[on]).sum()]) for k, on in enumerate(each))

    logs = []
    for u in itertools.product(range(2), repeat=len(x)):
        start = np.array(u)
        outer = counts([2.0, 1.0], np.bincount(start, minlength=2)) + flips([1.0, 5.0], [2.0, 1.0], y, start)
        for v in itertools.product(range(2), repeat=len(x)):
            end = np.array(v)
            inner = [counts(row, np.bincount(end[start == k], minlength=2)) for k, row in enumerate([[3, 1], [1, 2]])]
            logs.append(outer + sum(inner) + flips([4.0, 1.0], [1.0, 4.0], x, end))
    return float(logsumexp(logs))


@pytest.mark.parametrize(
    "gap", [pytest.param(False, id="complete", marks=pytest.mark.slow), pytest.param(True, id="with a gap")]
)
def test_two_latents_of_a_datum_are_summed_jointly(gap: bool) -> None:
    x, y = np.array([1.0, 0.0, 1.0, 0.0, 0.0]), np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    if gap:
        x[1] = np.nan
    exact, data = both(x, y), {"x": x, "y": y}
    bound = tp.fit(two_latents(), data, tp.VB(tol=1e-12, max_iter=5000), seed=1, progress=False).log_evidence
    fit = fitted(two_latents(), data)
    assert fit.converged and abs(fit.log_evidence - exact) < 0.2 * (exact - bound)
    assert bound < fitted(two_latents(), data, 0.5).log_evidence < exact
    assert fitted(two_latents(), data, 0.0).log_evidence == pytest.approx(bound, abs=1e-7)


def test_one_datum_is_exact() -> None:
    x, y = np.array([1.0]), np.array([0.0])
    assert fitted(two_latents(), {"x": x, "y": y}).log_evidence == pytest.approx(both(x, y), abs=1e-8)


def test_what_has_no_such_factors_is_said() -> None:
    documents = {"w": np.array([[0, 0, 1], [1, 2, 2], [0, 2, 2]])}
    with pytest.raises(UnsupportedMethod, match="'z' has several values for each datum"):
        tp.fit(models.topics(2, 3).model(), documents, tp.EP())


MOVES = np.array([[4.0, 1.0], [1.0, 4.0]])
SWITCHES = np.array([[1, 1, 0, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0, 1]], float)


def chain() -> Any:
    g = tp.Graph()
    first = g.dirichlet("initial", np.ones(2))
    moves = g.dirichlet("moves", MOVES, plates=g.plate("k", 2))
    heads = g.beta("heads", np.array([4.0, 1.0]), np.array([1.0, 4.0]), plates="k")
    g.bernoulli("x", heads[g.markov_chain("z", first, moves, time="t", plates="n")], observed=True)
    return g.model()


@pytest.mark.slow
def test_a_chain_as_a_graph_is_the_hidden_markov_model() -> None:
    prior = tp.Beta(np.array([[4.0], [1.0]]), np.array([[1.0], [4.0]]))
    ready = tp.HMM(2, "bernoulli", prior=prior, concentration=MOVES)
    expected = fitted(ready, [row[:, None] for row in SWITCHES])
    found = fitted(chain(), SWITCHES)
    assert found.converged and found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-7)
    np.testing.assert_allclose(found.posterior["heads"].a, expected.posterior["emissions"].inner.a[:, 0], rtol=1e-5)


@pytest.mark.parametrize("raters", with_slow([2, 3], 3))
@pytest.mark.slow
def test_raters_with_a_table_each_against_all_classes_of_all_items(raters: int) -> None:
    """The prior is given for each class, the same for all raters; with two of each, sizes do not tell the plates."""
    y = np.array([[0, 0, 1], [1, 1, 1], [0, 1, 0], [0, 0, 0], [1, 1, 0]])[:, :raters]
    prior = np.array([[3.0, 1.0], [1.0, 2.0]])
    g = tp.Graph()
    table = g.dirichlet("table", prior, plates=("rater", g.plate("class", 2)))
    z = g.categorical("z", g.dirichlet("weights", np.ones(2)), plates="item")
    g.categorical("y", table.select(z, "class"), plates=("item", "rater"), observed=True)

    def log_beta(a: np.ndarray) -> float:
        return float(np.sum(gammaln(a)) - gammaln(np.sum(a)))

    exact = []
    for path in itertools.product(range(2), repeat=len(y)):
        classes = np.array(path)
        total = log_beta(1.0 + np.bincount(classes, minlength=2)) - log_beta(np.ones(2))
        for k, r in itertools.product(range(2), range(raters)):
            total += log_beta(prior[k] + np.bincount(y[classes == k, r], minlength=2)) - log_beta(prior[k])
        exact.append(total)
    bound = tp.fit(g.model(), y, tp.VB(restarts=4), seed=0).log_evidence
    ep = tp.fit(g.model(), y, tp.EP(restarts=4), seed=0).log_evidence
    assert bound < logsumexp(exact) and ep == pytest.approx(logsumexp(exact), abs=0.1)
    drawn = tp.fit(g.model(), y, tp.ImportanceSampling(), seed=0)
    assert abs(drawn.log_evidence - logsumexp(exact)) < 4 * drawn.standard_error
