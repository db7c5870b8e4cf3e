"""Cards for notebooks: the answer, a small picture, and the next steps.

A card sets no colours: the notebook's theme, light or dark, applies.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

_WIDE, _HIGH = 180.0, 42.0  # of a picture, in pixels
_TRACE = ("elbo", "log_evidence", "log_joint", "log_likelihood")  # a run's objective: the first of these that it has


# A terminal obeys control characters, files in UTF-8 cannot hold halves of characters, and marks of direction turn the
# words around them.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object) -> str:
    """A user's text in a form that can be shown anywhere."""
    return _CONTROL.sub("�", str(text))


class Card:
    """Base of objects that notebooks show as a card; consoles show the `repr`."""

    def _card(self) -> str:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._card()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._card()}


def shown(text: object) -> str:
    """A user's text, escaped for HTML."""
    return html.escape(printable(text))


def card(
    title: str,
    lines: Sequence[str] = (),
    picture: str = "",
    table: Sequence[Sequence[str]] = (),
    next_steps: Sequence[str] = (),
) -> str:
    """The first row of a table has its headings; next steps are code."""
    text = "<br>".join(shown(line) for line in lines)
    rows = "".join(
        "<tr>"
        + "".join(
            f'<{tag} style="text-align:right;padding:1px 8px">{html.escape(printable(cell))}</{tag}>' for cell in row
        )
        + "</tr>"
        for tag, row in zip(["th", *["td"] * len(table)], table, strict=False)
    )
    steps = " · ".join(f"<code>{shown(step)}</code>" for step in next_steps)
    return (
        f'<div style="max-width:60em;overflow-x:auto"><strong>{shown(title)}</strong>'
        + (f'<div style="margin:0.3em 0">{text}</div>' if text else "")
        + (f"<div>{picture}</div>" if picture else "")
        + (
            f'<table style="margin:0.3em 0;border-collapse:collapse;color:inherit;font-size:inherit">{rows}</table>'
            if rows
            else ""
        )
        + (f'<div style="opacity:0.75">next: {steps}</div>' if steps else "")
        + "</div>"
    )


def trace(history: dict[str, np.ndarray]) -> str:
    """The objective of a run, step by step; first steps far below the others are cut off."""
    name = next((name for name in _TRACE if np.size(history.get(name, ())) > 2), None)
    if name is None:
        return ""
    values = np.asarray(history[name], dtype=float)
    values = values.mean(axis=tuple(range(1, values.ndim))) if values.ndim > 1 else values
    values = values[np.isfinite(values)]
    if len(values) < 3:
        return ""
    low, high = np.quantile(values, 0.1), values.max()
    places = np.linspace(0, len(values) - 1, min(len(values), 120)).astype(int)
    heights = np.clip((values[places] - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    points = " ".join(
        f"{2 + x:.1f},{_HIGH - 3 - (_HIGH - 6) * y:.1f}"
        for x, y in zip(np.linspace(0, _WIDE - 4, len(places)), heights, strict=True)
    )
    label = {"elbo": "the bound", "log_joint": "the log joint density"}.get(name, name.replace("_", " "))
    line = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    return _svg(line, f"{label}, step by step ({len(values)})")


def bars(labels: Sequence[str], values: Sequence[float], what: str) -> str:
    """A bar for each value; all values more than ten below the highest have equal bars."""
    found = np.asarray(values, dtype=float)
    if not np.isfinite(found).any() or len(found) < 2:
        return ""
    heights = np.clip(1.0 + (found - found[np.isfinite(found)].max()) / 10.0, 0.02, 1.0)
    step, parts = _WIDE / len(found), []
    for place, (label, height) in enumerate(zip(labels, np.nan_to_num(heights, nan=0.02), strict=True)):
        tall = (_HIGH - 14) * height
        parts.append(
            f'<rect x="{place * step + 1:.1f}" y="{_HIGH - 12 - tall:.1f}" width="{step - 2:.1f}" '
            f'height="{tall:.1f}" fill="currentColor" opacity="{0.9 if height == heights.max() else 0.4}"/>'
        )
        if step >= 9 * min(len(label), 12):
            parts.append(
                f'<text x="{(place + 0.5) * step:.1f}" y="{_HIGH - 1:.0f}" font-size="10" text-anchor="middle" '
                f'fill="currentColor">{html.escape(label[:12])}</text>'
            )
    return _svg("".join(parts), what)


def _svg(inside: str, label: str) -> str:
    return (
        f'<svg role="img" aria-label="{html.escape(label)}" width="{_WIDE:.0f}" height="{_HIGH:.0f}" '
        f'viewBox="0 0 {_WIDE:.0f} {_HIGH:.0f}"><title>{html.escape(label)}</title>{inside}</svg>'
        f'<div style="font-size:smaller;opacity:0.75">{html.escape(label)}</div>'
    )
