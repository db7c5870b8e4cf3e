"""Corpora from whatever holds them, and what is wrong with those that cannot be used."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from scipy import io, sparse

from temperance.data import Corpus, as_corpus, read_corpus
from temperance.errors import DamagedFile, InvalidData, InvalidParameter

COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [0, 3, 0, 1], [1, 1, 1, 0]])


def counts(corpus: Corpus) -> np.ndarray:
    return corpus.to_sparse().toarray()


def test_all_forms_of_the_same_documents_agree(tmp_path: Path) -> None:
    tokens = [["a", "c", "a"], [], ["b", "d", "b", "b"], ["c", "b", "a"]]
    numbers = [["abcd".index(token) for token in document] for document in tokens]
    pairs = [[(0, 2), (2, 1)], [], [(3, 1), (1, 3)], [(0, 1), (1, 1), (2, 1)]]
    io.mmwrite(tmp_path / "corpus.mtx", sparse.coo_matrix(COUNTS))
    sparse.save_npz(tmp_path / "corpus.npz", sparse.csc_matrix(COUNTS))
    (tmp_path / "corpus.ldac").write_text("2 0:2 2:1\n0\n2 1:3 3:1\n3 0:1 1:1 2:1\n")
    entries = "".join(f"{d + 1} {w + 1} {COUNTS[d, w]}\n" for d, w in np.argwhere(COUNTS))
    with gzip.open(tmp_path / "docword.toy.txt.gz", "wt") as file:
        file.write(f"4\n4\n7\n{entries}")
    (tmp_path / "vocab.toy.txt").write_text("a\nb\nc\nd\n")
    forms = [COUNTS, sparse.coo_matrix(COUNTS), tokens, numbers, pairs, tmp_path / "docword.toy.txt.gz"]
    forms += [str(tmp_path / f"corpus.{ending}") for ending in ("mtx", "npz", "ldac")]
    for form in forms:
        corpus = as_corpus(form)
        assert (counts(corpus) == COUNTS).all(), form
        assert (len(corpus), corpus.n_words, corpus.n_tokens, corpus.n_empty) == (4, 4, 10, 1)
    assert as_corpus(tokens).vocabulary == read_corpus(tmp_path / "docword.toy.txt.gz").vocabulary == tuple("abcd")


def test_documents_can_be_taken_split_and_halved() -> None:
    generator = np.random.default_rng(0)
    matrix = generator.poisson(0.8, (50, 30))
    corpus = as_corpus(matrix)
    rows = [7, 3, 3, 49]
    assert (counts(corpus.take(rows)) == matrix[rows]).all()
    ranges = [(30, 42), (5, 5), (0, 7), (49, 50)]
    runs = np.concatenate([matrix[first:last] for first, last in ranges])
    assert (counts(corpus.take_ranges(ranges)) == runs).all()
    train, test = corpus.split(0.2, seed=1)
    assert (len(train), len(test)) == (40, 10)
    assert train.n_tokens + test.n_tokens == matrix.sum()
    observed, rest = corpus.halves(seed=2)
    assert (counts(observed) + counts(rest) == matrix).all()
    assert (observed.lengths == (matrix.sum(1) + 1) // 2).all()
    observed, rest = corpus.halves(seed=2, by="types")
    assert (counts(observed) + counts(rest) == matrix).all()
    assert (observed.entries == ((matrix > 0).sum(1) + 1) // 2).all()


def test_halves_choose_every_token_equally_often() -> None:
    corpus = as_corpus(np.array([[6, 2, 1, 1]]))
    mean = np.mean([counts(corpus.halves(seed=seed)[0])[0] for seed in range(2000)], axis=0)
    # A token is observed with probability a half; a hypergeometric count of six has variance 6·4·5·5/(100·9).
    assert np.allclose(mean, [3.0, 1.0, 0.5, 0.5], atol=4 * np.sqrt(6 / 9 / 2000))


def test_vocabulary_can_be_pruned() -> None:
    corpus = as_corpus([["the", "cat", "sat"], ["the", "dog"], ["the", "cat", "cat"], ["the", "odd"]])
    assert corpus.prune(min_documents=2).vocabulary == ("cat", "the")
    assert corpus.prune(max_share=0.5).vocabulary == ("cat", "dog", "odd", "sat")
    small = corpus.prune(max_share=0.5, most_common=1)
    assert small.vocabulary == ("cat",)
    assert (counts(small) == [[1], [0], [2], [0]]).all()
    with pytest.raises(InvalidParameter, match="no word is left"):
        corpus.prune(min_documents=9)


def test_unknown_tokens_are_left_out_and_counted() -> None:
    corpus = as_corpus([["cat", "yeti"], ["yeti"]], vocabulary=["cat", "dog"])
    assert (counts(corpus) == [[1, 0], [0, 0]]).all()
    assert (corpus.unknown, corpus.n_empty) == (2, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.array([[1.0, -2.0]]), "negative, found -2"),
        (sparse.csr_matrix([[0.5, 1.0]]), r"whole numbers, found 0\.5"),
        (sparse.csr_matrix([[np.inf, 1.0]]), "finite"),
        ([["a"], "text"], "document 1 must be a list of tokens"),
        ([["a"], [3]], "all text"),
        ([[-1, 2]], "start from 0"),
        ([[(0, -1)]], "negative"),
        ([[(0, 1, 2)]], "pairs"),
        ([], "no document has a token|at least one document"),
        ("nowhere.mtx", "no corpus at"),
    ],
)
def test_what_is_wrong_is_named(data: object, message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        as_corpus(data)


def test_sizes_must_fit() -> None:
    for attempt, message in (
        (lambda: as_corpus([[0, 5]], n_words=3), "word number 5 is outside the vocabulary of 3"),
        (lambda: as_corpus(COUNTS, vocabulary=["a", "b"]), "4 words, but the vocabulary has 2"),
        (lambda: as_corpus([["a"]], vocabulary=["a", "a"]), "repeat"),
    ):
        with pytest.raises(InvalidData, match=message):
            attempt()
    assert as_corpus(np.array([[0.5, 1.0]]), fractional=True).n_tokens == 1.5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "2\n3\n4\n1 1 1\n1 2 1\n2 3 1\n"),  # three of four entries
        ("a.txt", "2\n3\n2\n1 1 1\n2 3"),  # an entry without its count
        ("a.ldac", "2 0:1 1:1\n3 0:1 2:"),
        ("a.ldac", "2 0:1 1:1\n3 0:1 2:1\n"),
        ("a.mtx", "%%MatrixMarket matrix coordinate integer general\n2 3 3\n1 1 1\n"),
        ("a.mtx", "%%MatrixMarket matrix coordinate integer general\n% sizes missing\n"),
        ("a.txt", "some prose\n"),
        ("a.npz", "not a zip file"),
    ],
)
def test_a_truncated_file_is_damaged(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DamagedFile, match=name):
        read_corpus(tmp_path / name)


def test_a_truncated_archive_is_damaged(tmp_path: Path) -> None:
    whole = gzip.compress(b"1 0:1\n" * 1000)
    (tmp_path / "a.ldac.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedFile, match=r"a\.ldac\.gz"):
        read_corpus(tmp_path / "a.ldac.gz")
