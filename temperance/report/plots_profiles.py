"""Profiles of the groups: the expected value of each column in each group, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UnsupportedMethod
from ..fit import Fit
from ..models.mixture.columns import Item, Profiles
from ._style import GREY, LIGHT, MARKERS, colour, grid_of_axes, plain

_MOST, _LETTERS = 24, 30  # lines of a picture, and letters of their labels
_TYPE = 9.5  # points: a phone shows a picture at three quarters of its size


def profiles(fit: Fit, level: float = 0.95, most: int = _MOST) -> Any:
    """Every column within every class (or component), with intervals: numbers in standard deviations from the mean of
    all rows, words as probabilities. At most `most` lines are drawn, those that differ most; returns the figure."""
    found = fit.profiles(level)
    numbers = [item for item in found.items if item.scale is not None]
    words = [item for item in found.items if item.scale is None]
    if not numbers and not words:
        raise UnsupportedMethod(f"{type(fit.model).__name__} has no columns to draw")
    kept = sorted(found.items, key=lambda item: -_differ(item, found))[:most]
    panels = [(name, part) for name, items in (("numbers", numbers), ("words", words))
              if (part := [item for item in items if any(item is other for other in kept)])]  # fmt: skip
    heights = [len(part) + 1.2 for _, part in panels]
    width = min(0.08 * max(len(item.name) for _, part in panels for item in part), 2.4)
    height = (0.21 + 0.037 * len(found.labels)) * sum(heights) + 0.5
    options = {"gridspec_kw": {"height_ratios": heights}}
    figure, axes = grid_of_axes(len(panels), 1, 4.0 + 0.5 * width, height, **options)
    for here, (name, part) in zip(axes[:, 0], panels, strict=True):
        _panel(here, name == "numbers", part, found)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False, fontsize=_TYPE, handletextpad=0.3)
    return figure


def _differ(item: Item, found: Profiles) -> float:
    """How far apart the classes are in this line, in standard deviations."""
    scaled = item.standardised(found.share)
    if scaled is not None:
        return float(np.ptp(scaled[0]))
    mean = float(found.share @ item.estimate / found.share.sum())
    return float(np.ptp(item.estimate) / np.sqrt(max(mean * (1.0 - mean), 1e-4)))


def _label(item: Item) -> str:
    """The label of a line; if it is too long, the column's name is shortened and the level, which tells lines apart,
    stays."""
    column, equals, level = item.name.partition(" = ")
    if not equals or len(item.name) <= _LETTERS:
        return plain(item.name, _LETTERS)
    return f"{plain(column, max(_LETTERS - len(level) - 3, 8))} = {plain(level, _LETTERS - 11)}"


def _panel(here: Any, numbers: bool, items: list[Item], found: Profiles) -> None:
    size = len(found.labels)
    offsets = np.linspace(-0.3, 0.3, size) if size > 1 else np.zeros(1)
    places = np.arange(len(items))[::-1]
    for place in places:
        here.axhline(place, color=LIGHT, linewidth=0.6, zorder=0)
    for k, label in enumerate(found.labels):
        drawn = [item.standardised(found.share) or (item.estimate, item.low, item.high) for item in items]
        value, low, high = (np.array([each[part][k] for each in drawn]) for part in range(3))
        here.errorbar(value, places - offsets[k], xerr=[value - low, high - value], fmt=MARKERS[k % len(MARKERS)],
                      color=colour(k), markersize=4, linewidth=1.2, label=f"{label}, {found.share[k]:.0%}")  # fmt: skip
    here.set_yticks(places, [_label(item) for item in items], fontsize=_TYPE)
    here.set_ylim(-0.7, len(items) - 0.3)
    here.tick_params(axis="y", length=0)
    if numbers:
        here.axvline(0.0, color=GREY, linewidth=0.8, linestyle=":")
        here.set_xlabel("standard deviations from the mean of all rows", fontsize=_TYPE)
    else:
        here.set_xlim(-0.02, 1.02)
        here.set_xlabel("probability", fontsize=_TYPE)
    here.tick_params(axis="x", labelsize=_TYPE)
