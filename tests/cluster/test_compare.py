"""`compare(..., engine=client)`: the fits of a comparison as tasks, with the results of one process."""

import os
import signal
import sys
import threading
import time
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import temperance as tp
from temperance.errors import ClusterLost, InvalidData, InvalidParameter
from tests.cluster.local import local_client

MODELS = {"even": tp.GaussianMixture(2, concentration=9.0), "any": tp.GaussianMixture(2)}  # of one shape
METHODS = {"VB": tp.VB(restarts=2, max_iter=20), "SVI": tp.SVI(batch_size=10, steps=5), "EP": tp.EP(max_passes=3)}


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 1)) * np.repeat([1.0, 3.0], 20)[:, None]


def same(left: Any, right: Any) -> bool:
    return bool(eqx.tree_equal(jax.tree.map(np.asarray, left), jax.tree.map(np.asarray, right)))


def check(client: Any, x: np.ndarray, methods: Any) -> None:
    here = tp.compare(MODELS, x, methods, seed=3)
    there = tp.compare(MODELS, x, methods, seed=3, engine=client)
    assert there.models == here.models and there.methods == here.methods
    np.testing.assert_array_equal(there.log_evidence, here.log_evidence)
    np.testing.assert_array_equal(there.label_correction, here.label_correction)
    for name in methods:
        for size in here.models:
            one, other = here.fit(size, name), there.fit(size, name)
            assert same(one.state, other.state) and same(one.data, other.data) and same(one.model, other.model)
    # What there is already is not fitted again.
    again = tp.compare(MODELS, x, methods, seed=3, engine=client, resume=here)
    assert again.cells[0][1].fit is here.cells[0][1].fit


@pytest.mark.slow
def test_the_fits_of_workers_are_those_of_one_process(client: Any, x: np.ndarray) -> None:
    check(client, x, {"VB": METHODS["VB"]})


@pytest.mark.slow
def test_fits_of_several_methods(client: Any, x: np.ndarray) -> None:
    check(client, x, METHODS)


def test_a_mistake_is_the_same_class_as_in_one_process(client: Any) -> None:
    with pytest.raises(InvalidData, match="1 missing value"):
        tp.compare(MODELS, [[1.0], [np.nan]], METHODS["VB"], engine=client)


def test_what_cannot_be_an_engine_or_its_data(client: Any, x: np.ndarray) -> None:
    with pytest.raises(InvalidParameter, match=r"engine must be a dask\.distributed\.Client, got 'here'"):
        tp.compare(MODELS, x, engine="here")
    with pytest.raises(InvalidParameter, match="got a Stream"):
        tp.compare(MODELS, tp.Stream(x), engine=client)


def test_without_dask_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch, x: np.ndarray) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidParameter, match=r'pip install "temperance\[dask\]"'):
        tp.compare(MODELS, x, engine=object())


@pytest.mark.slow
def test_a_killed_worker_costs_its_fits_and_not_the_comparison(x: np.ndarray) -> None:
    models = [tp.GaussianMixture(k) for k in (1, 2, 3, 4)]
    method = tp.VB(restarts=20, max_iter=500, tol=1e-12)
    here = tp.compare(models, x, method)
    with local_client() as client:

        def kill() -> None:
            time.sleep(4.0)  # in the middle of the first fits, which compile
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        there = tp.compare(models, x, method, engine=client)
        killer.join()
    np.testing.assert_array_equal(there.log_evidence, here.log_evidence)


@pytest.mark.slow
def test_topics_keep_their_corpus(client: Any) -> None:
    counts = np.random.default_rng(1).poisson(1.0, size=(30, 8))
    counts[:, 0] += 1
    models = [tp.LDA(k) for k in (2, 3)]
    here = tp.compare(models, counts, tp.VB(max_iter=10))
    there = tp.compare(models, counts, tp.VB(max_iter=10), engine=client)
    np.testing.assert_allclose(there.log_evidence, here.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(there.best_fit.transform(counts[:2]), here.best_fit.transform(counts[:2]), rtol=1e-9)


@pytest.mark.slow
def test_a_scheduler_that_is_gone_is_named(x: np.ndarray) -> None:
    with local_client(1) as client:
        pass
    with pytest.raises(ClusterLost, match="closed"):
        tp.compare(MODELS, x, METHODS["VB"], engine=client)
