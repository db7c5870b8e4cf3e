"""Latent classes of simulated tables: how often the number of classes is right, and three-step coefficients.

    python -m benchmarks.classes --jobs 16 --out classes.json

Tables have 300 rows, three real columns, a count, a yes/no and one of four levels, a tenth of the cells missing; one to
four classes of equal or unequal size, clear (a Bayes error of at most 5%), medium (5–15%) or hard (15–30%). The number
is chosen by the evidence (VB) and, from fits by maximum likelihood, by BIC and ICL. The second part regresses
membership on a covariate at n = 1,000.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

ERRORS = {"clear": (0.0, 0.05), "medium": (0.05, 0.15), "hard": (0.15, 0.30)}
SHARES = {2: (0.7, 0.3), 3: (0.6, 0.3, 0.1), 4: (0.5, 0.25, 0.15, 0.1)}
LARGEST, ROWS, MISSING = 6, 300, 0.1
BETA = np.array([[0.0, 0.0], [0.3, 0.8], [-0.4, -1.0]])


class Truth:
    """Parameters of the classes, `apart` from each other by a factor."""

    def __init__(self, rng: np.random.Generator, shares: np.ndarray, apart: float = 1.0):
        k = len(shares)
        self.shares, self.apart = shares, apart
        self.means, self.spreads = rng.normal(size=(k, 3)), rng.uniform(0.7, 1.3, size=(k, 3))
        self.rates, self.odds = rng.normal(size=k), rng.normal(size=k)
        self.levels = rng.normal(size=(k, 4))

    def parameters(self) -> tuple[np.ndarray, ...]:
        levels = np.exp(self.apart * self.levels)
        return (self.apart * self.means, np.exp(1.0 + 0.4 * self.apart * self.rates),
                1.0 / (1.0 + np.exp(-self.apart * self.odds)), levels / levels.sum(axis=1, keepdims=True))  # fmt: skip

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Classes and a matrix of three numbers, a count, a yes/no and a level, NaN where missing."""
        means, rates, chance, levels = self.parameters()
        z = rng.choice(len(self.shares), size=n, p=self.shares)
        x = np.empty((n, 6))
        x[:, :3] = rng.normal(means[z], self.spreads[z])
        x[:, 3] = rng.poisson(rates[z])
        x[:, 4] = rng.uniform(size=n) < chance[z]
        x[:, 5] = (rng.uniform(size=n)[:, None] > levels[z].cumsum(axis=1)).sum(axis=1)
        x[rng.uniform(size=x.shape) < MISSING] = np.nan
        return z, x

    def error(self, x: np.ndarray) -> float:
        """The expected share of rows that the best rule puts into a wrong class."""
        from scipy import stats

        means, rates, chance, levels = self.parameters()
        log = np.tile(np.log(self.shares), (len(x), 1))
        known = np.where(np.isnan(x), 0.0, x)[:, :, None]
        numbers = stats.norm.logpdf(known[:, :3], means.T[None], self.spreads.T[None])
        log += np.where(np.isnan(x[:, :3, None]), 0.0, numbers).sum(axis=1)
        each = (stats.poisson.logpmf(known[:, 3], rates), stats.bernoulli.logpmf(known[:, 4], chance),
                np.log(levels).T[known[:, 5, 0].astype(int)])  # fmt: skip
        for column, part in zip((3, 4, 5), each, strict=True):
            log += np.where(np.isnan(x[:, column, None]), 0.0, part)
        shares = np.exp(log - log.max(axis=1, keepdims=True))
        return float(np.mean(1.0 - shares.max(axis=1) / shares.sum(axis=1)))


def drawn_truth(rng: np.random.Generator, k: int, equal: bool, regime: str) -> Truth:
    """Classes whose Bayes error is uniform within the regime, by bisection of how far apart they are."""
    shares = np.full(k, 1.0 / k) if equal or k == 1 else np.array(SHARES[k])
    truth = Truth(rng, shares)
    if k == 1:
        return truth
    low, high = ERRORS[regime]
    wanted, near, far = rng.uniform(max(low, 0.005), high), 0.02, 8.0
    seed = int(rng.integers(2**31))
    for _ in range(18):
        truth.apart = 0.5 * (near + far)
        found = truth.error(truth.draw(np.random.default_rng(seed), 4000)[1])
        near, far = (truth.apart, far) if found > wanted else (near, truth.apart)
    return truth


def as_columns(x: np.ndarray) -> dict[str, Any]:
    words = [[None if np.isnan(v) else names[int(v)] for v in column]
             for column, names in ((x[:, 4], ("no", "yes")), (x[:, 5], "abcd"))]  # fmt: skip
    return {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "visits": x[:, 3], "smokes": words[0], "region": words[1]}


KINDS = {"a": "real", "b": "real", "c": "real", "visits": "count", "smokes": "binary", "region": "category"}


