"""Saved fits of this version, with what they answer, for the tests of later ones: `python -m tests.files.write 0.2`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import temperance as tp

rng = np.random.default_rng(0)
X = np.round(rng.normal(size=(12, 2)) + 4.0 * (np.arange(12)[:, None] >= 6), 2)
COUNTS = rng.integers(1, 6, size=(6, 5))
SHORT = tp.VB(max_iter=20)
FITS: dict[str, tuple[Any, Any, Any]] = {
    "mixture": (tp.GaussianMixture(2), X, SHORT),
    "topics": (tp.LDA(2), COUNTS, SHORT),
    "hidden_markov": (tp.HMM(2), X[:, :1], SHORT),
    "regression": (tp.LinearRegression(), (X, X @ [1.0, -2.0] + 0.5), SHORT),
    "draws": (tp.GaussianMixture(2), X, tp.Gibbs(draws=8, warmup=4, chains=1)),
    "factors": (tp.FactorAnalysis(1), X, SHORT),
}
ANSWERS: dict[str, Any] = {
    "mixture": lambda fit, x: fit.responsibilities(x),
    "topics": lambda fit, x: fit.transform(x),
    "hidden_markov": lambda fit, x: fit.responsibilities(x),
    "regression": lambda fit, x: fit.predict(x).mean,
    "draws": lambda fit, x: fit.log_predictive(x),
    "factors": lambda fit, x: fit.log_predictive(x),
}


def main(version: str) -> None:
    folder = Path(__file__).parent / f"saved-{version}"
    folder.mkdir()
    expected = {}
    for name, (model, data, method) in FITS.items():
        fit = tp.fit(model, data, method, seed=0)
        fit.save(folder / f"{name}.tp")
        asked = data[0] if isinstance(data, tuple) else data
        answer = np.asarray(ANSWERS[name](fit, asked)).tolist()
        expected[name] = {"log_evidence": fit.log_evidence, "data": asked.tolist(), "answer": answer}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
