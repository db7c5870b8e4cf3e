"""Step sizes that follow the noise of the natural gradient."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import polygamma

import temperance as tp
from temperance.errors import InvalidParameter
from temperance.inference.step_sizes import Adaptive, as_step_size

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1200, 2)) + 4.0 * RNG.integers(0, 3, size=(1200, 1))


def test_the_rule_written_out() -> None:
    """ḡ, h̄ and τ of random steps of a Gamma, whose Fisher matrix in (log, −rate) has ψ′(a), 1/b and a/b²."""
    size = as_step_size("adaptive", adaptive=True)
    assert isinstance(size, Adaptive)
    eta, mean, square, memory = np.array([3.0, -2.0]), np.zeros(2), 0.0, 1.0
    family = lambda eta: tp.Gamma(eta[0] + 1.0, -eta[1])  # noqa: E731
    pace = size.start({"rate": family(eta)})
    rate = float(pace.rate)
    for t in range(1, 31):
        g = 0.2 * RNG.normal(size=2) + [0.3, -0.1]
        after = eta + rate * g
        pace = size.after(pace, jnp.asarray(t), {"rate": family(eta)}, {"rate": family(after)})
        eta, (a, b) = after, (after[0] + 1.0, -after[1])
        fisher = np.array([[polygamma(1, a), 1 / b], [1 / b, a / b**2]])
        mean, square = mean + (g - mean) / memory, square + (g @ fisher @ g - square) / memory
        rate = (10.0 + t + 1) ** -0.7 if t < 10 else min(1.0, mean @ fisher @ mean / square)
        memory = (memory if t < 10 else memory * (1.0 - rate)) + 1.0
        assert float(pace.rate) == pytest.approx(rate, rel=1e-8)
        assert float(pace.memory) == pytest.approx(memory, rel=1e-8)


def adapted(x: Any, batch_size: int) -> tp.Fit:
    method = tp.SVI(batch_size=batch_size, passes=8, step_size="adaptive")
    return tp.fit(tp.GaussianMixture(3), x, method, seed=0)


def test_steps_shrink_with_the_noise_whatever_the_unit() -> None:
    best = tp.fit(tp.GaussianMixture(3), X, tp.VB(restarts=3)).log_evidence
    fit, other, larger = adapted(X, 50), adapted(1000.0 * X, 50), adapted(X, 400)
    assert fit.log_evidence == pytest.approx(best, abs=2.0)
    np.testing.assert_allclose(other.history["rate"], fit.history["rate"], rtol=1e-4)
    rates = fit.history["rate"]
    assert rates[-1] < 0.2 * rates[0] and rates[-1] < larger.history["rate"][-1]


def test_only_stochastic_variational_inference_adapts() -> None:
    with pytest.raises(InvalidParameter, match="step_size must be a constant above 0 and at most 1, or a pair"):
        tp.SVI(step_size="fast")
    with pytest.raises(InvalidParameter, match="step_size must be a constant above 0 and at most 1, or a pair"):
        tp.CVB0(batch_size=10, step_size="adaptive")
