"""Plots that compare topics: a map, groups of documents, time, and the number of topics."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any
from unicodedata import east_asian_width

import numpy as np

from ..comparison.topic_sizes import TopicSizes
from ..diagnostics.topic_map import free_labels, laid_out, topic_distances, topic_positions
from ..errors import InvalidParameter
from ..fit import Fit
from ..inference.monte_carlo.effects import Effects
from ..models._answers import Topical, require
from ..models.topics.report import TopicsBy
from ._facts import topics_of
from ._style import COLOURS, GREY, MARKERS, axes_or_new, colour, grid_of_axes, in_percent, plain

_NAMED = 25  # topics whose words are on the map
_ROOM, _EDGE, _SMALL = (490.0, 345.0), 45.0, 7.0  # of the map in points (1/72 inch): size, margin, letters
_DAY = re.compile(r"\d+-\d\d")  # how the names of months and days begin; those of years and numbers do not
_TITLE = 22  # letters of a line above a panel: more would run into the next one


def topic_map(fit: Fit, axes: Any = None, n_words: int = 3) -> Any:
    """Topics as circles, as large as their shares; if there are at most 25, with their most telling words below.

    Topics with similar words are near each other (Jensen–Shannon distances in two dimensions); circles that would hide
    each other are moved apart."""
    points, kept, shares = map_of(fit)
    axes = axes_or_new(axes, 7.2, 5.2)
    radius = np.maximum(42.0 * np.sqrt(shares), 7.0)
    centres = laid_out(points, radius, _ROOM, _EDGE)
    axes.scatter(*centres.T, s=np.pi * radius**2, color=COLOURS[0], alpha=0.35, edgecolors=COLOURS[0], linewidths=0.8)
    for number, (x, y) in enumerate(centres, 1):
        axes.text(x, y, str(number), ha="center", va="center", fontsize=7.5)
    if len(points) <= _NAMED:
        topics = topics_of(fit, n_words)
        words = [f"{k}: {' '.join(plain(word, 20) for word, _ in topic)}" for k, topic in enumerate(topics, 1)]
        for label, (x, y) in zip(words, _labels(words, centres, radius), strict=True):
            axes.text(x, y, label, ha="center", va="center", fontsize=_SMALL)
    axes.set(xlim=(0.0, _ROOM[0]), ylim=(0.0, _ROOM[1]), xticks=[], yticks=[])
    axes.set_xlabel(f"{kept:.0%} of the squared distances between topics are seen in the plane", fontsize=8, color=GREY)
    return axes


def _labels(words: Sequence[str], centres: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Where words can be read: below the circles, but not across a number or other words."""
    half = np.array(
        [(0.3 * _SMALL * sum(1 + (east_asian_width(c) in "WF") for c in text), 0.65 * _SMALL) for text in words]
    )
    numbers = np.full((len(words), 2), 0.65 * _SMALL)
    below = centres - np.stack([np.zeros(len(words)), radius + half[:, 1]], axis=1)
    return free_labels(np.concatenate([centres, below]), np.concatenate([numbers, half]), _ROOM)[len(words) :]


def map_of(fit: Fit) -> tuple[np.ndarray, float, np.ndarray]:
    """Points (topics, 2), by the numbers of the topics, the fraction of the distances that they show, and the share of
    each topic."""
    model = require(fit.model, Topical)
    points, kept = topic_positions(topic_distances(model.distributions(fit._families())[fit.order]))
    return points, kept, np.asarray(fit.columns()["share"])


