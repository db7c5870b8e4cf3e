"""Parameters integrated out: CVB0 against its own equation in NumPy, and what has none."""

import numpy as np
import pytest

import temperance as tp
from temperance.errors import UnsupportedMethod
from tests.matrix.truths import HEADS, ROWS

TWO = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [0, 0, 0], [0, 0, 1], [0, 0, 0]], float)


def test_the_shares_of_a_mixture_are_a_fixed_point() -> None:
    """r_nk ∝ (1 + N_k) Π_d (a + S_kd)^x (b + N_k − S_kd)^(1 − x)/(a + b + N_k), all without datum n."""
    model = tp.Mixture(2, "bernoulli", prior=tp.Beta(**HEADS))
    fit = tp.fit(model, TWO, tp.CVB0(tol=0.0, passes=500), seed=1, progress=False)
    heads, weights = fit.posterior["components"].inner, fit.posterior["weights"]
    ones, held = np.asarray(heads.a) - HEADS["a"], np.asarray(weights.concentration) - 1.0
    shares = np.zeros((len(TWO), 2))
    for _ in range(200):  # from shares that give these sums, the equation must give them again
        shares = _refreshed(shares, ones, held)
    np.testing.assert_allclose(shares.sum(axis=0), held, atol=1e-6)
    np.testing.assert_allclose(shares.T @ TWO, ones, atol=1e-6)


def _refreshed(shares: np.ndarray, ones: np.ndarray, held: np.ndarray) -> np.ndarray:
    fresh = []
    for x, r in zip(TWO, shares, strict=True):
        count, seen = held - r, ones - r[:, None] * x
        a, b = HEADS["a"] + seen, HEADS["b"] + count[:, None] - seen
        p = (1.0 + count) * np.prod(np.where(x > 0, a, b) / (a + b), axis=1)
        fresh.append(p / p.sum())
    return np.array(fresh)


@pytest.mark.parametrize("method", [tp.CVB0(), tp.CollapsedGibbs()])
def test_without_labels_it_is_refused(method: tp.CVB0) -> None:
    with pytest.raises(UnsupportedMethod, match="integrates out every parameter"):
        tp.fit(tp.FactorAnalysis(1), ROWS, method)
    with pytest.raises(UnsupportedMethod, match="entries that are missing are latents, too"):
        tp.fit(tp.GaussianMixture(2, missing="marginalise"), np.where(ROWS > 1, np.nan, ROWS), method)
