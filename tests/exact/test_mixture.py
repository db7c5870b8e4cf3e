"""Mixtures against enumeration of every assignment."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import temperance as tp
from temperance.models import Data, Mixture, Posterior
from tests.exact import marginals
from tests.exact.enumeration import log_evidence
from tests.exact.pairs import CONJUGATE, PAIRS, Pair
from tests.matrix.problems import ascents, stack
from tests.matrix.registry import COMPONENTS, ENTRIES, ROWS

# The thesis's tiny case: a₀ = 1, B₀ = 0.11, v₀ = 0.01, δ₀ = 1.
TINY = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1])[:, None]
TINY_PRIOR = {"mean": [0.0], "pseudo_count": 0.01, "dof": 2.0, "scatter": [[0.22]]}
EXACT = {1: -18.924757, 2: -11.082783, 3: -11.248176}
VARIATIONAL = {2: -11.777076, 3: -13.281153}


@pytest.mark.parametrize("k", EXACT)
def test_published_evidence(k: int) -> None:
    exact = log_evidence(TINY, lambda x: marginals.gaussian(x, **TINY_PRIOR), np.ones(k))
    assert exact == pytest.approx(EXACT[k], abs=5e-7)


@pytest.mark.parametrize("k", VARIATIONAL)
def test_published_bound(k: int) -> None:
    model = tp.GaussianMixture(k, prior=tp.NormalWishart(**TINY_PRIOR))
    fit = tp.fit(model, TINY, tp.VB(restarts=20, tol=1e-10))
    assert fit.log_evidence == pytest.approx(VARIATIONAL[k], abs=5e-7)


def test_gap_of_separate_clusters_is_the_number_of_labellings() -> None:
    """Where the assignment is certain q is exact but for its labels: the bound misses log K!, and nothing else."""
    x = np.where(TINY > 0, TINY + 100, TINY - 100)
    prior = {"mean": [0.0], "pseudo_count": 0.01, "dof": 30.0, "scatter": [[6.0]]}
    model = tp.GaussianMixture(2, prior=tp.NormalWishart(**prior), concentration=0.7)
    fit = tp.fit(model, x, tp.VB(restarts=20, tol=1e-10))
    exact = log_evidence(x, lambda x: marginals.gaussian(x, **prior), [0.7, 0.7])
    assert exact - fit.log_evidence == pytest.approx(np.log(2), abs=1e-8)


@eqx.filter_jit
@eqx.filter_vmap
def bounds_from_prior(model: Mixture, data: Data) -> Any:
    prior = Posterior(dict(model.prior), {})
    return jax.lax.scan(lambda q, _: model.sweep(q, data), prior, None, length=3)[1]


@pytest.mark.parametrize("pair", CONJUGATE, ids=repr)
def test_one_component_is_exact(pair: Pair) -> None:
    """One sweep reaches the posterior, and the bound is then the evidence; weights are repeated rows."""
    rng = np.random.default_rng(1)
    problems, exact = [], []
    for number in range(8):
        hyper, x = pair.hyper(rng), pair.data(rng, ROWS)
        weights = rng.integers(0, 4, size=ROWS) if number % 2 else np.ones(ROWS, dtype=int)
        problems.append(pair.mixture(1, hyper).prepare(x, weights))
        exact.append(pair.marginal(hyper)(np.repeat(x, weights, axis=0)))
    bounds = np.asarray(bounds_from_prior(*stack(problems)))
    np.testing.assert_allclose(bounds[:, 1], exact, rtol=0, atol=1e-9)
    np.testing.assert_allclose(bounds[:, 2], exact, rtol=0, atol=1e-9)
    assert (bounds[:, 0] < bounds[:, 1] - 1e-3).all()


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.exact], ids=repr)
def test_bound_is_below_the_evidence(pair: Pair) -> None:
    """The random problems of the registry, drawn again in the same order for their hyperparameters."""
    (entry,) = (entry for entry in ENTRIES if entry.name == f"mixture, {pair}")
    bounds = ascents(entry).bounds
    rng = np.random.default_rng(0)
    gaps = []
    for number in range(40):
        concentration = 10 ** rng.uniform(-1, 1, COMPONENTS)
        hyper, x = pair.hyper(rng), pair.data(rng, ROWS)
        if number % 2:
            rng.uniform(0, 3, ROWS)
            continue
        gaps.append(log_evidence(x, pair.marginal(hyper), concentration) - bounds[number, -1])
    assert min(gaps) > 0
