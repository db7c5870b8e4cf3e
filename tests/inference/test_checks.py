"""The declared checks of methods' arguments: what they refuse, and how they say so."""

import numpy as np
import pytest

import temperance as tp
from temperance._arguments import FLAG, choice, number, optional, whole

POSITIVE = number("positive", lambda value: value > 0)


@pytest.mark.parametrize(
    "check, good, bad, accepted",
    [
        (whole(2), [2, np.int64(3), 10**9], [1, 2.0, True, "2", None, np.array([2])], "a whole number of at least 2"),
        (POSITIVE, [1, 0.5, np.float32(2)], [0, -1.0, True, "1", None, np.nan, np.inf], "positive"),
        (choice("one", "two"), ["one", "two"], ["three", 1, None, np.array(["one"])], "'one' or 'two'"),
        (optional(whole(1)), [None, 1], [0, 1.5], "a whole number of at least 1"),
        (FLAG, [True, False], [1, 0, None, "yes", np.True_], "True or False"),
    ],
)
def test_checks(check, good, bad, accepted):
    for value in good:
        check("this", value)
    for value in bad:
        with pytest.raises(tp.errors.InvalidParameter) as caught:
            check("this", value)
        assert str(caught.value) == f"this must be {accepted}, got {value!r}"


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: tp.EM(restarts=0), "restarts must be a whole number of at least 1, got 0"),
        (lambda: tp.EM(incremental=True, batches=0), "batches must be a whole number of at least 1, got 0"),
        (lambda: tp.EM(batches=2), "batches is for incremental=True: EM otherwise treats all data together"),
        (lambda: tp.Laplace(draws=0), "draws must be a whole number of at least 1, got 0"),
        (lambda: tp.Laplace(tol=-1.0), "tol must be a finite number of at least 0, got -1.0"),
        (lambda: tp.MessagePassing(1e-5), "alpha must be a number 0, or from 1e-4 up, got 1e-05"),
        (lambda: tp.MessagePassing(damping=1.0), "damping must be a number at least 0 and below 1, got 1.0"),
        (lambda: tp.EP(tol=np.inf), "tol must be a number at least 0, got inf"),
        (lambda: tp.EP(double_loop=1), "double_loop must be True or False, got 1"),
        (lambda: tp.EP(schedule="back"), "schedule must be 'random' or 'sequential', got 'back'"),
        (lambda: tp.Gibbs(draws=3), "draws must be a whole number of at least 4, got 3"),
        (lambda: tp.CollapsedGibbs(thin=0), "thin must be a whole number of at least 1, got 0"),
        (lambda: tp.VariationalKernel(walk=1.5), "walk must be between 0 and 1, got 1.5"),
        (lambda: tp.VariationalKernel(gibbs="half"), "gibbs must be between 0 and 1, got 'half'"),
        (lambda: tp.VariationalKernel(size=0), "size must be positive, got 0"),
        (lambda: tp.VariationalKernel(walk=0.6, gibbs=0.6), "walk and gibbs are parts of a whole, but together 1.2"),
        (lambda: tp.ImportanceSampling(draws=1), "draws must be a whole number of at least 2, got 1"),
        (lambda: tp.ImportanceSampling(defensive=1), "defensive must be between 0 and 1, got 1"),
    ],
)
def test_what_methods_refuse(make, said):
    with pytest.raises(tp.errors.InvalidParameter) as caught:
        make()
    assert str(caught.value) == said
