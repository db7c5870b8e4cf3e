"""Every iteration agrees with scikit-learn's BayesianGaussianMixture, where the two models are the same.

They are the same for full covariances, and for diagonal and spherical ones in one dimension. In more dimensions
scikit-learn takes E log|Λ| of those forms from a Wishart, Σ_i ψ((ν − i)/2), where independent Gamma precisions
give d ψ(ν/2): another model. Its `lower_bound_` drops constants, so bounds are not compared.
"""

import equinox as eqx
import jax
import numpy as np
import pytest
from sklearn.mixture import BayesianGaussianMixture

import temperance as tp

K, N = 3, 60


def problem(d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(d)
    x = rng.normal(scale=2.0, size=(K, d))[rng.integers(K, size=N)] + rng.normal(size=(N, d)) + 5.0
    return x, rng.dirichlet(np.ones(K), size=N)


def theirs(x: np.ndarray, shares: np.ndarray, covariance: str, scale: float) -> BayesianGaussianMixture:
    d = x.shape[1]
    estimator = BayesianGaussianMixture(
        n_components=K,
        covariance_type=covariance,
        reg_covar=0.0,
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=0.7,
        mean_precision_prior=0.4,
        mean_prior=np.full(d, 4.0),
        degrees_of_freedom_prior=d + 1.5,
        covariance_prior={"full": scale * np.eye(d), "diag": np.full(d, scale), "spherical": scale}[covariance],
    )
    estimator._check_parameters(x)
    estimator._initialize(x, shares)
    return estimator


def ours(x: np.ndarray, shares: np.ndarray, covariance: str, scale: float):
    d = x.shape[1]
    mean = np.full(d, 4.0)
    prior = {
        "full": lambda: tp.NormalWishart(mean, 0.4, d + 1.5, scale * np.eye(d)),
        "diag": lambda: tp.NormalGamma(mean, 0.4, d + 1.5, scale),
        "spherical": lambda: tp.IsotropicNormalGamma(mean, 0.4, d + 1.5, scale),
    }[covariance]()
    model = tp.GaussianMixture(K, covariance=covariance, prior=prior, concentration=0.7, init=shares)
    return model.prepare(x)


@pytest.mark.parametrize(("d", "covariance"), [(1, "full"), (3, "full"), (1, "diag"), (1, "spherical")])
def test_every_iteration_agrees(d, covariance):
    x, shares = problem(d)
    peer = theirs(x, shares, covariance, 0.8)
    model, data = ours(x, shares, covariance, 0.8)
    q = eqx.filter_jit(model.initial)(jax.random.key(0), data)
    sweep = eqx.filter_jit(lambda q: model.sweep(q, data)[0])
    shared = eqx.filter_jit(lambda q: model.responsibilities(q, data.values))
    for _ in range(12):
        blocks = model.to_user(q.blocks)
        components = getattr(blocks["components"], "inner", blocks["components"])
        np.testing.assert_allclose(blocks["weights"].concentration, peer.weight_concentration_, rtol=1e-8)
        np.testing.assert_allclose(components.pseudo_count.reshape(-1), peer.mean_precision_, rtol=1e-8)
        np.testing.assert_allclose(components.dof.reshape(-1), peer.degrees_of_freedom_, rtol=1e-8)
        np.testing.assert_allclose(components.location.reshape(K, d), peer.means_, rtol=1e-8)
        scatter = np.asarray(components.scatter) / np.asarray(components.dof).reshape(
            (K,) + (1,) * (components.scatter.ndim - 1)
        )
        np.testing.assert_allclose(scatter.reshape(peer.covariances_.shape), peer.covariances_, rtol=1e-8)
        _, log_shares = peer._e_step(x)
        np.testing.assert_allclose(shared(q)[:N], np.exp(log_shares), rtol=1e-8, atol=1e-10)
        peer._m_step(x, log_shares)
        q = sweep(q)
