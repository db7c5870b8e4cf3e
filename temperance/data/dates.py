"""Dates as people write them, as days since the beginning of 1970, and times of day as parts of a day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from ._patterns import pattern

_LIKE = pattern(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?|\d{1,2}[ -.]+[A-Za-z]{3,9}[ -.,]+\d{2,4}.*"
                   r"|[A-Za-z]{3,9} \d{1,2},? \d{4}.*|(19|20)\d\d-(0[1-9]|1[0-2])")  # fmt: skip
_TIME = pattern(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d.%m.%y", "%m/%d/%y",
         "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%b %d %Y", "%Y-%m")  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", "T%H:%M:%S", "T%H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_MONTH = pattern(r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?", re.IGNORECASE)
_ZONE = pattern(r"(:\d\d(?:\.\d+)?(?: ?[AaPp][Mm])?) ?(?:Z|(?:UTC|GMT)?(?:[+-]\d{1,2}(?::?\d\d)?)?)")
_NAMES = {"%Y": "year", "%y": "year", "%m": "month", "%b": "month", "%d": "day"}


def parse_dates(cells: Sequence[str | None]) -> tuple[np.ndarray, str] | None:
    """Days since 1970 (NaN where a cell is None) and the format in words; None if the cells are not dates."""
    distinct = {cell for cell in cells if cell is not None}
    times = {cell: _TIME.fullmatch(cell) for cell in distinct}
    if distinct and all(times.values()):
        days = {cell: _part_of_a_day(*found.groups("0")) for cell, found in times.items() if found}
        return np.array([np.nan if cell is None else days[cell] for cell in cells]), "times of day"
    if not distinct or not all(_LIKE.fullmatch(cell) for cell in distinct):
        return None
    plain = {cell: _ZONE.sub(r"\1", _MONTH.sub(r"\1", cell)) for cell in distinct}
    for form in (day + time for day in _DAYS for time in _TIMES):
        try:
            days = {cell: _days(text, form) for cell, text in plain.items()}
        except ValueError:
            continue
        order = "/".join(_NAMES[part] for part in re.findall("%[a-zA-Z]", form)[:3])
        return np.array([np.nan if cell is None else days[cell] for cell in cells]), f"dates ({order})"
    return None


def _days(text: str, form: str) -> float:
    return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() / 86400


def _part_of_a_day(hour: str, minute: str, second: str) -> float:
    return (3600 * int(hour) + 60 * int(minute) + int(second)) / 86400
