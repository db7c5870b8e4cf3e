"""The same seed, the same bits: twice in a process, in another process, and with one thread or two."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import temperance as tp
from tests.faults.cases import CASES, _array, fit, same

ROOT = Path(__file__).parents[2]
# Large enough for a library that divides its work among threads to do so.
LARGE = """
import numpy as np, temperance as tp
rng = np.random.default_rng(0)
x = rng.normal(size=(20000, 8)) + 4.0 * rng.integers(0, 2, size=(20000, 1))
fit = tp.fit(tp.GaussianMixture(3), x, tp.VB(max_iter=8), seed=0)
from tests.faults.test_bits import digest
print(digest(fit))
"""
SMALL = "import sys; from tests.faults.test_bits import digest, fit; print(digest(fit(sys.argv[1])))"


def digest(found: tp.Fit) -> str:
    """A fingerprint of all that was found."""
    leaves = jax.tree.leaves((found.log_evidence, found.state, found.history))
    return hashlib.sha256(b"".join(np.ascontiguousarray(_array(leaf)).tobytes() for leaf in leaves)).hexdigest()


def elsewhere(code: str, *arguments: str, threads: int) -> str:
    flags = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'} intra_op_parallelism_threads={threads}"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XLA_FLAGS": flags,
        "NPROC": str(threads),
        "OMP_NUM_THREADS": str(threads),
        "JAX_ENABLE_COMPILATION_CACHE": "false",
    }
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=600).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_twice_in_one_process(name: str) -> None:
    same(fit(name), fit(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["VB", "SVI", "Gibbs", "EP", "VB, topics"])
def test_in_two_processes_with_one_thread_and_with_two(name: str) -> None:
    assert elsewhere(SMALL, name, threads=1) == elsewhere(SMALL, name, threads=2)


@pytest.mark.slow
def test_data_that_are_worth_two_threads() -> None:
    assert elsewhere(LARGE, threads=1) == elsewhere(LARGE, threads=2)
