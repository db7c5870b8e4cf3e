"""Files as users have them, good and bad."""

import gzip
import io
import resource
import sys
import zipfile

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest
from scipy import io as scipy_io
from scipy import sparse

from temperance.data.load import load_corpus, load_table
from temperance.errors import InvalidData, InvalidParameter, TemperanceError

X = np.array([[1.5, -2.0], [3.0, 4e3], [0.25, 7.0]])
CSV = "a,b\n1.5,-2\n3,4e3\n0.25,7\n"


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        CSV,
        CSV.replace(",", ";"),
        CSV.replace(",", "\t"),
        CSV.replace("\n", "\r\n"),
        "\ufeff" + CSV,
        CSV.replace(",", " "),
        "  a     b\n1.5    -2\n  3   4e3\n0.25    7\n",
        CSV.encode("utf-16"),
        'a;b\n1,5;-2\n3,0;4e3\n"0,25";7\n',
        CSV + "\n\n",
        '"a","b"\n"1.5","-2"\n3,4e3\n0.25,7\n',
        gzip.compress(CSV.encode()),
    ],
    ids=["comma", "semicolon", "tab", "crlf", "mark", "space", "spaces", "utf-16", "decimal comma", "blank lines",
         "quoted", "gzip"],
)  # fmt: skip
def test_text(content, tmp_path):
    table = load_table(put(tmp_path, "data.csv", content))
    np.testing.assert_array_equal(table.values, X)
    assert table.columns == ("a", "b")


def test_no_header(tmp_path):
    table = load_table(put(tmp_path, "data.csv", CSV.partition("\n")[2]))
    np.testing.assert_array_equal(table.values, X)
    assert table.columns == ("column 1", "column 2")


def test_binary_files_and_matrix_market(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X, y=X[:1])
    sparse.save_npz(tmp_path / "s.npz", sparse.csr_matrix(X))
    scipy_io.mmwrite(tmp_path / "x.mtx", sparse.coo_matrix(X))
    for source, options in (("x.npy", {}), ("x.npz", {"array": "x"}), ("s.npz", {}), ("x.mtx", {})):
        np.testing.assert_array_equal(load_table(tmp_path / source, **options).values, X, err_msg=source)
    with pytest.raises(InvalidParameter, match="several arrays: name one of x, y"):
        load_table(tmp_path / "x.npz")


def test_parquet(tmp_path):
    table = pyarrow.table({"a": [1, None, 3], "word": ["x", "y", "z"], "b": [0.5, 1.5, 2.5]})
    parquet.write_table(table, tmp_path / "x.parquet")
    found = load_table(tmp_path / "x.parquet")
    np.testing.assert_array_equal(found.values, [[1, 0.5], [np.nan, 1.5], [3, 2.5]])
    assert found.columns == ("a", "b") and found.left_out == ("word",)


def test_parquet_without_its_package_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidData, match="pip install pyarrow"):
        load_table(put(tmp_path, "x.parquet", b"PAR1 something"))


@pytest.mark.parametrize("content", [CSV.encode(), b"\x93NUMPY"], ids=["csv", "npy"])
def test_standard_input(content, monkeypatch):
    if content != CSV.encode():
        buffer = io.BytesIO()
        np.save(buffer, X)
        content = buffer.getvalue()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    np.testing.assert_array_equal(load_table("-").values, X)


def test_names_of_data_sets():
    table = load_table("faithful", columns="waiting")
    assert table.values.shape == (272, 1) and table.columns == ("waiting",)


def test_columns_by_name_number_and_range(tmp_path):
    path = put(tmp_path, "d.csv", "a,b,c,word\n1,2,3,x\n4,5,6,y\n")
    assert load_table(path, columns="c,1").columns == ("c", "a")
    assert load_table(path, columns="2:3").columns == ("b", "c")
    with pytest.raises(InvalidParameter, match=r"column 'd' of d\.csv is not there; its 3 columns are a, b, c"):
        load_table(path, columns="d")
    with pytest.raises(InvalidParameter, match=r"column 'word' of d\.csv holds text"):
        load_table(path, columns="word")


def test_text_columns_are_left_out_and_empty_cells_are_missing(tmp_path):
    table = load_table(put(tmp_path, "d.csv", "name,a,b\nx,1,\ny,NA,2\nz,3,4\n"))
    assert table.columns == ("a", "b") and table.left_out == ("name",)
    np.testing.assert_array_equal(table.values, [[1, np.nan], [np.nan, 2], [3, 4]])


