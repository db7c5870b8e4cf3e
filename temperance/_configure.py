"""The settings of JAX that the package needs, made once: immediately if JAX has been imported, otherwise on its
import."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


def configure_jax() -> None:
    """Configure JAX before any array of this package is made, without importing it."""
    if "jax" in sys.modules:
        _configure()
    else:
        sys.meta_path.insert(0, _AfterImport())


class _AfterImport:
    """An import finder that leaves the search for JAX to the other finders, and configures JAX after its import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "jax":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_configure(module: ModuleType) -> None:
                run(module)
                _configure()

            setattr(spec.loader, "exec_module", run_and_configure)  # noqa: B010 (mypy: a method)
        return spec


def _configure() -> None:
    import jax

    # Since jaxlib 0.10 a batch of factorisations is shared out among XLA's threads, and the thread that does so waits
    # for the others. With two threads, two such batches at once wait for each other for ever. XLA makes its threads
    # when the first array is made; this many have never all been waiting, and cost nothing measurable.
    os.environ.setdefault("PJRT_NPROC", str(max(16, os.cpu_count() or 1)))
    # Bounds are differences of large sums: float32 cannot hold them.
    jax.config.update("jax_enable_x64", True)
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        _keep_compilations()


def _keep_compilations() -> None:
    """Keep compiled functions between processes, so that only the first fit of a shape ever waits for one.

    TEMPERANCE_CACHE names the folder, or is "off"; a cache the user has set in JAX is left alone.
    """
    import jax

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
