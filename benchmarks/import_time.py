"""How long `import temperance` takes beside `import jax`, in fresh processes, alternating."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

ROUNDS = 9


def imported(name: str) -> float:
    code = f"import time; began = time.perf_counter(); import {name}; print(time.perf_counter() - began)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def main() -> None:
    pairs = np.asarray([(imported("temperance"), imported("jax")) for _ in range(ROUNDS)])
    ours, jax = np.median(pairs, axis=0)
    ratio = np.median(pairs[:, 0] / pairs[:, 1])
    print(f"import temperance {ours:.2f} s, import jax {jax:.2f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
