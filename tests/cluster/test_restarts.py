"""Restarts and chains of data in memory as tasks: the run that one process makes, put together from parts."""

import os
import signal
import threading
import time
from typing import Any

import jax
import numpy as np
import pytest

import temperance as tp
from temperance.cluster.restarts import join_runs
from temperance.errors import ClusterLost, InvalidParameter, NumericalFailure
from temperance.inference._method import Run
from tests.cluster.local import local_client
from tests.tiers import with_slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 1)) * np.repeat([1.0, 3.0], 20)[:, None]
COUNTS = RNG.poisson(1.0, size=(30, 8)) + (np.arange(8) == 0)


def agree(one: tp.Fit, other: tp.Fit) -> None:
    """History, evidence, posterior and draws."""
    assert (one.converged, other.notes) == (other.converged, one.notes)
    found = [(fit.log_evidence, fit.history, fit.state, fit.posterior) for fit in (one, other)]
    for a, b in zip(*map(jax.tree.leaves, found), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype.kind == "U":
            assert (a == b).all()
            continue
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9 * np.abs(a[np.isfinite(a)]).max(initial=0.0))


CASES: dict[str, tuple[Any, Any, Any]] = {
    "VB": (tp.GaussianMixture(2), X, tp.VB(restarts=3, max_iter=60)),
    "Gibbs": (tp.GaussianMixture(2), X, tp.Gibbs(draws=20, warmup=5, chains=2)),
    "SVI": (tp.GaussianMixture(2), X, tp.SVI(batch_size=10, held_out=0.2, patience=2, passes=30, restarts=3)),
    "tempering": (tp.GaussianMixture(2), X, tp.ParallelTempering(draws=40, warmup=32, replicas=4, chains=2)),
    "EP": (tp.GaussianMixture(2), X, tp.EP(restarts=3, max_passes=5)),
    "EM": (tp.GaussianMixture(2), X, tp.EM(restarts=3, max_iter=30)),
    "collapsed": (tp.GaussianMixture(2), X, tp.CollapsedGibbs(draws=20, warmup=5, chains=2)),
    "AIS": (tp.GaussianMixture(2), X, tp.AIS()),
    "topics": (tp.LDA(2), COUNTS, tp.VB(restarts=2, max_iter=20)),
    "sequences": (tp.HMM(2), X, tp.VB(restarts=2, max_iter=20)),
    "moves": (tp.GaussianMixture(3), X, tp.VB(restarts=2, max_iter=60, moves=True)),
    "annealed": (tp.GaussianMixture(2), X, tp.Annealed(tp.VB(restarts=2, max_iter=30), length=10)),
}


@pytest.mark.parametrize("name", with_slow(CASES, *(set(CASES) - {"VB"})))
def test_the_same_as_in_one_process(client: Any, name: str) -> None:
    model, data, method = CASES[name]
    agree(tp.fit(model, data, method, seed=3), tp.fit(model, data, method, seed=3, engine=client))


def test_runs_of_unequal_length_are_put_together() -> None:
    def part(steps: int, bounds: list[float]) -> Run:
        elbo = np.arange(steps)[:, None] + np.asarray(bounds)
        return Run({"a": np.asarray(bounds)}, elbo[-1], {"elbo": elbo}, np.ones(len(bounds), bool), 1.0, False)

    whole = join_runs([part(2, [1.0, 2.0]), part(4, [5.0])])
    np.testing.assert_array_equal(whole.history["elbo"], [[1, 2, 5], [2, 3, 6], [2, 3, 7], [2, 3, 8]])
    np.testing.assert_array_equal(whole.states["a"], [1, 2, 5])
    np.testing.assert_array_equal(whole.bounds, [2, 3, 8])


@pytest.mark.slow
def test_restarts_that_fail_are_left_out_unless_all_do(client: Any) -> None:
    """As in one process: with two equal rows a component collapses onto them from some starts."""
    x = np.concatenate([np.zeros((4, 1)), RNG.normal(size=(8, 1)) + 3.0])
    method = tp.EM(restarts=6, max_iter=200)
    try:
        one = tp.fit(tp.GaussianMixture(3), x, method, seed=0)
    except NumericalFailure:
        with pytest.raises(NumericalFailure):
            tp.fit(tp.GaussianMixture(3), x, method, seed=0, engine=client)
    else:
        agree(one, tp.fit(tp.GaussianMixture(3), x, method, seed=0, engine=client))


def test_refusals(client: Any, tmp_path: Any) -> None:
    with pytest.raises(InvalidParameter, match="checkpoint cannot be kept of Gibbs on a cluster"):
        tp.fit(tp.GaussianMixture(2), X, tp.Gibbs(), engine=client, checkpoint=tmp_path / "run")


@pytest.mark.slow
def test_a_closed_client_is_named() -> None:
    with local_client(1) as client:
        pass
    with pytest.raises(ClusterLost, match="closed"):
        tp.fit(tp.GaussianMixture(2), X, tp.Gibbs(), engine=client)


@pytest.mark.slow
def test_a_killed_worker_costs_its_chains_and_not_the_fit() -> None:
    method = tp.Gibbs(draws=2000, warmup=500, chains=4)
    one = tp.fit(tp.GaussianMixture(2), X, method, seed=0)
    with local_client() as client:

        def kill() -> None:
            time.sleep(4.0)  # in the middle of the first chains, which compile
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        other = tp.fit(tp.GaussianMixture(2), X, method, seed=0, engine=client)
        killer.join()
    agree(one, other)
