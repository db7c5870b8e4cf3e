"""Independent fits as tasks of a Dask cluster: the models and methods of a comparison."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import ClusterLost
from ._dask import require_client, require_dask
from .engine import quiet
from .waiting import completed

if TYPE_CHECKING:
    from ..comparison.comparison import Cell
    from ..comparison.tasks import Task


def running(engine: Any) -> Any:
    """The client; an error unless its cluster is running."""
    client = require_client(engine)
    if client.status not in ("running", "connecting"):
        raise ClusterLost(f"engine is a client that is {client.status}: make a new one")
    return client


def threads(client: Any) -> int:
    """The number of fits that the workers run at a time."""
    return max(1, sum(client.nthreads().values()))


def fit_tasks(client: Any, tasks: list[Task], data: Any, weights: Any, seed: Any) -> Iterator[tuple[Task, Cell]]:
    """Run each task on any worker, and yield them in the order in which they end; fits come back without the data."""
    from ..comparison.tasks import fitted_elsewhere

    distributed = require_dask()
    run = uuid.uuid4().hex[:8]
    with quiet():
        # A task, not scattered data, so that Dask can make the data again if the worker that holds them dies.
        shared = client.submit(_same, (data, weights), key=f"temperance-data-{run}", pure=False)
        futures = {
            client.submit(
                fitted_elsewhere, shared, task, seed, key=f"temperance-fit-{task.name}-{task.label}-{run}", pure=False
            ): task
            for task in tasks
        }
    try:
        for future in completed(client, list(futures)):
            yield futures[future], _result(distributed, future, futures[future])
    finally:
        # Cancel tasks that nobody waits for any more.
        client.cancel([*futures, shared])


def _result(distributed: Any, future: Any, task: Task) -> Cell:
    try:
        return future.result()
    except distributed.KilledWorker:
        raise ClusterLost(
            f"{task.name} of model {task.label!r} was on more workers that died than Dask allows: is it too large for "
            "a worker's memory?"
        ) from None
    except distributed.client.FutureCancelledError:
        raise ClusterLost(f"{task.name} of model {task.label!r} was lost with the Dask scheduler") from None


def _same(value: Any) -> Any:
    return value
