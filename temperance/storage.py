"""Saving and loading: arrays and JSON in one file, never code.

A file is a zip archive, not compressed, of `header.json` (format, version, checksums), `tree.json` (the structure) and
`arrays/N.npy`. Loading rebuilds only classes of this package from their fields, each held to its annotation
(`_saved.py`); it runs nothing from the file, and takes no more memory than a small multiple of the file's size.
A file on disk is replaced only by a complete new one: it is written beside, flushed, and renamed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import math
import os
import secrets
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import jax
import jax.numpy as jnp
import numpy as np

from ._arguments import check_path
from ._saved import check_fields, class_named, name_of
from .data.npy import parse_npy
from .errors import DamagedFile, InvalidParameter

FORMAT, VERSION = "temperance", 2
READS = (1, 2)  # version 1 gave classes with the whole names of their modules


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Write a tree of this package's objects to `path`."""
    arrays = _Arrays()
    tree = json.dumps(_encode(value, arrays), separators=(",", ":")).encode()
    entries = {"tree.json": tree}
    for number, array in enumerate(arrays.stored):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        entries[f"arrays/{number}.npy"] = buffer.getvalue()
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in entries.items()}
    header = json.dumps({"format": FORMAT, "version": VERSION, "sha256": checksums}).encode()
    _write(check_path("path", path), {"header.json": header} | entries)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote; a damaged or foreign file is an error and is left as it is."""
    found = check_path("path", path)
    if found.exists() and not (found.is_file() or found.is_dir()):  # a device or a pipe might block for ever
        raise DamagedFile(f"{path} is a device, a pipe or a socket, not a file of Temperance")
    with found.open("rb") as file:
        return _read(file, path)


def _read(file: BinaryIO, path: Any) -> Any:
    try:
        with zipfile.ZipFile(file) as archive:
            _check_sizes(archive, os.fstat(file.fileno()).st_size)
            header = json.loads(archive.read("header.json"))
            if not isinstance(header, dict) or header.get("format") != FORMAT:
                raise DamagedFile(f"{path} was not written by Temperance")
            if header.get("version") not in READS:
                raise DamagedFile(
                    f"{path} has format version {header.get('version')}; this version reads {READS[0]} to {READS[-1]}"
                )
            entries = {name: archive.read(name) for name in header["sha256"]}
        for name, content in entries.items():
            if hashlib.sha256(content).hexdigest() != header["sha256"][name]:
                raise DamagedFile(f"{path} is damaged: {name} does not match its checksum")
        arrays = [parse_npy(entries[f"arrays/{number}.npy"]) for number in range(len(entries) - 1)]
        return _decode(json.loads(entries["tree.json"]), _Stored(arrays))
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError, UnicodeDecodeError, EOFError) as error:
        raise DamagedFile(f"{path} is not a file of Temperance, or is damaged ({error})") from error
    except DamagedFile as error:
        raise error if str(error).startswith(str(path)) else DamagedFile(f"{path} cannot be loaded: {error}") from error
    except (NotImplementedError, RuntimeError, OSError, zlib.error) as error:
        # What zipfile raises for flipped bits in its own bookkeeping (a place before the file's beginning, for one).
        raise DamagedFile(f"{path} is damaged ({error})") from error
    except (ValueError, TypeError, IndexError, AttributeError, OverflowError, MemoryError) as error:
        # Whole, but not what `save` writes: a number where a list should be, an array of impossible size.
        raise DamagedFile(f"{path} does not hold what a file of Temperance does ({error})") from error


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive that would grow: entries that are compressed, repeated, or larger than the file together."""
    entries = archive.infolist()
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise DamagedFile(f"its entry {entry.filename[:60]!r} is compressed, and saved files never are")
    if len({entry.filename for entry in entries}) < len(entries):
        raise DamagedFile("it has two entries of the same name")
    if sum(entry.file_size for entry in entries) > size:
        raise DamagedFile("its entries announce more bytes than the file has")


