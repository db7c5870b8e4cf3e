"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

from ._uncollected import uncollected


def lazy(package: str, modules: Mapping[str, tuple[str, ...]]) -> tuple[list[str], Callable[[str], object]]:
    """`__all__` and `__getattr__` of a package, from the names that each of its modules (relative paths) holds."""
    homes = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with uncollected():
            value = getattr(importlib.import_module(f".{homes[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return sorted(homes), find
