"""Codes that stand for missing values among numbers: −9, −99 or 999, as surveys and stations write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .schema import shortened

CODES = (-9, -8, -99, -98, -97, -88, -77, -999, -998, -888, -9999, -99999, -9.99, -99.9,
         77, 88, 97, 98, 99, 888, 997, 998, 999, 8888, 9999, 99999, 999999)  # fmt: skip
_CERTAIN = 90.0  # the least size of a code among numbers with decimals, where −9 may be a measurement


def odd_codes(seen: np.ndarray) -> list[float]:
    """Values that may stand for missing ones; each is the largest or the smallest once those before it are removed."""
    found: list[float] = []
    while (value := _odd_code(seen)) is not None:
        found.append(value)
        seen = seen[seen != value]
    return sorted(found)


def _odd_code(seen: np.ndarray) -> float | None:
    """The smallest or the largest value, if it lies apart from all others and is a usual code for missing values."""
    for value, others in ((seen.min(), seen[seen > seen.min()]), (seen.max(), seen[seen < seen.max()])):
        distinct, times = np.unique(others, return_counts=True)
        if value not in CODES or len(distinct) < 2:
            continue
        count, span, apart = int((seen == value).sum()), np.ptp(others), np.abs(value - others).min()
        often = count >= 3 * times.max() and count >= 3 and apart > 0.1 * span
        plain = others[~np.isin(others, CODES)]
        if often or apart > 2 * max(span, 1.0) or (value < 0 and plain.size and plain.min() >= 0):
            return float(value)
    return None


def may_be_coded(values: np.ndarray | None) -> bool:
    """Whether the smallest or the largest number is a usual code for missing values."""
    if values is None or not values.size:
        return False
    return bool(np.isin([np.fmin.reduce(values), np.fmax.reduce(values)], CODES).any())


def shared_codes(columns: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """For each column the codes that stand for missing values without doubt.

    A value is a code if it lies far outside the other values in two columns or more. It is then also a code in columns
    where it merely lies apart and is frequent, and so are the other negative codes of such a column.
    """
    votes: dict[float, int] = {}
    for values in columns.values():
        for value in _far_codes(values):
            votes[value] = votes.get(value, 0) + 1
    known = {value for value, count in votes.items() if count >= 2}
    found: dict[str, list[float]] = {}
    for name, values in columns.items():
        seen = values[~np.isnan(values)]
        here = known.intersection({*_far_codes(values, 0.1), *(odd_codes(seen) if seen.size else ())})
        below = set(seen[seen < 0].tolist())
        if any(value < 0 for value in here) and below <= {*CODES, *range(-9, 0)}:
            here |= below
        if here:
            found[name] = sorted(here)
    return found


def _far_codes(values: np.ndarray, enough: float = 2.0) -> list[float]:
    """Codes that lie outside all other values by more than twice the range of these (or by `enough` ranges, if the code
    is twice as frequent as they are), or that are frequent negative whole numbers where no other value is negative."""
    seen = values[~np.isnan(values)]
    distinct, times = np.unique(seen, return_counts=True)
    coded = np.isin(distinct, CODES)
    if (coded & (distinct < -9)).any():
        coded |= (distinct < 0) & (distinct >= -9) & (distinct == np.round(distinct))  # −1 and −2 beside −99
    plain, usual = distinct[~coded], times[~coded]
    if len(plain) < 2 or 2 * usual.sum() < len(seen):
        return []
    whole, low, span = bool((plain == np.round(plain)).all()), plain[0], np.ptp(plain)
    found = []
    for value, count in zip(distinct[coded].tolist(), times[coded].tolist(), strict=True):
        apart = max(low - value, value - plain[-1])
        far = apart > 2 * max(span, 1.0) and (whole or abs(value) > _CERTAIN or value % 1 != 0)
        often = apart > enough * max(span, 1.0) and count >= max(3, 2 * np.median(usual))
        negative = value < 0 <= low and whole and (apart > span or count >= max(2, np.median(usual)))
        if far or (often and whole) or negative:
            found.append(value)
    return found


def said_of(codes: Mapping[str, Sequence[float]], columns: Mapping[str, np.ndarray]) -> str:
    """Which codes are taken for missing values, how often they occur, in which columns, and how to keep them."""
    values = sorted({value for each in codes.values() for value in each})
    cells = int(sum(np.isin(columns[name], each).sum() for name, each in codes.items()))
    shown = [plain(value) for value in values]
    listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    verb = "is taken for a missing value" if len(shown) == 1 else "are taken for missing values"
    lies = "it lies" if len(shown) == 1 else "they lie"
    keep = "it is a value" if len(shown) == 1 else "they are values"
    return (
        f"{listed} {verb} in {cells} cells of {shortened(tuple(codes))}, where {lies} far outside the other numbers: "
        f"if {keep}, say --na '' (missing=[] in Python)"
    )


def plain(value: float) -> str:
    """A number, without a decimal point if it is whole."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**63 else repr(float(value))
