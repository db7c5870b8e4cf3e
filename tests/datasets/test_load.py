"""The bundled data are the published ones, and a folder of the user's is read as documented."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from temperance import datasets

BUNDLED = ["acidity", "faithful", "galaxy", "geyser"]


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEMPERANCE_DATA", raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEMPERANCE_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "shape", "sums"),
    [
        ("acidity", (155, 1), [791.289947]),
        ("faithful", (272, 2), [948.677, 19284.0]),
        ("galaxy", (82, 1), [1708.180]),
        ("geyser", (299, 2), [21622.0, 1034.783334]),
    ],
)
def test_bundled(name: str, shape: tuple[int, int], sums: list[float]) -> None:
    x = datasets.load(name)
    assert x.shape == shape
    assert x.dtype == np.float64
    assert x.flags.c_contiguous and x.flags.writeable
    np.testing.assert_allclose(x.sum(axis=0), sums, rtol=0, atol=1e-6)


def test_galaxy_is_the_version_of_richardson_and_green() -> None:
    x = datasets.load("galaxy")[:, 0]
    assert x[77] == 26.960
    assert np.all(np.diff(x) >= 0)


def test_rows_keep_their_order() -> None:
    assert datasets.load("faithful")[0].tolist() == [3.6, 79.0]
    assert datasets.load("geyser")[1].tolist() == [71.0, 2.15]
    assert datasets.load("acidity")[0, 0] == 2.928524


def test_changing_a_loaded_array_does_not_change_the_next() -> None:
    datasets.load("galaxy")[:] = 0.0
    assert datasets.load("galaxy").min() > 9.0


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_descriptions_match_the_data(name: str) -> None:
    description = datasets.describe(name)
    assert description.shape == datasets.load(name).shape
    assert len(description.columns) == description.shape[1]
    for part in (name, *description.columns, description.about, description.source):
        assert part in str(description)
    assert str(description.shape[0]) in str(description)


def test_galaxy_description_names_its_version() -> None:
    assert "26.960" in datasets.describe("galaxy").about


def test_names_without_a_folder() -> None:
    assert datasets.names() == BUNDLED


def test_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(datasets.UnknownDataset, match=r"'enzyme'.*acidity, faithful, galaxy, geyser.*TEMPERANCE_DATA"):
        datasets.load("enzyme")
    with pytest.raises(ValueError, match="unknown data set 'enzyme'"):
        datasets.describe("enzyme")


def test_unknown_name_lists_the_folder_too(folder: Path) -> None:
    (folder / "enzyme.csv").write_text("activity\n0.13\n")
    with pytest.raises(datasets.UnknownDataset, match=r"TEMPERANCE_DATA: enzyme$"):
        datasets.load("enzymes")


def test_unknown_name_when_the_folder_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TEMPERANCE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(datasets.UnknownDataset, match="nowhere', which is not a folder"):
        datasets.load("enzyme")
    assert datasets.load("galaxy").shape == (82, 1)


@pytest.mark.parametrize("name", ["", ".", "..", "README.md", "notes"])
def test_other_files_are_not_data(folder: Path, name: str) -> None:
    (folder / "README.md").write_text("about")
    (folder / "notes.csv").mkdir()
    with pytest.raises(datasets.UnknownDataset):
        datasets.load(name)


def test_a_path_is_not_a_name(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "x.csv").write_text("a\n1\n")
    for name in ("inner/x", str(inner / "x.csv"), "../inner/x"):
        with pytest.raises(datasets.UnknownDataset):
            datasets.load(name)


def test_csv_keeps_numbers_in_order_and_leaves_text_out(folder: Path) -> None:
    (folder / "crabs.csv").write_text("sp,width,sex,depth\nB,6.7,M,7\nO,1e1,,7.4\n", encoding="utf-8-sig")
    np.testing.assert_array_equal(datasets.load("crabs"), [[6.7, 7.0], [10.0, 7.4]])
    description = datasets.describe("crabs")
    assert description.columns == ("width", "depth")
    assert description.shape == (2, 2)
    assert "sp, sex" in description.about
    assert "crabs.csv" in description.source


def test_csv_empty_cells_are_nan(folder: Path) -> None:
    (folder / "votes.csv").write_text("party,a,b\nd,0,1\nr,,1\nd,1,\n")
    np.testing.assert_array_equal(datasets.load("votes"), [[0.0, 1.0], [np.nan, 1.0], [1.0, np.nan]])


def test_csv_with_equal_headers_keeps_both_columns(folder: Path) -> None:
    (folder / "twice.csv").write_text("a,a\n1,2\n")
    np.testing.assert_array_equal(datasets.load("twice"), [[1.0, 2.0]])


def test_corpus(folder: Path) -> None:
    counts = sparse.csr_matrix(np.array([[0, 2, 1], [3, 0, 0]], dtype=np.int32))
    sparse.save_npz(folder / "corpus_tiny.npz", counts)
    with gzip.open(folder / "corpus_tiny.vocab.txt.gz", "wt", encoding="utf-8") as file:
        file.write("naïve\nline\u2028break\nzebra\n")
    loaded = datasets.load("tiny")
    assert sparse.issparse(loaded) and loaded.format == "csr"
    np.testing.assert_array_equal(loaded.toarray(), counts.toarray())
    assert datasets.load("tiny.vocab") == ["naïve", "line\u2028break", "zebra"]
    assert datasets.names() == [*BUNDLED, "tiny", "tiny.vocab"]
    assert datasets.describe("tiny").shape == (2, 3)
    assert datasets.describe("tiny.vocab").shape == (3,)


def test_archive_of_arrays(folder: Path) -> None:
    np.savez(folder / "faces.npz", images=np.zeros((2, 3, 3), np.uint8), subject=np.arange(2))
    loaded = datasets.load("faces")
    assert set(loaded) == {"images", "subject"}
    assert loaded["images"].dtype == np.uint8
    assert loaded["subject"].tolist() == [0, 1]
    assert datasets.describe("faces").columns == ("images", "subject")


def test_order_of_resolution(folder: Path) -> None:
    np.savez(folder / "x.npz", a=np.ones(1))
    assert set(datasets.load("x")) == {"a"}
    sparse.save_npz(folder / "corpus_x.npz", sparse.eye(2, format="csr"))
    assert sparse.issparse(datasets.load("x"))
    (folder / "x.csv").write_text("a\n1\n")
    assert datasets.load("x").tolist() == [[1.0]]
    assert set(datasets.load("x.npz")) == {"a"}


def test_bundled_data_cannot_be_shadowed(folder: Path) -> None:
    (folder / "galaxy.csv").write_text("velocity\n1\n")
    assert datasets.load("galaxy").shape == (82, 1)
    assert datasets.names() == BUNDLED


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("bad.csv", b"", "header and at least one row"),
        ("bad.csv", b"a,b\n", "header and at least one row"),
        ("bad.csv", b"a,b\n1,2\n3\n", "row 2 has 1 cells, the header has 2"),
        ("bad.csv", b"a\n1\ntwo\n", "column 'a' holds numbers, but also 'two'"),
        ("bad.csv", b"a\nx\ny\n", "no column holds numbers"),
        ("bad.csv", b"a\n\xff\xfe\n", "utf-8"),
        ("bad.npz", b"PK\x03\x04 cut short", "zip"),
        ("bad.npz", b"", "No data"),
        ("bad.txt.gz", b"plain", "gzip"),
    ],
)
def test_a_damaged_file_is_named(folder: Path, file: str, content: bytes, message: str) -> None:
    (folder / file).write_bytes(content)
    for use in (datasets.load, datasets.describe):
        with pytest.raises(datasets.MalformedDataset, match=f"cannot read {file}: .*{message}"):
            use("bad")


def test_pickled_arrays_are_refused(folder: Path) -> None:
    np.savez(folder / "objects.npz", a=np.array([{}], dtype=object))
    with pytest.raises(datasets.MalformedDataset, match=r"objects\.npz"):
        datasets.load("objects")


def test_bundled_data_need_no_scipy() -> None:
    """Importing this package alone must stay cheap, so SciPy comes in only with a corpus."""
    source = Path(datasets.__file__).parent
    code = (
        f"import sys; sys.path.insert(0, {str(source.parent)!r}); import datasets; "
        "datasets.load('galaxy'); print(sorted({'scipy', 'jax'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
