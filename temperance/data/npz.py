"""The bytes of a .npz archive as arrays, or as a SciPy matrix, sizes checked before memory is taken."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Any

import numpy as np

from ..errors import InvalidData
from .gate import check_sparse
from .memory import require_memory
from .npy import parse_npy

_PARTS = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "bsr": ("indices", "indptr"),
          "coo": ("row", "col"), "dia": ("offsets",)}  # fmt: skip
# The exceptions that a damaged archive raises, besides this package's.
BROKEN_ARCHIVE = (ValueError, EOFError, OSError, RuntimeError, KeyError, TypeError, zlib.error, zipfile.BadZipFile)


def parse_npz(content: bytes, only: str | None = None) -> dict[str, np.ndarray]:
    """The arrays of an archive by name (`only` one of them); a ValueError or a BadZipFile says what is wrong."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        chosen = {name: entry for name, entry in entries.items() if only is None or only not in entries or name == only}
        # Compressed entries may grow a thousandfold.
        require_memory(2 * sum(entry.file_size for entry in chosen.values()), "what this archive holds")
        return {name: parse_npy(archive.read(entry)) for name, entry in chosen.items()}


def listed(arrays: dict[str, Any]) -> str:
    """The names of arrays for a sentence: the first eight, cut, and without what a terminal would obey."""
    shown = [name if name.isprintable() else ascii(name) for name in list(arrays)[:8]]
    return ", ".join(name[:40] for name in shown) + (", …" if len(arrays) > 8 else "") or "(none)"


def is_sparse(arrays: dict[str, np.ndarray]) -> bool:
    """Whether these are the parts of a matrix that `scipy.sparse.save_npz` wrote."""
    return {"data", "format", "shape"} <= set(arrays)


def sparse_matrix(arrays: dict[str, np.ndarray], name: str) -> Any:
    """The SciPy matrix whose parts these are, its indices checked against its shape."""
    from scipy import sparse

    if not is_sparse(arrays):
        raise InvalidData(f"{name} does not hold a sparse matrix, but the arrays {listed(arrays)}")
    form = arrays["format"].item() if arrays["format"].size == 1 else None
    form = form.decode("ascii", "replace") if isinstance(form, bytes) else str(form)
    if form not in _PARTS or not set(_PARTS[form]) <= set(arrays):
        raise InvalidData(f"{name} holds a sparse matrix in the form {form!r}, not in one of {', '.join(_PARTS)}")
    shape = tuple(int(size) for size in arrays["shape"].ravel())
    if len(shape) != 2 or min(shape) < 0:
        raise InvalidData(f"{name} holds a sparse matrix of the shape {shape}, not of rows and columns")
    require_memory(8 * max(shape), f"{name}, a sparse matrix of the shape {shape},")
    parts = tuple(arrays[part] for part in _PARTS[form])
    if arrays["data"].dtype.kind not in "biuf" or any(part.dtype.kind not in "iu" for part in parts):
        kinds = ", ".join(f"{part} of {arrays[part].dtype}" for part in ("data", *_PARTS[form]))
        raise InvalidData(f"{name} must hold a sparse matrix of numbers, indexed by whole numbers, found {kinds}")
    given = (arrays["data"], parts) if form == "coo" else (arrays["data"], *parts)
    matrix = getattr(sparse, f"{form}_array")(given, shape=shape)
    check_sparse(matrix, name)
    return matrix
