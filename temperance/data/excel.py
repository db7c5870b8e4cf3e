"""Excel files, read by openpyxl if that is installed: the sheet with the most filled cells, as csv."""

from __future__ import annotations

import csv
import io
import warnings
import zipfile
from datetime import datetime, time
from typing import Any

from ..errors import DamagedFile, InvalidData, TemperanceError
from .memory import require_memory

_GROWTH = 10  # bytes of memory that cells take per byte of a sheet's XML


def is_excel(content: bytes) -> bool:
    """Whether these are the bytes of an .xlsx or .xlsm file."""
    return content[:4] == b"PK\x03\x04" and b"xl/workbook" in content


def csv_of_excel(content: bytes, name: str) -> tuple[bytes, str]:
    """The sheet with the most filled cells as csv, and its name; empty rows and columns are left out."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise InvalidData(
            f"{name} is an Excel file, which needs one more package (pip install openpyxl); or save it as csv"
        ) from error
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        require_memory(_GROWTH * size, f"the cells of {name}")
        with warnings.catch_warnings(action="ignore"):  # openpyxl warns of styles that it does not know
            book = load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            read = {sheet.title: [[_cell(value) for value in row] for row in sheet.values] for sheet in book.worksheets}
    except TemperanceError:
        raise
    except Exception as error:  # openpyxl checks little of what it reads
        raise DamagedFile(f"{name} is damaged or cut short: {' '.join(str(error).split())[:300]}") from error
    sheets = {title: [row for row in sheet if any(row)] for title, sheet in read.items()}
    sheets = {title: rows for title, rows in sheets.items() if rows}
    if not sheets:
        raise InvalidData(f"{name} has no sheet with data")
    title, rows = max(sheets.items(), key=lambda item: sum(bool(cell) for row in item[1] for cell in row))
    width = max(map(len, rows))
    filled = [row + [""] * (width - len(row)) for row in rows]
    kept = [place for place in range(width) if any(row[place] for row in filled)]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([[row[place] for place in kept] for row in filled])
    return file.getvalue().encode(), name if len(sheets) == 1 else f"{name}, sheet {title!r}"


def _cell(value: Any) -> str:
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return "" if value is None else str(value).strip()