def topics_by(found: TopicsBy, topics: Sequence[int] | None = None) -> Any:
    """Shares of topics in groups of documents, or over time, with intervals; returns the figure.

    `found` is the result of `fit.topics_by` or `effects.shares`. `topics` are the places in `found.share` of the topics
    to show; by default they are the nine that differ most between the groups.
    """
    if not isinstance(found, TopicsBy):
        raise InvalidParameter(f"found must come from fit.topics_by(values), got {type(found).__name__}")
    shown = _most_different(found)[:9] if topics is None else list(topics)
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    labels = [plain(name) for name in found.labels]
    turned = found.positions is None and max(map(len, labels)) * len(labels) > 28
    figure, axes = grid_of_axes(rows, columns, 3.1 * columns, (3.2 if turned else 2.4) * rows)
    places = np.arange(len(found.labels)) if found.positions is None else found.positions
    numbers = {k: number for number, k in enumerate(found.order.tolist(), 1)}
    for here, k in zip(axes.ravel(), shown, strict=False):
        share, low, high = found.share[:, k], found.low[:, k], found.high[:, k]
        if found.positions is None:
            here.errorbar(places, share, [share - low, high - share], fmt="o", color=colour(0), markersize=4, capsize=2)
            here.set_xticks(places, labels, fontsize=7, **({"rotation": 45, "ha": "right"} if turned else {}))
            here.set_xlim(-0.5, len(places) - 0.5)
        else:
            here.fill_between(places, low, high, color=colour(0), alpha=0.25, linewidth=0)
            here.plot(places, share, color=colour(0), marker="o", markersize=3)
            if all(map(_DAY.match, found.labels)):  # "2008-01", "2008-01 to 2008-03" or "2008-01-15"
                days = [label.split()[0] for label in labels]
                marked = sorted({0, len(days) - 1, *([(len(days) - 1) // 2] if len(days[0]) < 8 else [])})
                here.set_xticks(places[marked], [days[g] for g in marked])
        here.set_ylim(0.0, None)
        words = " ".join(plain(word, 20) for word in found.words[k].split())
        lines = textwrap.wrap(f"{numbers[k]}: {words}", _TITLE, max_lines=2, placeholder=" …")
        here.set_title("\n".join(lines), fontsize=7.5, loc="left")
        here.tick_params(labelsize=7)
        here.locator_params(axis="y", nbins=4)
        in_percent(here.yaxis)
    for here in axes.ravel()[len(shown) :]:
        here.set_axis_off()
    figure.supylabel("mean share", fontsize=8)
    figure.supxlabel(plain(found.name), fontsize=8)
    return figure


def effects(found: Effects, coefficients: Sequence[str] | None = None) -> Any:
    """Coefficients of each topic with their intervals, a panel for each; returns the figure.

    `found` is the result of `fit.effects`. `coefficients` names the coefficients to show, by default all but the
    intercept.
    """
    if not isinstance(found, Effects):
        raise InvalidParameter(f"found must come from fit.effects(), got {type(found).__name__}")
    shown = [name for name in found.names if name != "intercept"] if coefficients is None else list(coefficients)
    for name in shown:
        if name not in found.names:
            raise InvalidParameter(f"there is no coefficient {name!r}, only {', '.join(found.names)}")
    shown = shown or list(found.names)
    places = np.arange(len(found.order))
    figure, axes = grid_of_axes(1, len(shown), 2.2 + 2.2 * len(shown), 1.2 + 0.22 * len(places))
    for number, (here, name) in enumerate(zip(axes[0], shown, strict=True)):
        j = found.names.index(name)
        mean, low, high = (values[found.order, j] for values in (found.mean, found.low, found.high))
        here.axvline(0.0, color=GREY, linestyle=":", linewidth=1)
        here.errorbar(mean, places, xerr=[mean - low, high - mean], fmt="o", color=colour(0), markersize=3, capsize=2)
        labels = [f"{number}: {plain(found.words[k])}" for number, k in enumerate(found.order, 1)]
        here.set_yticks(places, labels if number == 0 else [""] * len(places), fontsize=7)
        here.set_ylim(len(places) - 0.5, -0.5)
        here.set_title(plain(name), fontsize=8, loc="left")
        here.tick_params(axis="x", labelsize=7)
    figure.supxlabel(f"coefficient of log α, {found.level:.0%} intervals", fontsize=8)
    return figure


def _most_different(found: TopicsBy) -> list[int]:
    """Topics by how much their shares differ between groups, in units of their intervals."""
    width = np.maximum(found.high - found.low, 1e-12)
    differ = np.std(found.share, axis=0) / np.mean(width, axis=0) * np.sqrt(found.share.mean(axis=0))
    return sorted(found.order.tolist(), key=lambda k: -differ[k])


def topic_sizes(found: TopicSizes) -> Any:
    """Held-out prediction and coherence against the number of topics, as `found` by `tp.topic_sizes`; returns the
    figure."""
    figure, axes = grid_of_axes(1, 2, 6.6, 2.7)
    both = (found.held_out, found.standard_error), (found.coherence, found.coherence_error)
    names = ("log probability of a held-out word", "coherence of the topics (NPMI)")
    for number, (here, (values, errors), name) in enumerate(zip(axes[0], both, names, strict=True)):
        here.errorbar(
            found.sizes, values, errors, color=colour(number), marker=MARKERS[number], capsize=2, markersize=4
        )
        here.axvline(found.best, color=GREY, linestyle=":", linewidth=1)
        here.set_xscale("log")
        here.set_xticks(found.sizes, [str(size) for size in found.sizes], fontsize=8)
        here.minorticks_off()
        here.tick_params(axis="y", labelsize=8)
        here.set_xlabel("topics", fontsize=8)
        here.set_title(name, fontsize=8, loc="left")
    return figure
