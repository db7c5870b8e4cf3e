"""One small problem for each method: short enough to repeat, long enough to be killed in the middle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import temperance as tp

rng = np.random.default_rng(0)
X = rng.normal(size=(96, 2)) + 3.0 * rng.integers(0, 2, size=(96, 1))
COUNTS = rng.poisson(1.0, size=(24, 8)) + np.eye(8, dtype=int)[rng.integers(0, 8, 24)]
INPUTS = rng.normal(size=(40, 2))
TARGET = INPUTS @ [1.0, -2.0] + 0.3 * rng.normal(size=40)
HEADS = rng.integers(0, 2, (30, 1)).repeat(3, axis=1).astype(float)

Problem = tuple[Any, Any, Any]  # model, data, method


def mixture(method: Any, **arguments: Any) -> Callable[[], Problem]:
    return lambda: (tp.GaussianMixture(2, **arguments), X, method())


def coins() -> Any:
    """A mixture of two coins, each tossed three times."""
    g = tp.Graph()
    heads = g.beta("heads", 1.0, 1.0, plates=g.plate("k", 2))
    z = g.categorical("z", g.dirichlet("share", [1.0, 1.0]), plates="n")
    g.bernoulli("x", heads[z], plates=("n", g.plate("toss", 3)), observed=True)
    return g.model()


CASES: dict[str, Callable[[], Problem]] = {
    "VB": mixture(lambda: tp.VB(restarts=3, max_iter=3000, tol=0.0)),
    "VB, batches": mixture(lambda: tp.VB(batches=4, max_iter=1000, tol=0.0)),
    "VB, a Dirichlet process": lambda: (
        tp.DirichletProcessMixture(4), X, tp.VB(restarts=2, max_iter=2000, tol=0.0),
    ),
    "VB, topics": lambda: (tp.LDA(3), COUNTS, tp.VB(max_iter=400, tol=0.0)),
    "VB, regression": lambda: (tp.LinearRegression(ard=True), (INPUTS, TARGET), tp.VB(max_iter=4000, tol=0.0)),
    "VB, factors": lambda: (tp.FactorialMixture(2), X, tp.VB(restarts=2, max_iter=1500, tol=0.0)),
    "SVI": mixture(lambda: tp.SVI(batch_size=16, steps=4000, report=50)),
    "SVI, topics": lambda: (tp.LDA(3), COUNTS, tp.SVI(batch_size=8, steps=1000, report=20)),
    "CVB0": lambda: (tp.LDA(3), COUNTS, tp.CVB0(passes=400, tol=0.0)),
    "Annealed": mixture(lambda: tp.Annealed(tp.VB(max_iter=2000, tol=0.0))),
    "VT": mixture(lambda: tp.VT(method=tp.VB(max_iter=800, tol=0.0)), covariance=np.eye(2)),
    "LVT": mixture(lambda: tp.LVT(method=tp.VB(max_iter=800, tol=0.0))),
    "VT, minibatches": mixture(
        lambda: tp.VT(method=tp.SVI(batch_size=16, steps=4000, report=50)), covariance=np.eye(2)
    ),
    "LVT, minibatches": mixture(lambda: tp.LVT(method=tp.SVI(batch_size=16, steps=4000, report=50))),
    "VT, topics": lambda: (tp.LDA(3), COUNTS, tp.VT(method=tp.SVI(batch_size=8, steps=1000, report=20))),
    "LVT, topics": lambda: (tp.LDA(3), COUNTS, tp.LVT(method=tp.SVI(batch_size=8, steps=1000, report=20))),
    "VT, sequences": lambda: (
        tp.HMM(2, tp.KnownCovarianceGaussian(np.eye(2))), X, tp.VT(method=tp.VB(max_iter=400, tol=0.0)),
    ),
    "VT, a graph": lambda: (coins(), HEADS, tp.VT(method=tp.VB(max_iter=800, tol=0.0))),
    "EM": mixture(lambda: tp.EM(restarts=2, max_iter=3000, tol=0.0)),
    "Laplace": mixture(lambda: tp.Laplace(restarts=2, max_iter=400, tol=0.0)),
    "EP": mixture(lambda: tp.EP(restarts=2, max_passes=40, tol=0.0)),
    "MessagePassing": mixture(lambda: tp.MessagePassing(0.5, restarts=2, max_passes=40, tol=0.0)),
    "Gibbs": mixture(lambda: tp.Gibbs(draws=1000, warmup=200)),
    "CollapsedGibbs": mixture(lambda: tp.CollapsedGibbs(draws=600, warmup=100, chains=2)),
    "VariationalKernel": mixture(lambda: tp.VariationalKernel(draws=1500, warmup=300, chains=2)),
    "ParallelTempering": mixture(lambda: tp.ParallelTempering(draws=600, warmup=300, replicas=4)),
    "AIS": mixture(lambda: tp.AIS(particles=40, temperatures=300)),
    "ImportanceSampling": mixture(lambda: tp.ImportanceSampling(draws=2048)),
}  # fmt: skip


def fit(name: str, **arguments: Any) -> tp.Fit:
    model, data, method = CASES[name]()
    return tp.fit(model, data, method, seed=1, progress=False, **arguments)


def same(one: tp.Fit, other: tp.Fit) -> None:
    """Equal to the last bit, but for the time they took."""
    np.testing.assert_array_equal(one.log_evidence, other.log_evidence)
    assert one.converged == other.converged
    for left, right in ((one.state, other.state), (one.history, other.history)):
        jax.tree.map(lambda *leaves: np.testing.assert_array_equal(*map(_array, leaves)), left, right)


def _array(leaf: Any) -> np.ndarray:
    is_key = isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)
