"""Corpora larger than memory: a folder of shards, each of three NumPy files that are mapped into memory, not read."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DamagedFile, InvalidData, InvalidParameter
from .corpus import Corpus, as_corpus, join_corpora
from .corpus_files import corpus_pieces, vocabulary_of
from .gate import check_places, check_starts
from .npy import map_npy

_PARTS = ("starts", "words", "counts")
_VERSION = 1
_RELEASE = 128 << 20  # mapped bytes touched before the pages are handed back


@dataclasses.dataclass(frozen=True, eq=False)
class ShardedCorpus:
    """Documents in several memory-mapped shards, read like one corpus; `take` brings rows into memory."""

    shards: tuple[Corpus, ...]
    n_words: int
    n_tokens: float
    vocabulary: tuple[str, ...] | None = None
    unknown: int = 0
    _touched: list[int] = dataclasses.field(default_factory=lambda: [0], repr=False)  # bytes

    def __len__(self) -> int:
        return sum(len(shard) for shard in self.shards)

    @property
    def n_empty(self) -> int:
        return sum(shard.n_empty for shard in self.shards)

    @property
    def entries(self) -> np.ndarray:
        """The number of different words of each document."""
        return np.concatenate([shard.entries for shard in self.shards])

    def take(self, rows: Any) -> Corpus:
        """The documents with these numbers, in this order, in memory."""
        if isinstance(rows, slice) and rows.step in (None, 1):
            return self._joined(self._neighbours(*rows.indices(len(self))[:2]))
        rows = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
        ends = np.cumsum([len(shard) for shard in self.shards])
        which = np.searchsorted(ends, rows, side="right")
        parts, place = [], np.empty(len(rows), dtype=np.int64)
        done = 0
        for number in np.unique(which):
            here = np.flatnonzero(which == number)
            shard = self.shards[number]
            parts.append(shard.take(rows[here] - (ends[number] - len(shard))))
            place[here] = done + np.arange(len(here))
            done += len(here)
        joined = self._joined(parts)
        return joined if len(parts) == 1 and (np.diff(place) == 1).all() else joined.take(place)

    def _neighbours(self, first: int, last: int) -> list[Corpus]:
        """The documents from `first` to before `last`, copied in runs and not one by one."""
        parts, start = [], 0
        for shard in self.shards:
            here = slice(max(first - start, 0), min(last - start, len(shard)))
            if here.start < here.stop:
                parts.append(shard.take(here))
            start += len(shard)
        return parts

    def _joined(self, parts: list[Corpus]) -> Corpus:
        joined = parts[0] if len(parts) == 1 else join_corpora(parts, self.n_words, self.vocabulary)
        check_places(
            joined.words, self.n_words, "a shard of the corpus has the word number", f"its {self.n_words} words"
        )
        self._hand_back(len(joined.words))
        return dataclasses.replace(joined, n_words=self.n_words, vocabulary=self.vocabulary)

    def _hand_back(self, entries: int) -> None:
        """Release mapped pages, which count as resident memory until then; the system still caches the file."""
        self._touched[0] += 8 * entries
        if self._touched[0] < _RELEASE or not hasattr(mmap, "MADV_DONTNEED"):
            return
        self._touched[0] = 0
        for shard in self.shards:
            for part in _PARTS:
                mapped = getattr(getattr(shard, part), "_mmap", None)
                if mapped is not None:
                    mapped.madvise(mmap.MADV_DONTNEED)


def store_corpus(
    data: Any,
    folder: str | Path,
    vocabulary: str | Path | Sequence[str] | None = None,
    shard_documents: int = 1_000_000,
) -> ShardedCorpus:
    """Write a corpus (anything `as_corpus` takes, a path, or an iterator of corpora) as a folder of shards.

    A file or an iterator is converted piece by piece. An existing folder is replaced only when the new one is
    complete.
    """
    folder = Path(folder)
    if shard_documents < 1:
        raise InvalidParameter(f"shard_documents must be at least 1, got {shard_documents!r}")
    if folder.exists() and not (folder / "corpus.json").is_file():
        raise InvalidParameter(f"{str(folder)!r} exists and is not a stored corpus; name another folder")
    words: Sequence[str] | None
    if isinstance(data, str | Path):
        words, pieces = vocabulary_of(Path(data), vocabulary), corpus_pieces(data)
    else:
        words = vocabulary_of(Path(), vocabulary)
        pieces = data if isinstance(data, Iterator) else iter([as_corpus(data, vocabulary=words, fractional=True)])
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
    try:
        _write(beside, pieces, words, shard_documents)
        _replace(folder, beside)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return open_corpus(folder)


def open_corpus(folder: str | Path) -> ShardedCorpus:
    """A corpus that `store_corpus` wrote, memory-mapped."""
    with _opened(Path(folder)) as about:
        words = _vocabulary(about)
        shards = tuple(_open_shard(Path(folder), number, about, words) for number in range(len(about["shards"])))
        return ShardedCorpus(shards, about["n_words"], about["n_tokens"], words)


def open_shard(folder: str | Path, number: int) -> Corpus:
    """One shard of a stored corpus; the other shards stay closed."""
    with _opened(Path(folder)) as about:
        return _open_shard(Path(folder), number, about, _vocabulary(about))


def shard_count(folder: str | Path) -> int:
    with _opened(Path(folder)) as about:
        return len(about["shards"])


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[dict[str, Any]]:
    """The folder's description of its shards; anything wrong in it becomes an error of one sentence."""
    try:
        about = json.loads((folder / "corpus.json").read_text("utf-8"))
        if about["version"] != _VERSION:
            raise DamagedFile(f"{folder.name} was stored in version {about['version']}, this reads {_VERSION}")
        yield about
    except FileNotFoundError as error:
        raise InvalidData(f"{str(folder)!r} is not a stored corpus: it has no {Path(error.filename).name}") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError) as error:
        raise DamagedFile(f"{folder.name} is damaged: corpus.json cannot be read ({error})") from error


