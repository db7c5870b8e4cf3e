"""Rows that stay on disk: read in pieces, in random order, ahead of their use.

A piece is made of slabs, short runs of neighbouring rows from random places. So reading is mostly sequential, and a
piece is still a fair sample even if the data are stored in some order.
"""

from __future__ import annotations

import collections
import itertools
import mmap
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import InvalidData, InvalidParameter
from .corpus import Corpus
from .gate import check_corpus
from .npy import map_npy

Range = tuple[int, int]  # (start, stop): rows from `start` to before `stop`
T = TypeVar("T")

_PIECE = 8 << 20  # bytes of a piece by default, as 64-bit numbers
_RELEASE = 16 << 20  # mapped bytes touched before the pages are handed back
_SLABS = 32


class Stream:
    """Data larger than memory, for methods that take minibatches.

    `source` is the path of a .npy file, a memory-mapped array (or anything else with a shape that can be sliced,
    such as an HDF5 dataset), a corpus, or a list of files or arrays (shards) whose rows follow each other.
    `piece_rows` is the number of rows in memory at a time; `prefetch` pieces are read ahead, each by a thread.
    """

    def __init__(self, source: Any, *, piece_rows: int | None = None, prefetch: int = 3):
        self._shards = _open(source)
        self._ends = np.cumsum([len(shard) for shard in self._shards])
        self.size = int(self._ends[-1])
        self.shape = _common_shape(self._shards)
        width = int(np.prod(self.shape)) if self.shape is not None else 1024
        for name, value in (("piece_rows", piece_rows), ("prefetch", prefetch)):
            wrong = isinstance(value, bool) or not isinstance(value, int | np.integer | None) or value == 0
            if wrong or (value is not None and value < 1):
                raise InvalidParameter(f"{name} must be a whole number of at least 1, got {value!r}")
        rows = max(1, _PIECE // (8 * width)) if piece_rows is None else int(piece_rows)
        self.prefetch = int(prefetch)
        self.slab_rows = max(1, min(rows, self.size) // _SLABS)
        self.piece_rows = self.slab_rows * min(_SLABS, self.size // self.slab_rows)
        self._touched = 0

    def __len__(self) -> int:
        return self.size

    @property
    def pieces_per_pass(self) -> int:
        return max(1, self.size // self.piece_rows)

    def take(self, ranges: Sequence[Range]) -> Any:
        """The rows of these ranges, in memory."""
        parts = [part for start, stop in ranges for part in self._slices(start, stop)]
        if self.shape is None:
            return _take_documents(parts)
        out = np.empty((sum(stop - start for start, stop in ranges), *self.shape), dtype=np.float64)
        filled = 0
        for shard, start, stop in parts:
            out[filled : filled + stop - start] = shard[start:stop]
            filled += stop - start
            self._release(shard, (stop - start) * int(np.prod(self.shape)) * 8)
        return out

    def sample(self, rng: np.random.Generator, rows: int) -> Any:
        """About `rows` rows from random places."""
        if rows >= self.size:
            return self.take([(0, self.size)])
        slab = max(1, rows // _SLABS)
        starts = rng.choice(self.size // slab, size=max(1, rows // slab), replace=False) * slab
        return self.take([(int(start), int(start) + slab) for start in np.sort(starts)])

    def shuffled(self, seed: int, use: Callable[[Any], T], skip: int = 0) -> Iterator[T]:
        """Pieces in random order, pass after pass without end, each put through `use` ahead of time.

        Each pass cuts the rows into slabs at other places; the few rows that do not fill a piece are left out. The
        first `skip` pieces are never read.
        """

        def jobs() -> Iterator[Callable[[], T]]:
            rng = np.random.default_rng(seed)
            together = self.piece_rows // self.slab_rows
            number = 0
            while True:
                spare = self.size - (self.size // self.slab_rows) * self.slab_rows
                offset = int(rng.integers(spare + 1))
                order = rng.permutation(self.size // self.slab_rows)
                for first in range(0, len(order) - together + 1, together):
                    number += 1
                    if number <= skip:
                        continue
                    starts = offset + np.sort(order[first : first + together]) * self.slab_rows
                    yield self._job([(int(start), int(start) + self.slab_rows) for start in starts], use)

        return ahead(jobs(), self.prefetch)

    def in_order(self, use: Callable[[Any], T]) -> Iterator[T]:
        """All rows once; the last piece may be shorter."""
        starts = range(0, self.size, self.piece_rows)
        ranges = ((start, min(start + self.piece_rows, self.size)) for start in starts)
        return ahead((self._job([rows], use) for rows in ranges), self.prefetch)

    def _job(self, ranges: Sequence[Range], use: Callable[[Any], T]) -> Callable[[], T]:
        return lambda: use(self.take(ranges))

    def _slices(self, start: int, stop: int) -> Iterator[tuple[Any, int, int]]:
        """A range of rows as parts of shards."""
        first = int(np.searchsorted(self._ends, start, side="right"))
        while start < stop:
            shard = self._shards[first]
            before = int(self._ends[first]) - len(shard)
            end = min(stop, int(self._ends[first]))
            yield shard, start - before, end - before
            start, first = end, first + 1

    def _release(self, shard: Any, size: int) -> None:
        """Release mapped pages, which count as resident memory until then; the system still caches the file."""
        mapped = getattr(shard, "_mmap", None)
        self._touched += size
        if self._touched < _RELEASE or mapped is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        self._touched = 0
        if getattr(shard, "mode", None) != "c":  # a private copy would lose its changes
            mapped.madvise(mmap.MADV_DONTNEED)


def ahead(jobs: Iterator[Callable[[], T]], depth: int) -> Iterator[T]:
    """The results of the jobs, in order, from `depth` threads that work that many jobs ahead."""
    with ThreadPoolExecutor(depth, thread_name_prefix="stream") as threads:
        waiting = collections.deque(threads.submit(job) for job in itertools.islice(jobs, depth))
        try:
            while waiting:
                done = waiting.popleft().result()
                waiting.extend(threads.submit(job) for job in itertools.islice(jobs, 1))
                yield done
        finally:
            for job in waiting:
                job.cancel()


def _open(source: Any) -> list[Any]:
    shards = list(source) if isinstance(source, list | tuple) else [source]
    if not shards:
        raise InvalidData("source of a stream must hold at least one file or array, got an empty list")
    opened = [_open_one(shard) for shard in shards]
    empty = [number for number, shard in enumerate(opened) if len(shard) == 0]
    if empty:
        raise InvalidData(f"shard {empty[0]} of the stream has no rows")
    return opened


def _open_one(source: Any) -> Any:
    if isinstance(source, str | Path):
        try:
            source = map_npy(source)
        except FileNotFoundError:
            raise InvalidData(f"source {str(source)!r} of the stream does not exist") from None
        except (OSError, ValueError) as error:
            raise InvalidData(f"source {str(source)!r} of the stream is not a .npy file ({error})") from error
    if isinstance(source, Corpus):
        check_corpus(source.starts, source.words, source.counts, source.n_words)
    if hasattr(source, "take") and hasattr(source, "n_words"):
        return source
    if not hasattr(source, "shape") or not hasattr(source, "__getitem__"):
        raise InvalidData(f"source of a stream must be .npy files, arrays or a corpus, got {type(source).__name__}")
    kind = np.dtype(source.dtype).kind
    if len(source.shape) == 0 or kind not in "fiub":
        raise InvalidData(f"source of a stream must hold rows of real numbers, got {source.dtype}{source.shape}")
    return source


def _common_shape(shards: list[Any]) -> tuple[int, ...] | None:
    """The shape of a row; None for documents."""
    shapes = {None if hasattr(shard, "n_words") else tuple(shard.shape[1:]) for shard in shards}
    if len(shapes) > 1:
        raise InvalidData(f"all shards of a stream must have rows of one shape, found {sorted(map(str, shapes))}")
    return shapes.pop()


def _take_documents(parts: list[tuple[Any, int, int]]) -> Any:
    corpora = {id(corpus): corpus for corpus, _, _ in parts}
    if len(corpora) > 1:
        raise InvalidData("source of a stream must be one corpus; join the shards with store_corpus first")
    corpus, ranges = parts[0][0], [(start, stop) for _, start, stop in parts]
    if isinstance(corpus, Corpus):
        return corpus.take_ranges(ranges)
    return corpus.take(np.concatenate([np.arange(start, stop) for start, stop in ranges]))
