"""Gibbs chains that know nothing of a proposal see the modes that it misses, and no others."""

import jax
import numpy as np

import temperance as tp
from temperance.inference._method import state_of
from temperance.inference.monte_carlo.proposal import propose
from temperance.inference.monte_carlo.uncovered import uncovered
from temperance.inference.monte_carlo.witness import search
from tests.exact import enumeration, marginals

WIDE = {"mean": [0.0], "pseudo_count": 0.01, "dof": 2.0, "scatter": [[0.22]]}
TEN = np.array([-5.0, -4.8, -5.3, -0.2, 0.1, 0.3, 4.6, 5.2, 4.9, 5.1])[:, None]  # three groups, two components


def judged(kept: slice) -> str:
    """What chains say of a proposal from these of the optima, in the order of their bounds, without wider copies."""
    model, data = tp.GaussianMixture(2, prior=tp.NormalWishart(**WIDE)).prepare(TEN)
    done = search(model, data, 24)
    best = np.argsort(-done.bounds)
    values, first = np.unique(np.round(done.bounds[best], 2), return_index=True)
    chosen = best[np.sort(first)][kept]
    assert len(values) >= 2
    posteriors = [state_of(done.states, int(one)).blocks for one in chosen]
    density, _ = propose(model, posteriors, done.bounds[chosen], [], 1e-6)
    draws = jax.vmap(lambda key: density.sample(key, model))(jax.random.split(jax.random.key(0), 2048))
    log_weights = np.asarray(jax.vmap(lambda one: model.log_joint(one, data) - density.log_prob(model, one))(draws))
    exact = enumeration.log_evidence(TEN, lambda x: marginals.gaussian(x, **WIDE), np.ones(2))
    return uncovered(jax.random.key(1), model, data, density, log_weights, exact)


def test_all_optima_cover_the_posterior() -> None:
    assert judged(slice(None)) == ""


def test_a_missed_optimum_is_seen() -> None:
    """−5 and 0 together against 5, or 0 and 5 against −5: both matter, and importance weights of one know nothing of
    the other."""
    assert "misses a part of the posterior" in judged(slice(0, 1))


def test_the_defaults_enclose_the_evidence() -> None:
    fit = tp.fit(tp.GaussianMixture(2, prior=tp.NormalWishart(**WIDE)), TEN, tp.ImportanceSampling(), seed=0)
    assert fit.converged and fit.standard_error is not None and fit.standard_error < 0.01
    assert fit.bracket is not None and fit.bracket[0] < -32.690347342720024 < fit.bracket[1]
