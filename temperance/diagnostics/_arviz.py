"""The differences between versions of ArviZ."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float


def gathered(groups: dict[str, Any]) -> Any:
    """The groups as an `arviz.InferenceData` before ArviZ 1.0, and as an `xarray.DataTree` since."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its successor when it is imported
        import arviz

        if int(arviz.__version__.split(".")[0]) < 1:
            return arviz.InferenceData(**groups)
    import xarray

    return xarray.DataTree.from_dict(groups)


def smoothed_weights(
    log_ratios: Float[np.ndarray, "draw n"],
) -> tuple[Float[np.ndarray, "draw n"], Float[np.ndarray, " n"]]:
    """Normalised Pareto-smoothed log weights, and the Pareto shape of each datum."""
    rows = np.ascontiguousarray(log_ratios.T)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ warns of Pareto shapes, which are reported anyway
        import arviz

        if hasattr(arviz, "psislw"):
            smoothed, khat = arviz.psislw(rows)
        else:  # since 1.0 ArviZ takes log likelihoods, the negatives of the log weights
            from arviz_stats.base import array_stats

            smoothed, khat = array_stats.psislw(-rows)
    return np.asarray(smoothed).T, np.atleast_1d(np.asarray(khat))
