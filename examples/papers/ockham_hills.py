"""Latent-variable thesis, figures 3.10–3.13: Ockham hills by α-divergence message passing.

Galaxy and acidity are bundled; enzyme and Old Faithful (222 eruptions) are read from the folder named by
TEMPERANCE_DATA, or else simulated, which the titles say. δ₀ = 1, m₀ = 0, a₀ = 1, B₀ = 0.11 (with 0.01 beside the
diagonal for two columns), and a broad (v₀ = 10⁻⁶) and a narrow (v₀ = 10⁻²) prior; 20 starts of at most 40 passes for
α = 0, ½ and 1.

    python examples/papers/ockham_hills.py [folder] [--data galaxy …] [--parts 0 0.5 1 reference] [--sizes 8]
        [--priors broad narrow] [--starts 20] [--passes 40] [--gather folder …] [--no-figures]

The part "reference" is parallel tempering, drawn (with two standard errors) where its replicas made three round trips
or more. Every number goes to ockham-hills.json in the folder, cell by cell; what is there already is not worked out
again. To share the work between processes give each its own folder, data sets and parts, with --no-figures, and then
put the folders together with --gather. On a terminal a bar shows the fit, its pass and the time left for all of them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from _figure import COLOURS, bundled_or_simulated, canvas, keep

import temperance as tp
from temperance.inference.progress import Grid

DATA = ("galaxy", "acidity", "enzyme", "old_faithful_222")
ALPHAS = {0.0: "VB (α = 0)", 0.5: "α = ½", 1.0: "EP (α = 1)"}
PRIORS = {"broad": 1e-6, "narrow": 1e-2}
PARTS = (*(f"{alpha:g}" for alpha in ALPHAS), "reference")
TITLES = dict(zip(DATA, ("Galaxies", "Acidity", "Enzyme", "Old Faithful (222)"), strict=True))
RESULTS = "ockham-hills.json"
TRIPS = 3
QUICK: dict[str, Any] = {
    "data": ["galaxy", "enzyme"], "parts": list(PARTS[:3]), "sizes": 1, "starts": 1, "passes": 2,
}  # fmt: skip
GET = {
    "enzyme": "take the 245 activities of Bechtel et al. (1993), as in the R package mixAK, as enzyme.csv",
    "old_faithful_222": "take the 222 eruptions of August 1978 and 1979 (Weisberg's Old Faithful data), durations and "
    "waiting times as the last two columns of old_faithful_222.csv",
}


def stand_in(name: str) -> np.ndarray:
    """Two groups of about the places and sizes of the real ones."""
    rng = np.random.default_rng(0)
    if name == "enzyme":
        return np.concatenate([rng.gamma(6.0, 0.03, (150, 1)), rng.gamma(9.0, 0.14, (95, 1))])
    short, long = rng.normal((2.0, 54.0), (0.3, 6.0), (80, 2)), rng.normal((4.3, 80.0), (0.4, 6.0), (142, 2))
    return np.concatenate([short, long])


def load(name: str) -> tuple[np.ndarray, str]:
    """The data, and the name under which their results are kept: simulated ones never pass for real ones."""
    x, said = bundled_or_simulated(name, GET.get(name, ""), lambda: stand_in(name))
    return x[:, -2:] if name == "old_faithful_222" else x, name + said


def model(x: np.ndarray, size: int, pseudo_count: float) -> tp.GaussianMixture:
    d = x.shape[1]
    scatter = 2.0 * (np.full((d, d), 0.01) + 0.10 * np.eye(d)) if d > 1 else [[0.22]]
    prior = tp.NormalWishart(mean=np.zeros(d), pseudo_count=pseudo_count, dof=2.0, scatter=scatter)
    return tp.GaussianMixture(size, prior=prior)


def hill(
    x: np.ndarray, prior: str, alpha: float, size: int, starts: int, passes: int, progress: Any = None
) -> dict[str, Any]:
    method = tp.MessagePassing(alpha, restarts=starts, max_passes=passes)
    began = time.perf_counter()
    fit = tp.fit(model(x, size, PRIORS[prior]), x, method, seed=size, progress=progress)
    if fit.interrupted:
        raise KeyboardInterrupt
    return {
        "best": fit.log_evidence,
        "converged": bool(fit.converged),
        "starts": [float(value) for value in fit.history["restarts"]],
        "starts_converged": [bool(value) for value in fit.details["restarts_converged"]],
        "starts_skipped": [int(value) for value in fit.details["restarts_skipped"]],
        "seconds": time.perf_counter() - began,
    }


def reference(x: np.ndarray, prior: str, size: int, progress: Any = None) -> dict[str, Any]:
    method = tp.ParallelTempering(draws=10_000, warmup=3000, replicas=32, reference="prior")
    began = time.perf_counter()
    fit = tp.fit(model(x, size, PRIORS[prior]), x, method, seed=size, progress=progress)
    if fit.interrupted:
        raise KeyboardInterrupt
    low, high = fit.bracket or (np.nan, np.nan)
    return {
        "log_evidence": fit.log_evidence,
        "standard_error": float(fit.standard_error or np.nan),
        "low": float(low),
        "high": float(high),
        "barrier": float(fit.details["barrier"]),
        "round_trips": int(fit.details["round_trips"]),
        "seconds": time.perf_counter() - began,
    }


def work(names: list[str], results: dict[str, Any], options: argparse.Namespace, store: Any) -> None:
    """Fill in what is missing, and keep every cell at once; one bar over all of them where there is a terminal."""
    data = {known: x for x, known in map(load, names)}
    cells = list(itertools.product(data, range(1, options.sizes + 1), options.priors, options.parts))
    cells = [cell for cell in cells if "{2} {3} {1}".format(*cell) not in results.setdefault(cell[0], {})]
    progress = Grid(None, [f"{name} {part}" for name, _, _, part in cells])
    began = time.perf_counter()
    with progress.opened():
        for name, size, prior, part in cells:
            key, x = f"{prior} {part} {size}", data[name]
            with progress.cell(f"{name}, {key}"):
                if part == "reference":
                    cell = reference(x, prior, size, progress)
                    said = f"ln p(x) = {cell['log_evidence']:.2f} ± {cell['standard_error']:.2f}"
                else:
                    cell = hill(x, prior, float(part), size, options.starts, options.passes, progress)
                    done = sum(cell["starts_converged"])
                    said = f"ln s = {cell['best']:.2f}, {done} of {options.starts} starts converged"
            results[name][key] = cell
            store()
            if progress.silent:
                print(f"{name} {key}: {said}, {cell['seconds']:.1f} s", flush=True)
    print(f"{len(cells)} fits in {time.perf_counter() - began:.0f} s", flush=True)


def draw(axes: Any, kept: dict[str, Any], prior: str, sizes: range) -> None:
    lowest, highest = np.inf, -np.inf
    for number, (alpha, label) in enumerate(ALPHAS.items()):
        cells = [kept[f"{prior} {alpha:g} {size}"] for size in sizes]
        offset = 0.12 * (number - 1)
        for size, cell in zip(sizes, cells, strict=True):
            usable = [s for s, k in zip(cell["starts"], cell["starts_skipped"], strict=True) if k == 0]
            axes.plot(np.full(len(usable), size + offset), usable, "_", color=COLOURS[number], alpha=0.35)
        best = [cell["best"] if cell["converged"] else np.nan for cell in cells]
        axes.plot(np.asarray(sizes) + offset, best, "o-", color=COLOURS[number], markersize=4, label=label)
        settled = [value for value in best if np.isfinite(value)]  # perhaps none, with quick settings
        lowest, highest = min([lowest, *settled]), max([highest, *settled])
    # A ladder that no replica has travelled up and down has not been explored: its number is no reference.
    found = [kept.get(f"{prior} reference {size}", {"round_trips": 0}) for size in sizes]
    trusted = [cell["log_evidence"] if cell["round_trips"] >= TRIPS else np.nan for cell in found]
    if np.isfinite(trusted).any():
        width = [2 * cell.get("standard_error", 0.0) for cell in found]
        axes.errorbar(sizes, trusted, width, fmt="k*--", markersize=6, elinewidth=1, label="parallel tempering")
        lowest, highest = min(lowest, np.nanmin(trusted)), max(highest, np.nanmax(trusted))
    axes.set(xlabel="components J", xticks=list(sizes))
    if np.isfinite(lowest):
        axes.set_ylim(lowest - 4, highest + 4)


def figure(results: dict[str, Any], folder: str | None) -> None:
    for name, kept in results.items():
        done = [size for size in range(1, 100) if all(f"{p} {a:g} {size}" in kept for p in PRIORS for a in ALPHAS)]
        sizes = range(1, 1 + len(done))
        page, panels = canvas(2)
        for axes, prior in zip(panels, PRIORS, strict=True):
            draw(axes, kept, prior, sizes)
            axes.set_title(f"{title(name)}, {prior} prior (v₀ = {PRIORS[prior]:g})", fontsize=10)
        panels[0].set_ylabel("ln s")
        panels[1].legend(frameon=False, fontsize=8)
        keep(page, f"ockham-hill-{re.sub('[^a-z0-9]+', '-', name).strip('-')}", folder)


def title(name: str) -> str:
    known, _, said = name.partition(" ")
    return f"{TITLES[known]} {said}".strip()


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="out")
    parser.add_argument("--data", nargs="+", choices=DATA)
    parser.add_argument("--sizes", type=int, default=8)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--passes", type=int, default=40)
    parser.add_argument("--priors", nargs="+", choices=tuple(PRIORS), default=list(PRIORS))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--gather", nargs="+", default=[], help="folders whose results to put together first")
    parser.add_argument("--no-figures", action="store_true")
    return parser


def main(folder: str | None = None, **settings: Any) -> dict[str, Any]:
    """The settings are those of the command line, with its defaults."""
    options = arguments().parse_args([folder] if folder else [], argparse.Namespace(**settings))
    path = Path(options.folder) / RESULTS
    path.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for file in (path, *(Path(folder) / RESULTS for folder in options.gather)):
        for name, cells in (json.loads(file.read_text("utf-8")) if file.exists() else {}).items():
            results.setdefault(name, {}).update(cells)

    def store() -> None:
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(results), "utf-8")
        os.replace(beside, path)  # so that an interrupted run leaves what it had

    store()
    if not options.gather:
        work(options.data or list(DATA), results, options, store)
    if not options.no_figures:
        figure({name: kept for name, kept in results.items() if kept}, options.folder)
    return results


if __name__ == "__main__":
    main(**vars(arguments().parse_args()))
