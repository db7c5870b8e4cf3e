"""The thesis's figures 4.1 to 4.4: temperatures, the integrand of thermodynamic integration, and energy histograms.

Galaxy data, three components; δ₀ = 1, m₀ = 0, v₀ = 0.01, a₀ = 1, B₀ = 0.11 (v₀ = 10⁻⁶ in figure 4.3). The energy of a
state is minus the derivative of the log tempered density in β, which is the thesis's −ln p(x | θ, z) averaged over z.

    python examples/papers/tempering.py [folder [draws]]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from _figure import COLOURS, GREY, canvas, keep

import temperance as tp
from temperance.evidence.thermodynamic import fit_tail, integrate

LADDER = np.concatenate([[0.0], np.geomspace(1e-3, 0.45, 14), np.linspace(0.5, 1.0, 11)])
PINNED = (5, 40, 79)  # a galaxy from each of the three groups
QUICK = {"draws": 90}


def fit(width: float, draws: int, **options: Any) -> tp.Fit:
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=width, dof=2.0, scatter=[[0.22]])
    method = tp.ParallelTempering(**({"draws": draws, "warmup": draws // 9, "ladder": LADDER} | options))
    return tp.fit(tp.GaussianMixture(3, prior=prior), tp.datasets.load("galaxy"), method, seed=0)


def energies(fit: tp.Fit) -> np.ndarray:
    """(draw, temperature)."""
    return -fit.history["slopes"][:, 0]


def temperatures(fit: tp.Fit, log_evidence: float, folder: str | None) -> None:
    """4.1: the spread of the energies at each temperature (as Gaussians), and its size."""
    figure, (left, right) = canvas(2)
    energy = energies(fit)
    mean, spread = energy.mean(axis=0), energy.std(axis=0)
    for index in range(len(LADDER)):
        if mean[index] > 420:
            continue
        grid = mean[index] + spread[index] * np.linspace(-3, 3, 200)
        density = np.exp(-0.5 * np.linspace(-3, 3, 200) ** 2) / (spread[index] * np.sqrt(2 * np.pi))
        left.plot(grid, density, color=colour(LADDER[index]))
    left.axvline(-log_evidence, color=GREY, linestyle="--", label="−ln p(x)")
    left.set(xlabel="energy −ln p(x | θ)", ylabel="density", xlim=(140, 420))
    left.legend(frameon=False, fontsize=8)
    right.loglog(LADDER[1:], spread[1:], "o-", color=COLOURS[0], markersize=3)
    right.set(xlabel="β", ylabel="standard deviation of the energy")
    keep(figure, "thesis-4-1", folder)


def integrand(fit: tp.Fit, folder: str | None) -> None:
    """4.2: the average log likelihood as a function of β, and close to zero."""
    figure, (left, right) = canvas(2)
    average = -energies(fit).mean(axis=0)
    left.plot(LADDER[1:], average[1:], "o-", color=COLOURS[0], markersize=3)
    left.set(xlabel="β", ylabel="average of ln p(x | θ)", ylim=(-500, -140))
    right.plot(LADDER[1:], average[1:], "o-", color=COLOURS[0], markersize=3)
    right.set(xlabel="β", xlim=(0, 0.02), ylim=(-2100, -200))
    right.locator_params(axis="x", nbins=4)
    right.set_title(f"at β = 0: {average[0]:,.0f} (off the scale)", fontsize=10)
    keep(figure, "thesis-4-2", folder)


def tail(fit: tp.Fit, folder: str | None) -> None:
    """4.3: the 1/β tail through the averages at 0, at 0.001 and at the next temperature, beside averages in between.

    Times β, so that the area over the logarithm of β is what a range of temperatures adds to the log evidence.
    """
    figure, (axes,) = canvas(1, width=6)
    average = -energies(fit).mean(axis=0)
    few = [0, int(np.argmin(np.abs(fit.details["ladder"] - 1e-3)))]
    few.append(few[1] + 1)
    betas = fit.details["ladder"]
    curve = fit_tail(betas[few], average[few])
    grid = np.geomspace(1e-8, betas[few[2]], 400)
    if curve is not None:
        axes.plot(grid, grid * curve(grid), color=COLOURS[1], label="β f(β), f = c − 1/(aβ + b) through three of them")
    axes.plot(betas[1:], betas[1:] * average[1:], "o", color=COLOURS[0], markersize=3, label="β times the averages")
    axes.set(xscale="log", xlim=(1e-8, 2e-2), ylim=(-6, 0), xlabel="β", ylabel="β × average of ln p(x | θ)")
    axes.legend(frameon=False, fontsize=8)
    keep(figure, "thesis-4-3", folder)


def histograms(plain: tp.Fit, pinned: tp.Fit, folder: str | None) -> None:
    """4.4: energies from the prior, and from the exact posterior of three data points."""
    figure, both = canvas(2)
    for axes, each, title in zip(both, (plain, pinned), ("from the prior", "from three data points"), strict=True):
        energy, betas = energies(each), each.details["ladder"]
        bins = np.linspace(np.quantile(energy[:, -1], 0.001) - 10, 330, 160)
        for index, beta in enumerate(betas):
            counts, _ = np.histogram(energy[:, index], bins=bins)
            axes.plot(bins[:-1], counts / len(energy), color=colour(beta), linewidth=0.9)
        axes.set(xlabel="energy", ylabel="part of the draws")
        axes.set_title(title, fontsize=10)
    keep(figure, "thesis-4-4", folder)


def colour(beta: float) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](0.95 * float(beta) ** 0.3)


def main(folder: str | None = None, draws: int | str = 9000) -> dict[str, Any]:
    count = int(draws)
    plain = fit(0.01, count, reference="prior")
    adapted = fit(0.01, count, ladder=None)
    average = -energies(plain).mean(axis=0)
    print(f"average log likelihood at β = 0: {average[0]:.4g}, at β = 0.001: {average[1]:.4g}")
    print(f"ladder of the thesis, 1/β tail and cubic interpolation: {integrate(LADDER, average):.3f}")
    print(f"the same ladder by reweighting: {plain.log_evidence:.3f} ± {plain.standard_error:.3f}")
    print(f"an adapted ladder by reweighting: {adapted.log_evidence:.3f} ± {adapted.standard_error:.3f}")
    temperatures(plain, adapted.log_evidence, folder)
    integrand(plain, folder)
    fine = np.concatenate([[0.0], np.geomspace(1e-8, 0.45, 40), np.linspace(0.5, 1.0, 8)])
    fine = np.unique(np.concatenate([fine, [1e-3]]))
    tail(fit(1e-6, count // 3, reference="prior", ladder=fine), folder)
    pinned = fit(0.01, count, reference=PINNED)
    print(f"from three data points: {pinned.log_evidence:.3f} ± {pinned.standard_error:.3f}")
    histograms(plain, pinned, folder)
    return {"plain": plain, "adapted": adapted, "pinned": pinned}


if __name__ == "__main__":
    main(*sys.argv[1:3])
