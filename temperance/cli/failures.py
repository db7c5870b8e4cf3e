"""Any exception as one sentence and an exit code: the only place where the command line decides what went wrong."""

from __future__ import annotations

import csv
import traceback
import zipfile
import zlib
from typing import Any

import typer

from ..errors import NumericalFailure, TemperanceError

FAILED, BAD_INPUT = 1, 2

# Typer brings its own copy of click, or uses the installed one, depending on its version.
_CLICK: Any = typer.BadParameter.__bases__[0].__bases__[0]
# A ValueError that is not ours comes from a data set's reader, or from a file.
_ABOUT_INPUT = (TemperanceError, ValueError, csv.Error, zipfile.BadZipFile, zlib.error)


def explain(error: BaseException, shown: bool = False) -> tuple[str, int]:
    """The sentence for an error, and the exit code; with `shown` the traceback is printed first."""
    if shown:
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "interrupted before there was a result", FAILED
    if isinstance(error, _CLICK):
        return error.format_message(), BAD_INPUT
    if isinstance(error, NumericalFailure):
        return str(error), FAILED
    if isinstance(error, _ABOUT_INPUT):
        return str(error), BAD_INPUT
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", BAD_INPUT
    if isinstance(error, MemoryError):
        return f"there is not enough memory for this{f' ({error})' if str(error) else ''}", FAILED
    if isinstance(error, OSError | ImportError):
        return str(error) or type(error).__name__, FAILED
    return f"unexpected {type(error).__name__}: {error}; run it with --traceback to see where", FAILED
