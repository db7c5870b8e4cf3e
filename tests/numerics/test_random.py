"""Gamma variables against their distribution function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from temperance.numerics.latents import sum_out
from temperance.numerics.random import log_gamma_variate

DRAW = jax.jit(log_gamma_variate)


@pytest.mark.parametrize("shape", [1e-3, 0.3, 1.0, 2.5, 1e3])
def test_log_gamma_variates_have_their_distribution(shape: float) -> None:
    log = np.asarray(DRAW(jax.random.key(3), jnp.full(20_000, shape)))
    # Far below, where the variable underflows, the distribution function is its first term.
    tail = np.exp(shape * np.minimum(log, 0.0) - special.gammaln(shape + 1.0))
    level = np.where(log < -300, tail, special.gammainc(shape, np.exp(np.maximum(log, -300))))
    assert np.isfinite(log).all()
    assert stats.kstest(level, "uniform").pvalue > 1e-3


def test_latents_are_drawn_with_their_probabilities() -> None:
    """A chi-squared test; latents of probability zero are never drawn, wherever they stand."""
    p = np.array([0.0, 0.1, 0.2, 0.0, 0.65, 0.05, 0.0])
    with np.errstate(divide="ignore"):
        logits = jnp.broadcast_to(jnp.asarray(np.log(p) - 700.0), (40_000, len(p)))
    drawn = jax.grad(lambda logits: jnp.sum(sum_out(logits, jax.random.key(0))))(logits)
    counts = np.asarray(jnp.sum(drawn, axis=0))
    assert (np.asarray(jnp.sum(drawn, axis=1)) == 1).all()
    assert (counts[p == 0] == 0).all()
    assert stats.chisquare(counts[p > 0], 40_000 * p[p > 0]).pvalue > 1e-3
