"""Plots of the parts of a model: weights, topics, factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UnsupportedMethod
from ..fit import Fit
from ..models._answers import Numbered
from ._facts import topics_of
from ._style import GREY, LIGHT, axes_or_new, colour, grid_of_axes, in_percent, plain


def weights(fit: Fit, axes: Any = None) -> Any:
    """The share of each component; those that hold no data were pruned."""
    table = fit.columns()
    if "weight" not in table:
        raise UnsupportedMethod(f"{type(fit.model).__name__} has no weights to draw; see fit.posterior")
    axes = axes_or_new(axes, 5.0, 2.8)
    held = np.asarray(table["weight"])
    size = fit.model.words.size or len(held)
    axes.bar(np.arange(1, len(held) + 1), held, color=[colour(k) for k in range(len(held))])
    empty = size - len(held)
    if empty > 0:
        axes.plot(np.arange(len(held) + 1, size + 1), np.zeros(empty), "x", color=GREY, markersize=6)
        axes.text(size + 0.4, 0.93 * axes.get_ylim()[1], f"{empty} of {size} hold no data (×)", ha="right", fontsize=8)
    words = fit.model.words
    axes.set(xlabel=f"{words.part or 'component'}, the heaviest first", ylabel="weight", xlim=(0.4, size + 0.6))
    places = range(1, size + 1) if size <= 20 else [1, size]
    axes.set_xticks(places, [str(words.label(place - 1)) for place in places])
    return axes


def topics(fit: Fit, n_words: int = 8, most: int = 9, relevance: float = 1.0) -> Any:
    """The probabilities of the leading words of the first (largest) topics, as bars; returns the figure. At most `most`
    are shown. `relevance` chooses between frequent and distinctive words (see `fit.topics`)."""
    found = topics_of(fit, n_words, relevance)[:most]
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    figure, axes = grid_of_axes(rows, columns, 3.1 * columns, 0.28 * n_words * rows + 0.5 * rows + 0.2)
    for number, here in enumerate(axes.ravel()):
        if number >= len(found):
            here.set_axis_off()
            continue
        words, shares = zip(*found[number], strict=True)
        places = np.arange(len(words))[::-1]
        here.barh(places, shares, color=colour(number), alpha=0.8, height=0.7)
        here.set_yticks(places, [plain(word) for word in words], fontsize=7.5)
        here.set_title(f"topic {number + 1}", fontsize=9, loc="left")
        here.tick_params(axis="x", labelsize=7)
        here.locator_params(axis="x", nbins=2)
        in_percent(here.xaxis)
    figure.supxlabel("probability of the word in the topic", fontsize=8)
    return figure


def factors(fit: Fit, most: int = 16) -> Any:
    """The expected factors as images (or lines, where a datum is not an image), the largest first; returns the
    figure."""
    found = (fit.components[fit.order] if isinstance(fit.model, Numbered) else fit.components)[:most]
    columns = min(8, len(found))
    rows = -(-len(found) // columns)
    figure, axes = grid_of_axes(rows, columns, 1.3 * columns, 1.45 * rows)
    limit = float(np.abs(found).max()) or 1.0
    for number, here in enumerate(axes.ravel()):
        here.set_axis_off()
        if number >= len(found):
            continue
        image = found[number]
        if image.ndim == 1:
            side = int(np.sqrt(image.size))
            if side * side != image.size or side < 3:
                here.set_axis_on()
                here.plot(image, color=colour(0))
                here.axhline(0.0, color=LIGHT, linewidth=0.8)
                here.set_title(f"{number + 1}", fontsize=8)
                continue
            image = image.reshape((side, side))
        here.imshow(image, cmap="PuOr", vmin=-limit, vmax=limit)
        here.set_title(f"{number + 1}", fontsize=8)
    return figure
