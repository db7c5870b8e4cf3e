"""Whether a Numba kernel can run without being compiled first, found out without importing Numba."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path


def at_hand(module: str, function: str) -> bool:
    """Whether `function` of `kernels/<module>.py` was compiled by this process, or by an earlier one that kept it."""
    loaded = sys.modules.get(f"{__package__}.{module}")
    if loaded is not None and getattr(loaded, function).signatures:
        return True
    source = Path(__file__).with_name(f"{module}.py")
    index = f"{module}.{function}-*.py{sys.version_info.major}{sys.version_info.minor}*.nbi"
    kept = (file for folder in _folders(source) for file in folder.glob(index))
    return any(file.stat().st_mtime >= source.stat().st_mtime for file in kept)


def _folders(source: Path) -> Iterable[Path]:
    """The folders in which Numba may keep compiled code: the one it is configured with, else beside the source or in
    the user's cache."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return Path(os.environ["NUMBA_CACHE_DIR"]).glob(f"{source.parent.name}_*")
    user = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "numba"
    return [source.parent / "__pycache__", *user.glob(f"{source.parent.name}_*")]
