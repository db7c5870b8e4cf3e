"""Files with bytes changed, cut, doubled or made up: every reader gives a value or one sentence, never a raw error."""

from __future__ import annotations

import gzip
import io
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

from temperance.data import read_corpus, read_table
from temperance.data.load import load_corpus, load_table
from temperance.errors import TemperanceError

COUNTS = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 1]])


def saved(write: Callable[[Any], None]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


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
}
ODD = [b"\0", b'"', b"\n", b",", b";", b" ", b"-", b"9999999999", b"1e999", b"nan", b"\xff\xfe", b"\xc3", "²".encode(),
       b"-1", b"0", b"%", b":", b"x" * 200_000]  # fmt: skip
CORPORA = ["h.npz", "i.npz", "j.mtx", "docword.l.txt", "m.ldac"]
READERS: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "load_table": (load_table, sorted(GOOD)),
    "load_corpus": (load_corpus, ["a.csv", *CORPORA]),
    "read_corpus": (read_corpus, CORPORA),
    "read_table": (read_table, ["a.csv", "b.csv", "c.txt", "d.csv", "e.csv.gz", "m.ldac"]),
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

    attempt()
    assert min(outcomes.values()) > 0.02 * examples, outcomes
