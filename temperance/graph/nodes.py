"""A quantity of a graph, as the user sees it, with the arithmetic that keeps the graph conjugate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..errors import InvalidParameter
from .errors import NotConjugate, PlateMismatch, drawn, users_line
from .spec import Quantity

if TYPE_CHECKING:
    from .book import Book

WORDS = {
    "real": "a Normal variable or a linear function of some",
    "positive": "a Gamma variable",
    "matrix": "a Wishart variable",
    "diagonal": "a diagonal of Gamma variables",
    "gaussian": "a Normal-Wishart or Normal-Gamma variable",
    "simplex": "a Dirichlet variable",
    "probability": "a Beta variable",
    "category": "a discrete variable",
    "count": "counts",
}


_OPERATORS = {np.add: "add", np.subtract: "sub", np.multiply: "mul", np.matmul: "matmul", np.true_divide: "truediv"}


class Node:
    """A quantity. `components[z]` chooses by a discrete variable; `a + b`, `2 * a`, `matrix @ a` and `a @ b` (the dot
    product of two Normal vectors) are linear functions; `a * b` is a product of positive numbers or of real ones."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Node:
        """Let operators between an array and a variable be those of the variable, and refuse other functions, which are
        not linear."""
        if ufunc not in _OPERATORS:
            self._refuse(f"{ufunc.__name__}({self.name})")
        place = next(place for place, operand in enumerate(inputs) if operand is self)
        return getattr(self, f"__{'r' * place}{_OPERATORS[ufunc]}__")(inputs[1 - place])

    def __init__(self, graph: Book, quantity: Quantity):
        self.graph, self.quantity = graph, quantity

    @property
    def name(self) -> str:
        return self.quantity.name

    @property
    def plates(self) -> tuple[str, ...]:
        return self.quantity.plates

    def __repr__(self) -> str:
        return drawn(f"{self.quantity.kind} {self.name}", self.plates, self.graph.sizes)

    def __getitem__(self, index: Node) -> Node:
        """The member of a plate that a discrete variable names."""
        return self.select(index)

    def select(self, index: Node, plate: str | None = None) -> Node:
        """As `self[index]`, naming the plate to choose from if there are several."""
        if not isinstance(index, Node) or index.quantity.value != "category":
            raise NotConjugate(
                f"{self.name!r} must be indexed by a discrete variable (g.categorical, g.bernoulli, g.markov_chain, "
                f"g.index), got {index!r}"
            )
        if index.name in self.graph.chosen_by(self):
            raise NotConjugate(
                f"{self.name}[{index.name}] (at {users_line()}) chooses by {index.name!r} twice, and a sum over its "
                "values can meet it once: another discrete variable of the same parents can choose the second time"
            )
        if plate is None:
            others = [p for p in self.plates if p not in index.plates]
            fitting = [p for p in others if self.graph.sizes.get(p, index.quantity.size) == index.quantity.size]
            if len(fitting) != 1:
                raise PlateMismatch(
                    f"{index.name!r} has {index.quantity.size} values, and {len(fitting)} plates could be meant by "
                    f"{self.name}[{index.name}]: {self!r} × {index!r}; .select({index.name}, plate) says which"
                    if fitting
                    else f"{self.name}[{index.name}] needs a plate of {index.quantity.size} members to choose from: "
                    f"{self!r} × {index!r}"
                )
            (plate,) = fitting
        self.graph.fix_size(plate, index.quantity.size, f"the values of {index.name!r}")
        plates = (*index.plates, *(p for p in self.plates if p != plate and p not in index.plates))
        here = self.quantity
        return self.graph.derive(
            f"{self.name}[{index.name}]",
            "gate",
            here.value,
            {"of": self, "index": index},
            plates,
            here.size,
            here.scalar,
        )

    # ---- linear functions -----------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Node:
        other = self._real("+", other)
        size = max(self.quantity.size, other.quantity.size)
        if self.quantity.size != other.quantity.size:
            raise PlateMismatch(
                f"{self.name} + {other.name}: {self.quantity.size} entries and {other.quantity.size} entries"
            )
        self.graph.require_apart(f"{self.name} + {other.name}", self, other)
        return self.graph.derive(
            f"({self.name} + {other.name})", "sum", "real", {"left": self, "right": other},
            merged(self.plates, other.plates), size, self.quantity.scalar and other.quantity.scalar,
        )  # fmt: skip

    __radd__ = __add__

    def __neg__(self) -> Node:
        return self * -1.0

    def __sub__(self, other: Any) -> Node:
        return self + (-other if isinstance(other, Node) else -numbers(f"what is subtracted from {self.name!r}", other))

    def __rsub__(self, other: Any) -> Node:
        return (-self) + other

    def __mul__(self, other: Any) -> Node:
        kind = self.quantity.value
        if isinstance(other, Node):
            if kind == "positive" and other.quantity.value == "positive":
                self.graph.require_apart(f"{self.name} * {other.name}", self, other)
                return self.graph.derive(
                    f"({self.name} * {other.name})", "product", "positive", {"left": self, "right": other},
                    merged(self.plates, other.plates),
                )  # fmt: skip
            if self.quantity.scalar and other.quantity.scalar:
                return self.dot(other)
            raise NotConjugate(
                f"{self.name} * {other.name}: only two positive numbers or two real numbers can be multiplied, found "
                f"{WORDS[kind]} and {WORDS[other.quantity.value]}; g.dot is for vectors"
            )
        if kind == "positive":
            return self * self.graph.constant(f"{other}", other, "positive")
        return self._mapped(
            numbers(f"what multiplies {self.name!r}", other), f"{other} {self.name}", self.quantity.size
        )

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Node:
        if isinstance(other, Node):
            self._refuse(f"{self.name} / {other.name}")
        divisor = numbers(f"what divides {self.name!r}", other)
        if (divisor == 0).any():
            raise InvalidParameter(f"{self.name} cannot be divided by zero")
        return self * (1.0 / divisor)

    def __rtruediv__(self, other: Any) -> Node:
        self._refuse(f"{other} / {self.name}")

    def __pow__(self, power: Any) -> Node:
        self._refuse(f"{self.name} ** {power}")

    def __abs__(self) -> Node:
        self._refuse(f"abs({self.name})")

    def _refuse(self, function: str) -> NoReturn:
        raise NotConjugate(
            f"{function} (at {users_line()}) is not linear: variables can be added, multiplied by numbers and "
            "matrices, and multiplied by each other"
        )

    def __matmul__(self, other: Any) -> Node:
        if isinstance(other, Node):
            return self.dot(other)
        return self._mapped(numbers(f"what multiplies {self.name!r}", other).T, f"{self.name} matrix", None)

    def dot(self, other: Node) -> Node:
        """The dot product of two independent vectors."""
        name = f"dot({self.name}, {other.name})"
        for node in (self, other):
            if node.quantity.value != "real":
                raise NotConjugate(f"{name}: {node.name!r} must be {WORDS['real']}, it is {WORDS[node.quantity.value]}")
        if self.quantity.size != other.quantity.size:
            raise PlateMismatch(f"{name}: {self.quantity.size} entries and {other.quantity.size} entries")
        self.graph.require_apart(name, self, other)
        plates = merged(self.plates, other.plates)
        return self.graph.derive(name, "dot", "real", {"left": self, "right": other}, plates, 1, True)

    def __rmatmul__(self, matrix: Any) -> Node:
        return self._mapped(numbers(f"what multiplies {self.name!r}", matrix), f"matrix {self.name}", None)

    def _mapped(self, matrix: np.ndarray, name: str, size: int | None) -> Node:
        if self.quantity.value != "real":
            raise NotConjugate(
                f"only {WORDS['real']} can be mapped linearly, {self.name!r} is {WORDS[self.quantity.value]}"
            )
        if size is None and (matrix.ndim != 2 or matrix.shape[1] != self.quantity.size):
            raise PlateMismatch(
                f"a matrix times {self.name!r} must have {self.quantity.size} columns, got shape {matrix.shape}"
            )
        if size is not None and matrix.ndim != 0:
            raise PlateMismatch(
                f"{self.name!r} can be multiplied by one number or matrix @ it, got shape {matrix.shape}"
            )
        rows = size if size is not None else matrix.shape[0]
        scalar = self.quantity.scalar and matrix.ndim == 0
        return self.graph.derive(name, "map", "real", {"of": self}, self.plates, rows, scalar, constant=matrix)

    def _real(self, sign: str, other: Any) -> Node:
        if not isinstance(other, Node):
            array = numbers(f"what is added to {self.name!r}", other)
            array = np.broadcast_to(array[..., None] if array.ndim == 0 else array, (self.quantity.size,))
            other = self.graph.constant("constant", array, "real", self.quantity.size, self.quantity.scalar)
        for node in (self, other):
            if node.quantity.value != "real":
                raise NotConjugate(
                    f"{self.name} {sign} {other.name}: {node.name!r} must be {WORDS['real']}, it is "
                    f"{WORDS[node.quantity.value]}"
                )
        return other


def numbers(name: str, given: Any) -> np.ndarray:
    """Known numbers in place of a variable."""
    try:
        array = np.asarray(given)
        if array.dtype.kind in "biuf":
            return array.astype(np.float64)
    except ValueError:  # lists of different lengths
        pass
    raise InvalidParameter(f"{name} must be a variable of the graph or numbers, got {given!r:.80}")


def merged(*plates: tuple[str, ...]) -> tuple[str, ...]:
    """All plates, in the order in which they first appear."""
    return tuple(dict.fromkeys(p for each in plates for p in each))
