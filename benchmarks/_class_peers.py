"""The numbers of classes that StepMix finds: by BIC and ICL of maximum-likelihood fits, and by its bootstrap test."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np

STARTS, REPETITIONS, LEVEL = 10, 30, 0.05
TOLERANCE = 1e-7  # of the mean log likelihood; its default, 1e-10, takes up to twice the time


def _steps(k: int, frame: Any, starts: int, seed: int) -> tuple[Any, Any]:
    from stepmix.stepmix import StepMix
    from stepmix.utils import get_mixed_descriptor

    columns, descriptor = get_mixed_descriptor(
        frame, gaussian_diag_nan=["a", "b", "c", "visits"], binary_nan=["smokes"], categorical_nan=["region"]
    )  # it has no counts
    model = StepMix(
        k, measurement=descriptor, n_init=starts, max_iter=1000, abs_tol=TOLERANCE, random_state=seed, progress_bar=0,
        verbose=0,
    )  # fmt: skip
    return model, columns


def _frame(x: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(x, columns=["a", "b", "c", "visits", "smokes", "region"])


def by_criteria(x: np.ndarray, largest: int, seed: int) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """The number of classes with the best BIC and ICL, and the classes of the rows."""
    scores: dict[str, list[float]] = {"BIC": [], "ICL": []}
    labels = []
    for k in range(1, largest + 1):
        model, columns = _steps(k, _frame(x), STARTS, seed)
        model.fit(columns)
        shares = model.predict_proba(columns)
        blur = -(shares * np.log(np.maximum(shares, 1e-300))).sum()
        scores["BIC"].append(model.bic(columns))
        scores["ICL"].append(scores["BIC"][-1] + 2 * blur)
        labels.append(shares.argmax(axis=1))
    best = {name: int(np.argmin(values)) + 1 for name, values in scores.items()}
    return best, {name: labels[k - 1] for name, k in best.items()}


def by_test(x: np.ndarray, largest: int, seed: int) -> int | None:
    """The first number of classes that one more does not improve significantly; None where the test ends in an error,
    as it does when shares that StepMix has fitted do not sum to one to NumPy's satisfaction."""
    from stepmix.bootstrap import blrt

    for k in range(1, largest):
        (null, columns), (more, _) = _steps(k, _frame(x), 2, seed), _steps(k + 1, _frame(x), 2, seed)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                p = blrt(null, more, columns, n_repetitions=REPETITIONS, random_state=seed)
            except ValueError:
                return None
        if p >= LEVEL:
            return k
    return largest
