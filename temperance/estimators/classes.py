"""`ClassMixture`: latent classes of the rows of a frame whose columns are of several kinds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

import temperance as tp

from .._arguments import whole
from ..data import as_weights
from ..data.schema import Schema
from ..errors import InvalidData
from ..models.mixture import Mixture
from ._mixture import EXPECTING, BatchedMixture


@dataclass(eq=False, repr=False)
class ClassMixture(BatchedMixture):
    """Latent classes of a table: `fit` takes a pandas or polars frame, a dictionary of columns, a path, or numbers.

    The kind of each column is recognised as `tp.read_table` does; `kinds` says where not ({"income": "positive"}).
    `concentration` is the Dirichlet parameter of the classes' shares; `covariance` is "diag" or "full"; `inference` is
    a method such as `tp.ParallelTempering()`, or its name. After a fit, `schema_` describes the columns, `weights_` and
    `profiles_` the classes; gaps are integrated out.
    """

    schema_: Schema = field(init=False)
    n_features_in_: int = field(init=False)

    n_components: int = 2
    _: KW_ONLY
    kinds: Mapping[str, str] | None = None
    covariance: str = "diag"
    concentration: float = 1.0
    inference: Any = "vb"
    n_init: int = 1
    max_iter: int = 1000
    tol: float = 1e-3
    random_state: Any = None

    def sample(self, n_samples: int = 1) -> Any:
        """New rows from the predictive distribution, as a dictionary of columns, with their most probable classes."""
        check_is_fitted(self)
        whole(1)("n_samples", n_samples)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        columns = self.fit_.sample(seed, n_samples)
        return columns, self.fit_.responsibilities(columns).argmax(axis=1)

    # ---- pieces -------------------------------------------------------------------------------------------

    def _rows(self, X: Any, reset: bool = False) -> Any:
        """X as a table; unnamed columns of numbers are called x0, x1, …"""
        known = None if reset else self.schema_
        if not sparse.issparse(X) and isinstance(X, tp.Table | Mapping | str | os.PathLike):
            table = tp.read_table(X, **({"kinds": self.kinds} if reset else {"like": known}))
            self.n_features_in_ = len(table.schema) if reset else self.n_features_in_
        else:
            if hasattr(X, "columns"):
                validate_data(self, X, reset=reset, skip_check_array=True)
                columns: Any = X
            else:
                rows = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan",
                                     ensure_min_samples=2 if reset else 1)  # fmt: skip
                columns = {f"x{place}": column for place, column in enumerate(rows.T)}
            table = tp.read_table(columns, **({"kinds": self.kinds} if reset else {"like": known}))
        if reset:
            self.schema_ = table.schema
        return table

    def _merged(self, x: Any, weights: Any, method: Any, init: Any) -> tuple[Any, np.ndarray | None]:
        codes = np.stack([np.asarray(x[name], dtype=np.float64) for name in x.columns], axis=1)
        _, first, group = np.unique(np.nan_to_num(codes, nan=np.inf), axis=0, return_index=True, return_inverse=True)
        given = as_weights(weights, len(x))
        if not isinstance(method, EXPECTING) or not isinstance(init, str | None):
            return x, given
        total = np.bincount(group.ravel(), given)
        return x.rows(first[total > 0]), total[total > 0]

    def _model(self, x: Any, weights: np.ndarray | None, init: Any) -> Mixture:
        if not x.columns:
            raise InvalidData(f"there is no column to tell classes by:\n{x.schema}")
        return tp.ClassMixture(
            self.n_components,
            kinds=self.kinds,
            covariance=self.covariance,
            concentration=self.concentration,
            init="kmeans++" if init is None else init,
        )

    def _show(self, fit: tp.Fit, components: Any, weights: np.ndarray) -> None:
        self.weights_ = weights
