"""Which engines may be used at all: compiled kernels, unless the environment says `TEMPERANCE_ENGINE=plain`."""

from __future__ import annotations

import os


def default_engine() -> str:
    """ "auto", or "plain" for sums by JAX alone (as in `make test-plain`)."""
    return os.environ.get("TEMPERANCE_ENGINE", "auto")
