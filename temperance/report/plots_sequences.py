"""Plots of hidden Markov models: the states along a sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidParameter, UnsupportedMethod
from ..fit import Fit
from ..models._answers import Decoding
from ._style import GREY, axes_or_new, colour, plain

_STRIP = 0.12  # height of the ribbon, as a share of the height of the data


def states(fit: Fit, column: int = 0, sequence: int = 0, axes: Any = None) -> Any:
    """One column of a sequence, with a ribbon beneath it: the share of its height in a colour is the probability of
    that state, given the whole sequence."""
    x, shares = seen_steps(fit, sequence)
    if not 0 <= column < x.shape[1]:
        raise InvalidParameter(f"column must be one of 0 to {x.shape[1] - 1}, got {column!r}")
    axes = axes_or_new(axes, 7.0, 3.2)
    values = x[:, column]
    span = float(np.nanmax(values) - np.nanmin(values)) or 1.0
    height = _STRIP * span
    base = float(np.nanmin(values)) - 2.0 * height
    # Edges lie half-way between steps, so that each step is a bar, even if it stands alone.
    edges = np.arange(len(values) + 1) - 0.5
    floor = np.full(len(values), base)
    path = np.asarray(np.argmax(shares, axis=1))
    axes.plot(np.arange(len(values)), values, color=GREY, linewidth=0.6)
    for place, k in enumerate(fit.order.tolist()):
        if shares[:, k].sum() < 0.5:
            continue
        top = floor + height * shares[:, k]
        axes.stairs(top, edges, baseline=floor, fill=True, color=colour(place), label=f"state {place + 1}")
        floor = top
        here = path == k
        axes.plot(np.flatnonzero(here), values[here], ".", color=colour(place), markersize=4)
    named = fit.schema.used[column].name if fit.schema is not None else f"column {column + 1}"
    axes.set(xlabel="step", ylabel=plain(named))
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper left", bbox_to_anchor=(0.0, -0.16))
    return axes


def seen_steps(fit: Fit, sequence: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The steps of one sequence as the user gave them, and the probabilities of their states."""
    if not isinstance(fit.model, Decoding):
        raise UnsupportedMethod(f"{type(fit.model).__name__} has no states along a sequence to draw; tp.HMM has")
    steps = fit.data.values
    if not 0 <= sequence < steps.sequences:
        raise InvalidParameter(f"sequence must be one of 0 to {steps.sequences - 1}, got {sequence!r}")
    found = fit.smooth()
    shares = found if steps.sequences == 1 else found[sequence]
    return fit.model.steps_to_user(steps, sequence), shares
