"""A worker that dies costs a recomputation; a scheduler that is lost costs what came after the last checkpoint."""

import contextlib
import os
import signal
import threading

import numpy as np
import pytest

import temperance as tp
from temperance.errors import ClusterLost
from tests.cluster.local import local_client
from tests.cluster.test_fit import CASES, agree, cut

KILLS = 10  # of each model
METHOD = tp.VB(restarts=2, max_iter=60, tol=1e-8)


def kill_now_and_then(client, rng, stop, done):
    """Kill a random worker again and again, with time to come back in between."""
    while len(done) < KILLS and not stop.wait(rng.uniform(0.1, 2.0)):
        alive = [nanny.process.pid for nanny in client.cluster.workers.values() if nanny.process and nanny.process.pid]
        alive = [pid for pid in alive if pid not in done]  # a nanny may not have noticed yet
        if len(alive) == 2:
            chosen = int(rng.choice(alive))
            with contextlib.suppress(ProcessLookupError):
                os.kill(chosen, signal.SIGKILL)
                done.append(chosen)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture", "topics", "factors", "regression", "missing values"])
def test_random_kills(name):
    """Over as many fits as it takes: every one ends with the right answer."""
    make, data = CASES[name]
    one = tp.fit(make(), data, METHOD, seed=0)
    done: list[int] = []
    stop = threading.Event()
    with local_client() as client:
        killer = threading.Thread(target=kill_now_and_then, args=(client, np.random.default_rng(0), stop, done))
        killer.start()
        try:
            while killer.is_alive():
                agree(one, tp.fit(make(), cut(data, (12,) * 5), METHOD, seed=0, engine=client))
        finally:
            stop.set()
            killer.join()
    assert len(done) == KILLS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture", "factors"])
def test_a_run_whose_scheduler_is_lost_goes_on_from_its_checkpoint(name, tmp_path):
    make, data = CASES[name]
    one = tp.fit(make(), data, METHOD, seed=0)
    path = tmp_path / "run"
    call = dict(seed=0, checkpoint=path, every=0.0)
    with local_client() as client:
        timer = threading.Timer(4.0, lambda: client.sync(client.cluster.scheduler.close))
        timer.start()
        try:
            with pytest.raises(ClusterLost, match="checkpoint"):
                while True:
                    tp.fit(make(), cut(data), METHOD, engine=client, **call)
                    path.unlink()
        finally:
            timer.cancel()
    with local_client() as client:
        agree(one, tp.fit(make(), cut(data), METHOD, engine=client, **call))


@pytest.mark.slow
def test_a_run_cut_short_goes_on_to_the_same_bits(client, tmp_path):
    """With local blocks, which the checkpoint keeps beside it."""
    make, data = CASES["factors"]
    whole = tp.fit(make(), cut(data), tp.VB(restarts=2, max_iter=30), seed=0, engine=client)
    path = tmp_path / "run"
    for steps in (3, 30):
        fit = tp.fit(make(), cut(data), tp.VB(restarts=2, max_iter=steps), seed=0, engine=client, checkpoint=path)
    assert fit.log_evidence == whole.log_evidence
    np.testing.assert_array_equal(fit.history["elbo"], whole.history["elbo"])
    assert [kept.name for kept in tmp_path.iterdir() if ".local-" in kept.name]


@pytest.mark.slow
def test_the_chain_of_walks_is_cut(client, monkeypatch):
    """Local blocks then pass through the client, and nothing changes."""
    import temperance.cluster.engine as engine

    make, data = CASES["factors"]
    method = tp.VB(restarts=2, max_iter=30)
    one = tp.fit(make(), data, method, seed=0)
    cuts = []
    put = engine.Session.put
    monkeypatch.setattr(engine, "_LEAST", 0)
    monkeypatch.setattr(engine.Session, "_local_bytes", lambda self: 0)
    monkeypatch.setattr(engine.Session, "put", lambda self, *given: cuts.append(1) or put(self, *given))
    agree(one, tp.fit(make(), cut(data), method, seed=0, engine=client))
    assert cuts
