"""Dask, which is an extra: only this folder imports it."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidParameter


def require_dask() -> Any:
    """The module `distributed`, or one sentence that says what to install."""
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
