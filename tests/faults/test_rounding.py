"""A bound falls by the rounding of its largest terms, not of its sum: that is no fault of the model."""

import numpy as np
import pytest

import temperance as tp
from temperance.errors import BoundDecreased
from temperance.inference.run import check, largest_term

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(3.0, size=(30, 4)).astype(float)
COUNTS[3, 1] = 1e9
X = RNG.normal(size=(30, 2))
Y = X @ [1.0, 2.0] + RNG.normal(size=30)


@pytest.mark.parametrize("shape", [1e9, 1e12])
def test_a_narrow_prior_of_the_noise(shape):
    known = tp.fit(tp.LinearRegression(noise=1.0), (X, Y), tp.VB(max_iter=50), seed=0)
    nearly = tp.fit(tp.LinearRegression(noise=tp.Gamma(shape, shape)), (X, Y), tp.VB(max_iter=50), seed=0)
    # A float of the size of log Γ(shape) is known to within one rounding of it.
    rounding = np.finfo(float).eps * shape * np.log(shape)
    assert nearly.log_evidence == pytest.approx(known.log_evidence, abs=rounding + 1e-5)


def test_a_count_of_a_billion():
    fit = tp.fit(tp.Mixture(2, "multinomial"), COUNTS, tp.VB(max_iter=100, restarts=3), seed=0)
    assert np.isfinite(fit.log_evidence)


def test_a_fall_that_is_no_rounding_is_still_told():
    model, data = tp.Mixture(2, "multinomial").prepare(COUNTS)
    fall = {"elbo": np.array([[-200.0], [-200.1]])}
    assert 1e9 < largest_term(model, data) < 1e12
    with pytest.raises(BoundDecreased, match=r"fell by 0\.1"):
        check(tp.VB(), model, fall, None, 0, data)