def _write(path: Path, entries: dict[str, bytes]) -> None:
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            # A fixed date: the same fit gives the same bytes.
            archive.writestr(zipfile.ZipInfo(name), content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file beside `path`, which replaces it once complete, with its permissions."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # a device or a pipe must not be replaced
        raise InvalidParameter(f"path must be that of a file, got {str(path)!r}, which is a device, a pipe or a socket")
    beside = path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}.part")
    try:
        with open(beside, "xb") as file:
            if path.exists():
                os.chmod(beside, stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None  # the name that the user gave
        raise


class _Arrays:
    """The arrays of a file; equal arrays (data that many fits share) are stored once."""

    def __init__(self) -> None:
        self.stored: list[np.ndarray] = []
        self._numbers: dict[tuple[Any, ...], int] = {}

    def add(self, array: np.ndarray) -> int:
        """The number of an array."""
        content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        number = self._numbers.setdefault((content, array.shape, array.dtype.str), len(self.stored))
        if number == len(self.stored):
            self.stored.append(array)
        return number


def _encode(value: Any, arrays: _Arrays) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float) and not isinstance(value, np.generic):
        return value if isinstance(value, int) or math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        implementation = str(jax.random.key_impl(value))
        return {"key": implementation, "value": _encode(np.asarray(jax.random.key_data(value)), arrays)}
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype == object:
            raise InvalidParameter("an array of Python objects cannot be saved")
        return {"array": arrays.add(array), "on": "device" if isinstance(value, jax.Array) else "host"}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"class": name_of(type(value)), "items": [_encode(item, arrays) for item in value]}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_encode(item, arrays) for item in value]}
    if isinstance(value, Mapping):
        return {"dict": [[_encode(key, arrays), _encode(item, arrays)] for key, item in value.items()]}
    if isinstance(value, type):
        return {"type": name_of(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        # A field that a subclass computes (the natural parameter of a product) is not stored.
        stored = [name for name in names if not isinstance(getattr(type(value), name, None), property)]
        fields = {name: getattr(value, name) for name in stored}
        return {
            "class": name_of(type(value)),
            "fields": {name: _encode(item, arrays) for name, item in fields.items()},
        }
    raise InvalidParameter(f"{value!r} cannot be saved: only numbers, arrays and objects of this package can")


class _Stored:
    """The arrays of a file by number. However often it names one, it is put on the device once."""

    def __init__(self, arrays: list[np.ndarray]):
        self.host = arrays
        self.device = functools.cache(lambda number: jnp.asarray(arrays[number]))
        self.keys = functools.cache(lambda number, kind: jax.random.wrap_key_data(self.device(number), impl=kind))


def _decode(tree: Any, arrays: _Stored) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "float" in tree:
        return float(tree["float"])
    if "array" in tree:
        return arrays.device(tree["array"]) if tree["on"] == "device" else arrays.host[tree["array"]]
    if "key" in tree:
        return arrays.keys(tree["value"]["array"], tree["key"])
    if "type" in tree:
        return class_named(tree["type"])
    if "items" in tree or "fields" in tree:
        return _build(tree, arrays)
    if "dict" in tree:
        return {_decode(key, arrays): _decode(item, arrays) for key, item in tree["dict"]}
    if "tuple" in tree:
        return tuple(_decode(item, arrays) for item in tree["tuple"])
    return [_decode(item, arrays) for item in tree["list"]]


def _build(tree: dict[str, Any], arrays: _Stored) -> Any:
    """An object of the class that the tree names, from its fields; none of the class's own code is run."""
    cls = class_named(tree["class"])
    if "items" in tree:
        if not hasattr(cls, "_fields") or not isinstance(tree["items"], list):
            raise DamagedFile(f"a {cls.__qualname__} is not stored as a list of items")
        if not len(cls._fields) - len(cls._field_defaults) <= len(tree["items"]) <= len(cls._fields):
            raise DamagedFile(f"a {cls.__qualname__} has {len(cls._fields)} items, found {len(tree['items'])}")
        items = [_decode(item, arrays) for item in tree["items"]]
        check_fields(cls, dict(zip(cls._fields, items, strict=False)))
        return cls(*items)
    if not hasattr(cls, "__dataclass_fields__"):
        raise DamagedFile(f"a {cls.__qualname__} is not stored as fields")
    values = {name: make() for name, make in _absent(cls, tree["fields"]).items()}
    stored = {name: _decode(item, arrays) for name, item in tree["fields"].items()}
    check_fields(cls, stored)
    value = object.__new__(cls)
    for name, item in {**values, **stored}.items():
        object.__setattr__(value, name, item)
    return value


def _absent(cls: type, stored: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """The defaults of fields that were added since the file was written; other differences mean an unknown version."""
    defaults: dict[str, Callable[[], Any]] = {}
    odd = set(stored)
    for field in dataclasses.fields(cls):
        odd.discard(field.name)
        if field.name in stored or isinstance(getattr(cls, field.name, None), property):
            continue
        if field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory
        elif field.default is not dataclasses.MISSING:
            defaults[field.name] = functools.partial(getattr, field, "default")
        else:
            odd.add(field.name)
    if odd:
        names = ", ".join(sorted(odd))
        raise DamagedFile(f"the file holds a {cls.__qualname__} of another version (its fields differ: {names})")
    return defaults
