"""A local cluster whose ports are nobody else's."""

import contextlib
from collections.abc import Iterator
from typing import Any

import distributed


@contextlib.contextmanager
def local_client(workers: int = 2, threads: int = 1) -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=threads, processes=True, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
