"""Normalisers by Monte Carlo against sums over everything, for sequences and for graphs; and what has none."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import temperance as tp
from temperance.errors import UnsupportedMethod
from temperance.evidence.tempered_normaliser import by_sampling
from temperance.families import Categorical, Independent, IndependentPair
from temperance.models._blocks import Normaliser

T = np.array([1.0, 1.3, 2.5, 9.0])
INITIAL = np.array([1.0, 2.0])
TRANSITIONS = np.array([[2.0, 0.7], [0.6, 1.5]])
EMISSIONS = np.array([[1.0, 2.0, 0.5], [0.8, 0.8, 2.0]])


def power_moment(prior: np.ndarray, powers: np.ndarray) -> float:
    """log E Π p_i^powers_i under a Dirichlet distribution."""
    after = prior + powers
    return float(gammaln(after).sum() - gammaln(after.sum()) - gammaln(prior).sum() + gammaln(prior.sum()))


def check(found: Normaliser, wanted: np.ndarray, largest: float) -> None:
    assert found.log[0] == pytest.approx(0.0, abs=1e-9) and found.samples > 0
    assert (found.error[1:] > 0).all() and (found.error[1:] < largest).all()
    assert (np.abs(found.log - wanted)[1:] < 4 * found.error[1:]).all()


def chain() -> tuple[tp.HMM, np.ndarray]:
    prior = Independent(tp.Dirichlet(EMISSIONS[:, None]))
    pair = IndependentPair(Categorical(3))
    model = tp.HMM(
        2, pair, prior=prior, concentration=TRANSITIONS, initial_concentration=INITIAL, missing="marginalise"
    )
    return model, np.array([[0.0], [2.0], [np.nan], [1.0]])


@pytest.mark.slow
def test_sequences_by_a_sum_over_all_paths_and_data() -> None:
    """Three symbols seen, one step of four missing."""
    model, x = chain()
    seen, wanted = ~np.isnan(x[:, 0]), []
    for t in T:
        terms = []
        for path in product(range(2), repeat=len(x)):
            pairs = np.zeros((2, 2))
            np.add.at(pairs, (path[:-1], path[1:]), 1.0)
            own = power_moment(INITIAL, np.eye(2)[path[0]] / t)
            own += sum(power_moment(prior, row / t) for prior, row in zip(TRANSITIONS, pairs, strict=True))
            for symbols in product(range(3), repeat=int(seen.sum())):
                counts = np.zeros((2, 3))
                np.add.at(counts, (np.array(path)[seen], symbols), 1.0)
                terms.append(own + sum(power_moment(p, row / t) for p, row in zip(EMISSIONS, counts, strict=True)))
        wanted.append(logsumexp(terms))
    check(normaliser(model, x), np.array(wanted), 0.05)


def normaliser(model: Any, x: Any) -> Normaliser:
    complete, data = model.prepare(x)
    return complete.tempering.log_normaliser(T, data)


def switches() -> tuple[Any, np.ndarray]:
    """A mixture of two coins."""
    g = tp.Graph()
    share = g.dirichlet("share", [1.0, 0.6])
    heads = g.beta("heads", 0.7, 1.4, plates=g.plate("k", 2))
    z = g.categorical("z", share, plates="n")
    g.bernoulli("x", heads[z], observed=True)
    return g.model(), np.array([0.0, 1.0, 1.0])


def test_graphs_by_a_sum_over_all_values() -> None:
    model, x = switches()
    wanted = []
    for t in T:
        terms = []
        for z in product(range(2), repeat=len(x)):
            for sides in product(range(2), repeat=len(x)):
                counts = np.zeros((2, 2))
                np.add.at(counts, (z, sides), 1.0)
                value = power_moment(np.array([1.0, 0.6]), np.bincount(z, minlength=2) / t)
                # Heads first, as in Beta(0.7, 1.4).
                terms.append(value + sum(power_moment(np.array([0.7, 1.4]), row[::-1] / t) for row in counts))
        wanted.append(logsumexp(terms))
    check(normaliser(model, x), np.array(wanted), 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 3000])
def test_many_data(n: int) -> None:
    """Beside the closed form of a mixture with known covariance; the larger set is extrapolated."""
    model = tp.Mixture(2, tp.KnownCovarianceGaussian([[0.25]]), prior=tp.Normal([0.0], [[10.0]]), concentration=[1, 2])
    complete, _, data = with_times(model, np.random.default_rng(0).normal(size=(n, 1)))
    wanted = complete.tempering.log_normaliser(T, data)
    assert (wanted.error == 0).all()
    check(by_sampling(complete, T, data), wanted.log, n / 1000)


@pytest.mark.slow
def test_what_is_integrated_out_is_exact() -> None:
    """Normal vectors of known precision: nothing is left to chance."""
    g = tp.Graph()
    loadings = g.normal("loadings", 0.0, 1.0, dim=2, plates="d")
    g.normal("x", g.dot(g.normal("z", 0.0, 1.0, dim=2, plates="n"), loadings), 3.0, plates=("n", "d"), observed=True)
    walk = tp.Graph()
    z = walk.gaussian_chain("z", 0.0, 1.0, walk.normal("pull", 0.5, 4.0), 2.0, time="t", plates="n")
    walk.normal("x", z, 5.0, observed=True)
    rng, s = np.random.default_rng(0), 1 / T

    def volume(precision: float) -> np.ndarray:
        return 0.5 * ((1 - s) * np.log(2 * np.pi / precision) - np.log(s))

    found = normaliser(g.model(), rng.normal(size=(7, 3))).log
    np.testing.assert_allclose(found, 21 * volume(3.0) + 14 * volume(1.0), atol=1e-4)
    found = normaliser(walk.model(), rng.normal(size=(2, 4))).log
    np.testing.assert_allclose(found, 8 * volume(5.0) + 2 * volume(1.0) + 6 * volume(2.0), atol=1e-4)


def test_what_has_no_normaliser_says_why() -> None:
    rng = np.random.default_rng(0)
    x, counts = rng.normal(size=(12, 1)), rng.integers(5, size=(12, 1)).astype(float)
    with pytest.raises(UnsupportedMethod, match=r"needs known covariances.*infinite"):
        tp.fit(tp.HMM(2), x, tp.VT())
    with pytest.raises(UnsupportedMethod, match="Poisson counts is led by counts far above any data"):
        tp.fit(tp.HMM(2, "poisson"), counts, tp.VT())
    g = tp.Graph()
    g.normal("x", g.normal("centre", 0.0, 1.0), g.gamma("width", 2.0, 1.0), plates="n", observed=True)
    with pytest.raises(UnsupportedMethod, match="needs known precisions, that of 'x' among them"):
        tp.fit(g.model(), x[:, 0], tp.VT())
    g = tp.Graph()
    g.poisson("x", g.gamma("rate", 2.0, 1.0), plates="n", observed=True)
    with pytest.raises(UnsupportedMethod, match="'x' is an observed poisson variable"):
        tp.fit(g.model(), counts[:, 0], tp.VT())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sequence", "graph"])
def test_tempering_ends_at_one(kind: str) -> None:
    """Two states that are far apart, or the same data as a graph's mixture: the bound rises from sweep to sweep, and
    data that the model explains cool down."""
    rng = np.random.default_rng(3)
    states = (np.cumsum(rng.random(120) < 0.1) % 2).astype(int)
    x = np.where(states, 3.0, -3.0)[:, None] + rng.normal(size=(120, 1))
    model: Any = tp.HMM(2, tp.KnownCovarianceGaussian([[1.0]]), prior=tp.Normal([0.0], [[25.0]]))
    if kind == "graph":
        g = tp.Graph()
        z = g.categorical("z", g.dirichlet("share", [1.0, 1.0]), plates="n")
        centres = g.normal("centres", 0.0, 0.04, plates=g.plate("k", 2))
        g.normal("x", centres[z], 1.0, observed=True)
        model, x = g.model(), x[:, 0]
    fit = tp.fit(model, x, tp.VT(np.geomspace(1, 8, 20), length=25), progress=False)
    bounds = fit.history["tempered_elbo"][:25]
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all() and bounds[-1] > bounds[0] + 1
    assert fit.history["temperature"][0] > 3 and fit.details["temperature"] < 1.25 and fit.converged
    if kind == "sequence":
        plain = tp.fit(model, x, tp.VB(), progress=False)
        assert fit.log_evidence == pytest.approx(plain.log_evidence, abs=1e-2)
