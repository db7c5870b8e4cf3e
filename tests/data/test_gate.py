"""Sparse matrices and corpora that would end the process, and files that announce more than they hold."""

import io
import json

import numpy as np
import pytest
from scipy import sparse

import temperance as tp
from temperance.data import Corpus, as_corpus, open_corpus, read_corpus, store_corpus
from temperance.data.load import load_corpus, load_table
from temperance.errors import InvalidData, TemperanceError

COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 1], [0, 3, 0, 1]])


def broken(form: str, field: str, place: int, value: int) -> sparse.spmatrix:
    matrix = sparse.csr_matrix(COUNTS).asformat(form)
    getattr(matrix, field)[place] = value
    return matrix


CASES = [
    ("csr", "indices", 1, 99_999_999),
    ("csr", "indices", 0, -5),
    ("csr", "indptr", 1, 4_000),
    ("csr", "indptr", 1, -2),
    ("csr", "indptr", 3, 6),
    ("csc", "indices", 1, 3),
    ("csc", "indices", 2, -1),
    ("coo", "row", 1, 7),
    ("coo", "col", 1, 2**31 - 1),
    ("coo", "col", 0, -1),
    ("bsr", "indices", 0, 9),
]


def archive(matrix: sparse.spmatrix, **changes: np.ndarray) -> bytes:
    """What `scipy.sparse.save_npz` writes, which refuses some of these."""
    names = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "bsr": ("indices", "indptr")}
    parts = {name: getattr(matrix, name) for name in names.get(matrix.format, ("row", "col"))}
    about = {"data": matrix.data, "format": np.bytes_(matrix.format), "shape": np.array(matrix.shape)}
    buffer = io.BytesIO()
    np.savez(buffer, **{**parts, **about, **changes})
    return buffer.getvalue()


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_indices_that_do_not_fit_are_a_sentence_in_memory_and_in_a_file(case, tmp_path):
    matrix = broken(*case)
    with pytest.raises(InvalidData, match=r"numbered from 0 to|row starts do not go up"):
        tp.fit(tp.LDA(2), matrix)
    path = tmp_path / "x.npz"
    path.write_bytes(archive(matrix))
    for read in (load_table, load_corpus, read_corpus):
        with pytest.raises(TemperanceError, match=r"numbered from 0 to|starts do not|does not hold|damaged") as caught:
            read(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": np.array([3, 10**15])},
        {"shape": np.array([-3, 4])},
        {"shape": np.array([3, 4, 5])},
        {"shape": np.array([])},
        {"format": np.bytes_("zip")},
        {"format": np.array([1, 2])},
        {"indices": np.array([0.5] * 5)},
        {"indices": np.array([0])},
        {"indptr": np.array([[0, 1], [2, 3]])},
        {"data": np.array(["a"] * 5)},
    ],
    ids=str,
)
def test_archives_whose_parts_do_not_belong_together(changes, tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(archive(sparse.csr_matrix(COUNTS), **changes))
    for read in (load_table, load_corpus):
        with pytest.raises(TemperanceError) as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_good_archives_of_every_form(tmp_path):
    for form in ("csr", "csc", "coo", "bsr", "dia"):
        sparse.save_npz(tmp_path / "x.npz", sparse.csr_matrix(COUNTS).asformat(form))
        np.testing.assert_array_equal(load_table(tmp_path / "x.npz").values, COUNTS)
        np.testing.assert_array_equal(read_corpus(tmp_path / "x.npz").to_sparse().toarray(), COUNTS)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("c.ldac", "1 2147483648:1\n", "word number 2147483648, and words are numbered"),
        ("c.ldac", "1 9e30:1\n", "word number 8"),
        ("c.ldac", "1 nan:1\n", "must number its words from 0"),
        ("c.ldac", "² 0:1\n", "damaged or cut short|not a corpus"),
        ("d.txt", "999999999999999\n3\n1\n1 1 1\n", "announces 999999999999999 documents"),
        ("d.txt", "3\n99999999999\n1\n1 1 1\n", "has 99999999999 words"),
        ("d.txt", "3\n3\n9" + 5000 * "9" + "\n1 1 1\n", "not a corpus"),
        ("d.mtx", "%%MatrixMarket matrix coordinate integer general\n999999999999999 3 1\n1 1 1\n", "announces 9999"),
        ("d.mtx", "%%MatrixMarket matrix coordinate integer general\n3 9999999999 1\n1 1 1\n", "9999999999 words"),
    ],
)
def test_corpora_that_announce_too_much(name, content, sentence, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(TemperanceError, match=sentence) as caught:
        read_corpus(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_corpora_made_by_hand_and_shards_on_disk(tmp_path):
    whole = as_corpus(COUNTS)
    for words in (np.array([0, 2, 3, 1, 4]), np.array([0, 2, -3, 1, 3]), np.arange(4), np.arange(5.0)):
        with pytest.raises(InvalidData):
            tp.fit(tp.LDA(2), Corpus(whole.starts, words, whole.counts, 4))
    with pytest.raises(InvalidData, match="do not go up"):
        as_corpus(Corpus(np.array([0, 3, 2, 5]), whole.words, whole.counts, 4))
    with pytest.raises(InvalidData, match="word number 9"):
        tp.Stream(Corpus(whole.starts, whole.words + 9, whole.counts, 4))
    store_corpus(whole, tmp_path / "shards")
    words = np.load(tmp_path / "shards" / "00000.words.npy")
    np.save(tmp_path / "shards" / "00000.words.npy", words + 99)
    with pytest.raises(InvalidData, match="word number 99, and its 4 words are numbered from 0 to 3"):
        open_corpus(tmp_path / "shards").take([0])
    about = json.loads((tmp_path / "shards" / "corpus.json").read_text())
    starts = np.load(tmp_path / "shards" / "00000.starts.npy")
    np.save(tmp_path / "shards" / "00000.starts.npy", starts[::-1])
    with pytest.raises(InvalidData, match="do not go up"):
        open_corpus(tmp_path / "shards")
    assert about["n_words"] == 4
