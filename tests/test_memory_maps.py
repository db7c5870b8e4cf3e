"""Fits of ever new sizes in one process: what they leave behind is bounded (Linux allows 65,530 memory maps)."""

from pathlib import Path

import numpy as np
import pytest

import temperance as tp

MAPS = Path("/proc/self/maps")
FIRST = 40  # fits that may compile and import
QUICK = (
    tp.VB(),
    tp.EP(max_passes=3),
    tp.ParallelTempering(draws=8, warmup=4, replicas=4, reference="prior"),
    tp.AIS(particles=8, temperatures=4, reference="prior"),
)


def grown(methods, sizes):
    """Memory maps and MB added by fits of these sizes by the methods in turn, after the first forty."""
    x = np.random.default_rng(0).normal(size=(max(sizes), 2))
    before = (0, 0.0)
    for number, size in enumerate(sizes):
        tp.fit(tp.GaussianMixture(2), x[:size], methods[number % len(methods)], seed=0)
        if number == FIRST:
            before = held()
    return tuple(b - a for a, b in zip(before, held(), strict=True))


def held():
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    return len(MAPS.read_text().splitlines()), resident / 1e6


@pytest.mark.skipif(not MAPS.exists(), reason="/proc is Linux's")
@pytest.mark.slow
def test_new_sizes_leave_little_behind():
    """A tenth of what 500 sizes may leave: EP compiles a program for a power of two of rows, all of them among the
    first forty sizes here, and the others compile nothing."""
    maps, megabytes = grown(QUICK, range(20 + 2 * FIRST, 20, -1))
    assert maps < 500
    assert megabytes < 10
