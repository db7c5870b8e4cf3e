"""What is compiled for a graph grows with its nodes, not with its plates."""

from typing import Any

import jax
import numpy as np

from temperance.graph import Graph
from temperance.models import Model
from temperance.programs.compilation import _functions
from tests.graph import models


def operations(model: Model, values: Any) -> int:
    """Of the program of one sweep, loops counted once."""
    model, data = model.prepare(values)
    start = jax.eval_shape(lambda key: model.initial(key, data), jax.random.key(0))
    return _count(jax.make_jaxpr(lambda q: model.sweep(q, data))(start).jaxpr)


def _count(jaxpr: Any) -> int:
    inner = [part for equation in jaxpr.eqns for value in equation.params.values() for part in _functions(value)]
    return len(jaxpr.eqns) + sum(_count(getattr(part, "jaxpr", part)) for part in inner)


def several(nodes: int) -> Graph:
    """So many regressions of their own inputs, all observed together."""
    g = Graph()
    for number in range(nodes):
        weights = g.normal(f"w{number}", 0.0, g.gamma(f"alpha{number}", 1.0, 1.0), dim=2)
        product = g.dot(weights, g.input(f"phi{number}", 2, plates="n"))
        g.normal(f"y{number}", product, 1.0, observed=True)
    return g


def columns(nodes: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found = {f"phi{number}": rng.normal(size=(5, 2)) for number in range(nodes)}
    return found | {f"y{number}": rng.normal(size=5) for number in range(nodes)}


def test_plates_of_any_size_are_one_program() -> None:
    rng = np.random.default_rng(0)
    small, large = (
        operations(models.mixture(k).model(), rng.normal(size=(n, 2))) for k, n in ((2, 3_000), (7, 20_000))
    )
    assert small == large
    small, large = (operations(models.random_effects().model(), rng.normal(size=shape)) for shape in ((3, 2), (90, 40)))
    assert small == large


def test_the_program_grows_in_proportion_to_the_nodes() -> None:
    one, two, four = (operations(several(nodes).model(), columns(nodes)) for nodes in (1, 2, 4))
    assert four - two <= 2.2 * (two - one)
