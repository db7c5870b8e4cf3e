"""The environment on which an executable depends: code, versions, processor and settings."""

from __future__ import annotations

import enum
import functools
import importlib.metadata
import os
import platform
import re
import time
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jaxlib
import numpy as np

from .identity import NoIdentity
from .jax_versions import context

_IMPORTED = time.time()
_PACKAGE = Path(__file__).resolve().parents[1]
_SETTINGS = ("jax_default_prng_impl", "jax_disable_most_optimizations", "jax_optimization_level")
_VARIABLES = re.compile(r"XLA_|LIBTPU_|NUMBA_|PJRT_|TEMPERANCE_(?!CACHE|DATA)")


_USUAL = context()


def describe_context(found: tuple[Hashable, ...]) -> str:
    """The settings as a text that does not depend on the process."""
    if len(found) != len(_USUAL):
        raise NoIdentity("unknown settings of JAX")
    settings = [repr(getattr(jax.config, name, None)) for name in _SETTINGS]
    return ", ".join(settings + [_setting(value, usual) for value, usual in zip(found, _USUAL, strict=True)])


def _setting(value: Any, usual: Any) -> str:
    if isinstance(value, enum.Enum):
        return str(value)
    if value is None or value == () or isinstance(value, bool | int | float | str):
        return repr(value)
    if value == usual:
        return "usual"
    raise NoIdentity(f"a setting of JAX of type {type(value).__qualname__}")


@functools.cache
def describe_process() -> str:
    """Sources, versions, processor and environment; raises `NoIdentity` if the sources changed after their import."""
    versions = [module.__version__ for module in (jax, jaxlib, np, eqx)]
    machine = [platform.system(), platform.machine(), platform.python_version(), _processor(), str(os.cpu_count())]
    variables = [f"{name}={value}" for name, value in sorted(os.environ.items()) if _VARIABLES.match(name)]
    devices = [f"{jax.default_backend()} {jax.local_device_count()} {jax.process_count()}"]
    return "\n".join([_version(), *versions, *machine, *devices, *variables, _sources()])


def _version() -> str:
    try:
        return importlib.metadata.version("temperance")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _processor() -> str:
    """The model and the features of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))


def _sources() -> str:
    """The names, sizes and times of the package's files."""
    found = []
    for folder, _, names in os.walk(_PACKAGE):
        inside = os.path.relpath(folder, _PACKAGE)
        for name in names:
            if name.endswith(".py"):
                about = os.stat(os.path.join(folder, name))
                if about.st_mtime > _IMPORTED:
                    raise NoIdentity("the sources are newer than what was imported")
                found.append(f"{inside}/{name} {about.st_size} {about.st_mtime_ns}")
    return "\n".join(sorted(found))
