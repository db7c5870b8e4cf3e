"""EP in closed form: it does what autodiff's engine does, fit by fit, and a first fit compiles one program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import temperance as tp
from temperance.kernels import small_messages

pytestmark = pytest.mark.usefixtures("engines")  # also under `make test-plain`

RNG = np.random.default_rng(3)
APART = np.concatenate([RNG.normal(-2, 1, (40, 2)), RNG.normal(2, 1, (30, 2))])


def both(model: tp.GaussianMixture, x: np.ndarray, method: tp.EP) -> tuple[tp.Fit, tp.Fit]:
    plain, fast = (tp.fit(model, x, method, seed=3, engine=engine) for engine in ("plain", "auto"))
    return plain, fast


def assert_equal_fits(plain: tp.Fit, fast: tp.Fit) -> None:
    assert fast.log_evidence == pytest.approx(plain.log_evidence, rel=1e-9)
    assert (plain.details["engine"], fast.details["engine"]) == ("plain", "small mixture (numpy, xla)")
    assert fast.converged == plain.converged
    np.testing.assert_array_equal(fast.history["skipped"], plain.history["skipped"])
    np.testing.assert_allclose(fast.history["log_evidence"], plain.history["log_evidence"], rtol=1e-9)
    pairs = (jax.tree.leaves((fit.state, fit.details["sites"])) for fit in (fast, plain))
    for ours, theirs in zip(*pairs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(theirs).max()))


@pytest.mark.slow
def test_a_fit_is_the_plain_one() -> None:
    """Overlapping components, with factors that are skipped on the way."""
    plain, fast = both(tp.GaussianMixture(3), APART, tp.EP(restarts=2))
    assert (plain.history["skipped"] > 0).any()
    assert_equal_fits(plain, fast)


@pytest.mark.slow
def test_the_correction_is_the_plain_one() -> None:
    plain, fast = both(tp.GaussianMixture(2), APART[::2], tp.EP())
    assert fast.corrected_log_evidence == pytest.approx(plain.corrected_log_evidence, rel=1e-8)


@pytest.mark.parametrize(
    ("columns", "size", "weights", "damping"),
    [
        (1, 2, "dirichlet", None),
        pytest.param(2, 1, "dirichlet", None, marks=pytest.mark.slow),
        pytest.param(2, 2, [0.3, 0.7], 0.4, marks=pytest.mark.slow),
        pytest.param(3, 3, "dirichlet", 0.2, marks=pytest.mark.slow),
        pytest.param(2, 11, "dirichlet", None, marks=pytest.mark.slow),
    ],
)
def test_other_shapes_too(columns: int, size: int, weights: str | list[float], damping: float | None) -> None:
    x = RNG.normal(size=(33, columns)) + 3.0 * RNG.integers(0, 2, (33, 1))
    model = tp.GaussianMixture(size, weights=weights)
    assert_equal_fits(*both(model, x, tp.EP(restarts=2, max_passes=15, damping=damping)))


@pytest.mark.parametrize(
    ("init", "schedule"),
    [
        ("random", "random"),
        pytest.param("kmeans++", "sequential", marks=pytest.mark.slow),
        pytest.param([[-2.0, -2.0], [2.0, 2.0]], "random", marks=pytest.mark.slow),
    ],
)
def test_other_starts_and_orders_too(init: str | list[list[float]], schedule: str) -> None:
    model = tp.GaussianMixture(2, init=init if isinstance(init, str) else np.array(init))
    assert_equal_fits(*both(model, APART[::2], tp.EP(max_passes=10, schedule=schedule)))


def test_no_other_method_takes_its_steps() -> None:
    model, data = tp.GaussianMixture(2).prepare(APART)
    assert tp.EP().host_engine(model, data) is not None
    for method in (tp.MessagePassing(0.5), tp.EP(trace=True), tp.EP(double_loop=True).complete(model, data)):
        assert method.host_engine(model, data) is None


def test_who_takes_it() -> None:
    for x, wanted in ((APART, True), (RNG.normal(size=(20, 4)), False)):
        model, data = tp.GaussianMixture(2).prepare(x)
        assert small_messages.when(model, data) == wanted
    model, data = tp.GaussianMixture(2, covariance="diag").prepare(APART)
    assert not small_messages.when(model, data)


COUNT = """
import json
import jax, numpy as np, temperance as tp
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
)
x = np.random.default_rng(0).normal(size=(500, 2))
fit = tp.fit(tp.GaussianMixture(3), x, tp.EP(max_passes=5), seed=0)
first = len(compiled)
tp.fit(tp.GaussianMixture(3), x[7:], tp.EP(max_passes=5), seed=0)
print(json.dumps([first, len(compiled) - first]))
"""


def test_a_first_fit_compiles_one_program() -> None:
    here = os.environ | {"PYTHONPATH": str(Path(tp.__file__).parents[1]), "TEMPERANCE_CACHE": "off"}
    here.pop("TEMPERANCE_ENGINE", None)
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True, env=here)
    assert json.loads(done.stdout) == [1, 0]  # the pass; other rows share it
