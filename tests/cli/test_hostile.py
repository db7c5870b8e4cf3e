"""Files and options that once ended a command in a traceback, or in silence."""

import os
import stat

import numpy as np
import pytest

import temperance as tp
from temperance.cli import main

GOOD = "x,y\n" + "".join(f"{i % 7},{(i * i) % 11}\n" for i in range(20))


def npy(shape: str) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)


REFUSED = {
    "a cell of 200,000 letters": ("x.csv", f"x,y\n1,2\n{'a' * 200_000},3\n".encode(), ["fit"]),
    "an npy that says it is larger": ("x.npy", npy("(9, 9)"), ["fit"]),
    "an npy of all memory": ("x.npy", npy("(99999999999, 9)"), ["fit"]),
    "a huge Matrix Market": (
        "x.mtx", b"%%MatrixMarket matrix coordinate real general\n9999999999999 9999999999999 1\n1 1 1\n", ["topics"],
    ),
    "a huge UCI header": ("docword.txt", b"9999999999999\n9999999999999\n1\n1 1 1\n", ["topics"]),
    "two as an exponent": ("x.csv", GOOD.encode(), ["fit", "--components", "²"]),
    "an npy of nothing": ("x.npy", npy("(0, 0)"), ["fit"]),
    "a parquet of zeros": ("x.parquet", b"PAR1" + bytes(50) + b"PAR1", ["fit"]),
    "texts in a parquet of zeros": ("x.parquet", b"PAR1" + bytes(50) + b"PAR1", ["topics"]),
    "a billion sizes": ("x.csv", GOOD.encode(), ["compare", "--components", "1:999999999"]),
    "more restarts than memory": ("x.csv", GOOD.encode(), ["fit", "--restarts", "1000000000000"]),
    "NUL in a cell": ("x.csv", b"1,2\0\n3,4\n", ["fit"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_one_sentence_and_exit_code_2(name, tmp_path, capsys):
    file, content, (command, *options) = REFUSED[name]
    (tmp_path / file).write_bytes(content)
    assert main([command, str(tmp_path / file), *options]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("temperance: ") and told.err.count("\n") == 1, told.err
    assert len(told.err) < 600


def test_a_result_does_not_replace_a_pipe_or_a_device(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "x.csv").write_text(GOOD)
    assert main(["fit", str(tmp_path / "x.csv"), "-k", "1", "--out", str(tmp_path / "pipe")]) == 2
    assert "is a device, a pipe or a socket" in capsys.readouterr().err
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_whole_numbers_that_a_float_rounds_are_read_from_parquet(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    whole = arrow.array([2**63, 1, 3, 2**60 + 1], arrow.uint64())
    parquet.write_table(arrow.table({"a": whole, "b": [1.0, 2.0, 3.0, 9.0]}), tmp_path / "x.parquet")
    assert main(["fit", str(tmp_path / "x.parquet"), "-k", "1", "--format", "json"]) == 0


def test_columns_are_separated_by_any_number_of_spaces(tmp_path):
    (tmp_path / "x.txt").write_text("1.5   2.5\n3.5  4.5\n")
    np.testing.assert_array_equal(tp.read_table(tmp_path / "x.txt").matrix(), [[1.5, 2.5], [3.5, 4.5]])
