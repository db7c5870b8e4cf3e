"""Random conjugate graphs: layers, gates, chains, plates, inputs, local effects and masks, all tiny.

Priors have the moments that the joint test looks at (shapes of precisions of at least 6).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from temperance.graph import Graph, Node
from temperance.graph.compiled import GraphModel

ROWS, COLUMNS, STEPS = 5, 2, 3


class Builder:
    """A graph in the making, and the choices that are made for it."""

    def __init__(self, rng: np.random.Generator):
        self.rng, self.g = rng, Graph()
        self.g.plate("d", COLUMNS)
        self.columns = bool(rng.integers(2))
        self.chain = not self.columns and rng.uniform() < 0.25
        self.inputs: dict[str, Any] = {}
        self.factorised: list[str] = []
        self.gates = [self.gate(number) for number in range(rng.integers(3))]

    @property
    def data_plates(self) -> tuple[str, ...]:
        return ("n", "d") if self.columns else ("n", "t") if self.chain else ("n",)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple({"n": ROWS, "d": COLUMNS, "t": STEPS}[plate] for plate in self.data_plates)

    def gate(self, number: int) -> tuple[Node, str]:
        """A discrete latent, and the plate that it chooses from."""
        size = int(self.rng.integers(2, 4))
        plate, name = self.g.plate(f"k{number}", size), f"z{number}"
        if self.chain and number == 0:
            first = self.g.dirichlet("first", self.rng.uniform(0.5, 2, size))
            step = self.g.dirichlet("step", self.rng.uniform(0.5, 2, size), plates=plate)
            return self.g.markov_chain(name, first, step, time="t", plates="n"), plate
        if size == 2 and self.rng.uniform() < 0.5:
            z = self.g.bernoulli(name, self.g.beta(f"p{number}", *self.rng.uniform(0.5, 2, 2)), plates="n")
        else:
            z = self.g.categorical(name, self.g.dirichlet(f"p{number}", self.rng.uniform(0.5, 2, size)), plates="n")
        if self.rng.uniform() < 0.2:
            self.factorised.append(name)
        return z, plate

    def chosen(self, make: Any) -> Node:
        """A variable of the components that a random gate (or none) chooses from, perhaps one for each column."""
        use = self.gates and self.rng.uniform() < 0.8
        z, plate = self.gates[self.rng.integers(len(self.gates))] if use else (None, None)
        own = ("d",) if self.columns and self.rng.uniform() < 0.6 else ()
        node = make((*((plate,) if plate else ()), *own))
        return node.select(z, plate) if z is not None else node

    def precision(self, name: str) -> Node | float:
        def make(plates: tuple[str, ...]) -> Node:
            if self.rng.uniform() < 0.3:
                rate = self.g.gamma(f"{name} rate", self.rng.uniform(6, 8), self.rng.uniform(4, 8))
                return self.g.gamma(name, self.rng.uniform(6, 8), rate, plates=plates)
            return self.g.gamma(name, self.rng.uniform(6, 8), self.rng.uniform(4, 8), plates=plates)

        return float(self.rng.uniform(0.5, 2)) if self.rng.uniform() < 0.3 else self.chosen(make)

    def location(self, name: str) -> Node:
        def make(plates: tuple[str, ...]) -> Node:
            centre: Any = float(self.rng.normal())
            if self.rng.uniform() < 0.4:
                centre = self.g.normal(f"{name} centre", 0.0, 1.0)
            if self.rng.uniform() < 0.3:
                width = self.g.gamma(f"{name} width", self.rng.uniform(6, 8), 5.0)
            else:
                width = float(self.rng.uniform(0.5, 2))
            return self.g.normal(name, centre, width, plates=plates)

        return self.chosen(make)

    def normal(self) -> None:
        if self.rng.uniform() < 0.3:
            both = self.chosen(lambda plates: self.g.normal_gamma("both", 0.5, 1.5, 12.0, 8.0, plates=plates))
            self.g.normal("x", both, plates=self.data_plates, observed=True)
            return
        mean = self.location("mean")
        if self.rng.uniform() < 0.4:
            mean = mean + self.location("more")
        if self.rng.uniform() < 0.3:
            inputs = self.g.input("inputs", 2, plates="n")
            self.inputs["inputs"] = self.rng.normal(size=(ROWS, 2))
            slopes = self.chosen(lambda plates: self.g.normal("slopes", 0.0, 1.0, dim=2, plates=plates))
            mean = mean + self.g.dot(slopes, inputs)
        if self.rng.uniform() < 0.3:
            mean = mean + 0.5 * self.g.normal("effect", 0.0, self.precision("between"), plates="n")
        self.g.normal("x", mean, self.precision("noise"), plates=self.data_plates, observed=True)

    def vector(self) -> None:
        scatter, self.columns = np.eye(2) * self.rng.uniform(4, 8), False
        both = self.chosen(lambda plates: self.g.normal_wishart("both", [0.0, 0.5], 1.5, 14.0, scatter, plates=plates))
        self.g.normal("x", both, plates=self.data_plates, observed=True)

    def counts(self) -> None:
        rate = self.chosen(lambda plates: self.g.gamma("rate", 3.0, 2.0, plates=plates))
        if self.rng.uniform() < 0.4:
            rate = rate * self.g.gamma("activity", 6.0, 5.0, plates="n")
        self.g.poisson("x", rate, plates=self.data_plates, observed=True)

    def binary(self) -> None:
        p = self.chosen(lambda plates: self.g.beta("p", 1.5, 1.2, plates=plates))
        self.g.bernoulli("x", p, plates=self.data_plates, observed=True)

    def categories(self) -> None:
        p = self.chosen(lambda plates: self.g.dirichlet("p", [1.0, 0.7, 2.0], plates=plates))
        self.g.categorical("x", p, plates=self.data_plates, observed=True)


KINDS = ("normal", "normal", "normal", "vector", "counts", "binary", "categories")


def random_graph(seed: int) -> tuple[GraphModel, dict[str, np.ndarray]]:
    """A model, and data with some of them missing."""
    rng = np.random.default_rng(seed)
    builder = Builder(rng)
    kind = KINDS[rng.integers(len(KINDS))]
    getattr(builder, kind)()
    if kind == "normal":
        x = 2 * rng.normal(size=builder.shape)
    elif kind == "vector":
        x = 2 * rng.normal(size=(*builder.shape, 2))
    else:
        x = rng.integers({"counts": 6, "binary": 2, "categories": 3}[kind], size=builder.shape).astype(float)
    if rng.uniform() < 0.5:
        x[rng.uniform(size=builder.shape) < 0.2] = np.nan
    latent = set(builder.g.quantities)
    model = builder.g.model(factorised=[name for name in builder.factorised if name in latent])
    return model, builder.inputs | {"x": x}
