"""Settings for the tests of families."""

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Threads for matrices this small wait for each other more than they compute."""
    with threadpool_limits(1):
        yield
