"""Annealing and tempering where other methods are used: comparisons, estimators by name, restarts side by side."""

from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance import estimators

rng = np.random.default_rng(4)
X = np.concatenate([rng.normal(-4, 1, (25, 1)), rng.normal(4, 1, (25, 1))])
METHODS: dict[str, Any] = {
    "annealed": tp.Annealed(tp.VB(), "geometric", start=4.0, length=15),
    "VT": tp.VT(np.geomspace(1, 5, 10), length=15),
    "LVT": tp.LVT(length=15),
}


def known(components: int) -> tp.Mixture:
    return tp.Mixture(components, tp.KnownCovarianceGaussian([[1.0]]), prior=tp.Normal([0.0], [[25.0]]))


@pytest.mark.slow
def test_comparisons_take_tempered_methods() -> None:
    """Their bounds are those of VB at T = 1: the same best number of components, and none above the evidence of one
    Gaussian, which is exact."""
    found = tp.compare({k: known(k) for k in (1, 2)}, X, METHODS, progress=False)
    covariance = 25.0 + np.eye(len(X))
    exact = -0.5 * (X[:, 0] @ np.linalg.solve(covariance, X[:, 0]) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert found.methods == tuple(METHODS) and found.best == 2
    np.testing.assert_allclose(found.log_evidence[:, 0], exact, atol=1e-6)
    assert (found.log_evidence[:, 1] > found.log_evidence[:, 0] + 10).all()


@pytest.mark.parametrize(
    "inference",
    [
        pytest.param(tp.VT(method=tp.SVI(batch_size=4, passes=20)), marks=pytest.mark.slow, id="stochastic VT"),
        pytest.param("vt", marks=pytest.mark.slow),
        "lvt",
    ],
)
def test_topics_by_name(inference: Any) -> None:
    """Twelve documents: while it is hot all topics melt into one, and they must come apart again at T = 1."""
    counts = np.kron(np.eye(2, dtype=int), np.full((6, 4), 3))
    found = estimators.LatentDirichletAllocation(2, inference=inference, max_iter=30, random_state=0).fit(counts)
    shares = found.transform(counts)
    assert np.abs(shares[:6].mean(axis=0) - shares[6:].mean(axis=0)).min() > 0.5


@pytest.mark.slow
def test_gaussian_mixtures_by_name() -> None:
    """The same two clusters as by VB. Learned covariances have no VT (`test_estimators`), and by LVT one component may
    stay broad enough for all data (docs/methods/tempering.md)."""
    found, plain = (
        estimators.BayesianGaussianMixture(n_components=2, inference=name, max_iter=200, random_state=0).fit(X)
        for name in ("annealed", "vb")
    )
    labels = found.predict(X)
    assert len(set(labels[:25])) == len(set(labels[25:])) == 1 and labels[0] != labels[-1]
    np.testing.assert_allclose(np.sort(found.means_, axis=0), np.sort(plain.means_, axis=0), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [tp.VT, tp.LVT])
def test_restarts_of_minibatches_run_side_by_side(kind: Any) -> None:
    """Mixtures by minibatches, three starts at once: the bound of the best is that of the posterior it gives."""
    svi = tp.SVI(batch_size=10, passes=6, restarts=3)
    fit = tp.fit(known(2), X, kind(np.geomspace(1, 4, 10), method=svi), seed=0)
    assert fit.log_evidence == fit.history["restarts"].max() and len(fit.history["restarts"]) == 3
    assert (fit.history["temperature"][4:] == 1).all()
    plain = tp.fit(known(2), X, tp.VB(restarts=3), seed=0)
    assert fit.log_evidence == pytest.approx(plain.log_evidence, abs=0.5)
