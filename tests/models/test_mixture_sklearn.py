"""Every iteration against scikit-learn, from the same responsibilities.

Its `BayesianGaussianMixture` is the same model for full covariances. For "diag" and "spherical" with more than one
column it is not: it keeps the E log|Λ| of a full Wishart, d digamma functions of falling arguments, where ours has
one Gamma for each precision (and a spherical one learns from d columns at once). In one column the
three forms are one model. Its `lower_bound_` leaves out constants, so only parameters can be compared.
"""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from sklearn.mixture import BayesianGaussianMixture

import temperance as tp
from temperance.models import Data, Posterior

N, K, STEPS = 30, 3, 25


@eqx.filter_jit
def iterate(model: tp.Mixture, data: Data) -> Any:
    """The posterior before each sweep, and the responsibilities it implies."""

    def step(q: Posterior, _: Any) -> Any:
        return model.sweep(q, data)[0], (q, model.responsibilities(q, data.values))

    return jax.lax.scan(step, model.initial(jax.random.key(0), data), None, length=STEPS)[1]


def prior(form: str, mean: np.ndarray, count: float, dof: float, scatter: np.ndarray) -> tp.Family:
    if form == "full":
        return tp.NormalWishart(mean, count, dof, scatter)
    if form == "diag":
        return tp.NormalGamma(mean, count, dof, scatter)
    return tp.IsotropicNormalGamma(mean, count, dof, float(scatter[0]))


@pytest.mark.parametrize(("form", "d"), [("full", 2), ("diag", 1), ("spherical", 1)])
def test_same_parameters_at_every_iteration(form: str, d: int) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(N, d)) + rng.integers(3, size=(N, 1)) * 2.5 + 7.0
    start = rng.dirichlet(np.ones(K), size=N)
    mean, count, dof, delta = rng.normal(size=d) + 8, 0.3, d + 1.5, 0.4
    scatter = np.array([[1.5, 0.4], [0.4, 0.9]]) if form == "full" else np.array([1.5])

    peer = BayesianGaussianMixture(
        n_components=K,
        covariance_type=form,
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=delta,
        mean_prior=mean,
        mean_precision_prior=count,
        degrees_of_freedom_prior=dof,
        covariance_prior=float(scatter[0]) if form == "spherical" else scatter,
        reg_covar=0.0,
    )
    peer._check_parameters(x)
    peer._initialize(x, start)

    model, data = tp.GaussianMixture(
        K, covariance=form, prior=prior(form, mean, count, dof, scatter), concentration=delta, init=start
    ).prepare(x)
    posteriors, shares = iterate(model, data)
    blocks = jax.vmap(model.units.to_user)(posteriors.blocks)
    components, weights = blocks["components"], blocks["weights"]
    family = components.inner if form == "diag" else components

    for step in range(STEPS):
        _, log_shares = peer._e_step(x)

        def same(ours: Any, theirs: Any, step: int = step) -> None:
            np.testing.assert_allclose(np.asarray(ours)[step].reshape(theirs.shape), theirs, rtol=1e-8, atol=1e-8)

        same(weights.concentration, peer.weight_concentration_)
        same(family.pseudo_count, peer.mean_precision_)
        same(family.location, peer.means_)
        same(family.dof, peer.degrees_of_freedom_)
        spread = (-1, *[1] * (peer.covariances_.ndim - 1))
        same(family.scatter, peer.covariances_ * peer.degrees_of_freedom_.reshape(spread))
        same(shares, np.exp(log_shares))
        peer._m_step(x, log_shares)
    # They have moved a long way from the start together.
    assert np.abs(np.asarray(shares)[-1] - np.asarray(shares)[0]).max() > 0.5
