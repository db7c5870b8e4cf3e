"""Independent calls as tasks of a Dask cluster: the models and methods of a comparison, or the restarts of one fit."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ClusterLost
from .engine import quiet
from .waiting import completed, connected, require_client, require_dask, threads_of
from .worker import same

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
    return max(1, threads_of(client))


class Call(NamedTuple):
    """One task: its key within the run, its arguments beside those that all share, and its name in a message."""

    key: str
    arguments: tuple[Any, ...]
    name: str


def each_done(client: Any, function: Callable[..., Any], shared: Any, calls: list[Call]) -> Iterator[tuple[int, Any]]:
    """The number and the result of each call `function(shared, *arguments)`, in the order in which they end."""
    with connected(client):
        yield from _each_done(client, function, shared, calls)


def _each_done(client: Any, function: Callable[..., Any], shared: Any, calls: list[Call]) -> Iterator[tuple[int, Any]]:
    run = uuid.uuid4().hex[:8]
    with quiet():
        # A task, not scattered data, so that Dask can make the data again if the worker that holds them dies.
        held = client.submit(same, shared, key=f"temperance-data-{run}", pure=False)
        futures = {
            client.submit(function, held, *call.arguments, key=f"temperance-{call.key}-{run}", pure=False): number
            for number, call in enumerate(calls)
        }
    try:
        for future in completed(client, list(futures)):
            yield futures[future], _result(future, calls[futures[future]].name)
    finally:
        # Cancel tasks that nobody waits for any more.
        client.cancel([*futures, held])


def fit_tasks(client: Any, tasks: list[Task], data: Any, weights: Any, seed: Any) -> Iterator[tuple[Task, Cell]]:
    """Run each task on any worker, and yield them in the order in which they end; fits come back without the data."""
    from ..comparison.tasks import fitted_elsewhere

    calls = [
        Call(f"fit-{task.name}-{task.label}", (task, seed), f"{task.name} of model {task.label!r}") for task in tasks
    ]
    for number, cell in each_done(client, fitted_elsewhere, (data, weights), calls):
        yield tasks[number], cell


def _result(future: Any, name: str) -> Any:
    distributed = require_dask()
    try:
        return future.result()
    except distributed.KilledWorker:
        raise ClusterLost(
            f"{name} was on more workers that died than Dask allows: is it too large for a worker's memory?"
        ) from None
    except distributed.client.FutureCancelledError:
        raise ClusterLost(f"{name} was lost with the Dask scheduler") from None
