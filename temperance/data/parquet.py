"""Parquet files, read by PyArrow if that is installed; their content is validated before it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..errors import DamagedFile, InvalidData


def require_pyarrow(name: str) -> Any:
    """The module `pyarrow`, or one sentence that says what to install."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidData(f"{name} is a parquet file, which needs one more package: pip install pyarrow") from error
    return pyarrow


@contextlib.contextmanager
def parquet_errors(name: str) -> Iterator[None]:
    """Turn PyArrow's errors about a damaged file into one sentence."""
    arrow = require_pyarrow(name)
    try:
        yield
    except (arrow.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise DamagedFile(f"{name} is damaged or cut short: {' '.join(str(error).split())[:300]}") from error


def read_parquet(source: Any, name: str) -> Any:
    """The table of a path or of a file in memory. Its text is valid UTF-8, and no offset points outside of it."""
    with parquet_errors(name):
        table = require_pyarrow(name).parquet.read_table(source)
        table.validate(full=True)
    return table
