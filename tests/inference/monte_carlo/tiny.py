"""A mixture small enough to enumerate, whose two components overlap: nothing about it is nearly certain."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import temperance as tp
from temperance.models import Mixture
from tests.exact import enumeration, marginals

X = np.array([-1.0, -0.6, 0.1, 0.4, 1.1, 1.5])[:, None]
PRIOR = {"mean": [0.0], "pseudo_count": 0.2, "dof": 3.0, "scatter": [[1.0]]}
MODEL = tp.GaussianMixture(2, prior=tp.NormalWishart(**PRIOR))
PAIRS = [(0, 1), (0, 3), (0, 5), (3, 4)]


def marginal(x: np.ndarray) -> float:
    return marginals.gaussian(x, **PRIOR)


LOG_EVIDENCE = enumeration.log_evidence(X, marginal, np.ones(2))  # −9.9614


def same_component() -> np.ndarray:
    return enumeration.same_component(X, marginal, np.ones(2))


def log_predictive(new: float) -> float:
    return enumeration.log_predictive(X, np.array([[new]]), marginal, np.ones(2))


def together(fit: tp.Fit, i: int, j: int) -> np.ndarray:
    """p(z_i = z_j | x, θ) at every draw (chain, draw): its posterior average does not depend on labels."""
    model = fit.model
    assert isinstance(model, Mixture)

    def one(draw: Any) -> Any:
        share = jax.nn.softmax(model.log_joint_z(model.statistics(draw), fit.data.values), axis=-1)
        return jnp.sum(share[i] * share[j])

    return np.asarray(jax.jit(jax.vmap(jax.vmap(one)))(fit.state.blocks))
