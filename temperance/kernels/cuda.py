"""Kernels in CUDA C++: NVRTC, which comes with JAX's CUDA packages, compiles them to PTX, and XLA launches that.

The PTX is a part of the program, as XLA's own kernels are: no function on the host is called, and a compiled program
can be kept. XLA hands a kernel the addresses of its operands, then of its results. It leaves out an operand that it
has handed over already, so no array may be given twice.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

_TARGET = "__gpu$xla.gpu.ptx"
_PROBE = 'extern "C" __global__ void probe(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }'


def launch(
    source: Path,
    options: Sequence[str],
    name: str,
    grid: tuple[int, int],
    threads: int,
    results: Sequence[jax.ShapeDtypeStruct],
    operands: Sequence[Array],
) -> list[Array]:
    """Run the kernel `name` of a CUDA source file, compiled with these options, and return its results. Under `vmap`
    the kernel runs once per batch element."""
    ptx = compile_ptx(source.read_text(encoding="utf-8"), tuple(options), _architecture())
    return _call(ptx, name, grid, threads, results, operands)


def _call(ptx: str, name: str, grid: Any, threads: int, results: Any, operands: Any) -> list[Array]:
    call = jax.ffi.ffi_call(_TARGET, tuple(results), vmap_method="sequential")
    sizes = {"grid_x": grid[0], "grid_y": grid[1], "grid_z": 1, "block_x": threads, "block_y": 1, "block_z": 1}
    numbers = {key: np.int32(value) for key, value in {**sizes, "shared_mem_bytes": 0}.items()}
    return list(call(*operands, name=name, kernel_type="ptx", kernel_data=ptx, **numbers))


@functools.cache
def available() -> bool:
    """Whether kernels can be compiled and launched: this needs an NVIDIA GPU, NVRTC, and an XLA that takes PTX."""
    if jax.default_backend() != "gpu" or not jax.local_devices()[0].device_kind.startswith("NVIDIA"):
        return False
    try:
        ptx, x = compile_ptx(_PROBE, (), _architecture()), np.ones(32, np.float32)
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        run = jax.jit(lambda x: _call(ptx, "probe", (1, 1), 32, (shape,), (x,))).lower(shape).compile()
        return bool((np.asarray(run(x)[0]) == 2.0).all())
    except (OSError, RuntimeError):
        return False


def _architecture() -> str:
    return "compute_" + str(jax.local_devices()[0].compute_capability).replace(".", "")


@functools.cache
def compile_ptx(source: str, options: tuple[str, ...], architecture: str) -> str:
    """The PTX of a source; an OSError where NVRTC is not found, and a RuntimeError with its message where it fails."""
    library = _nvrtc()
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    given = [option.encode() for option in (*options, f"--gpu-architecture={architecture}", "--std=c++17")]
    failed = library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
    if failed:
        raise RuntimeError(_text(program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog))
    ptx = _text(program, library.nvrtcGetPTXSize, library.nvrtcGetPTX)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return ptx


def _text(program: ctypes.c_void_p, size_of: Any, write: Any) -> str:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    write(program, text)
    return text.value.decode()


@functools.cache
def _nvrtc() -> Any:
    for path in _places():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise OSError("NVRTC was not found")


def _places() -> Iterator[str]:
    """Places to look for NVRTC; Python packages first, because JAX's own CUDA libraries are installed as such."""
    package = importlib.util.find_spec("nvidia")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        yield from (str(path) for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*"), reverse=True))
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