@pytest.mark.parametrize(
    "content, sentence",
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n", "a header and no rows"),
        ("a,b\n1,2\n3\n", "line 3 of d.csv has 1 cells where the first line has 2"),
        ("a,b\n1,2\nx,3\n", "column 'a' of d.csv holds numbers, but 'x' in row 2"),
        ("a,b\nx,y\nz,w\n", "no column of d.csv holds numbers: the first cell is 'x'"),
        (b"\xff\xfe\x00binary\x81\x82", "neither text nor a known kind"),
        (b"\x89PNG\r\n\x1a\n\x00\x01", "neither text nor a known kind"),
        ("a,b\n1,2\0\n", "line 2 holds the character 0"),
        ("1,2\0", "line 1 holds the character 0"),
        ("a,b\n1,2\n" + "x" * 200_000 + "\n", "line 3 of d.csv has 1 cells"),
        ('a,b\n1,2\n"' + "x" * 200_000 + '",3\n', "line 3 of d.csv cannot be read.*limit"),
        (
            b"\x93NUMPY\x01\x00\x76\x00"
            + b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 2), }".ljust(117)
            + b"\n",
            r"announces an array of shape \(99999999999, 2\)",
        ),
        (b"%%MatrixMarket matrix coordinate real general\n999999999 999999999 1\n1 1 1.0\n", "would take"),
        (b"%%MatrixMarket matrix coordinate real general\n9 9 999999999999\n1 1 1.0\n", "announces the sizes"),
        (b"%%MatrixMarket matrix array real general\n999999999 999999999\n1.0\n", "announces the sizes"),
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3 1.0\n", "damaged"),
        (b"\xfe\xff\x00", "neither text nor a known kind"),
        (b"\x93NUMPY\x01", "damaged or cut short"),
        (b"PK\x03\x04half an archive", "damaged or cut short"),
        (b"%%MatrixMarket matrix coordinate real general\n2 2", "damaged or cut short"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-6], "damaged or cut short"),
    ],
)
def test_bad_files_are_one_sentence(content, sentence, tmp_path):
    with pytest.raises(TemperanceError, match=sentence) as caught:
        load_table(put(tmp_path, "d.csv", content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "end", "sentence"),
    [
        (["x"], b"PK\x05\x06" + bytes(18), "holds no array|but the arrays \\(none\\)"),
        (["a\x1b[31m\nb", "c"], b"", r"a\\x1b\[31m\\nb"),
        ([f"x{number}" for number in range(3000)], b"", "x7, …"),
        (["x" * 60_000, "y"], b"", "x" * 40 + ", y"),
    ],
)
def test_archives_of_strange_arrays_are_one_sentence(names, end, sentence, tmp_path):
    """A second end without arrays was a StopIteration; names were shown whole, with what a terminal obeys."""
    path, array = tmp_path / "x.npz", io.BytesIO()
    np.save(array, np.zeros(2))
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(f"{name}.npy", array.getvalue())
    path.write_bytes(path.read_bytes() + end)
    for read in (load_table, load_corpus):
        with pytest.raises(TemperanceError, match=sentence) as caught:
            read(path)
        assert str(caught.value).isprintable() and len(str(caught.value)) < 250


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory in Linux's unit")
def test_a_long_cell_takes_a_small_multiple_of_its_size(tmp_path):
    """140 times as much once, for finding cells that spaces separate."""
    before, size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 6_000_000
    with pytest.raises(InvalidData, match="is a quotation mark left open"):
        load_table(put(tmp_path, "d.csv", 'a,b\n"' + "x" * size))
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 40 * size


def test_a_wrong_delimiter_is_suspected(tmp_path):
    with pytest.raises(InvalidData, match="is ';' the right delimiter"):
        load_table(put(tmp_path, "d.csv", CSV), delimiter=";")


def test_missing_files_name_what_there_is(tmp_path):
    with pytest.raises(InvalidData, match=r"there is no file .*acidity, faithful, galaxy"):
        load_table(tmp_path / "none.csv")
    with pytest.raises(InvalidData, match="is a folder"):
        load_table(tmp_path)


def test_a_million_rows(tmp_path):
    x = np.random.default_rng(0).normal(size=(1000, 2)).round(4)
    path = tmp_path / "big.csv"
    path.write_bytes(b"a,b\n" + 1000 * b"".join(f"{a},{b}\n".encode() for a, b in x.tolist()))
    np.testing.assert_array_equal(load_table(path).values, np.tile(x, (1000, 1)))


def test_corpora(tmp_path, monkeypatch):
    counts = np.array([[2, 0, 1], [0, 3, 0]])
    sources = {
        "c.ldac": "2 0:2 2:1\n1 1:3\n",
        "docword.c.txt": "2\n3\n3\n1 1 2\n1 3 1\n2 2 3\n",
        "c.csv": "apple,pear,plum\n2,0,1\n0,3,0\n",
    }
    for name, content in sources.items():
        corpus = load_corpus(put(tmp_path, name, content))
        np.testing.assert_array_equal(corpus.to_sparse().toarray(), counts, err_msg=name)
    assert load_corpus(tmp_path / "c.csv").vocabulary == ("apple", "pear", "plum")
    words = put(tmp_path, "words.txt", "apple\npear\nplum\n")
    assert load_corpus(tmp_path / "c.ldac", vocabulary=words).vocabulary == ("apple", "pear", "plum")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sources["c.ldac"].encode())))
    np.testing.assert_array_equal(load_corpus("-").to_sparse().toarray(), counts)
