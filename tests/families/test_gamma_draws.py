"""Draws of a vague Gamma: most of them would be zero, and squares of numbers with that precision infinite."""

import jax
import numpy as np

import temperance as tp


def test_draws_have_a_floor_in_the_unit_of_the_rate():
    key = jax.random.key(0)
    plain, moved = (np.asarray(tp.Gamma(np.full(200, 1e-3), np.full(200, rate)).sample(key)) for rate in (1.0, 1e200))
    assert (plain < 1.0).any() and (plain >= 0.999e-80).all() and np.isfinite(1.0 / plain**2).all()
    np.testing.assert_allclose(moved * 1e200, plain, rtol=1e-10)
