"""Resident memory of one pass over an array on disk, whatever its size (Linux: it is read from /proc).

    python -m benchmarks.larger_than_memory [gigabytes …]        (default 1 and 4; asked is 10, below 1 GB)

The file is a pattern of 64 MB written again and again; the model is coarse, because only the passage matters. The
fit is in a process of its own: the peak (VmHWM) is of everything in it, mapped pages, Python and the compiler too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

D = 64
PATTERN = 64 << 20

FIT = """
import time
import numpy as np, temperance as tp
def peak(): return float(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) / 1024
model, small = tp.GaussianMixture(2, covariance="spherical"), np.random.default_rng(0).normal(size=(5000, {d}))
tp.fit(model, small, tp.SVI(steps=2))
before, began = peak(), time.perf_counter()
stream = tp.Stream({path!r})
fit = tp.fit(model, stream, tp.SVI(passes=1, batch_size=4096), progress=False)
assert np.isfinite(fit.log_evidence)
print(stream.size, time.perf_counter() - began, before, peak())
"""


def write(path: Path, gigabytes: float) -> None:
    """A .npy file of two clusters, a pattern at a time."""
    rng = np.random.default_rng(0)
    pattern = rng.normal(size=(PATTERN // (8 * D), D)) + 4.0 * rng.integers(0, 2, size=(PATTERN // (8 * D), 1))
    times = max(1, round(gigabytes * 1e9 / pattern.nbytes))
    with open(path, "wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (times * len(pattern), D)}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(times):
            pattern.tofile(file)


def one_pass(gigabytes: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write(path, gigabytes)
        size = path.stat().st_size
        code = FIT.format(path=str(path), d=D)
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    rows, seconds, before, peak = map(float, done.stdout.split())
    print(
        f"{size / 1e9:6.2f} GB, {rows:,.0f} rows of {D}: a pass and its bound in {seconds:.0f} s, "
        f"resident at most {peak:.0f} MiB ({before:.0f} after a small fit)",
        flush=True,
    )


def main(sizes: tuple[str, ...] = ()) -> None:
    for size in sizes or ("1", "4"):
        one_pass(float(size))


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
