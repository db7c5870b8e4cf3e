"""Coherence by hand and, for UMass, as in the paper's formula."""

from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance.diagnostics.coherence import coherence
from temperance.errors import InvalidData, InvalidParameter

TEXTS = [["a", "b", "c"], ["a", "b"], ["a", "a", "d"], ["c", "d"]]


def test_npmi_by_hand() -> None:
    # a in 3 of 4, b in 2, together in 2: log(4·2/(3·2))/log(4/2); c and b: together once.
    ab = np.log(8 / 6) / np.log(2)
    ac = np.log(4 / 6) / np.log(4)
    bc = np.log(4 / 4) / np.log(4)
    assert np.allclose(coherence([["a", "b", "c"]], TEXTS), [(ab + ac + bc) / 3])
    assert np.allclose(coherence([["b", "d"]], TEXTS), [-1.0])
    assert np.allclose(coherence([["x", "y"]], [["x", "y"], ["y", "x"]]), [1.0])


def test_umass_by_hand() -> None:
    expected = np.mean([np.log(3 / 3), np.log(2 / 3), np.log(2 / 2)])
    assert np.allclose(coherence([[("a", 0.5), ("b", 0.3), ("c", 0.1)]], TEXTS, measure="umass"), [expected])


def test_words_may_be_numbers() -> None:
    matrix = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [2, 0, 0, 1], [0, 0, 1, 1]])
    assert np.allclose(coherence([[0, 1, 2]], matrix), coherence([["a", "b", "c"]], TEXTS))


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (lambda: coherence([["a", "b"]], TEXTS, measure="tf"), InvalidParameter, "measure"),
        (lambda: coherence([["a", "yeti"]], TEXTS), InvalidData, "'yeti' is not in the vocabulary"),
        (lambda: coherence([["a"]], TEXTS), InvalidParameter, "at least two words"),
        (
            lambda: coherence([["a", "e"]], TEXTS, vocabulary=["a", "b", "c", "d", "e"]),
            InvalidData,
            "none of the documents",
        ),
    ],
)
def test_mistakes_are_named(attempt: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        attempt()


def test_c_v_by_hand() -> None:
    """Every window in turn, as Röder and others (2015) define it; a long document has many."""
    rng = np.random.default_rng(0)
    texts = [list(rng.choice(["cat", "dog", "star", "moon", "of", "x"], n)) for n in (3, 6, 130, 2, 111, 4)]
    windows = [text[i : i + 110] for text in texts for i in range(max(len(text) - 109, 1))]
    topics = [["cat", "dog", "star"], ["moon", "cat"]]

    def share(*words: str) -> float:
        return sum(all(word in window for word in words) for window in windows) / len(windows)

    truth = []
    for topic in topics:
        vectors = np.array([
            [1.0 if v == w else np.log((share(v, w) + 1e-12) / (share(v) * share(w))) / -np.log(share(v, w) + 1e-12)
             for w in topic] for v in topic
        ])  # fmt: skip
        whole = vectors.sum(axis=0)
        truth.append(np.mean(vectors @ whole / np.linalg.norm(vectors, axis=1) / np.linalg.norm(whole)))
    for given in (texts, [" ".join(text) for text in texts]):
        np.testing.assert_allclose(tp.coherence(topics, given, measure="c_v"), truth, rtol=1e-6)
    with pytest.raises(InvalidParameter, match="whose order counts have lost"):
        tp.coherence(topics, np.ones((2, 3)), measure="c_v")
    strings = ["cats purr and sleep", "dogs bark and run"] * 10
    fit = tp.fit(tp.LDA(2), strings, tp.CVB0(), seed=0, progress=False)
    assert fit.coherence(strings, measure="c_v", n_words=3).shape == (2,)
    with pytest.raises(InvalidParameter, match="whose order counts have lost"):  # a fit keeps no texts
        fit.coherence(measure="c_v")
