"""A graph as pure data: its quantities, how they depend on each other, and the plates on which they are repeated.

No description holds an array, so it can be compared and hashed: compiled code depends on it and on nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

RESPONSES = ("logistic", "probit", "log_poisson", "ordered", "censored", "truncated", "softmax")  # see responses.py
STOCHASTIC = (
    "fixed", "normal", "gamma", "categorical", "bernoulli", "poisson", "multinomial", "markov_chain",
    "gaussian_chain", *RESPONSES,
)  # fmt: skip
DISCRETE = ("categorical", "bernoulli", "markov_chain")


@dataclasses.dataclass(frozen=True)
class Quantity:
    """One quantity: a random variable, a constant, an input, or a function of others.

    `value` is the kind of expectation that stands for it (see `values.py`); `size` is its dimension or its number of
    categories; `family` the distribution of a variable whose parameters are all numbers.
    """

    name: str
    kind: str
    value: str
    parents: tuple[tuple[str, str], ...] = ()  # (argument, name)
    plates: tuple[str, ...] = ()
    size: int = 1
    scalar: bool = False  # whether a real quantity is a number to the user (a vector of one here)
    observed: bool = False
    family: str = ""
    line: str = dataclasses.field(default="", compare=False)  # the line of the user's code that defined it

    @property
    def random(self) -> bool:
        return self.kind in STOCHASTIC

    @property
    def discrete(self) -> bool:
        return self.kind in DISCRETE

    @property
    def latent(self) -> bool:
        return self.random and not self.observed

    def parent(self, argument: str) -> str:
        """The name of the parent in this role, or an empty string."""
        return dict(self.parents).get(argument, "")

    @property
    def time(self) -> str:
        """The plate along which a chain runs."""
        return self.plates[-1]


@dataclasses.dataclass(frozen=True)
class Spec:
    """All quantities in the order of their definition, the plates, and the known sizes."""

    quantities: tuple[Quantity, ...]
    plates: tuple[str, ...]  # the plate of the data is the first
    sizes: tuple[tuple[str, int], ...]
    factorised: tuple[str, ...] = ()  # discrete latents that are not summed out
    elimination: tuple[tuple[str, ...], ...] = ()  # the summed-out ones, in order; chains that meet go together
    integrated: str = ""  # the Normal vector (or chain of vectors) of each datum that is integrated out

    def __getitem__(self, name: str) -> Quantity:
        for quantity in self.quantities:
            if quantity.name == name:
                return quantity
        raise KeyError(name)

    def __iter__(self) -> Iterator[Quantity]:
        return iter(self.quantities)

    @property
    def data_plate(self) -> str:
        return self.plates[0]

    def local(self, quantity: Quantity) -> bool:
        """Whether the quantity is repeated for each datum."""
        return self.data_plate in quantity.plates

    @property
    def observed(self) -> tuple[Quantity, ...]:
        return tuple(q for q in self if q.observed)

    @property
    def columns(self) -> tuple[Quantity, ...]:
        """The quantities whose values come with the data: inputs and observed variables."""
        return tuple(q for q in self if q.observed or q.kind == "input")

    @property
    def summed_out(self) -> tuple[str, ...]:
        return tuple(name for names in self.elimination for name in names)

    def axis(self, plate: str) -> int:
        return self.plates.index(plate)

    def plate_beyond(self, q: Quantity, argument: str) -> str:
        """The one plate of a parent that the quantity is not on, such as the plate from which a gate chooses."""
        (plate,) = set(self[q.parent(argument)].plates) - set(q.plates)
        return plate

    def state_axis(self, name: str) -> int:
        """The axis over the values of a discrete variable, behind the axes of all plates."""
        return len(self.plates) + [q.name for q in self].index(name)

    def ancestors(self, name: str) -> frozenset[str]:
        """The latents of which a quantity is a function (itself, if it is latent), without gates."""
        here = self[name]
        if here.random:
            return frozenset() if here.observed else frozenset({name})
        found: frozenset[str] = frozenset()
        for argument, parent in here.parents:
            if not (here.kind == "gate" and argument == "index"):
                found |= self.ancestors(parent)
        return found

    def gates(self, name: str) -> frozenset[str]:
        """The discrete latents that choose between values of a quantity."""
        here = self[name]
        found: frozenset[str] = frozenset()
        if here.random:
            return found
        for argument, parent in here.parents:
            if here.kind == "gate" and argument == "index":
                found |= {parent} if self[parent].latent else frozenset()
            else:
                found |= self.gates(parent)
        return found

    def factor_blocks(self, name: str) -> frozenset[str]:
        """The latents, without the gates, that meet in the factor p(name | parents)."""
        here = self[name]
        found = frozenset({name}) if here.latent else frozenset()
        for _, parent in here.parents:
            found |= self.ancestors(parent)
        return found

    def factor_gates(self, name: str) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for _, parent in self[name].parents:
            found |= self.gates(parent)
        return found


def told(quantities: Iterable[Quantity]) -> str:
    """The variables with their plates: "mu, z [n], x [n] observed"."""
    return ", ".join(
        q.name + (f" [{', '.join(q.plates)}]" if q.plates else "") + (" observed" if q.observed else "")
        for q in quantities
        if q.random
    )
