"""Faults of a cluster during fits: each fit must end with the answer of one process, or go on from its checkpoint.

worker      a worker is killed
pause       a worker stands still for two seconds
scheduler   the scheduler is closed
network     what client and scheduler tell each other stands still for two seconds
cut         the connection of client and scheduler is cut
disk        writing to the disk takes three seconds (checkpoints are written after every step)
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import temperance as tp
from temperance.errors import ClusterLost

STILL = 2.0  # seconds that a pause takes
KINDS = ("worker", "pause", "network", "disk", "scheduler", "cut")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2)) + 4.0 * RNG.integers(0, 2, size=(600, 1))
SUMS = (RNG.random((200, 2)) < 0.5) @ RNG.normal(size=(2, 5)) * 2 + 0.3 * RNG.normal(size=(200, 5))
MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "mixture": lambda: (tp.GaussianMixture(2), X),
    "factors": lambda: (tp.FactorialMixture(2, noise=0.2, probability=0.4), SUMS),  # with local blocks
}
METHOD = tp.VB(restarts=2, max_iter=30, tol=0.0)


class Relay:
    """Passes bytes on to a port, unless it stands still."""

    def __init__(self, port: int):
        self.port, self.moving = port, threading.Event()
        self.moving.set()
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.door = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.door.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self.door.accept()
            except OSError:  # closed
                return
            try:
                there = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                here.close()
                continue
            else:
                self.pairs.append((here, there))
                for source, target in ((here, there), (there, here)):
                    threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                self.moving.wait()
                target.sendall(part)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        for pair in self.pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.door.close()
        self.cut()


@contextlib.contextmanager
def connected() -> Iterator[tuple[Any, Any, Relay]]:
    """A cluster of two workers, and a client that speaks with its scheduler through a relay."""
    import dask
    import distributed

    dask.config.set({"distributed.comm.timeouts.connect": "5s"})  # that a cluster without its scheduler closes soon
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster:
        relay = Relay(int(cluster.scheduler_address.rsplit(":", 1)[1]))
        try:
            with distributed.Client(relay.address, timeout=30) as client:
                yield cluster, client, relay
        finally:
            relay.close()


def harm(kind: str, cluster: Any, relay: Relay) -> None:
    if kind in ("worker", "pause"):
        alive = [nanny.process.pid for nanny in cluster.workers.values() if nanny.process and nanny.process.pid]
        with contextlib.suppress(ProcessLookupError):
            os.kill(alive[0], signal.SIGKILL if kind == "worker" else signal.SIGSTOP)
            if kind == "pause":
                time.sleep(STILL)
                os.kill(alive[0], signal.SIGCONT)
    elif kind == "scheduler":
        cluster.sync(cluster.scheduler.close)
    elif kind == "cut":
        relay.cut()
    elif kind == "network":
        relay.moving.clear()
        time.sleep(STILL)
        relay.moving.set()
    elif kind == "disk":
        flush, slow = os.fsync, 3.0
        os.fsync = lambda file: (time.sleep(slow), flush(file))[1]
        time.sleep(slow)
        os.fsync = flush


def one_more(kind: str, model: str, wait: float, cluster: Any, client: Any, relay: Relay, path: Path) -> dict[str, Any]:
    """Fits of a model until the fault has happened and is over; what became of the fit that it met."""
    make, expected = MODELS[model], _whole(model)
    done = threading.Thread(target=lambda: (time.sleep(wait), harm(kind, cluster, relay)))
    done.start()
    found: dict[str, Any] = {"kind": kind, "model": model, "ended": "right"}
    try:
        while True:
            over = not done.is_alive()
            if not _right(_fit(make, client, path), expected):
                found["ended"] = "wrong"
            path.unlink()
            if over or found["ended"] == "wrong":
                return found
    except ClusterLost:
        found["ended"] = "lost"
    finally:
        done.join()
    with connected() as (_, other, _):  # the same call elsewhere
        found["kept"] = path.exists()
        found["ended"] = "went on" if _right(_fit(make, other, path), expected) else "wrong"
    path.unlink()
    return found


def _fit(make: Callable[[], tuple[Any, Any]], client: Any, path: Path) -> Any:
    model, data = make()
    return tp.fit(model, data, METHOD, seed=0, engine=client, checkpoint=path, every=0.0)


_WHOLE: dict[str, Any] = {}


def _whole(name: str) -> Any:
    if name not in _WHOLE:
        model, data = MODELS[name]()
        _WHOLE[name] = tp.fit(model, data, METHOD, seed=0)
    return _WHOLE[name]


def _right(found: Any, expected: Any) -> bool:
    return bool(np.isclose(found.log_evidence, expected.log_evidence, rtol=1e-9))


def soak_cluster(count: int, seed: int, until: float, log: Path) -> dict[str, Any]:
    """So many faults of all kinds in turn; what is in the file `log` already is not done again."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")] if log.exists() else []
    while len(lines) < count and time.monotonic() < until:
        with tempfile.TemporaryDirectory() as folder, connected() as (cluster, client, relay):
            while len(lines) < count and time.monotonic() < until and client.status == "running":
                rng = np.random.default_rng([seed, len(lines)])
                kind, model = KINDS[len(lines) % len(KINDS)], ("factors" if rng.uniform() < 0.3 else "mixture")
                began = time.monotonic()
                try:
                    found = one_more(kind, model, rng.uniform(0.2, 3.0), cluster, client, relay, Path(folder) / "kept")
                except Exception as error:
                    found = {"kind": kind, "model": model, "ended": f"{type(error).__name__}: {str(error)[:300]}"}
                found["s"] = round(time.monotonic() - began, 1)
                lines.append(found)
                with log.open("a") as file:
                    file.write(json.dumps(found) + "\n")
                if kind in ("scheduler", "cut") or found["ended"] not in ("right", "went on"):
                    break
    lost = [line for line in lines if line["ended"] not in ("right", "went on")]
    kinds, ended = (dict(Counter(line[name] for line in lines)) for name in ("kind", "ended"))
    return {"faults": len(lines), "kinds": kinds, "ended": ended, "lost": lost}
