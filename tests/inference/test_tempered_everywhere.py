"""Annealing and tempering where other methods are used: comparisons, estimators by name, restarts side by side."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

import temperance as tp
from temperance import estimators
from temperance.inference._method import Method
from temperance.inference.progress import Progress
from temperance.inference.run import run

rng = np.random.default_rng(4)
X = np.concatenate([rng.normal(-4, 1, (25, 1)), rng.normal(4, 1, (25, 1))])
METHODS: dict[str, Any] = {
    "annealed": tp.Annealed(tp.VB(), "geometric", start=4.0, length=15),
    "VT": tp.VT(np.geomspace(1, 5, 10), length=15),
    "LVT": tp.LVT(length=15),
}
MINIBATCHES = tp.SVI(batch_size=10, passes=30, step_size=(2.0, 0.9))
STOCHASTIC: dict[str, Any] = {
    "annealed SVI": tp.Annealed(MINIBATCHES, "linear", start=4.0, length=3),
    "stochastic VT": tp.VT(np.geomspace(1, 5, 10), MINIBATCHES, length=3),
    "stochastic LVT": tp.LVT(method=MINIBATCHES, length=3),
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


@pytest.mark.slow
def test_comparisons_take_tempered_minibatches() -> None:
    """Each end is a bound too, and close to the best there is."""
    found = tp.compare({k: known(k) for k in (1, 2)}, X, STOCHASTIC, progress=False)
    best = tp.compare({k: known(k) for k in (1, 2)}, X, tp.VB(restarts=3), progress=False).log_evidence
    assert found.methods == tuple(STOCHASTIC) and found.best == 2
    assert (found.log_evidence <= best + 1e-6).all() and (found.log_evidence > best - 0.5).all()


@pytest.mark.parametrize(
    "name", ["LVT", *(pytest.param(name, marks=pytest.mark.slow) for name in ("annealed", "VT", *STOCHASTIC))]
)
def test_starts_side_by_side_go_where_each_does_by_itself(name: str) -> None:
    likely = tp.KnownCovarianceGaussian([[1.0]])
    model, data = tp.Mixture(2, likely, prior=tp.Normal([0.0], [[25.0]]), init="random").prepare(X)
    method = (METHODS | STOCHASTIC)[name]
    method = replace(method, method=replace(method.method, restarts=2)).complete(model, data)
    key = jax.random.key(3)
    arranged = method.arrange(key, model, data)

    def path(which: slice) -> np.ndarray:
        history = run(method, model, arranged, key, Progress(False), which=which).history
        return np.asarray(history["elbo" if method.exact else "batch_elbo"])[:10]

    one, other = path(slice(0, 1)), path(slice(1, 2))
    np.testing.assert_allclose(path(slice(None)), np.concatenate([one, other], axis=1), rtol=1e-9)
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["annealed", "vt", "lvt", *STOCHASTIC])
def test_factors_by_estimators(name: str) -> None:
    factors = 3.0 * np.kron(np.eye(3), np.ones(2))
    own = np.random.default_rng(0)  # whichever tests came before
    x = (own.random((120, 3)) < 0.4) @ factors + 0.2 * own.normal(size=(120, 6))
    given = {"noise": 0.04, "probability": 0.4, "factor_variance": 4.0}
    method = STOCHASTIC.get(name, name)
    if isinstance(method, Method):  # which has starts of its own
        method = replace(method, method=replace(method.method, restarts=8))
    found = estimators.FactorialMixture(3, inference=method, n_init=3, random_state=0, **given).fit(x)
    order = np.argmax(found.components_, axis=1).argsort()
    np.testing.assert_allclose(found.components_[order], factors, atol=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "inference", [pytest.param(tp.VT(method=tp.SVI(batch_size=4, passes=20)), id="stochastic VT"), "vt", "lvt"]
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