def one_table(task: tuple[int, int, bool, str]) -> dict[str, Any]:
    """The number of classes that each criterion chooses, and the adjusted Rand index of the classes that follow."""
    from sklearn.metrics import adjusted_rand_score

    import temperance as tp

    number, k, equal, regime = task
    rng = np.random.default_rng([25, number])
    truth = drawn_truth(rng, k, equal, regime)
    z, x = truth.draw(rng, ROWS)
    table = tp.read_table(as_columns(x), kinds=KINDS)
    hill = tp.compare([tp.ClassMixture(size) for size in range(1, LARGEST + 1)], table, tp.VB(restarts=10), number)
    rows = {row["classes"]: row for row in hill.publication().rows}
    chosen = {"evidence": len(hill.best_fit.order), "size": hill.best}
    index = {"evidence": adjusted_rand_score(z, hill.best_fit.responsibilities(table).argmax(axis=1))}
    for name in ("AIC", "BIC", "aBIC", "ICL"):
        size = min((s for s in rows if rows[s][name] is not None), key=lambda s, name=name: rows[s][name])
        chosen[name] = size
        labels = hill.fit(size).responsibilities(table).argmax(axis=1)
        index[name] = adjusted_rand_score(z, labels)
    return {"table": number, "classes": k, "equal": equal, "regime": regime, "chosen": chosen, "rand": index}


def one_regression(task: tuple[int, str, str]) -> dict[str, Any]:
    """Errors of three-step coefficients at n = 1,000, and whether their 95% intervals hold the truth."""
    import temperance as tp

    number, regime, correction = task
    rng = np.random.default_rng([52, number])
    apart = {"clear": 3.0, "medium": 2.2}[regime]
    w = rng.normal(size=1000)
    odds = np.exp(np.stack([np.ones(1000), w], axis=1) @ BETA.T)
    z = (rng.uniform(size=1000)[:, None] > (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)).sum(axis=1)
    smokes = np.where(rng.uniform(size=1000) < 0.15 + 0.3 * z, "yes", "no")
    columns = {"a": rng.normal(apart * z, 1), "b": rng.normal(apart * (z == 1), 1),
               "c": rng.poisson(2 + apart * (z == 2)), "d": smokes}  # fmt: skip
    y = rng.normal(np.array([1.0, 2.0, 4.0])[z], 1)
    fit = tp.fit(tp.ClassMixture(3), columns, tp.VB(restarts=5), seed=number)
    found = fit.profiles()
    (mean,) = [item.estimate for item in found.items if item.column == "a"]
    labels = [found.labels[place] for place in np.argsort(mean)]
    wrong = np.mean(fit.responsibilities(columns)[:, fit.order][:, np.argsort(mean)].argmax(axis=1) != z)
    effects = fit.classes_by({"w": w}, reference=labels[0], correction=correction)
    rows = [effects.labels.index(label) for label in labels[1:]]
    means = fit.outcome_by_class(y)
    places = [means.labels.index(label) for label in labels]
    true = np.array([1.0, 2.0, 4.0])
    held = (effects.low[rows] < BETA[1:]) & (BETA[1:] < effects.high[rows])
    return {
        "regime": regime, "wrong": float(wrong), "error": (effects.estimate[rows] - BETA[1:]).ravel().tolist(),
        "held": held.ravel().tolist(), "outcome_error": (means.estimate[places, 0] - true).tolist(),
        "outcome_held": ((means.low[places, 0] < true) & (true < means.high[places, 0])).tolist(),
    }  # fmt: skip


def summary(tables: list[dict[str, Any]], regressions: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for regime in (*ERRORS, "all"):
        these = [t for t in tables if regime in (t["regime"], "all")]
        if not these:
            continue
        right = {name: np.array([t["chosen"][name] == t["classes"] for t in these]) for name in these[0]["chosen"]}
        rand = {name: np.array([t["rand"][name] for t in these]) for name in these[0]["rand"]}
        found[regime] = {"tables": len(these)} | {f"right by {name}": float(v.mean()) for name, v in right.items()}
        for name in ("BIC", "ICL"):
            for what, values in (("right", right), ("rand", rand)):
                apart = values["evidence"].astype(float) - values[name]
                error = float(apart.std() / np.sqrt(len(apart)))
                found[regime][f"{what}: evidence − {name}"] = f"{apart.mean():+.4f} ± {error:.4f}"
        found[regime] |= {f"rand by {name}": float(v.mean()) for name, v in rand.items()}
    for regime in ("clear", "medium"):
        these = [r for r in regressions if r["regime"] == regime]
        if these:
            found[f"three-step, {regime}"] = {
                "tables": len(these), "wrongly classified": float(np.mean([r["wrong"] for r in these])),
                "bias": np.mean([r["error"] for r in these], axis=0).round(4).tolist(),
                "coverage": np.mean([r["held"] for r in these], axis=0).round(4).tolist(),
                "outcome bias": np.mean([r["outcome_error"] for r in these], axis=0).round(4).tolist(),
                "outcome coverage": np.mean([r["outcome_held"] for r in these], axis=0).round(4).tolist(),
            }  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--out", type=Path, default=Path("classes.json"))
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--regressions", type=int, default=500, help="for each of clear and medium")
    parser.add_argument("--correction", default="three-step", choices=("three-step", "two-step", "one-step", "none"))
    given = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    designs = list(itertools.product((1, 2, 3, 4), (True, False), ERRORS))
    tables = [(i, *designs[i % len(designs)]) for i in range(given.tables)]
    regressions = [(i, regime, given.correction) for regime in ("clear", "medium") for i in range(given.regressions)]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        first = list(pool.map(one_table, tables, chunksize=2))
        second = list(pool.map(one_regression, regressions, chunksize=4))
    found = summary(first, second)
    given.out.write_text(json.dumps({"summary": found, "tables": first, "regressions": second}, indent=1))
    print(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
