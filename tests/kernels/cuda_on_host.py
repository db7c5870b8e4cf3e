"""CUDA kernels compiled for the processor, from the same source: what `cuda.launch` gives, without a GPU."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

COMPILER = shutil.which("g++") or shutil.which("clang++")


def launch(
    source: Path,
    options: Sequence[str],
    name: str,
    grid: tuple[int, int],
    threads: int,
    results: Sequence[jax.ShapeDtypeStruct],
    operands: Sequence[Any],
) -> list[Any]:
    def run(*given: Any) -> list[np.ndarray]:
        library = _compiled(source, tuple(options))
        # Numbers that a kernel does not write are seen.
        out = [np.full(result.shape, np.nan, result.dtype) for result in results]
        arrays = [*(np.ascontiguousarray(array) for array in given), *out]
        addresses = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        kernel = ctypes.cast(getattr(library, name), ctypes.c_void_p)
        library.launch(kernel, addresses, len(arrays), *grid, threads)
        return out

    return list(jax.pure_callback(run, list(results), *operands, vmap_method="sequential"))


@functools.cache
def _compiled(source: Path, options: tuple[str, ...]) -> Any:
    assert COMPILER is not None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "kernel.so"
        header = Path(__file__).with_name("cuda_on_host.h")
        given = [
            "-std=c++17",
            "-O1",
            "-U_FORTIFY_SOURCE",
            "-shared",
            "-fPIC",
            "-x",
            "c++",
            "-include",
            str(header),
            *options,
        ]
        subprocess.run([COMPILER, *given, "-o", str(out), str(source)], check=True)
        return ctypes.CDLL(str(out))
