"""One local cluster of two processes for all tests of this folder."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.local import local_client


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    with local_client() as here:
        yield here
