"""Plots of the evidence: the Ockham hill, and the course of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..comparison.comparison import Cell, Comparison
from ..errors import InvalidParameter
from ..fit import Fit
from ._style import GREY, LINES, MARKERS, axes_or_new, colour, plain

_BESIDE = 6  # most sizes whose values fit side by side


def hill(comparison: Comparison, axes: Any = None, *, labels: bool = True) -> Any:
    """The Ockham hill: the log evidence of each model by each method, all labellings counted.

    Dots are restarts, bands the brackets of Monte Carlo methods, open markers results that are not to be trusted.
    `labels=False` leaves out the correction for labels.
    """
    axes = axes_or_new(axes)
    places = np.arange(len(comparison.models))
    tops = []
    for number, (name, row) in enumerate(zip(comparison.methods, comparison.cells, strict=True)):
        shade, shift = colour(number), 0.06 * (number - (len(comparison.methods) - 1) / 2)
        values = np.array([_value(cell, labels) for cell in row])
        for place, cell in zip(places, row, strict=True):
            starts = _restarts(cell) + (cell.label_correction if labels else 0.0)
            axes.plot(np.full(len(starts), place + shift), starts, ".", color=shade, markersize=3, alpha=0.35)
        _band(axes, places, row, shade)
        believed = np.array([cell.usable for cell in row])
        line = np.where(believed, values, np.nan)
        style: dict[str, Any] = {"color": shade, "linestyle": LINES[number % len(LINES)], "label": plain(name)}
        axes.plot(places, line, marker=MARKERS[number % len(MARKERS)], markersize=6, **style)
        doubtful = np.isfinite(values) & ~believed
        marker = MARKERS[number % len(MARKERS)]
        axes.plot(places[doubtful], values[doubtful], marker, color=shade, markerfacecolor="none", linestyle="none")
        tops.append(line)
    axes.axvline(list(comparison.models).index(comparison.best), color=GREY, linewidth=0.8, linestyle=":", zorder=0)
    axes.set_xticks(places, [plain(model) for model in comparison.models])
    if not comparison.size_name.endswith("s") and comparison.size_name == "model":
        axes.tick_params(axis="x", rotation=20)
    axes.set(xlabel=plain(comparison.size_name), ylabel="log evidence (nats)")
    _focus(axes, places, np.array(tops))
    if len(comparison.methods) > 1:
        axes.legend(frameon=False, fontsize=8)
    return axes


def _value(cell: Cell, labels: bool) -> float:
    value = cell.total if labels else cell.log_evidence
    return value if np.isfinite(value) else np.nan


def _restarts(cell: Cell) -> np.ndarray:
    """The log evidence of every restart that is to be trusted."""
    if cell.fit is None:
        return np.array([])
    values = np.asarray(cell.fit.history.get("restarts", []), dtype=np.float64)
    converged = cell.fit.details.get("restarts_converged")
    if converged is not None and len(converged) == len(values):
        values = values[np.asarray(converged)]
    return values[np.isfinite(values)]


def _band(axes: Any, places: np.ndarray, row: tuple[Cell, ...], shade: str) -> None:
    brackets = [None if cell.fit is None else cell.fit.bracket for cell in row]
    if any(bracket is not None for bracket in brackets):
        low, high = np.array([bracket or (np.nan, np.nan) for bracket in brackets], dtype=np.float64).T
        axes.fill_between(places, low, high, color=shade, alpha=0.18, linewidth=0)


def _focus(axes: Any, places: np.ndarray, tops: np.ndarray) -> None:
    """Limit the axis to the interesting part, so that a hopeless size or restart does not flatten the hill; its value
    is written at the edge."""
    values = tops[np.isfinite(tops)]
    if len(values) < 3:
        return
    top = values.max()
    low = max(values.min(), top - 4.0 * max(np.median(top - values), 1.0))
    room = 0.08 * max(top - low, 1.0)
    axes.set_ylim(low - room, top + 2 * room)
    highest = np.max(np.where(np.isfinite(tops), tops, -np.inf), axis=0)
    for place, value in zip(places, highest, strict=True):
        if np.isfinite(value) and value < low - room:
            shown, turned = f"{value:.0f}".replace("-", "−"), len(places) > _BESIDE
            words = f"← {shown}" if turned else f"{shown} ↓"  # the arrow points down either way
            axes.annotate(words, (place, 0.02), xycoords=("data", "axes fraction"), fontsize=8, color=GREY,
                          ha="center", va="bottom", rotation=90 * turned)  # fmt: skip


TRACES = {"elbo": "bound", "log_evidence": "ln s", "log_joint": "log joint density"}


def trace(fit: Fit, axes: Any = None) -> Any:
    """The course of a run, step by step: its bound, ln s or log joint density, and its temperature, if it has one."""
    axes = axes_or_new(axes)
    key = next((key for key in TRACES if key in fit.history), None)
    if key is None:
        raise InvalidParameter(f"{fit.method.name} kept no history of a bound to draw")
    values = np.asarray(fit.history[key], dtype=np.float64)
    steps = np.arange(1, len(values) + 1)
    columns = values.reshape((len(values), -1))
    for number in range(columns.shape[1]):
        axes.plot(steps, columns[:, number], color=colour(number), linewidth=1.2)
    finite = columns[np.isfinite(columns)]
    if len(finite) > 8:
        # The first steps climb from far below and would hide the rest.
        low, top = np.quantile(finite, 0.05), finite.max()
        axes.set_ylim(low - 0.5 * max(top - low, 1e-9), top + 0.15 * max(top - low, 1e-9))
    axes.set(xlabel="step", ylabel=TRACES[key])
    if "temperature" in fit.history:
        other = axes.twinx()
        other.spines[["top"]].set_visible(False)
        other.plot(steps, np.asarray(fit.history["temperature"]).reshape(len(steps), -1)[:, 0], "--", color=colour(1))
        other.set_ylabel("temperature (dashed)", color=colour(1))
    return axes
