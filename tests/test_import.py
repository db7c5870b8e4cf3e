"""Importing the package stays light: what only some users need is imported when it is used."""

import subprocess
import sys

HEAVY = ("matplotlib", "arviz", "sklearn", "numba", "dask", "pandas", "rich", "typer")


def test_nothing_heavy_is_imported():
    code = f"import sys, temperance; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_float64_is_on_and_a_cache_of_the_users_is_kept(tmp_path):
    code = (
        "import jax; jax.config.update('jax_compilation_cache_dir', 'mine');"
        "import temperance, jax.numpy as jnp; print(jnp.zeros(1).dtype, jax.config.jax_compilation_cache_dir)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["float64", "mine"]
