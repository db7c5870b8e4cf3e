"""What a graph takes as data: the same kinds of arrays as every other model."""

import numpy as np
import pytest
import scipy.sparse

import temperance as tp
from temperance.errors import InvalidData


def noise():
    g = tp.Graph()
    g.normal("x", g.normal("mean", 0.0, 1.0), 1.0, plates=("n", g.plate("d", 2)), observed=True)
    return g.model()


X = np.arange(8.0).reshape(4, 2)


def out_of_range(index):
    matrix = scipy.sparse.csr_matrix(X + 1.0)
    matrix.indices[0] = index
    return matrix


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (scipy.sparse.csr_matrix(X), "x is a sparse matrix"),
        (out_of_range(99999999), "x is a sparse matrix"),
        (out_of_range(-5), "x is a sparse matrix"),
        ([["1", "2"]], "x must be real numbers, got text"),
        (X + 1j, "x must be real numbers, got complex128"),
        ([[1.0, 2.0], [3.0]], "different lengths"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused_by_name(data, told):
    with pytest.raises(InvalidData, match=told):
        noise().prepare(data)


def test_what_a_mask_hides_is_missing():
    _, data = noise().prepare(np.ma.masked_array(X, X == 3.0))
    np.testing.assert_array_equal(np.asarray(data.values["x"]), np.where(X == 3.0, np.nan, X))
