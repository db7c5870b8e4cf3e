"""Files with bytes changed, cut, doubled or made up: every reader gives a value or one sentence, never a raw error."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import io as scipy_io
from scipy import sparse

from temperance.data import as_corpus, open_corpus, read_corpus, read_table, read_texts, store_corpus
from temperance.data.load import load_corpus, load_table
from temperance.errors import TemperanceError

COUNTS = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 1]])


def saved(write: Callable[[Any], None]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def a_parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    columns = {"text": ["a cat and a dog", "bonds and shares rose", "the dog ate a bond"], "year": [1, 2, None]}
    return saved(lambda file: parquet.write_table(pyarrow.table(columns), file, compression="none"))


def a_workbook() -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    for row in (["a", "b"], [1.5, "x"], [2.0, "y"], [None, "x"]):
        book.active.append(row)
    return saved(book.save)


def shards() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        store_corpus(as_corpus(COUNTS), Path(folder) / "shards")
        return {f"shards/{file.name}": file.read_bytes() for file in (Path(folder) / "shards").iterdir()}


LINES = b"the cat sat on the mat\nbonds and shares rose again\nthe dog ate the share\n"
TEXT = b'id;name;x;when\n1;"M, a";1,5;2024-01-02\n2;b;NA;2024-02-03\n3;"c ""d""";-7,25;2024-03-04\n'
GOOD: dict[str, bytes] = {
    "a.csv": b"a,b\n1.5,-2\n3,4e3\n0.25,7\n",
    "b.csv": TEXT,
    "c.txt": b"x   y  z\n1 2  3\n4  5 6\n",
    "d.csv": TEXT.decode().encode("utf-16"),
    "e.csv.gz": gzip.compress(TEXT, mtime=0),
    "f.npy": saved(lambda file: np.save(file, COUNTS)),
    "g.npz": saved(lambda file: np.savez_compressed(file, x=COUNTS)),
    "h.npz": saved(lambda file: sparse.save_npz(file, sparse.csr_matrix(COUNTS), compressed=False)),
    "i.npz": saved(lambda file: sparse.save_npz(file, sparse.coo_matrix(COUNTS))),
    "j.mtx": saved(lambda file: scipy_io.mmwrite(file, sparse.coo_matrix(COUNTS))),
    "k.mtx": saved(lambda file: scipy_io.mmwrite(file, COUNTS.astype(float))),
    "docword.l.txt": b"2\n3\n3\n1 1 2\n1 3 1\n2 2 3\n",
    "m.ldac": b"2 0:2 2:1\n1 1:3\n",
    "n.parquet": a_parquet(),
    "o.xlsx": a_workbook(),
    "p.jsonl": b"".join(json.dumps({"text": line, "n": 1}).encode() + b"\n" for line in LINES.decode().split("\n")[:3]),
    "q.json": json.dumps([{"text": line, "n": 1.5} for line in LINES.decode().split("\n")[:3]]).encode(),
    "r.txt": LINES,
    "s.csv": b'id,text\n1,"the cat, the mat and I"\n2,bonds and shares rose again\n3,the dog ate the share\n',
    "folder/t.txt": LINES,
    "folder/u.html": b"<p>The cat sat &amp; <b>ate</b> a bond.</p>",
    **shards(),
}
SHARDS = [name for name in GOOD if name.startswith("shards/")]
ODD = [b"\0", b'"', b"\n", b",", b";", b" ", b"-", b"9999999999", b"1e999", b"nan", b"\xff\xfe", b"\xc3", "²".encode(),
       b"-1", b"0", b"%", b":", b"x" * 200_000]  # fmt: skip
CORPORA = ["h.npz", "i.npz", "j.mtx", "docword.l.txt", "m.ldac"]
TABLES = [name for name in sorted(GOOD) if "/" not in name]
READERS: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "load_table": (load_table, TABLES),
    "read_texts": (read_texts, ["n.parquet", "p.jsonl", "q.json", "r.txt", "s.csv"]),
    "a folder of texts": (lambda path: read_texts(path.parent), ["folder/t.txt", "folder/u.html"]),
    "a corpus of shards": (lambda path: open_corpus(path.parent).take([0, 2]), SHARDS),
    "load_corpus": (load_corpus, ["a.csv", *CORPORA]),
    "read_corpus": (read_corpus, CORPORA),
    "read_table": (read_table, ["a.csv", "b.csv", "c.txt", "d.csv", "e.csv.gz", "m.ldac", "n.parquet", "o.xlsx"]),
}


@st.composite
def files(draw: st.DrawFn, names: list[str]) -> tuple[str, bytes]:
    """A good file with a few places changed."""
    name = draw(st.sampled_from(names))
    content = bytearray(GOOD[name])
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        match draw(st.sampled_from(["flip", "cut", "insert", "double", "remove"])):
            case "flip" if content:
                content[place] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del content[place:]
            case "insert":
                content[place:place] = draw(st.sampled_from(ODD) | st.binary(max_size=6))
            case "double":
                content[place:place] = content[place:]
            case "remove":
                del content[place : place + draw(st.integers(1, 9))]
    return name, bytes(content)


@pytest.mark.parametrize("examples", [150, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("reader", READERS)
def test_changed_files_are_values_or_sentences(
    reader: str, examples: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("files")
    (folder / "folder").mkdir()
    (folder / "shards").mkdir()
    for name in SHARDS:
        (folder / name).write_bytes(GOOD[name])
    outcomes = {"read": 0, "refused": 0}
    read, names = READERS[reader]

    @settings(max_examples=examples)
    @given(files(names))
    def attempt(file: tuple[str, bytes]) -> None:
        path = folder / file[0]
        path.write_bytes(file[1])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                read(path)
        except TemperanceError as error:
            assert str(error) and "\n" not in str(error)
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
        finally:
            path.unlink()
            if file[0] in SHARDS:
                path.write_bytes(GOOD[file[0]])

    attempt()
    assert min(outcomes.values()) > 0.02 * examples, outcomes
