"""Executables on disk, in a folder that the user alone owns and can write.

A file is a keyed checksum (HMAC-SHA-256) and the content that it covers. The checksum is verified before anything is
unpickled; a file that fails is removed. If anything fails (no home, a read-only or shared folder, a full disk), the
store acts as if it were empty.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
import time
from pathlib import Path
from typing import NamedTuple

LIMIT = 512 * 2**20  # bytes of all files together; the least recently used go first
_SUFFIX = ".program"
_MAGIC = b"temperance program 1\n"
_SHARED = stat.S_IWGRP | stat.S_IWOTH
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


class Kept(NamedTuple):
    """A file of the store."""

    name: str  # the function and the first digits of its key
    bytes: int
    age: float  # seconds since its last use


def folder() -> Path | None:
    """The folder of executables: `programs` under TEMPERANCE_CACHE or the user's cache. None if TEMPERANCE_CACHE is
    "off" or empty, or if others than the user can write to the folder."""
    choice = os.environ.get("TEMPERANCE_CACHE")
    if choice in ("", "off") or not hasattr(os, "getuid"):
        return None
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache")
        place = (Path(choice) if choice else home / "temperance") / "programs"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.lstat()
    except (OSError, RuntimeError):
        return None
    return place if stat.S_ISDIR(found.st_mode) and _mine(found, _SHARED) else None


def read(name: str, digest: str) -> bytes | None:
    """The executable kept under this key, or None if there is none or its checksum fails."""
    place = folder()
    path = None if place is None else place / f"{name}-{digest}{_SUFFIX}"
    if place is None or path is None or not path.exists():
        return None
    try:
        content, secret = _read_own(path, _SHARED), _secret(place)
        body = content[len(_MAGIC) + 32 :]
        if hmac.compare_digest(content[: len(_MAGIC) + 32], _MAGIC + _sign(secret, path.name, body)):
            os.utime(path)
            return body
    except OSError:
        return None
    discard(name, digest)
    return None


def write(name: str, digest: str, body: bytes) -> None:
    """Keep an executable; other processes see the whole file or none."""
    place = folder()
    if place is None or len(body) > LIMIT:
        return
    path = place / f"{name}-{digest}{_SUFFIX}"
    with contextlib.suppress(OSError):
        _write_atomically(path, _MAGIC + _sign(_secret(place), path.name, body) + body)
        _trim(place)


def discard(name: str, digest: str) -> None:
    """Remove a file that cannot be used."""
    place = folder()
    if place is not None:
        with contextlib.suppress(OSError):
            (place / f"{name}-{digest}{_SUFFIX}").unlink()


def show() -> list[Kept]:
    """The kept executables, the most recently used first."""
    place = folder()
    now = time.time()
    files = [] if place is None else _files(place)
    return [Kept(path.name[: -len(_SUFFIX) - 52], size, max(0.0, now - used)) for used, size, path in reversed(files)]


def clear() -> int:
    """Remove all kept executables and the key of their checksums; returns how many there were."""
    place = folder()
    if place is None:
        return 0
    files = _files(place)
    for path in [*(path for _, _, path in files), place / "key"]:
        with contextlib.suppress(OSError):
            path.unlink()
    return len(files)


def _files(place: Path) -> list[tuple[float, int, Path]]:
    """(last use, bytes, path) of each file, least recently used first."""
    found = []
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):  # another process may have removed it
                    about = entry.stat(follow_symlinks=False)
                    found.append((about.st_mtime, about.st_size, Path(entry.path)))
    return sorted(found)


def _trim(place: Path) -> None:
    files = _files(place)
    total = sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= LIMIT:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
    for path in place.glob("*.part"):  # left by a process that was killed
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > 3600:
                path.unlink()


def _secret(place: Path) -> bytes:
    """The key of the checksums, made on first use."""
    path = place / "key"
    if not path.exists():
        part = _part(path, secrets.token_bytes(32))
        try:
            os.link(part, path)  # fails if another process was first
        except FileExistsError:
            pass
        finally:
            part.unlink()
    secret = _read_own(path, 0o077)
    if len(secret) != 32:
        raise OSError("the key is damaged")
    return secret


def _sign(secret: bytes, name: str, body: bytes) -> bytes:
    """The checksum of the name and the body; with the name, a file cannot pass for another one."""
    return hmac.digest(secret, name.encode() + b"\n" + body, hashlib.sha256)


def _mine(about: os.stat_result, forbidden: int) -> bool:
    return about.st_uid == os.getuid() and not about.st_mode & forbidden


def _read_own(path: Path, forbidden: int) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | _NOFOLLOW), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or not _mine(about, forbidden):
            raise PermissionError("others can write it")
        return file.read()


def _part(path: Path, content: bytes) -> Path:
    """A temporary file beside `path`."""
    part = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    except OSError:  # a full disk
        part.unlink(missing_ok=True)
        raise
    return part


def _write_atomically(path: Path, content: bytes) -> None:
    part = _part(path, content)
    try:
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
