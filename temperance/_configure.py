"""What the package sets in JAX, once, when it is imported."""

from __future__ import annotations

import os
from pathlib import Path

import jax


def configure() -> None:
    # Bounds are differences of large sums: float32 cannot hold them. Set before any array is made.
    jax.config.update("jax_enable_x64", True)
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        _keep_compilations()


def _keep_compilations() -> None:
    """Keep compiled functions between processes, so that only the first fit of a shape ever waits for one.

    TEMPERANCE_CACHE names the folder, or is "off"; a cache the user has set in JAX is left alone.
    """
    choice = os.environ.get("TEMPERANCE_CACHE", "")
    if choice == "off":
        return
    home = Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache")
    folder = Path(choice) if choice else home / "temperance" / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(folder, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
