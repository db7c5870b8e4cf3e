"""Classes that others have published: log likelihoods at the maximum of two classical tables of yes and no.

Old Faithful and iris, as mclust publishes them, are in `test_publication.py`.
"""

import numpy as np
import pytest

import temperance as tp

# Seven pathologists on the presence of carcinoma in 118 slides (Landis and Koch, 1977; Agresti, 2002, table 13.1).
CARCINOMA = {
    "0000000": 34, "0000100": 2, "0100000": 6, "0100001": 1, "0100100": 4, "0100101": 5, "1000000": 2, "1010101": 1,
    "1100000": 2, "1100001": 1, "1100100": 2, "1100101": 7, "1100111": 1, "1101001": 1, "1101101": 2, "1101111": 3,
    "1110101": 13, "1110111": 5, "1111101": 10, "1111111": 16,
}  # fmt: skip
# 216 students before four conflicts of roles (Stouffer and Toby, 1951; Goodman, 1974), in the order 1111, 1112, …
VALUES = (42, 23, 6, 25, 6, 24, 7, 38, 1, 4, 1, 6, 2, 9, 2, 20)


def carcinoma():
    rows = np.array([[int(c) for c in pattern] for pattern, n in CARCINOMA.items() for _ in range(n)])
    return {f"pathologist {chr(65 + j)}": rows[:, j] for j in range(7)}


def values():
    rows = np.array([[place >> j & 1 for j in (3, 2, 1, 0)] for place, n in enumerate(VALUES) for _ in range(n)])
    return {name: rows[:, j] for j, name in enumerate(("accident", "play", "doctor", "stock"))}


@pytest.mark.parametrize(
    ("data", "published"),
    [
        (carcinoma, {2: -317.2568, 3: -293.7050}),  # poLCA (Linzer and Lewis, 2011, Journal of Statistical Software 42)
        (values, {1: -543.6498, 2: -504.4677}),
    ],
)
def test_published_log_likelihoods(data, published):
    hill = tp.compare([tp.ClassMixture(k) for k in published], data(), tp.VB(restarts=5))
    for row in hill.publication().rows:
        assert row["log_likelihood"] == pytest.approx(published[row["groups"]], abs=1e-3)
