"""Corpora on disk as other programs write them: UCI bag of words, LDA-C, Matrix Market and SciPy npz.

The text formats are read in pieces, so that `store_corpus` can convert a file larger than memory. A file that ends
early is an error wherever its format announces its size (LDA-C does so only within a line).
"""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import DamagedFile, InvalidData, TemperanceError
from .corpus import Corpus, as_corpus, check_counts, join_corpora, make_corpus
from .gate import MOST_WORDS, check_vocabulary_size
from .memory import require_memory
from .npz import BROKEN_ARCHIVE, parse_npz, sparse_matrix

_MARKET = ("matrix coordinate integer general", "matrix coordinate real general")
_LINES = 500_000  # lines of text held at a time
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, UnicodeDecodeError)


def read_corpus(path: str | Path, vocabulary: str | Path | Sequence[str] | None = None) -> Any:
    """A corpus from a file in one of the formats above (also .gz), told apart by their contents, or from a
    folder that `store_corpus` wrote.

    `vocabulary` is a list of words or a file with one word per line. By default it is read from a file beside the
    corpus, if there is one: vocab.NAME.txt for a UCI file docword.NAME.txt, NAME.vocab.txt for all others (also .gz).
    The `report` of the corpus says so.
    """
    path = Path(path)
    if path.is_dir():
        from .corpus_store import open_corpus

        return open_corpus(path)
    words, beside = vocabulary_of(path, vocabulary), vocabulary_beside(path)
    corpus = as_corpus(join_corpora(list(corpus_pieces(path))), vocabulary=words, fractional=True)
    if vocabulary is not None:
        return corpus
    said = f"{path.name} has numbers for words: a file {_words_of(path)} beside it, a word a line, would name them"
    return dataclasses.replace(corpus, report=(said if beside is None else f"words are those of {beside.name}",))


def vocabulary_of(path: Path, given: str | Path | Sequence[str] | None) -> Sequence[str] | None:
    if isinstance(given, str | Path):
        return read_vocabulary(given)
    beside = vocabulary_beside(path) if given is None else None
    return given if beside is None else read_vocabulary(beside)


def vocabulary_beside(path: Path) -> Path | None:
    """The file of words that belongs to the file of a corpus."""
    if not path.name:
        return None
    found = (path.with_name(_words_of(path) + end) for end in ("", ".gz"))
    return next((file for file in found if file.is_file()), None)


def _words_of(path: Path) -> str:
    if path.name.startswith("docword."):
        return path.name.replace("docword.", "vocab.").removesuffix(".gz")
    return f"{path.name.split('.')[0]}.vocab.txt"


def read_vocabulary(path: str | Path) -> list[str]:
    """The words of a file with one word per line, in the order of their numbers."""
    with _open(Path(path)) as file:
        return [line.rstrip("\r\n") for line in file]


def corpus_pieces(path: str | Path) -> Iterator[Corpus]:
    """The documents of a file in pieces, in order."""
    path = Path(path)
    try:
        yield from _reader(path)(path)
    except FileNotFoundError as error:
        raise InvalidData(f"there is no corpus at {str(path)!r}") from error
    except UnicodeError as error:
        raise InvalidData(f"{path.name} is neither text nor a known kind of file") from error
    except _BROKEN as error:
        raise DamagedFile(f"{path.name} is damaged or cut short: {error}") from error


def _reader(path: Path) -> Callable[[Path], Iterator[Corpus]]:
    if path.suffix == ".npz":
        return _read_npz
    with _open(path) as file:
        head = [line.strip() for line in itertools.islice(file, 3)]
    if head and head[0].startswith("%%MatrixMarket"):
        return _read_matrix_market
    if len(head) == 3 and all(map(_is_size, head)) and head[0] != "0":
        return _read_uci
    if head and (head[0] == "0" or ":" in head[0]):
        return _read_ldac
    begins = head[0][:40] if head else ""
    raise DamagedFile(
        f"{path.name} is not a corpus in UCI, LDA-C, Matrix Market or npz form: it begins with {begins!r}"
    )


def _read_uci(path: Path) -> Iterator[Corpus]:
    """Read a header of three lines (the numbers of documents, words and entries), then lines "document word count",
    numbered from 1."""
    with _open(path) as file:
        documents, words, entries = (int(file.readline()) for _ in range(3))
        _check_announced(path, documents, words)
        yield from _triples(path, file, documents, words, entries)


def _read_matrix_market(path: Path) -> Iterator[Corpus]:
    with _open(path) as file:
        kind = file.readline().lower().split()[1:]
        if " ".join(kind) not in _MARKET:
            raise InvalidData(f"{path.name} must be a file of {' or '.join(_MARKET)}, found {' '.join(kind)!r}")
        line = next((line for line in file if line.strip() and not line.startswith("%")), "")
        if len(line.split()) != 3 or not all(map(_is_size, line.split())):
            raise DamagedFile(f"{path.name} is damaged or cut short: no line with its three sizes")
        documents, words, entries = map(int, line.split())
        _check_announced(path, documents, words)
        yield from _triples(path, file, documents, words, entries)


