"""Coherence by hand and, for UMass, as in the paper's formula."""

from typing import Any

import numpy as np
import pytest

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
        (lambda: coherence([["a", "b"]], TEXTS, measure="c_v"), InvalidParameter, "measure"),
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
