"""Settings shared by all tests. Float64 is not set here: the package does it, and the tests rely on that."""

import gc
import os
from pathlib import Path

import jax
import pytest
from hypothesis import settings

CACHE = Path(__file__).resolve().parents[1] / ".cache"

# Most of a test's time is compilation, and most compilations are shorter than JAX's threshold of a second.
jax.config.update("jax_compilation_cache_dir", str(CACHE / "jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)

# Tests replace functions that executables on disk know nothing of: nothing is kept there but where a test asks for it.
os.environ["TEMPERANCE_CACHE"] = ""

# Problems here are tiny: code that runs a little slower but compiles in half the time is the better bargain.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # for the processes that tests start
jax.config.update("jax_disable_most_optimizations", True)

# In JAX 0.10 the older emitters compile in two thirds of the time. Other versions may not know the flag, and stop.
if jax.__version__.startswith("0.10."):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"

# A missing axis must be an error: broadcasting (n,) against (n, d) gives a wrong number, not a crash.
jax.config.update("jax_numpy_rank_promotion", "raise")

# The same examples on every machine, and no deadline, because the first example of a shape compiles.
settings.register_profile("temperance", deadline=None, derandomize=True)
settings.load_profile("temperance")


# What is imported here stays: collections of garbage look at younger objects only, and less often than for 700 of them.
gc.collect()
gc.freeze()
gc.set_threshold(50_000, 10, 10)

_MAPS = 25_000  # of the 65,530 memory maps that Linux allows a process; LLVM aborts when it gets no more
_counted = 0


@pytest.fixture(autouse=True)
def compiled_programs_are_dropped():
    """Each compiled program takes hundreds of memory maps: after many tests, those of earlier ones are dropped."""
    global _counted
    yield
    _counted += 1
    maps = Path("/proc/self/maps")
    if _counted % 10 == 0 and maps.exists() and maps.read_bytes().count(b"\n") > _MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines are chosen as for a user, also under `make test-plain`."""
    monkeypatch.delenv("TEMPERANCE_ENGINE", raising=False)
