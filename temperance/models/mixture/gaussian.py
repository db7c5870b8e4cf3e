"""Gaussian mixtures: full, diagonal, spherical or known covariance."""

from __future__ import annotations

from typing import Any

from jaxtyping import ArrayLike

from ...families import KnownCovarianceGaussian, Pair
from ...families._family import Family
from .finite import Mixture, check_choice, check_count

_FORMS = {"full": "gaussian", "diag": "diagonal", "diagonal": "diagonal", "spherical": "spherical"}


class GaussianMixture(Mixture):
    """A mixture of Gaussians with unknown means, and covariances that are "full", "diag" or "spherical"; or a
    known covariance matrix shared by all components, given as an array.

    `dim` is only checked against the data. See `Mixture` for the other arguments.
    """

    def __init__(
        self,
        n_components: int,
        dim: int | None = None,
        *,
        covariance: str | ArrayLike = "full",
        prior: Family | None = None,
        concentration: ArrayLike = 1.0,
        weights: str | ArrayLike = "dirichlet",
        init: Any = "mixed",
        missing: str | None = None,
        precision: str = "double",
    ):
        likelihood: str | Pair
        if isinstance(covariance, str):
            likelihood = check_choice("covariance", covariance, _FORMS)
        else:
            likelihood = KnownCovarianceGaussian(covariance, missing is not None)
        super().__init__(
            n_components,
            likelihood,
            prior=prior,
            concentration=concentration,
            weights=weights,
            init=init,
            missing=missing,
            precision=precision,
            columns=None if dim is None else check_count("dim", dim),
        )
