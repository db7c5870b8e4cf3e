"""The bytes of a .npy file as an array, its size checked before memory is taken."""

from __future__ import annotations

import io
import math
import os
import tokenize
import warnings

import numpy as np

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def parse_npy(content: bytes) -> np.ndarray:
    """The array that `content`, a whole .npy file, holds; a ValueError says what is wrong.

    NumPy's reader allocates the memory that the header announces, even if no data follow.
    """
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"its format is version {version[0]}.{version[1]}, versions 1.0 and 2.0 can be read")
    try:
        with warnings.catch_warnings(action="ignore"):  # NumPy warns of files that Python 2 wrote
            shape, fortran, dtype = _HEADERS[version](file)
    except (SyntaxError, TypeError, KeyError, tokenize.TokenError) as error:
        raise ValueError(f"its header cannot be read ({str(error).splitlines()[0]})") from error
    if dtype.hasobject or dtype.names is not None or dtype.itemsize == 0:
        raise ValueError(f"it holds {dtype}, not numbers or text")
    if any(size < 0 for size in shape):
        raise ValueError(f"it announces the impossible shape {shape}")
    announced, held = math.prod(shape) * dtype.itemsize, len(content) - file.tell()
    if announced > held:
        raise ValueError(f"it announces an array of shape {shape}, {announced} bytes, and has {held} bytes")
    flat = np.frombuffer(content, dtype, count=math.prod(shape), offset=file.tell())
    return flat.reshape(shape, order="F" if fortran else "C").copy(order="K")


def map_npy(path: str | os.PathLike[str], mapped: bool = True) -> np.ndarray:
    """The array of a .npy file, mapped into memory or read; a ValueError says what is wrong with the file."""
    try:
        with warnings.catch_warnings(action="ignore"):
            found = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (SyntaxError, TypeError, KeyError, EOFError, OverflowError, tokenize.TokenError) as error:
        raise ValueError(f"it cannot be read ({' '.join(str(error).split())[:200]})") from error
    if not isinstance(found, np.ndarray):
        found.close()
        raise ValueError("it is an archive, not one array")
    return found
