"""Timing two programs fairly on a noisy machine: alternate, take medians, report the ratio."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np


def seconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def per_iteration(run: Callable[[int], object], few: int, many: int) -> float:
    """The cost of one iteration, from two runs of different length: set-up and start cancel."""
    return (seconds(lambda: run(many)) - seconds(lambda: run(few))) / (many - few)


def alternate(
    ours: Callable[[], float], theirs: Callable[[], float], rounds: int = 5
) -> tuple[float, float, np.ndarray]:
    """Median of each, and the ratio theirs/ours of every round."""
    pairs = np.asarray([(ours(), theirs()) for _ in range(rounds)])
    return float(np.median(pairs[:, 0])), float(np.median(pairs[:, 1])), pairs[:, 1] / pairs[:, 0]


def report(name: str, ours: float, theirs: float, ratios: np.ndarray) -> None:
    low, high = ratios.min(), ratios.max()
    print(
        f"{name:44s} ours {1e3 * ours:9.2f} ms   theirs {1e3 * theirs:9.2f} ms   "
        f"ratio {np.median(ratios):5.1f} ({low:.1f} to {high:.1f})",
        flush=True,
    )
