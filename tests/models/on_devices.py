"""Fits on several devices beside the same on one, as JSON: `python -m tests.models.on_devices NAME...`.

A process of its own, because the number of devices is fixed when JAX starts.
"""

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

import temperance as tp

N = 1501  # not a multiple of the devices


def points(n: int = N, missing: bool = False) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2)) + np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])[rng.integers(0, 3, n)]
    if missing:
        x[rng.random(x.shape) < 0.1] = np.nan
        x = x[~np.isnan(x).all(axis=1)]
    return x


def line() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 2))
    return x, x @ np.array([1.0, -2.0]) + 0.3 * rng.normal(size=N)


def documents(n: int = 1101) -> np.ndarray:
    rng = np.random.default_rng(2)
    topics = rng.dirichlet(np.full(12, 0.3), size=2)
    return np.stack([rng.multinomial(12, rng.dirichlet(np.full(2, 0.3)) @ topics) for _ in range(n)])


def images() -> np.ndarray:
    rng = np.random.default_rng(3)
    factors = np.kron(np.eye(3), np.ones((1, 2)))
    return (rng.random((N, 3)) < 0.4) @ factors + 0.1 * rng.normal(size=(N, 6))


def stream() -> tp.Stream:
    return tp.Stream(points(6000), piece_rows=2000)


def mixture(**given: Any) -> tp.GaussianMixture:
    return tp.GaussianMixture(3, **given)


def known_noise() -> tp.FactorialMixture:
    return tp.FactorialMixture(3, noise=0.01, probability=0.4)


def topics(engine: str = "device") -> tp.LDA:
    return tp.LDA(2, engine=engine)


FITS: dict[str, Callable[[], tp.Fit]] = {
    "blocks": lambda: tp.fit(mixture(), points(16001), tp.VB(max_iter=8)),  # two of them
    "missing": lambda: tp.fit(mixture(missing="marginalise"), points(missing=True), tp.VB(max_iter=5)),
    "svi": lambda: tp.fit(mixture(), points(), tp.SVI(batch_size=100, steps=20, report=5, elbo=True)),
    "topics": lambda: tp.fit(topics(), documents(), tp.VB(max_iter=6)),
    "restarts": lambda: tp.fit(mixture(), points(), tp.VB(restarts=3, max_iter=8)),
    "memoised": lambda: tp.fit(mixture(), points(), tp.VB(batches=5, max_iter=6)),
    "annealed": lambda: tp.fit(mixture(), points(), tp.Annealed(tp.VB(max_iter=5), length=10)),
    "tempered": lambda: tp.fit(known_noise(), images(), tp.VT(method=tp.VB(max_iter=4), length=10)),
    "locally": lambda: tp.fit(mixture(), points(), tp.LVT(method=tp.VB(max_iter=4), length=10)),
    "regression": lambda: tp.fit(tp.LinearRegression(), line(), tp.VB(max_iter=10)),
    "factorial": lambda: tp.fit(tp.FactorialMixture(3), images(), tp.VB(max_iter=8)),
    "factors": lambda: tp.fit(tp.FactorAnalysis(2), images(), tp.VB(max_iter=8)),
    "topics svi": lambda: tp.fit(topics(), documents(), tp.SVI(batch_size=64, steps=12, report=4, elbo=True)),
    "topics on the host": lambda: tp.fit(topics("host"), documents(), tp.VB(max_iter=6)),
    "held out": lambda: tp.fit(mixture(), points(), tp.SVI(batch_size=100, steps=20, report=5, held_out=0.2)),
    "stream": lambda: tp.fit(mixture(), stream(), tp.SVI(batch_size=200, steps=20)),
    "ep": lambda: tp.fit(mixture(), points(1100), tp.EP(max_passes=2)),
    "gibbs": lambda: tp.fit(mixture(), points(), tp.Gibbs(draws=20, warmup=5, chains=2)),
}


def main(names: list[str]) -> None:
    """One line of JSON for each name."""
    for name in names:
        many = FITS[name]()
        with jax.default_device(jax.devices()[0]):
            one = FITS[name]()
        found = {
            "name": name,
            "devices": [len(fit.data.weights.sharding.device_set) for fit in (one, many)],
            "shard": [shard.data.shape[0] for shard in many.data.weights.addressable_shards],
            "rows": many.data.weights.shape[0],
            "history": [_numbers(one), _numbers(many)],
        }
        if name == "blocks":
            found |= _code(many)
        print(json.dumps(found), flush=True)


def _numbers(fit: tp.Fit) -> dict[str, Any]:
    values = {
        name: np.asarray(fit.history[name]).tolist()
        for name in ("elbo", "held_out", "log_joint")
        if name in fit.history
    }
    return values | {"evidence": fit.log_evidence}


def _code(fit: tp.Fit) -> dict[str, Any]:
    """What one of the devices runs in a sweep."""
    text = eqx.filter_jit(fit.model.sweep).lower(fit.state, fit.data).compile().compiled.as_text()
    kinds = re.findall(r" (all-\w+|collective-\w+|reduce-scatter)\(", text)
    return {"code": text, "collectives": sorted(set(kinds))}


if __name__ == "__main__":
    main(sys.argv[1:])
