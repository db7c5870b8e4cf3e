"""Leaps end where plain sweeps do, after fewer of them, and the bound never falls."""

import jax
import numpy as np

import temperance as tp
from temperance.inference.variational.leap import SWEEPS
from temperance.models import Way


def test_leaps_end_where_sweeps_do_after_fewer():
    rng = np.random.default_rng(0)
    x = (np.cumsum(rng.normal(size=60)) + 3.0 * rng.normal(size=60))[:, None]
    fit = tp.fit(tp.StateSpace.local_level(), x, tp.VB(tol=1e-10), seed=0)
    model, data = tp.StateSpace.local_level().prepare(x)
    sweep = jax.jit(lambda q: model.sweep(q, data, Way()))
    q, bounds = model.initial(jax.random.key(0), data), []
    for _ in range(1500):
        q, bound = sweep(q)
        bounds.append(float(bound))
    assert fit.converged
    leaps = fit.history["elbo"]
    assert (np.diff(leaps) >= -1e-9 * np.abs(leaps[1:])).all()
    np.testing.assert_allclose(fit.log_evidence, bounds[-1], rtol=1e-9)
    plain = int(np.argmax(np.array(bounds) > bounds[-1] - 1e-6))
    assert SWEEPS * len(leaps) < plain
