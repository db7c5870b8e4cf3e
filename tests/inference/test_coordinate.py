"""Coordinate ascent on a model with coupled blocks, where the answer is known in closed form."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import temperance as tp
from temperance.errors import InvalidParameter
from tests.matrix.effects import Effects

X = np.array([1.3, 0.2, 2.1, 0.9, 1.7, 0.4])
MEANS, VARIANCES = np.array([0.5, -1.0]), np.array([2.0, 0.7])


def test_mean_field_of_two_coupled_gaussians() -> None:
    """The means are those of the posterior, the precisions its diagonal, and the bound misses
    KL(q ‖ p) = ½ log(Π Λ_ii / |Λ|)."""
    model = Effects(*(tp.Normal([m], [[v]]) for m, v in zip(MEANS, VARIANCES, strict=True)))
    fit = tp.fit(model, X, tp.VB(tol=0.0))
    precision = np.diag(1 / VARIANCES) + len(X)
    mean = np.linalg.solve(precision, MEANS / VARIANCES + X.sum())
    for name, m, v in zip("ab", mean, np.diag(precision), strict=True):
        assert fit.posterior[name].location[0] == pytest.approx(m, abs=1e-7)
        assert fit.posterior[name].precision[0, 0] == pytest.approx(v, abs=1e-12)
    evidence = multivariate_normal(np.full(6, MEANS.sum()), np.eye(6) + VARIANCES.sum()).logpdf(X)
    missed = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    assert fit.log_evidence == pytest.approx(evidence - missed, abs=1e-10)
    assert fit.converged


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"restarts": 0}, "restarts must be a whole number of at least 1, got 0"),
        ({"restarts": 1.5}, "restarts must be a whole number"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, got 0"),
        ({"max_iter": "many"}, "max_iter must be a whole number of at least 1, got 'many'"),
        ({"local_steps": 0}, "local_steps must be a whole number"),
        ({"tol": -1e-3}, "tol must be a finite number of at least 0, got -0.001"),
        ({"tol": np.nan}, "tol must be a finite number of at least 0, got nan"),
        ({"tol": np.inf}, "tol must be a finite number"),
        ({"tol": True}, "tol must be a finite number"),
    ],
)
def test_budget(options: dict, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        tp.VB(**options)


def test_numpy_budget() -> None:
    assert tp.VB(restarts=np.int64(3), tol=np.float64(0.1)).restarts == 3


def test_restarts_that_differ_find_the_solution_with_an_empty_component(capsys):
    """k-means++ alone ends at −13.2818 sixty times out of sixty; the better optimum leaves a component empty."""
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    x = np.array([-0.6, 0.1, 0.4, -0.2, 0.9, -1.1])[:, None]
    same = tp.fit(tp.GaussianMixture(2, prior=prior, init="kmeans++"), x, tp.VB(restarts=60), seed=0)
    assert same.log_evidence == pytest.approx(-13.2818, abs=1e-3)
    for seed in range(5):
        fit = tp.fit(tp.GaussianMixture(2, prior=prior), x, tp.VB(restarts=60), seed=seed)
        assert fit.log_evidence == pytest.approx(-12.3748, abs=1e-3)
    print(fit.summary())
    assert "the best of 60 starts, which found 2 different optima" in capsys.readouterr().out
    one, old = (tp.fit(tp.GaussianMixture(2, prior=prior, init=init), x) for init in ("mixed", "kmeans++"))
    assert one.log_evidence == old.log_evidence
