"""Plots of data together with the fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..comparison.comparison import Comparison
from ..errors import InvalidParameter
from ..fit import Fit
from ._facts import data_of, gaussians, shares_of
from ._style import GREY, LIGHT, LINES, axes_or_new, colour, column_names, grid_of_axes, plain, thin
from .co_membership import co_membership

_MOST_DIMENSIONS = 6


def density(results: Any, x: Any = None, axes: Any = None, *, xlabel: str = "x") -> Any:
    """The predictive density of one-dimensional data, with a histogram of them.

    `results` is a fit, a comparison (averaged over its models) or a dictionary of them by name.
    """
    named = results if isinstance(results, dict) else {"": results}
    x = _data(next(iter(named.values())), x)
    if x.shape[1] != 1:
        raise InvalidParameter(f"density draws one-dimensional data, got {x.shape[1]} columns; use ellipses or pairs")
    axes = axes_or_new(axes)
    seen = x[np.isfinite(x[:, 0]), 0]
    margin = 0.12 * max(np.ptp(seen), 1e-9)
    grid = np.linspace(seen.min() - margin, seen.max() + margin, 400)
    bins = int(np.clip(np.sqrt(len(seen)) * 3, 10, 60))
    axes.hist(seen, bins=bins, density=True, color=LIGHT, label="data" if len(named) > 1 else None)
    for number, (name, result) in enumerate(named.items()):
        line = np.exp(result.log_predictive(grid[:, None]))
        axes.plot(grid, line, color=colour(number), linestyle=LINES[number % len(LINES)], label=plain(name) or None)
    ticks = thin(seen, 500)
    low = -0.03 * axes.get_ylim()[1]
    axes.plot(ticks, np.full(len(ticks), low), "|", color=GREY, markersize=5, alpha=0.6)
    axes.set(xlabel=plain(xlabel), ylabel="density")
    if len(named) > 1:
        axes.legend(frameon=False, fontsize=8)
    return axes


def ellipses(fit: Fit, x: Any = None, axes: Any = None, *, names: Any = None, columns: tuple[int, int] = (0, 1)) -> Any:
    """Two columns of the data, the components as ellipses (one and two standard deviations); for two-dimensional data
    also contours of the predictive density. `columns` are the numbers of both columns."""
    x = _data(fit, x)
    axes = axes_or_new(axes, 4.8, 4.2)
    found, (i, j) = gaussians(fit), columns
    points = thin(x)
    if x.shape[1] == 2:
        _contours(axes, fit, x)
    shares = fit.responsibilities(points)[:, found.numbers] if np.isfinite(points).all() else None
    shades = GREY if shares is None else [colour(k) for k in np.argmax(shares, axis=1)]
    axes.scatter(points[:, i], points[:, j], s=7, c=shades, alpha=0.5, linewidths=0)
    angle = np.linspace(0.0, 2.0 * np.pi, 120)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for number, (mean, covariance) in enumerate(zip(found.means, found.covariances, strict=True)):
        root = np.linalg.cholesky(covariance[np.ix_((i, j), (i, j))])
        for width, line in ((1.0, 1.6), (2.0, 0.9)):
            path = mean[[i, j], None] + width * root @ circle
            axes.plot(path[0], path[1], color=colour(number), linewidth=line)
        box = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": colour(number)}
        place = {"ha": "center", "va": "center"}
        axes.annotate(str(number + 1), mean[[i, j]], color="black", fontsize=9, bbox=box, **place)
    names = column_names(names, x.shape[1])
    axes.set(xlabel=plain(names[i]), ylabel=plain(names[j]))
    return axes


def _contours(axes: Any, fit: Fit, x: np.ndarray) -> None:
    seen = x[np.isfinite(x).all(axis=1)]
    low, high = seen.min(axis=0), seen.max(axis=0)
    margin = 0.1 * (high - low)
    grids = [np.linspace(a, b, 60) for a, b in zip(low - margin, high + margin, strict=True)]
    mesh = np.stack(np.meshgrid(*grids), axis=-1)
    log = fit.log_predictive(mesh.reshape((-1, 2))).reshape(mesh.shape[:2])
    # Each level is half as dense again as the one outside it, down to a hundredth of the peak.
    levels = log.max() + np.linspace(np.log(0.01), np.log(0.9), 7)
    axes.contour(grids[0], grids[1], log, levels=levels, colors=LIGHT, linewidths=0.8, linestyles="solid")


def pairs(fit: Fit, x: Any = None, *, names: Any = None, most: int = 4) -> Any:
    """Every pair of the first few columns, with the components' ellipses; histograms on the diagonal.

    Returns the figure.
    """
    x = _data(fit, x)
    d = min(x.shape[1], most, _MOST_DIMENSIONS)
    names = column_names(names, x.shape[1])
    figure, axes = grid_of_axes(d, d, 1.9 * d + 0.6, 1.8 * d + 0.4)
    for row in range(d):
        for column in range(d):
            here = axes[row, column]
            if column > row:
                here.set_axis_off()
                continue
            if row == column:
                seen = x[np.isfinite(x[:, row]), row]
                here.hist(seen, bins=24, color=LIGHT)
                here.set_yticks([])
            else:
                ellipses(fit, x, here, names=names, columns=(column, row))
            here.set(xlabel="", ylabel="")
            here.tick_params(labelsize=7)
            if row == d - 1:
                here.set_xlabel(plain(names[column]), fontsize=8)
            if column == 0:
                here.set_ylabel(plain(names[row]), fontsize=8)
    return figure


def responsibilities(fit: Fit, x: Any = None, axes: Any = None) -> Any:
    """The probability of each component for each datum, data in the order of their components."""
    axes = axes_or_new(axes, 6.0, 2.6)
    held, words = fit.order, fit.model.words
    shares = thin(shares_of(fit) if x is None else fit.responsibilities(x)[:, held], 1000)
    order = np.lexsort((-shares.max(axis=1), np.argmax(shares, axis=1)))
    picture = axes.imshow(shares[order].T, aspect="auto", cmap="cividis", vmin=0.0, vmax=1.0, interpolation="nearest")
    axes.set_yticks(range(len(held)), [str(words.label(k)) for k in range(len(held))])
    axes.set(xlabel=f"{len(shares):,} rows, by {words.part} and certainty", ylabel=words.part)
    bar = axes.figure.colorbar(picture, ax=axes, label="probability", shrink=0.9)
    bar.solids.set_rasterized(True)  # like the picture itself, so that a dark page treats both alike
    return axes


def together(results: Any, axes: Any = None, *, most: int = 300) -> Any:
    """The probability that two rows belong together, in the order of their groups: bright squares along the diagonal
    are groups that hold together. `results` is a fit or a comparison, over whose models it is averaged. At most `most`
    rows are shown."""
    found = co_membership(results, most)
    words = (results.best_fit if isinstance(results, Comparison) else results).model.words
    axes = axes_or_new(axes, 4.6, 3.9)
    picture = axes.imshow(found.probability, cmap="cividis", vmin=0.0, vmax=1.0, interpolation="nearest")
    ends = np.cumsum(np.bincount(found.groups, minlength=len(found.labels)))
    for end in ends[:-1]:
        axes.axhline(end - 0.5, color="white", linewidth=0.7)
        axes.axvline(end - 0.5, color="white", linewidth=0.7)
    middle = ends - np.diff(ends, prepend=0) / 2 - 0.5
    axes.set_xticks(middle, found.labels)
    axes.set_yticks(middle, found.labels)
    axes.tick_params(length=0)
    axes.set(xlabel=f"{len(found.rows):,} rows, by {words.part} and certainty")
    bar = axes.figure.colorbar(picture, ax=axes, label="probability of belonging together", shrink=0.9)
    bar.solids.set_rasterized(True)
    return axes


def overview(comparison: Comparison, x: Any = None, *, xlabel: str = "x") -> Any:
    """The Ockham hill and, beside it, the predictive densities of each method's choice; returns the figure."""
    from .plots_evidence import hill

    x = _data(comparison.best_fit, x)
    if x.shape[1] > 2:
        figure, axes = grid_of_axes(1, 1, 6.0, 3.8)
        hill(comparison, axes[0, 0])
        return figure
    figure, axes = grid_of_axes(1, 2, 10.5, 3.8, width_ratios=(1.0, 1.25))
    hill(comparison, axes[0, 0])
    axes[0, 0].set_title("Which size? The Ockham hill", fontsize=10, loc="left")
    if x.shape[1] == 2:
        ellipses(comparison.best_fit, x, axes[0, 1])
    else:
        chosen = {
            name: comparison.fit(choice, name) for name, choice in comparison.choices.items() if choice is not None
        }
        density(chosen, x, axes[0, 1], xlabel=xlabel)
    axes[0, 1].set_title(
        f"The data, and what {comparison.best} {comparison.size_name} predict", fontsize=10, loc="left"
    )
    return figure


def _data(result: Any, x: Any) -> np.ndarray:
    from ..data import as_matrix

    if x is not None:
        return as_matrix(x, missing=True)
    found = data_of(result.best_fit if isinstance(result, Comparison) else result)
    if found is None:
        raise InvalidParameter("x must be given: this model does not keep its data as a table")
    return found
