"""Hostile data and hyperparameters: every outcome is a finite answer or an error of ours, in one sentence.

`TEMPERANCE_CASES` sets the number of cases for each pair of a model and a method (210 unless set, 5,040 over all).
It can be run in parts: `python -m pytest -m slow tests/faults/test_hostile.py -k "Poisson or EP"`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import temperance as tp
from temperance.errors import TemperanceError
from tests.faults.hostile import POSITIVE, counts, gammas, no_prior, tables, weights, wishart

# NumPy says that a product overflows before we say what to do about it.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

CASES = int(os.environ.get("TEMPERANCE_CASES", "210"))

Make = Callable[..., Any]
Pair = tuple[Make, Callable[[Any], dict[str, Any]], Any, Any]  # model, its prior, its data, the method

mixture: Make = lambda draw, **prior: tp.GaussianMixture(2, concentration=draw(POSITIVE), **prior)  # noqa: E731
diagonal: Make = lambda draw, **_: tp.GaussianMixture(2, covariance="diag", concentration=draw(POSITIVE))  # noqa: E731
process: Make = lambda draw, **prior: tp.DirichletProcessMixture(2, concentration=draw(POSITIVE), **prior)  # noqa: E731
poisson: Make = lambda draw, **prior: tp.Mixture(2, "poisson", concentration=draw(POSITIVE), **prior)  # noqa: E731
topics: Make = lambda draw, **_: tp.LDA(2, document_prior=draw(POSITIVE), topic_prior=draw(POSITIVE))  # noqa: E731
regression: Make = lambda draw, **prior: tp.LinearRegression(**prior)  # noqa: E731
factors: Make = lambda draw, **_: tp.FactorialMixture(2, noise=draw(st.none() | POSITIVE))  # noqa: E731
holes: Make = lambda draw, **prior: tp.GaussianMixture(2, missing="marginalise", **prior)  # noqa: E731
known: Make = lambda draw, **_: tp.GaussianMixture(2, covariance=np.diag([draw(POSITIVE)] * 2))  # noqa: E731

PAIRS: dict[str, Pair] = {
    "mixture, VB": (mixture, wishart, tables(), tp.VB(max_iter=30, restarts=2)),
    "mixture, EM": (mixture, wishart, tables(), tp.EM(max_iter=30)),
    "mixture, SVI": (mixture, wishart, tables(), tp.SVI(batch_size=4, steps=20)),
    "mixture, Annealed": (mixture, wishart, tables(), tp.Annealed(tp.VB(max_iter=30), schedule=[4.0, 2.0, 1.0])),
    "mixture, LVT": (mixture, wishart, tables(), tp.LVT(method=tp.VB(max_iter=30))),
    "mixture, EP": (mixture, wishart, tables(), tp.EP(max_passes=10)),
    "mixture, message passing": (mixture, wishart, tables(), tp.MessagePassing(0.5, max_passes=10)),
    "mixture, Gibbs": (mixture, wishart, tables(), tp.Gibbs(draws=20, warmup=5, chains=2)),
    "mixture, collapsed Gibbs": (mixture, wishart, tables(), tp.CollapsedGibbs(draws=20, warmup=5, chains=1)),
    "mixture, parallel tempering": (mixture, wishart, tables(), tp.ParallelTempering(draws=20, warmup=10, replicas=3)),
    "mixture, AIS": (mixture, wishart, tables(), tp.AIS(particles=5, temperatures=8)),
    "mixture, batches": (mixture, wishart, tables(), tp.VB(max_iter=30, batches=2)),
    "diagonal, VB": (diagonal, no_prior, tables(), tp.VB(max_iter=30)),
    "diagonal, EM": (diagonal, no_prior, tables(), tp.EM(max_iter=30)),
    "known covariance, VB": (known, no_prior, tables(), tp.VB(max_iter=30)),
    "holes, VB": (holes, no_prior, tables(), tp.VB(max_iter=20)),
    "process, VB": (process, wishart, tables(), tp.VB(max_iter=30)),
    "Poisson, VB": (poisson, gammas("prior"), counts(), tp.VB(max_iter=30)),
    "Poisson, EP": (poisson, gammas("prior"), counts(), tp.EP(max_passes=10)),
    "Poisson, Gibbs": (poisson, gammas("prior"), counts(), tp.Gibbs(draws=20, warmup=5, chains=2)),
    "topics, VB": (topics, no_prior, counts(), tp.VB(max_iter=20)),
    "topics, CVB0": (topics, no_prior, counts(), tp.CVB0(passes=10)),
    "regression, VB": (regression, gammas("prior", "noise"), tables(), tp.VB(max_iter=30)),
    "factors, VB": (factors, no_prior, tables(), tp.VB(max_iter=20)),
}
QUICK = "regression, VB"


def refused(error: TemperanceError) -> None:
    assert str(error) and "\n" not in str(error)


def no_nan(tree: Any) -> None:
    for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array)):
        assert not np.isnan(np.asarray(leaf)).any()


def attempt(pair: Pair, draw: Any) -> str:
    make, prior, data, method = pair
    x, given_weights, seed = draw(data), draw(weights()), draw(st.sampled_from([0, 1, -1, 2**63 - 1, 2**64, None]))
    try:
        model = make(draw, **prior(draw))
        target = (x[:, :1], x[:, 1]) if isinstance(model, tp.LinearRegression) else x
        fit = tp.fit(model, target, method, seed=seed, weights=given_weights)  # type: ignore[arg-type]
    except TemperanceError as error:
        refused(error)
        return "refused"
    assert fit.log_evidence is None or np.isfinite(fit.log_evidence)
    no_nan(fit.state)
    assert not np.isnan(fit.history.get("elbo", np.zeros(1))).any()
    try:
        if isinstance(model, tp.LinearRegression):
            found = fit.predict(x[:, :1])
            assert np.isfinite(found.mean).all() and (np.asarray(found.variance) > 0).all()
        elif isinstance(model, tp.Mixture):
            assert not np.isnan(fit.log_predictive(x)).any()
            np.testing.assert_allclose(fit.responsibilities(x).sum(axis=1), 1.0, rtol=1e-9)
        elif isinstance(model, tp.LDA):
            np.testing.assert_allclose(fit.transform(x).sum(axis=1), 1.0, rtol=1e-9)
        fit.table()
    except TemperanceError as error:
        refused(error)
    return "fitted"


def run(name: str, cases: int) -> dict[str, int]:
    outcomes = {"refused": 0, "fitted": 0}

    @settings(max_examples=cases, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def hostile(data: st.DataObject) -> None:
        outcomes[attempt(PAIRS[name], data.draw)] += 1

    hostile()
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_every_outcome_is_an_answer_or_an_error_of_ours(name: str) -> None:
    outcomes = run(name, CASES)
    assert min(outcomes.values()) > 0.02 * CASES, outcomes


@pytest.mark.slow
def test_a_sample_of_them() -> None:
    assert sum(run(QUICK, 15).values()) >= 15


@pytest.mark.slow
def test_the_answer_does_not_depend_on_the_unit_or_the_origin() -> None:
    """log p(c x + t) = log p(x) − N d log c with a prior that follows the data."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 2)) + 6.0 * rng.integers(0, 2, size=(8, 1))
    plain = tp.fit(tp.GaussianMixture(2), x, tp.VB(max_iter=30, restarts=2), seed=0)
    for power in (-400, -150, -20, 3, 40, 150, 380):
        for offset in (0.0, 1.0, -1e4):
            scale = 2.0**power
            moved = tp.fit(tp.GaussianMixture(2), (x + offset) * scale, tp.VB(max_iter=30, restarts=2), seed=0)
            expected = plain.log_evidence - x.size * power * np.log(2.0)
            assert moved.log_evidence == pytest.approx(expected, rel=1e-8, abs=1e-6)
