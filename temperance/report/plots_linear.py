"""Plots of linear Gaussian models: the loadings of factors, and the fan of a forecast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InvalidParameter, UnsupportedMethod
from ..fit import Fit
from ..models._answers import Loading, Regressing, Sequential, require
from ._style import GREY, axes_or_new, colour, column_names, plain

_LEVELS = (0.9, 0.5)
_WRITTEN = 200  # loadings that are written into their squares


def coefficients(fit: Fit, axes: Any = None, most: int = 30) -> Any:
    """The weights of a regression with 95% intervals, the first (the intercept) left out if there are others."""
    require(fit.model, Regressing)
    table = fit.columns()
    first = 1 if table["weight"][0] == "intercept" and len(table["weight"]) > 1 else 0
    names, mean, sd = (np.asarray(table[key])[first:][:most] for key in ("weight", "mean", "sd"))
    axes = axes_or_new(axes, 5.0, 0.28 * len(names) + 1.0)
    places = np.arange(len(names))[::-1]
    axes.axvline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    axes.errorbar(mean, places, xerr=1.96 * sd, fmt="o", color=colour(0), markersize=4, linewidth=1.2)
    axes.set_yticks(places, [plain(name) for name in names], fontsize=8)
    axes.set(xlabel="weight", ylim=(-0.7, len(names) - 0.3))
    return axes


def predicted(fit: Fit, axes: Any = None, bins: int = 10) -> Any:
    """The targets of a regression against their expected values; for yes and no, the share of yes among rows with
    about the same probability, with two standard errors. `bins` is the number of such groups of rows."""
    target, mean = require(fit.model, Regressing).fitted(fit.state, fit.data)
    axes = axes_or_new(axes, 4.5, 4.0)
    what = "observed"
    if set(np.unique(target)) <= {0.0, 1.0} and mean.min() >= 0.0 and mean.max() <= 1.0:
        parts = [part for part in np.array_split(np.argsort(mean, kind="stable"), bins) if len(part)]
        share, error = (np.array(values) for values in zip(*(_share(target[part]) for part in parts), strict=True))
        middle = [mean[part].mean() for part in parts]
        axes.errorbar(middle, share, yerr=2.0 * error, fmt="o", color=colour(0), markersize=5, linewidth=1.2)
        what = "share of yes"
    else:
        axes.plot(mean, target, ".", color=colour(0), markersize=5, alpha=0.6)
    ends = min(mean.min(), target.min()), max(mean.max(), target.max())
    axes.plot(ends, ends, color=GREY, linewidth=0.8, linestyle=":")
    axes.set(xlabel="predicted", ylabel=what)
    return axes


def _share(target: np.ndarray) -> tuple[float, float]:
    """The share of ones and its standard error, after one 0 and one 1 are added."""
    p = (target.sum() + 1.0) / (len(target) + 2.0)
    return float(target.mean()), float(np.sqrt(p * (1.0 - p) / len(target)))


def loadings(fit: Fit, names: Sequence[str] | None = None, axes: Any = None) -> Any:
    """The expected loadings in units of the columns' spread: a row for each data column, the strongest factor first.
    Few loadings are also written as numbers into their squares. `names` are the names of the columns."""
    found = require(fit.model, Loading).relative_loadings(fit._families())[fit.order]
    names = None if names is None else column_names(names, found.shape[1])
    table, shown = fit.columns(), found.T
    d, k = shown.shape
    axes = axes_or_new(axes, min(0.8 * k + 2.6, 8.0), min(0.26 * d + 1.3, 12.0))
    limit = float(np.abs(found).max()) or 1.0
    options: Any = {"cmap": "PuOr", "vmin": -limit, "vmax": limit}
    if d * k > _WRITTEN:
        axes.imshow(shown, aspect="auto", **options)
    else:  # vector squares, because a dark page inverts them together with their numbers, unlike an image
        axes.pcolormesh(np.arange(k), np.arange(d), shown, edgecolors="face", linewidth=0.4, **options)
        axes.invert_yaxis()
        for row, column in np.ndindex(d, k):
            dark = abs(shown[row, column]) > 0.6 * limit
            axes.text(column, row, f"{shown[row, column]:.2f}".replace("-", "−"), ha="center", va="center", fontsize=7,
                      color="white" if dark else "black")  # fmt: skip
    shares = zip(table["factor"], table["explained"], strict=True)
    axes.set_xticks(range(k), [f"{factor}\n{share:.0%}" for factor, share in shares], fontsize=8)
    axes.set_yticks(range(d), [plain(name) for name in names] if names is not None else range(1, d + 1), fontsize=8)
    axes.set_xlabel("factor, and its share of the variance", fontsize=8)
    return axes


def forecast(fit: Fit, n: int, column: int = 0, axes: Any = None, *, recent: int | None = None, **options: Any) -> Any:
    """The data of one column, their expected values, and a fan of the next `n` steps, with 50% and 90% of the
    probability. `recent` is the number of past steps to show (by default all); `options` are those of
    `fit.forecast`."""
    model = fit.model
    if not isinstance(model, Sequential):
        raise UnsupportedMethod(
            f"{type(fit.model).__name__} has no fan of forecasts to draw; tp.StateSpace and tp.HMM have"
        )
    future = fit.forecast(n, **options)
    d = future.mean.shape[1]
    if not 0 <= column < d:
        raise InvalidParameter(f"column must be one of 0 to {d - 1}, got {column!r}")
    x, mean = model.fitted_steps(fit._with_labels(), fit._families(), fit.data.values)
    steps, ahead = np.arange(len(x)), np.arange(len(x) - 1, len(x) + n)
    axes = axes_or_new(axes, 7.0, 3.2)
    first = 0 if recent is None else max(0, len(x) - recent)
    axes.plot(steps[first:], x[first:, column], ".", color=GREY, markersize=4, label="data")
    signal = mean[:, column]
    axes.plot(steps[first:], signal[first:], color=colour(0), label="smoothed")
    for level in _LEVELS:
        low, high = (np.append(signal[-1], side[:, column]) for side in future.interval(level))
        axes.fill_between(ahead, low, high, color=colour(1), alpha=0.25, linewidth=0, label=f"{level:.0%}")
    axes.plot(ahead, np.append(signal[-1], future.mean[:, column]), color=colour(1), label="forecast")
    named = fit.schema.used[column].name if fit.schema is not None else f"column {column + 1}"
    axes.set(xlabel="step", ylabel=named)
    axes.legend(frameon=False, fontsize=8, ncols=5, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return axes
