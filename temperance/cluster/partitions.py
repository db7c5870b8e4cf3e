"""Partitions: the user's data on a cluster or on disk, as a list of parts with a name and a way to read each.

A part is read where it is used. It holds rows of numbers, pairs (X, y), or documents. Empty parts stay in the list, so
that numbers and names match the user's, and are skipped.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data import Corpus, ShardedCorpus, as_corpus, as_matrix
from ..data.arrays import is_lazy
from ..data.corpus import join_corpora
from ..data.corpus_store import open_shard, shard_count
from ..data.stream import Stream
from ..errors import InvalidData

_TABLES = (".npy", ".parquet", ".csv")
_CORPORA = (".npz", ".ldac", ".lda-c", ".dat", ".txt", ".mtx", ".gz")
_PIECE_ROWS = 4096  # fewest rows in a piece of an array in memory


class Partition(NamedTuple):
    """A part of the data: `source` is made by Dask (Delayed or Future), or is one of the readers below."""

    name: str
    source: Any


@dataclasses.dataclass(frozen=True)
class FromFile:
    """A file that every worker can see."""

    path: str

    def read(self, documents: bool) -> Any:
        path = Path(self.path)
        if documents:
            from ..data import read_corpus

            return read_corpus(path) if path.suffix not in _TABLES else _table(path)
        return _table(path)


@dataclasses.dataclass(frozen=True)
class FromShard:
    """One shard of a stored corpus."""

    folder: str
    number: int

    def read(self, documents: bool) -> Any:
        return open_shard(self.folder, self.number).take(slice(None))


@dataclasses.dataclass(frozen=True)
class FromMemory:
    """Rows that the client sends along."""

    rows: Any

    def read(self, documents: bool) -> Any:
        return self.rows


def _table(path: Path) -> np.ndarray:
    from ..data.load import load_table

    if path.suffix == ".npy":
        try:
            return np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InvalidData(f"it is damaged or no .npy file: {error}") from error
    return load_table(path).values


def as_partitions(data: Any, workers: int) -> list[Partition]:
    """Dask arrays, frames and bags, a pair of arrays (X, y), a list of delayed parts, a folder, or data in memory."""
    if isinstance(data, str | Path):
        parts = _folder(Path(data))
    elif isinstance(data, tuple) and len(data) == 2 and all(_is_array(part) for part in data):
        parts = _pairs(*data)
    elif _is_array(data):
        parts = [Partition(f"block {number}", block) for number, block in enumerate(_blocks(data))]
    elif hasattr(data, "to_delayed"):  # a frame or a bag
        parts = [Partition(f"partition {number}", part) for number, part in enumerate(data.to_delayed())]
    elif is_lazy(data):
        listed = data if isinstance(data, list | tuple) else [data]
        parts = [Partition(f"part {number} ({getattr(part, 'key', '?')})", part) for number, part in enumerate(listed)]
    else:
        parts = _in_memory(data, workers)
    if not parts:
        raise InvalidData("data must have at least one partition, got none")
    return parts


def _is_array(data: Any) -> bool:
    return is_lazy(data) and hasattr(data, "chunks") and hasattr(data, "rechunk")


def _blocks(array: Any) -> list[Any]:
    """The blocks of a Dask array, rechunked if necessary so that each holds whole rows."""
    array = array.rechunk(dict.fromkeys(range(1, array.ndim), -1))
    return list(array.to_delayed().ravel())


def _pairs(x: Any, y: Any) -> list[Partition]:
    from dask.delayed import delayed

    if x.shape[0] != y.shape[0] and not np.isnan(x.shape[0] + y.shape[0]):
        raise InvalidData(f"X and y must have the same number of rows, got {x.shape[0]} and {y.shape[0]}")
    if not np.isnan(sum(x.chunks[0]) + sum(y.chunks[0])):
        y = y.rechunk({0: x.chunks[0]})
    if len(x.chunks[0]) != len(y.chunks[0]):
        raise InvalidData(f"X and y must have the same blocks, got {len(x.chunks[0])} and {len(y.chunks[0])}")
    pairs = zip(_blocks(x), _blocks(y), strict=True)
    return [Partition(f"block {number}", delayed(tuple)(pair)) for number, pair in enumerate(pairs)]


def _folder(folder: Path) -> list[Partition]:
    if not folder.exists():
        raise InvalidData(f"there is no file or folder {str(folder)!r}")
    if not folder.is_dir():
        return [Partition(str(folder), FromFile(str(folder.resolve())))]
    stored = [path for path in (folder, *sorted(folder.iterdir())) if (path / "corpus.json").is_file()]
    if stored:
        return [
            Partition(f"{path}, shard {number}", FromShard(str(path.resolve()), number))
            for path in stored
            for number in range(shard_count(path))
        ]
    files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in (*_TABLES, *_CORPORA)]
    if not files:
        accepted = ", ".join((*_TABLES, *_CORPORA))
        raise InvalidData(f"folder {str(folder)!r} holds no shards: accepted are files that end in {accepted}")
    return [Partition(str(path), FromFile(str(path.resolve()))) for path in files]


def _in_memory(data: Any, workers: int) -> list[Partition]:
    """Parts of neighbouring rows, several for each worker."""
    if isinstance(data, dict | Stream):
        found = "a dictionary" if isinstance(data, dict) else "a tp.Stream"
        raise InvalidData(
            f"with engine data must be rows of numbers, a pair (X, y), documents or a folder of shards, got {found}"
        )
    count = row_count(data)
    pieces = int(np.clip(count // _PIECE_ROWS, 1, 4 * max(1, workers)))
    cuts = np.linspace(0, count, pieces + 1).astype(int)
    return [
        Partition(f"rows {a} to {b - 1}", FromMemory(take_rows(data, slice(a, b)))) for a, b in itertools.pairwise(cuts)
    ]


# ---- the three kinds of rows ------------------------------------------------------------------------------------


def as_rows(raw: Any, documents: bool, options: dict[str, Any]) -> Any:
    """The contents of a part: a corpus, a pair (X, y), or an array with a row for each datum; None if it is empty."""
    if documents:
        if isinstance(raw, list | tuple) and not len(raw):
            return None
        if getattr(raw, "shape", (1,))[0] == 0:
            return None
        if options.get("vocabulary") is None and isinstance(raw, list | tuple) and isinstance(raw[0], str):
            raise InvalidData("texts on a cluster need one vocabulary for all partitions: tp.LDA(…, vocabulary=[…])")
        corpus = as_corpus(raw, **options)
        return corpus.take(slice(None)) if isinstance(corpus, ShardedCorpus) else corpus
    if isinstance(raw, tuple) and len(raw) == 2:
        x, y = (as_rows(part, False, options) for part in raw)
        if (x is None) != (y is None) or (x is not None and len(x) != len(y)):
            counts = [0 if part is None else len(part) for part in (x, y)]
            raise InvalidData(f"X and y must have the same number of rows, got {counts[0]} and {counts[1]}")
        return None if x is None else (x, y)
    if isinstance(raw, list) and not raw:
        return None
    shape = getattr(raw, "shape", None)
    if shape is not None and len(shape) > 0 and shape[0] == 0:
        return None
    if shape is not None and len(shape) > 2:  # images
        flat = as_matrix(np.asarray(raw).reshape(shape[0], -1), missing=True, empty_columns=True)
        return flat.reshape(shape)
    return as_matrix(raw, missing=True, empty_columns=True)


def row_count(rows: Any) -> int:
    if isinstance(rows, tuple):
        return row_count(rows[0])
    shape = getattr(rows, "shape", None)
    return int(shape[0]) if shape else len(rows)


def take_rows(rows: Any, which: Any) -> Any:
    if isinstance(rows, tuple):
        return tuple(take_rows(part, which) for part in rows)
    if hasattr(rows, "n_words"):
        return rows.take(which)
    if hasattr(rows, "iloc"):
        return rows.iloc[which]
    if isinstance(rows, list):
        return rows[which] if isinstance(which, slice) else [rows[index] for index in which]
    return rows[which]


def join_rows(parts: Sequence[Any]) -> Any:
    """The rows of several partitions, joined."""
    if isinstance(parts[0], tuple):
        return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
    if isinstance(parts[0], Corpus):
        size = max(part.n_words for part in parts)
        return join_corpora(parts, size, parts[0].vocabulary)
    return np.concatenate(parts)
