"""One small problem that many tests share, so that its fit compiles once: twelve rows, two columns, two clusters."""

import numpy as np

import temperance as tp

# Multiples of 2⁻¹⁶: shifting them by 2²⁰ is exact.
X = (
    np.round((np.repeat([[-3.0, -2.0], [3.0, 2.0]], 6, axis=0) + np.random.default_rng(7).normal(size=(12, 2))) * 2**16)
    / 2**16
)
VB = tp.VB(restarts=3, tol=1e-9)
FORMS = {"full": "full", "diag": "diag", "spherical": "spherical", "known": np.array([[1.5, 0.3], [0.3, 0.8]])}


def mixture(form: str = "full", **options) -> tp.GaussianMixture:
    return tp.GaussianMixture(2, covariance=FORMS[form], **options)
