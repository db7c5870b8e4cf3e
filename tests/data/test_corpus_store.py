"""Corpora in shards on disk."""

import json
from pathlib import Path

import numpy as np
import pytest

from temperance.data import as_corpus, corpus_files, open_corpus, read_corpus, store_corpus
from temperance.errors import DamagedFile, InvalidData, InvalidParameter


@pytest.fixture
def matrix() -> np.ndarray:
    matrix = np.random.default_rng(3).poisson(0.3, (100, 12))
    matrix[41] = 0
    return matrix


def test_shards_read_like_one_corpus(tmp_path: Path, matrix: np.ndarray) -> None:
    stored = store_corpus(as_corpus(matrix), tmp_path / "shards", shard_documents=17)
    assert len(stored.shards) == 6
    assert isinstance(stored.shards[0].words, np.memmap)
    assert (len(stored), stored.n_words, stored.n_tokens) == (100, 12, matrix.sum())
    rows = np.random.default_rng(0).permutation(100)[:40]
    assert (stored.take(rows).to_sparse().toarray() == matrix[rows]).all()
    assert (read_corpus(tmp_path / "shards").take(slice(None)).to_sparse().toarray() == matrix).all()


def test_a_text_file_is_converted_in_pieces(
    tmp_path: Path, matrix: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces far smaller than the file: documents are cut in the middle, and empty ones fall between."""
    monkeypatch.setattr(corpus_files, "_LINES", 7)
    entries = np.argwhere(matrix)
    lines = [f"{d + 1} {w + 1} {matrix[d, w]}" for d, w in entries]
    (tmp_path / "docword.x.txt").write_text("\n".join(["100", "12", str(len(lines)), *lines]) + "\n")
    (tmp_path / "vocab.x.txt").write_text("".join(f"word{i}\n" for i in range(12)))
    stored = store_corpus(tmp_path / "docword.x.txt", tmp_path / "x", shard_documents=30)
    assert stored.vocabulary is not None and stored.vocabulary[11] == "word11"
    assert (stored.take(slice(None)).to_sparse().toarray() == matrix).all()
    ldac = "".join(
        " ".join([str((row > 0).sum()), *(f"{w}:{row[w]}" for w in np.flatnonzero(row))]) + "\n" for row in matrix
    )
    (tmp_path / "x.ldac").write_text(ldac)
    again = store_corpus(tmp_path / "x.ldac", tmp_path / "y", shard_documents=1000)
    assert (again.take(slice(None)).to_sparse().toarray() == matrix).all()


def test_an_old_corpus_survives_a_failed_new_one(tmp_path: Path, matrix: np.ndarray) -> None:
    store_corpus(matrix, tmp_path / "x")
    (tmp_path / "bad.txt").write_text("2\n3\n4\n1 1 1\n")
    with pytest.raises(DamagedFile):
        store_corpus(tmp_path / "bad.txt", tmp_path / "x")
    assert len(open_corpus(tmp_path / "x")) == 100
    store_corpus(matrix[:5], tmp_path / "x")
    assert len(open_corpus(tmp_path / "x")) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt", "x"]
    with pytest.raises(InvalidParameter, match="not a stored corpus"):
        store_corpus(matrix, tmp_path)


def test_damage_is_found_on_opening(tmp_path: Path, matrix: np.ndarray) -> None:
    store_corpus(matrix, tmp_path / "x", shard_documents=50)
    words = tmp_path / "x" / "00001.words.npy"
    words.write_bytes(words.read_bytes()[:-40])
    with pytest.raises(DamagedFile, match=r"00001\.words\.npy"):
        open_corpus(tmp_path / "x")
    words.unlink()
    with pytest.raises(InvalidData, match=r"00001\.words\.npy"):
        open_corpus(tmp_path / "x")
    (tmp_path / "x" / "corpus.json").write_text(json.dumps({"version": 9}))
    with pytest.raises(DamagedFile, match="version 9"):
        open_corpus(tmp_path / "x")
