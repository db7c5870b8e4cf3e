"""Importance sampling from fitted posteriors, and the verdict on them."""

import itertools
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from temperance.evidence.weights import upwards
from temperance.inference.monte_carlo.proposal import log_permanent
from tests.exact import enumeration, marginals
from tests.inference.monte_carlo import tiny
from tests.tiers import with_slow


@cache
def variational() -> tp.Fit:
    return tp.fit(tiny.MODEL, tiny.X, tp.VB(restarts=5), seed=0)


@cache
def fitted() -> tp.Fit:
    return tp.fit(tiny.MODEL, tiny.X, tp.ImportanceSampling(draws=2048, proposal=variational()), seed=0)


def test_evidence_is_that_of_enumeration() -> None:
    fit = fitted()
    assert 0 < fit.standard_error < 0.2
    assert fit.log_evidence == pytest.approx(tiny.LOG_EVIDENCE, abs=4 * fit.standard_error)
    assert fit.khat == fit.details["khat"]
    assert fit.khat < 0.5  # weights of finite variance
    assert 100 < fit.details["effective_draws"] < 2048


def test_weighted_draws_average_to_the_posterior() -> None:
    exact = tiny.same_component()
    share = np.exp(np.asarray(fitted().state.flat()[1]))
    for i, j in [(0, 1), (0, 3)]:
        assert share @ tiny.together(fitted(), i, j)[0] == pytest.approx(exact[i, j], abs=0.08)
    # Labels are exchanged, as in the posterior.
    assert np.asarray(fitted().posterior["weights"]).mean(axis=1)[0] == pytest.approx([0.5, 0.5], abs=0.08)


@pytest.mark.slow
def test_errors_are_calibrated_over_fifty_runs() -> None:
    """Half of the draws from the prior: the posterior of VB alone is too narrow here, and k̂ says so."""
    method = tp.ImportanceSampling(draws=50 * 2048, proposal=variational(), defensive=0.5)
    fit = tp.fit(tiny.MODEL, tiny.X, method, seed=1)
    assert fit.khat < 0.6
    found = [upwards(row) for row in fit.details["log_weights"].reshape(50, 2048)]
    z = np.array([(one.log_evidence - tiny.LOG_EVIDENCE) / one.standard_error for one in found])
    assert np.abs(z).max() < 4
    assert 0.6 < z.var() < 1.6


def test_permanent_is_the_sum_over_permutations() -> None:
    logs = np.random.default_rng(0).normal(size=(4, 4)) * 3
    orders = itertools.permutations(range(4))
    direct = np.logaddexp.reduce([sum(logs[order[k], k] for k in range(4)) for order in orders])
    assert float(jax.jit(log_permanent)(jnp.asarray(logs))) == pytest.approx(direct, abs=1e-12)


@pytest.mark.slow
def test_a_proposal_that_is_too_narrow_claims_nothing_false() -> None:
    """The posterior of ten times the data, given as a proposal for them once: the optima found beside it make up."""
    wrong = tp.fit(tiny.MODEL, tiny.X, tp.VB(restarts=5), seed=0, weights=np.full(6, 10.0))
    fit = tp.fit(tiny.MODEL, tiny.X, tp.ImportanceSampling(draws=2048, proposal=wrong, defensive=1e-6), seed=0)
    right = abs(fit.log_evidence - tiny.LOG_EVIDENCE) < 4 * fit.standard_error
    assert right or (not fit.converged and any("Pareto shape" in note for note in fit.notes))


@pytest.mark.slow
def test_nearly_equal_weights_are_trusted_whatever_their_tail() -> None:
    x = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1])[:, None]
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    model = tp.GaussianMixture(2, prior=prior)
    vb = tp.fit(model, x, tp.VB(restarts=5), seed=0)
    fit = tp.fit(model, x, tp.ImportanceSampling(proposal=vb), seed=0)
    assert fit.details["effective_draws"] > 3000  # of 4096; some go to optima that hardly matter
    assert fit.converged
    assert fit.log_evidence == pytest.approx(-11.082783, abs=4 * fit.standard_error)
    assert "trust it" in str(vb.diagnose(seconds=600))


@pytest.mark.slow
def test_diagnosis() -> None:
    found = variational().diagnose(seconds=600)
    assert 0.3 < found.khat < 1.0
    assert found.bracket[0] < tiny.LOG_EVIDENCE < found.bracket[1]
    assert found.bracket[1] - found.bracket[0] < 1
    assert -2 < found.gap <= 0
    assert f"{variational().log_evidence:.2f}" in str(found)


@pytest.mark.parametrize("defensive", [0.0, 1.0, -0.1, True])
def test_bad_arguments(defensive: Any) -> None:
    with pytest.raises(InvalidParameter, match="defensive must be between 0 and 1"):
        tp.ImportanceSampling(defensive=defensive)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (
            lambda: tp.fit(tiny.MODEL, tiny.X, tp.ImportanceSampling(proposal="vb")),
            InvalidParameter,
            "proposal must be a fit whose posterior is families",
        ),
        (
            lambda: tp.fit(tp.GaussianMixture(3), tiny.X, tp.ImportanceSampling(proposal=variational())),
            InvalidParameter,
            "proposal must be a fit of the same model",
        ),
        (lambda: fitted().diagnose(), UnsupportedMethod, "diagnose is for deterministic approximations"),
    ],
)
def test_bad_proposals(attempt: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        attempt()


APART = np.array([-5.0, -4.8, -5.3, 4.6, 5.2, 4.9, 5.1])[:, None]  # two clusters far from each other
WIDE = {"mean": [0.0], "pseudo_count": 0.01, "dof": 2.0, "scatter": [[0.22]]}


def graph() -> Any:
    g = tp.Graph()
    weights = g.dirichlet("weights", np.ones(2))
    both = g.normal_gamma("both", 0.0, 0.01, 2.0, 0.22, plates=g.plate("k", 2))
    g.normal("x", both[g.categorical("z", weights, plates="n")], observed=True)
    return g.model()


def of_paths() -> float:
    """log p(APART) of two hidden states, from the sum over all paths: first state ½, rows of the matrix uniform."""
    logs = []
    for path in itertools.product((0, 1), repeat=len(APART)):
        counts = np.zeros((2, 2))
        for before, after in itertools.pairwise(path):
            counts[before, after] += 1
        steps = sum(betaln(a + 1, b + 1) for a, b in counts)
        rows = [APART[np.array(path) == k] for k in (0, 1)]
        logs.append(np.log(0.5) + steps + sum(marginals.gaussian(x, **WIDE) for x in rows if len(x)))
    return float(np.logaddexp.reduce(logs))


@pytest.mark.parametrize("name", with_slow(["graph", "hidden Markov"], "hidden Markov"))
def test_every_order_of_exchangeable_parts_is_covered(name: str) -> None:
    """A proposal that knew one order of the two clusters would be low by ln 2."""
    if name == "graph":
        model, data = graph(), APART[:, 0]
        exact = enumeration.log_evidence(APART, lambda x: marginals.gaussian(x, **WIDE), np.ones(2))
    else:
        model, data, exact = tp.HMM(2, prior=tp.NormalWishart(**WIDE)), APART, of_paths()
    fit = tp.fit(model, data, tp.ImportanceSampling(draws=4096), seed=0)
    assert 0.0 < fit.standard_error < 0.1
    assert fit.log_evidence == pytest.approx(exact, abs=4 * fit.standard_error)
