"""Waiting for a cluster, in steps that Ctrl-C can end, and only for a limited time without a worker."""

from __future__ import annotations

import contextlib
import os
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import ClusterLost, InvalidParameter, TemperanceError

STEP = 0.25  # seconds between looks at the cluster
_ALIVE = ("running", "connecting")
_MOST = 120.0  # seconds without a worker, unless TEMPERANCE_PATIENCE says otherwise


def require_dask() -> Any:
    """The module `distributed`, an extra, or one sentence that says what to install."""
    try:
        import distributed
    except ImportError as error:
        raise InvalidParameter('engine needs Dask, which is not installed: pip install "temperance[dask]"') from error
    return distributed


def require_client(engine: Any) -> Any:
    """`engine`, which must be a Dask client."""
    distributed = require_dask()
    if not isinstance(engine, distributed.Client):
        raise InvalidParameter(f"engine must be a dask.distributed.Client, got {engine!r}")
    return engine


class Patience:
    """Ends a wait with an error if the scheduler is lost, or if there has been no worker for too long."""

    def __init__(self, client: Any):
        self.client, self.most = client, _most()
        self.looked = self.seen = time.monotonic()

    def look(self) -> None:
        """Check the cluster; called repeatedly during a wait."""
        require_alive(self.client)
        now = time.monotonic()
        if now - self.looked < 1.0:
            return
        self.looked = now
        if threads_of(self.client):
            self.seen = now
        elif now - self.seen >= self.most:
            raise ClusterLost(
                f"the cluster has had no worker for {self.most:g} seconds (TEMPERANCE_PATIENCE in the environment sets "
                f"how many){self._died()}: start workers, and call again"
            )

    def _died(self) -> str:
        """The tasks that were on the workers that died, as part of a sentence."""
        worst = asked(self.client, lambda: self.client.run_on_scheduler(_suspicions))
        return "; those that there were died with " + ", ".join(worst) if worst else ""


def _suspicions(dask_scheduler: Any) -> list[str]:
    """The tasks that were running on the most workers that died: tasks of this run, or tasks that make its data."""
    died = {str(task.key): task.suspicious for task in dask_scheduler.tasks.values() if task.suspicious}
    return sorted(key for key in died if died[key] == max(died.values()))[:3]


def require_alive(client: Any) -> None:
    if client.status not in _ALIVE:
        raise lost(client)


def threads_of(client: Any) -> int:
    """The threads of all workers."""
    return sum(asked(client, client.nthreads).values())


def asked(client: Any, question: Callable[[], Any]) -> Any:
    """The scheduler's answer to the question; an error if the scheduler is lost."""
    try:
        return question()
    except OSError as error:  # a closed connection, or one that cannot be made in the time that Dask allows
        raise lost(client) from error


@contextlib.contextmanager
def connected(client: Any) -> Iterator[None]:
    """Turn any error that Dask raises once the scheduler cannot be reached into one that says so."""
    from distributed.comm.core import CommClosedError

    try:
        yield
    except TemperanceError:
        raise
    except Exception as error:
        if isinstance(error, CommClosedError) or client.status not in _ALIVE:
            raise lost(client) from error
        raise


def lost(client: Any) -> ClusterLost:
    return ClusterLost(
        f"the Dask scheduler was lost (the client is {client.status!r}): the same call on another cluster continues "
        "from its last state if it was given a checkpoint"
    )


def completed(client: Any, futures: Sequence[Any]) -> Iterator[Any]:
    """Futures in the order in which they end, successfully or not."""
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    patience = Patience(client)
    for future in futures:
        future.add_done_callback(ended.put)
    for _ in futures:
        while True:
            try:
                future = ended.get(timeout=STEP)
                break
            except queue.Empty:
                patience.look()
        yield future


def _most() -> float:
    given = os.environ.get("TEMPERANCE_PATIENCE", "")
    try:
        most = float(given) if given else _MOST
    except ValueError:
        most = -1.0
    if not most > 0:
        raise InvalidParameter(f"TEMPERANCE_PATIENCE must be a number of seconds above 0, got {given!r}")
    return most
