"""Latent classes and latent profiles: a mixture for tables of mixed columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from jaxtyping import ArrayLike

from ...families._family import Family
from .._about import CLASS, Words
from .columns import ColumnsPair
from .finite import Mixture


class ClassMixture(Mixture):
    """Classes of the rows of a table, in which every column has its own distribution.

    Data are a path, a frame, a dictionary of columns or a `tp.Table`. The kind of each column is recognised unless
    `kinds` gives it ({"income": "positive"}): real columns are Gaussian, positive ones log-normal, counts Poisson,
    binary ones Bernoulli, and categories categorical. Missing values are integrated out. `covariance="full"` lets the
    numbers vary together within a class. A `prior` is a `tp.Product` with the factors that
    `fit.model.prior["components"]` shows. See `Mixture` for the other arguments.
    """

    words: ClassVar[Words] = CLASS

    def __init__(
        self,
        n_components: int,
        *,
        kinds: Mapping[str, str] | None = None,
        covariance: str = "diag",
        prior: Family | None = None,
        concentration: ArrayLike = 1.0,
        weights: str | ArrayLike = "dirichlet",
        init: Any = "kmeans++",
    ):
        super().__init__(
            n_components,
            ColumnsPair(kinds, covariance),
            prior=prior,
            concentration=concentration,
            weights=weights,
            init=init,
        )
