"""Plots of a ladder of temperatures: the thermodynamic curve, energies, swaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UnsupportedMethod
from ..fit import Fit
from ._style import GREY, LIGHT, axes_or_new, colour


def _ladder(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """The temperatures, and dU/dβ of every sweep at each temperature."""
    if "slopes" not in fit.history or "ladder" not in fit.details:
        raise UnsupportedMethod(
            f"this fit by {fit.method.name} has no ladder of temperatures to draw; use "
            "tp.ParallelTempering(reference='prior')"
        )
    slopes = np.asarray(fit.history["slopes"])
    return np.asarray(fit.details["ladder"]), slopes.reshape((-1, slopes.shape[-1]))


def thermodynamic(fit: Fit, axes: Any = None) -> Any:
    """The integrand of thermodynamic integration; its left and right sums enclose the log evidence."""
    betas, slopes = _ladder(fit)
    axes = axes_or_new(axes)
    average = slopes.mean(axis=0)
    axes.step(betas, average, where="post", color=LIGHT, linewidth=1.2, label="left sum")
    axes.step(betas, average, where="pre", color=GREY, linewidth=1.2, linestyle="--", label="right sum")
    axes.plot(betas, average, "o-", color=colour(0), markersize=4, label="average")
    floor = np.quantile(average, 0.2)
    if average.min() < floor - 5.0 * max(average.max() - floor, 1.0):
        axes.set_ylim(floor - 1.5 * max(average.max() - floor, 1.0), None)  # the first averages may be huge
    axes.set(xlabel="inverse temperature β", ylabel="E dU/dβ")
    if fit.bracket is not None:
        axes.set_title(f"log evidence between {fit.bracket[0]:.2f} and {fit.bracket[1]:.2f}", fontsize=9, loc="left")
    axes.legend(frameon=False, fontsize=8)
    return axes


def energies(fit: Fit, axes: Any = None) -> Any:
    """How the energies spread at each temperature; neighbours must overlap to exchange states."""
    betas, slopes = _ladder(fit)
    axes = axes_or_new(axes)
    chosen = [k for k in range(len(betas)) if betas[k] > 0.02] or list(range(len(betas)))
    shown = slopes[:, chosen]
    low, high = np.quantile(shown, 0.002), shown.max()
    bins = np.linspace(low, high, 70)
    from matplotlib import colormaps

    for k in chosen[:: max(1, -(-len(chosen) // 6))]:
        shade = colormaps["cividis"](0.9 * betas[k])
        axes.hist(np.clip(slopes[:, k], low, high), bins=bins, density=True, histtype="step", color=shade,
                  label=f"β = {betas[k]:.2f}")  # fmt: skip
    axes.set(xlabel="energy dU/dβ", ylabel="density")
    axes.legend(frameon=False, fontsize=7)
    return axes


def swaps(fit: Fit, axes: Any = None) -> Any:
    """How often neighbours on the ladder reject a swap: equal everywhere on a good ladder."""
    betas, _ = _ladder(fit)
    axes = axes_or_new(axes, 5.0, 2.8)
    rejection = np.asarray(fit.details["rejection"])
    axes.bar(np.arange(1, len(rejection) + 1), 1.0 - rejection, color=colour(2))
    axes.axhline(float(np.mean(1.0 - rejection)), color=GREY, linewidth=0.8, linestyle="--")
    axes.set(
        xlabel=f"pair of neighbours, from β = 0 to 1 ({len(betas)} temperatures)", ylabel="accepted swaps", ylim=(0, 1)
    )
    return axes
