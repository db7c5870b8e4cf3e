"""Corpora in files of other programs, with the words beside them."""

import gzip

import numpy as np
from scipy import sparse

from temperance.data.corpus_files import read_corpus


def test_words_beside_a_corpus_are_its_own(tmp_path):
    counts = sparse.csr_array(np.array([[1, 0, 2], [0, 3, 0]]))
    sparse.save_npz(tmp_path / "letters.npz", counts)
    assert "letters.vocab.txt beside it" in read_corpus(tmp_path / "letters.npz").report[0]
    with gzip.open(tmp_path / "letters.vocab.txt.gz", "wt", encoding="utf-8") as file:
        file.write("alpha\nbeta\ngamma\n")
    found = read_corpus(tmp_path / "letters.npz")
    assert found.vocabulary == ("alpha", "beta", "gamma")
    assert found.report == ("words are those of letters.vocab.txt.gz",)
    assert read_corpus(tmp_path / "letters.npz", vocabulary=["a", "b", "c"]).vocabulary == ("a", "b", "c")
