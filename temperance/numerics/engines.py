"""Which engines may be used at all: compiled kernels, unless the environment says `TEMPERANCE_ENGINE=plain`."""

from __future__ import annotations

import os


def default_engine() -> str:
    """ "auto", or "plain": every sum by JAX alone, as `make test-plain` runs all tests."""
    return os.environ.get("TEMPERANCE_ENGINE", "auto")
