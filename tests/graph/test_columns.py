"""What a graph takes as data: the same kinds of arrays as every other model."""

import numpy as np
import pandas as pd
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


def test_a_frame_is_its_numbers():
    frame = pd.DataFrame(X, columns=["height", "weight"])
    one, other = (tp.fit(noise(), data, tp.VB(), seed=0).log_evidence for data in (frame, X))
    assert one == other


def test_every_variable_of_a_table_says_what_it_is():
    """E[Λ] = dof · scatter⁻¹ of a Wishart: of conjugate data with known mean, dof + n and scatter + Σ x xᵀ."""
    g = tp.Graph()
    width = g.wishart("width", 4.0, [[2.0, 0.5], [0.5, 1.0]])
    g.normal("x", np.zeros(2), width, plates="n", observed=True)
    fit = tp.fit(g.model(), X, tp.VB(), seed=0)
    expected = (4.0 + len(X)) * np.linalg.inv(np.array([[2.0, 0.5], [0.5, 1.0]]) + X.T @ X)
    np.testing.assert_allclose(fit.posterior["width"].described()["mean"], expected, rtol=1e-9)
    (row,) = fit.columns()["posterior"]
    assert row == "mean " + np.array2string(expected, precision=3, separator=" ").replace("\n", "")


def test_the_parameters_of_discrete_families_can_be_read():
    np.testing.assert_allclose(tp.CategoricalDistribution([0.2, 0.8]).described()["probabilities"], [0.2, 0.8])
    np.testing.assert_allclose(tp.BernoulliDistribution(0.3).described()["probability"], 0.3)
