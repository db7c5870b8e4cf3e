"""Lecture notes on variational regression: does the bound peak at the true order of a polynomial?

Ten points on (−5, 5) from a cubic with Gaussian noise, a hundred times; orders 0 to 8, one α for all weights (the
constant included) and Gamma(10⁻³, 10⁻³) over it. The answer depends on the features, so there are three kinds:
powers of x, powers of x scaled to [−1, 1], and polynomials orthonormal over the data. The last line of the table is
the orthonormal ones with the library's default priors.

    python examples/papers/polynomial_order.py [folder]
"""

from __future__ import annotations

import sys
from typing import Any

import equinox as eqx
import jax
import numpy as np
from _figure import COLOURS, canvas, keep

import temperance as tp

POINTS, ORDERS, TRUE, SETS = 10, range(9), 3, 100
CUBIC = np.array([1.0, -1.0, -0.1, 0.1])
SWEEPS = 1000
FEATURES = {
    "powers of x": ("monomial", True),
    "scaled powers": ("scaled", True),
    "orthonormal": ("orthonormal", True),
    "orthonormal, default priors": ("orthonormal", False),
}
SETTINGS = [(noise, known) for noise in (0.3, 1.0) for known in (True, False)]
QUICK: dict[str, Any] = {"sets": 2, "settings": SETTINGS[:1]}


def simulate(sets: int, noise: float, seed: int = 1) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """Inputs, targets, and the precision of their noise. Targets are divided by their standard deviation: a
    prior over α is not free of units."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(sets):
        x = rng.uniform(-5, 5, size=(POINTS, 1))
        t = (x ** np.arange(4)) @ CUBIC + noise * rng.normal(size=POINTS)
        rows.append((x, t / t.std(), (t.std() / noise) ** 2))
    return rows


def prepare(row: tuple[np.ndarray, np.ndarray, float], order: int, features: str, known: bool) -> Any:
    """One model and its data."""
    x, t, precision = row
    basis, shared = FEATURES[features]
    prior: dict[str, Any] = {"intercept": "shared", "prior": tp.Gamma(1e-3, 1e-3)} if shared else {}
    model = tp.LinearRegression(tp.Polynomial(order, basis), noise=precision if known else None, **prior)
    model, data = model.prepare((x, t))
    # The features have done their work: without them one compilation serves every basis.
    return eqx.tree_at(lambda model: model.features, model, replace=None), data


@eqx.filter_jit
def bounds(models: Any, data: Any, keys: Any) -> Any:
    """What `tp.fit` does, for many small problems side by side."""

    def one(model: Any, data: Any, key: Any) -> Any:
        start = model.initial(key, data)
        end = jax.lax.fori_loop(0, SWEEPS, lambda _, q: model.sweep(q, data)[0], start)
        return model.bound(end, data)

    return jax.vmap(one)(models, data, keys)


def hills(rows: list[Any], features: list[str], known: bool) -> np.ndarray:
    """The bound for each kind of features, set and order."""
    columns = []
    for order in ORDERS:
        problems = [prepare(row, order, name, known) for name in features for row in rows]
        models, data = jax.tree.map(lambda *leaves: np.stack(leaves), *problems)
        found = bounds(models, data, jax.random.split(jax.random.key(0), len(problems)))
        columns.append(np.asarray(found).reshape(len(features), len(rows)))
    return np.stack(columns, axis=-1)


def main(folder: str | None = None, sets: int = SETS, settings: Any = SETTINGS) -> dict[Any, np.ndarray]:
    """How many sets choose each order, for each setting and kind of features."""
    shared, default = list(FEATURES)[:3], list(FEATURES)[3:]
    counts, first = {}, {}
    print(f"{'noise':>16}  " + "  ".join(f"{name:>15}" for name in FEATURES))
    for noise, known in settings:
        rows = simulate(sets, noise)
        found = np.concatenate([hills(rows, names, known) for names in (shared, default)])
        first[noise, known] = found[:, 0]
        chosen = found.argmax(axis=-1)
        counts[noise, known] = np.stack([np.bincount(each, minlength=len(ORDERS)) for each in chosen])
        share = counts[noise, known][:, TRUE] / sets
        label = f"{noise}, {'known' if known else 'unknown'}"
        print(
            f"{label:>16}  "
            + "  ".join(f"{value:>{max(15, len(name))}.0%}" for name, value in zip(FEATURES, share, strict=True))
        )
    draw(first, counts, sets, folder)
    return counts


def draw(first: Any, counts: Any, sets: int, folder: str | None) -> None:
    setting = next(iter(reversed(counts)))
    figure, (left, right) = canvas(2)
    for index, (name, colour) in enumerate(zip(list(FEATURES)[:3], COLOURS, strict=False)):
        left.plot(ORDERS, first[setting][index], "o-", color=colour, label=name, markersize=4)
        right.bar(np.array(ORDERS) + 0.27 * (index - 1), counts[setting][index], 0.25, color=colour)
    left.axvline(TRUE, color="#DDDDDD", zorder=0)
    left.set(xlabel="order of the polynomial", ylabel="bound on the log evidence", xticks=list(ORDERS))
    left.set_title("one set (simulated)", fontsize=10)
    left.legend(frameon=False, fontsize=9)
    right.set(xlabel="order at which the bound peaks", ylabel=f"of {sets} sets", xticks=list(ORDERS))
    right.set_title(
        f"noise {setting[0]}, its precision {'known' if setting[1] else 'unknown'} (simulated)", fontsize=10
    )
    keep(figure, "polynomial-order", folder)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
