"""Positive-definite linear algebra against NumPy, for batches and for badly scaled matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from temperance.numerics import linalg


def matrices(d: int, condition: float = 1e3, batch: tuple[int, ...] = (3, 2)) -> np.ndarray:
    """Random positive-definite matrices with a given condition number."""
    rng = np.random.default_rng(d)
    basis = np.linalg.qr(rng.normal(size=(*batch, d, d)))[0]
    spectrum = condition ** -np.linspace(0, 1, d)
    matrix = (basis * spectrum) @ basis.swapaxes(-1, -2)
    return 0.5 * (matrix + matrix.swapaxes(-1, -2))


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_solves_determinants_and_quadratic_forms(d):
    matrix, rng = matrices(d), np.random.default_rng(0)
    right, vector = rng.normal(size=(3, 2, d, 4)), rng.normal(size=(3, 2, d))
    inverse = np.linalg.inv(matrix)

    @jax.jit
    def compute(matrix, right, vector):
        factor = linalg.cholesky(matrix)
        return {
            "product": factor @ linalg.transpose(factor),
            "log_det": linalg.log_det(factor),
            "white": linalg.transpose(linalg.whiten(factor, right)) @ linalg.whiten(factor, right),
            "solve": linalg.solve(factor, right),
            "solve_vector": linalg.solve_vector(factor, vector),
            "quadratic": linalg.quadratic_form(factor, vector),
            "inverse": linalg.explicit_inverse(factor),
            "transposed": factor.swapaxes(-1, -2) @ linalg.transposed_solve(factor, right),
            "transposed_vector": linalg.transposed_solve_vector(factor, vector),
            "outer": linalg.outer(vector, right[..., 0]),
            "symmetrise": linalg.symmetrise(right[..., :d, :] @ linalg.transpose(right[..., :d, :])),
        }

    found = compute(matrix, right, vector)
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(found["product"], matrix, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(found["log_det"], np.linalg.slogdet(matrix)[1], **close)
    np.testing.assert_allclose(found["white"], right.swapaxes(-1, -2) @ inverse @ right, **close)
    np.testing.assert_allclose(found["solve"], np.linalg.solve(matrix, right), **close)
    np.testing.assert_allclose(found["solve_vector"], (inverse @ vector[..., None])[..., 0], **close)
    np.testing.assert_allclose(found["quadratic"], np.einsum("abi,abij,abj->ab", vector, inverse, vector), **close)
    np.testing.assert_allclose(found["inverse"], inverse, **close)
    np.testing.assert_allclose(found["transposed"], right, **close)
    lower = np.linalg.cholesky(matrix)
    np.testing.assert_allclose(
        found["transposed_vector"],
        np.linalg.solve(lower.swapaxes(-1, -2), vector[..., None])[..., 0],
        **close,
    )
    np.testing.assert_allclose(found["outer"], vector[..., :, None] * right[..., None, :, 0], **close)
    for name in ("symmetrise", "inverse"):
        np.testing.assert_array_equal(found[name], found[name].swapaxes(-1, -2))


def test_log_det_has_the_inverse_as_derivative():
    matrix = matrices(4, batch=())
    slope = jax.jit(jax.grad(lambda m: linalg.log_det(linalg.cholesky(m))))(matrix)
    np.testing.assert_allclose(linalg.symmetrise(slope), np.linalg.inv(matrix), rtol=1e-9)


def test_positive_definite_is_told_from_indefinite_in_any_units():
    definite = matrices(4, condition=1e10, batch=())
    units = np.logspace(-100, 100, 4)
    indefinite = definite - 0.5 * np.eye(4)
    singular = np.ones((4, 4))
    missing = np.full((4, 4), np.nan)
    cases = jnp.asarray(
        [
            definite,
            definite * units[:, None] * units,
            indefinite,
            -definite,
            singular,
            np.zeros((4, 4)),
            missing,
        ]
    )
    found = jax.jit(linalg.is_positive_definite)(cases)
    np.testing.assert_array_equal(found, [True, True, False, False, False, False, False])


def test_cholesky_of_an_indefinite_matrix_is_nan_not_an_error():
    assert np.all(np.isnan(jnp.diagonal(linalg.cholesky(-jnp.eye(3)))))