def _is_size(text: str) -> bool:
    """Whether the text is a number of digits 0 to 9 that fits 64 bits."""
    return text.isascii() and text.isdigit() and len(text) < 19


def _check_announced(path: Path, documents: int, words: int) -> None:
    """Refuse announced sizes that no machine can hold."""
    check_vocabulary_size(words, path.name)
    require_memory(16 * documents, f"{path.name} announces {documents} documents, which")


def _triples(path: Path, file: IO[str], documents: int, words: int, entries: int) -> Iterator[Corpus]:
    """Yield entries that are sorted by document in pieces, and others as a single piece."""
    held, read, first = np.empty((0, 3)), 0, 0
    sort = False
    for part in _tables(path, file):
        held, read = np.concatenate([held, part]), read + len(part)
        _check_triples(path, part, documents, words)
        sort = sort or bool((np.diff(held[:, 0]) < 0).any())
        last = int(held[-1, 0]) - 1
        if sort or last == first:
            continue
        # The last document of this piece may continue in the next piece.
        yield _rows(held[held[:, 0] <= last], first, last, words)
        held, first = held[held[:, 0] > last], last
    if read != entries:
        raise DamagedFile(f"{path.name} is damaged or cut short: it announces {entries} entries and has {read}")
    if held.size and held[:, 0].min() <= first:
        raise InvalidData(f"{path.name} is too large to be read unsorted: sort its lines by document")
    yield _rows(held, first, documents, words)


def _tables(path: Path, file: IO[str]) -> Iterator[np.ndarray]:
    while lines := list(itertools.islice(file, _LINES)):
        if lines := [line for line in lines if line.strip()]:
            try:
                table = np.loadtxt(lines, ndmin=2)
            except ValueError as error:
                raise DamagedFile(f"{path.name} is damaged or cut short: {error}") from error
            if table.shape[1] != 3:
                raise DamagedFile(f"{path.name} must have lines of three numbers, found {lines[0].strip()!r}")
            yield table


def _check_triples(path: Path, table: np.ndarray, documents: int, words: int) -> None:
    for column, name, most in ((0, "document", documents), (1, "word", words)):
        numbers = table[:, column]
        wrong = (numbers < 1) | (numbers > most) | (numbers != np.round(numbers))
        if wrong.any():
            raise InvalidData(f"{path.name} numbers its {name}s from 1 to {most}, but has {name} {numbers[wrong][0]:g}")
    check_counts(table[:, 2], fractional=True)


def _rows(table: np.ndarray, first: int, last: int, words: int) -> Corpus:
    """Documents `first` to `last` (from 0, the last excluded) of a table numbered from 1."""
    rows, columns = table[:, 0].astype(np.int64) - 1 - first, table[:, 1].astype(np.int64) - 1
    return make_corpus(rows, columns, table[:, 2], (last - first, words))


def _read_ldac(path: Path) -> Iterator[Corpus]:
    """Read one document per line: the number of its entries, then word:count pairs, with words numbered from 0."""
    with _open(path) as file:
        number = 0
        while lines := list(itertools.islice(file, _LINES)):
            lines = [line for line in lines if line.strip()]
            sizes, pairs = [], []
            for line in lines:
                number += 1
                size, *entries = line.split()
                if not _is_size(size) or int(size) != len(entries):
                    raise DamagedFile(
                        f"line {number} of {path.name} is damaged or cut short: it announces {size[:20]} "
                        f"entries and has {len(entries)}"
                    )
                sizes.append(len(entries))
                pairs += entries
            yield _from_pairs(path, sizes, pairs)


def _from_pairs(path: Path, sizes: list[int], pairs: list[str]) -> Corpus:
    try:
        table = np.array([pair.split(":") for pair in pairs], dtype=np.float64).reshape(-1, 2)
    except ValueError as error:
        raise DamagedFile(f"{path.name} is damaged or cut short: not all entries are word:count") from error
    words = table[:, 0]
    wrong = (words < 0) | (words != np.round(words))
    if wrong.any():
        raise InvalidData(f"{path.name} must number its words from 0, found {words[wrong][0]:g}")
    if words.size and words.max() >= MOST_WORDS:
        raise InvalidData(
            f"{path.name} has the word number {words.max():.0f}, and words are numbered from 0 to {MOST_WORDS - 1}"
        )
    counts = check_counts(table[:, 1], fractional=True)
    width = int(words.max()) + 1 if words.size else 1
    rows = np.repeat(np.arange(len(sizes)), sizes)
    return make_corpus(rows, words.astype(np.int64), counts, (len(sizes), width))


def _read_npz(path: Path) -> Iterator[Corpus]:
    try:
        matrix = sparse_matrix(parse_npz(path.read_bytes()), path.name)
    except BROKEN_ARCHIVE as error:
        if isinstance(error, FileNotFoundError | TemperanceError):
            raise
        raise DamagedFile(f"{path.name} does not hold a sparse matrix: {error}") from error
    yield as_corpus(matrix, fractional=True)


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")
