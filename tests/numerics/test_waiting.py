"""Factorisations of several batches at once come to an end, however few cores there are."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import temperance
import jax, jax.numpy as jnp
from temperance.numerics.linalg import transposed_solve, whiten

@jax.jit
def both(factor, right):
    return whiten(factor, right), transposed_solve(2.0 * factor, right + 1.0), factor @ right

factor = jnp.broadcast_to(jnp.eye(30), (500, 30, 30)) + 0.0
for _ in range(30):
    jax.block_until_ready(both(factor, factor))
"""


@pytest.mark.slow
def test_two_batches_do_not_wait_for_each_other():
    """On two cores this hung within a few rounds, using no time at all (see temperance/_configure.py)."""
    environment = {name: value for name, value in os.environ.items() if name != "PJRT_NPROC"}
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=120, env=environment)
