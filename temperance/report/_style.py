"""The style of plots: colours that everyone can tell apart, also in print, and no clutter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InvalidParameter
from ..summary import heading

# Okabe and Ito's palette; methods also differ in marker and line, so that grey paper is enough.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), "-")
GREY, LIGHT = "#777777", "#d0d0d0"


def axes_or_new(axes: Any, width: float = 6.0, height: float = 3.6) -> Any:
    """The given axes, or the axes of a new figure without a frame at the top and on the right."""
    if axes is None:
        from matplotlib.figure import Figure

        axes = Figure(figsize=(width, height), layout="constrained").subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def grid_of_axes(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes, made without pyplot, so that nothing is left open and no window appears."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for each in axes.ravel():
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def in_percent(axis: Any) -> None:
    """Label an axis of shares or probabilities in per cent."""
    axis.set_major_formatter(lambda share, _: f"{100 * share:.6g}%")


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def plain(name: Any, most: int = 40) -> str:
    """A user's name for a plot: shortened, and escaped so that Matplotlib does not read it as a formula."""
    return heading(name, most).replace("$", r"\$")


def column_names(names: Any, columns: int) -> list[Any]:
    """One name for each column: the user's, or their numbers."""
    if names is None:
        return [f"column {place + 1}" for place in range(columns)]
    if not isinstance(names, Sequence | np.ndarray) or len(names) != columns:
        raise InvalidParameter(f"names must be {columns}, one for each column, got {names!r}")
    return list(names)


def thin(points: np.ndarray, most: int = 4000) -> np.ndarray:
    """At most `most` evenly spaced points; more would only make a picture heavier."""
    return points if len(points) <= most else points[np.linspace(0, len(points) - 1, most).astype(int)]
