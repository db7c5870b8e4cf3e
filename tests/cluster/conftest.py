"""One local cluster of two processes for all tests of this folder."""

from collections.abc import Iterator
from typing import Any

import pytest

distributed = pytest.importorskip("distributed", reason="Dask is not installed")


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as here,
    ):
        yield here