def _vocabulary(about: dict[str, Any]) -> tuple[str, ...] | None:
    return tuple(about["vocabulary"]) if about["vocabulary"] is not None else None


def _open_shard(folder: Path, number: int, about: dict[str, Any], vocabulary: tuple[str, ...] | None) -> Corpus:
    arrays: dict[str, Any] = {}
    sizes = about["shards"][number]
    for part in _PARTS:
        path = folder / f"{number:05d}.{part}.npy"
        expected = sizes["documents"] + 1 if part == "starts" else sizes["entries"]
        try:
            # An empty file cannot be mapped.
            arrays[part] = map_npy(path, mapped=bool(expected))
        except ValueError as error:
            raise DamagedFile(f"{path.name} of {folder.name} is damaged or cut short: {error}") from error
        if arrays[part].shape != (expected,):
            raise DamagedFile(f"{path.name} of {folder.name} should have {expected} entries, has {arrays[part].shape}")
    check_starts(arrays["starts"], sizes["documents"], sizes["entries"], f"shard {number} of {folder.name}")
    return Corpus(**arrays, n_words=about["n_words"], vocabulary=vocabulary)


def _write(folder: Path, pieces: Iterable[Corpus], vocabulary: Sequence[str] | None, size: int) -> None:
    shards: list[dict[str, int]] = []
    tokens, width = 0.0, 1
    held: list[Corpus] = []

    def flush() -> None:
        shard = join_corpora(held, width, None)
        for part in _PARTS:
            np.save(folder / f"{len(shards):05d}.{part}.npy", getattr(shard, part))
        shards.append({"documents": len(shard), "entries": len(shard.words)})
        held.clear()

    for piece in pieces:
        vocabulary = vocabulary or piece.vocabulary
        tokens, width = tokens + piece.n_tokens, max(width, piece.n_words)
        done = 0
        while done < len(piece):
            room = size - sum(len(part) for part in held)
            held.append(piece.take(slice(done, done + room)))
            done += room
            if sum(len(part) for part in held) == size:
                flush()
    if held or not shards:
        flush()
    if vocabulary is not None:
        if len(vocabulary) < width:
            raise InvalidData(f"the corpus has {width} words, but the vocabulary has {len(vocabulary)}")
        width = len(vocabulary)
    about = {
        "version": _VERSION,
        "n_words": width,
        "n_tokens": tokens,
        "shards": shards,
        "vocabulary": None if vocabulary is None else list(vocabulary),
    }
    (folder / "corpus.json").write_text(json.dumps(about), "utf-8")


def _replace(folder: Path, beside: Path) -> None:
    """Put the complete new folder in place of the old one."""
    if not folder.exists():
        beside.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=folder.name + ".old.", dir=folder.parent))
    os.rmdir(old)
    folder.rename(old)
    beside.rename(folder)
    shutil.rmtree(old)
