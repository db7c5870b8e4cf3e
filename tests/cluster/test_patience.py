"""Nothing waits for ever: a cluster without workers, and a partition that kills every worker it meets."""

import os
import signal

import dask
import distributed
import numpy as np
import pytest

import temperance as tp
from temperance.errors import ClusterLost, InvalidParameter, PartitionFailed
from tests.cluster.local import local_client

X = np.random.default_rng(0).normal(size=(60, 2))
CALLS = {
    "rows": lambda client: tp.fit(tp.GaussianMixture(2), X, tp.VB(), engine=client),
    "chains": lambda client: tp.fit(tp.GaussianMixture(2), X, tp.Gibbs(chains=2), engine=client),
    "models": lambda client: tp.compare([tp.GaussianMixture(k) for k in (1, 2)], X, tp.VB(), engine=client),
}


def deadly(rows):
    os.kill(os.getpid(), signal.SIGKILL)


def test_without_workers(monkeypatch):
    """Here they are threads of this process: it is the scheduler that says how many there are."""
    monkeypatch.setenv("TEMPERANCE_PATIENCE", "0.5")
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        for call in CALLS.values():
            with pytest.raises(ClusterLost, match=r"no worker for 0\.5 seconds.*start workers") as caught:
                call(client)
            assert "\n" not in str(caught.value)
        monkeypatch.setenv("TEMPERANCE_PATIENCE", "soon")
        with pytest.raises(InvalidParameter, match="TEMPERANCE_PATIENCE must be"):
            CALLS["rows"](client)


def test_a_scheduler_that_is_gone_before_the_client_knows(monkeypatch):
    """The connection is closed while a question is under way."""
    from distributed.comm.core import CommClosedError

    def closed():
        raise CommClosedError("in <TCP (closed) ConnectionPool.ncores>: Stream is closed")

    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        monkeypatch.setattr(client, "nthreads", closed)
        for call in CALLS.values():
            with pytest.raises(ClusterLost, match=r"scheduler was lost.*checkpoint") as caught:
                call(client)
            assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_partition_that_kills_its_workers_is_named():
    parts = [dask.delayed(X[:20]), dask.delayed(deadly)(X[20:40]), dask.delayed(X[40:])]
    with local_client() as client, pytest.raises(PartitionFailed, match=r"partition 1 \(part 1 .*died each time"):
        tp.fit(tp.GaussianMixture(2), parts, engine=client)


@pytest.mark.slow
def test_the_last_worker_that_dies_is_not_waited_for(monkeypatch):
    monkeypatch.setenv("TEMPERANCE_PATIENCE", "2")
    parts = [dask.delayed(X[:30]), dask.delayed(deadly)(X[30:])]
    with (
        distributed.LocalCluster(n_workers=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(os.getpid)
        for nanny in cluster.workers.values():
            nanny.auto_restart = False
        with pytest.raises(ClusterLost, match=r"no worker for 2 seconds.*died with .*deadly"):
            tp.fit(tp.GaussianMixture(2), parts, engine=client)
