"""Every registered engine gives what autodiff of `log_evidence` gives, on every model it claims, cold and hot."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance import kernels
from temperance.errors import InvalidParameter
from temperance.models import Powers, Way
from temperance.models._derive import derived_walk
from temperance.models._model import means

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3)) + 3.0 * RNG.integers(0, 2, (24, 1))
COUNTS = RNG.poisson(1.0, (12, 9))
MANY = RNG.normal(size=(2000, 3))
YES = (RNG.uniform(size=2000) < 1 / (1 + np.exp(-MANY[:, 0]))).astype(float)
PROBLEMS: dict[str, tuple[Any, Any]] = {
    "Mixture": (tp.Mixture(3, "gaussian"), X),
    "GaussianMixture": (tp.GaussianMixture(3), X),
    "DirichletProcessMixture": (tp.DirichletProcessMixture(3), X),
    "HMM": (tp.HMM(3, engine="device"), X),
    "LogisticRegression": (tp.LogisticRegression(offset=1), (MANY, YES)),
    "ProbitRegression": (tp.ProbitRegression(prior=1.0), (MANY, YES)),
    "PoissonRegression": (tp.PoissonRegression(ard=True), (MANY, YES)),
    "OrderedRegression": (tp.OrderedRegression([-0.5, 0.5]), (MANY, YES)),
    "CensoredRegression": (tp.CensoredRegression(upper=0.5), (MANY, MANY[:, 0])),
    "TruncatedRegression": (tp.TruncatedRegression(lower=-4.0), (MANY, MANY[:, 0])),
    "LDA": (tp.LDA(3, local_tol=0.0), COUNTS),
    "HDP": (tp.HDP(3, local_tol=0.0), COUNTS),
    "StructuralTopics": (tp.StructuralTopics(3, "~ x", local_tol=0.0), (COUNTS, {"x": np.arange(12.0)})),
}
ELSEWHERE = {"Distributed"}  # its walk is held to one process in tests/cluster
WAYS = {
    "cold": Way(local_steps=40),
    "path": Way(Powers(0.3, 1.0), 40),
    "hot": Way(Powers(jnp.asarray(0.4), jnp.asarray(0.4)), 40, energy=True),
}


def cells() -> list[Any]:
    return [
        pytest.param(name, engine, way, id=f"{name}-{engine.name}-{way}")
        for name, (model, _) in PROBLEMS.items()
        for engine in kernels.engines(model)
        for way in WAYS
        if engine.name != "hot documents"  # temperatures of their own: written out in test_tempered_topics.py
    ]


def test_every_model_with_an_engine_is_tried() -> None:
    assert set(kernels._MODULES) == set(PROBLEMS) | ELSEWHERE
    assert all(kernels.engines(model) for model, _ in PROBLEMS.values())


@pytest.mark.parametrize(("name", "engine", "way"), cells())
def test_an_engine_equals_autodiff(name: str, engine: kernels.Engine, way: str) -> None:
    model, data = PROBLEMS[name][0].prepare(PROBLEMS[name][1])
    q = model.initial(jax.random.key(1), data)
    m, here = means(q.blocks), WAYS[way]
    asked = here if engine.name.startswith("documents in closed form") else here._replace(energy=False)
    found = jax.jit(lambda m: engine.walk(model, m, data, asked, q.locals))(m)
    wanted = jax.jit(lambda m: derived_walk(model, m, data, here, q.locals))(m)
    np.testing.assert_allclose(found.value, wanted.value, rtol=1e-9)
    for ours, theirs in zip(jax.tree.leaves(found.messages), jax.tree.leaves(wanted.messages), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9 * float(jnp.max(jnp.abs(theirs)) + 1.0))
    if here.energy:
        whole = jax.jit(lambda m: model.walk(m, data, here, q.locals))(m)
        np.testing.assert_allclose(whole.energy, wanted.energy, rtol=1e-7)


@pytest.mark.usefixtures("engines")
def test_a_plain_fit_uses_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that is wrong changes the default fit, and not the plain one."""
    model, data = tp.HMM(2).prepare(X)
    chosen = kernels.walk_engine(model, data, Way())
    assert chosen.name == "forward–backward"

    def walk(*given: Any) -> Any:
        walked = chosen.walk(*given)
        return walked._replace(value=walked.value + 5.0)

    monkeypatch.setitem(kernels._ENGINES, "HMM", [chosen._replace(walk=walk)])
    method = tp.VB(max_iter=2, tol=0.0)
    plain = tp.fit(tp.HMM(2), X[:23], method, engine="plain")
    right = tp.fit(tp.HMM(2, engine="autodiff"), X[:23], method, engine="plain")
    wrong = tp.fit(tp.HMM(2, engine="host"), X[:23], method)  # "auto" would run the whole fit in NumPy
    assert plain.log_evidence == pytest.approx(right.log_evidence, rel=1e-12)
    assert wrong.log_evidence == pytest.approx(right.log_evidence + 5.0, rel=1e-9)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="Client, 'auto' or 'plain', got 'fast'"):
        tp.fit(tp.GaussianMixture(2), X, engine="fast")
