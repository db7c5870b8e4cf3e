"""Checks of parents: nodes of the right kind, or numbers, which become constants of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InvalidParameter
from ..numerics.place import on_device
from .book import Book
from .errors import NotConjugate, PlateMismatch, drawn, users_line
from .nodes import WORDS, Node, numbers

Plates = str | Sequence[str]


class Parents(Book):
    """A book that checks each argument of a variable as it is entered."""

    def _parent(
        self, child: str, argument: str, given: Any, kinds: tuple[str, ...], plates: Plates, event: int = 0
    ) -> Node:
        if not isinstance(given, Node):
            return self._number(child, argument, given, kinds[0], plates, event)
        self._require(child, argument, given, kinds)
        return given

    def _require(self, child: str, argument: str, given: Node, kinds: tuple[str, ...]) -> None:
        found = given.quantity.value
        if found not in kinds:
            accepted = " or ".join(WORDS[kind] for kind in kinds)
            raise NotConjugate(
                f"{child!r} (at {users_line()}) cannot have {given.name!r} (at {given.quantity.line}) as its "
                f"{argument}: {WORDS[found]} is not conjugate there; it can be {accepted}, or numbers"
            )

    def _number(self, child: str, argument: str, given: Any, kind: str, plates: Plates, event: int = 0) -> Node:
        return self._constant(f"{child}.{argument}", given, kind, as_tuple(plates), event)

    def _constant(
        self, name: str, given: Any, kind: str, plates: tuple[str, ...], event: int = 0, scalar: bool = False
    ) -> Node:
        array = numbers(name, given)
        if not np.isfinite(array).all():
            raise InvalidParameter(f"{name} must be finite, got {given!r:.80}")
        rank = array.ndim - event
        if rank < 0 or rank > len(plates):
            raise PlateMismatch(
                f"{name} has shape {array.shape}, which does not fit {drawn(name.split('.')[0], plates, self.sizes)}"
            )
        _check_numbers(name, array, kind)
        on = plates[len(plates) - rank :]
        self._note_plates(plates)
        for plate, size in zip(on, array.shape, strict=False):
            self.fix_size(plate, size, name)
        size = array.shape[-1] if event else 1
        node = self._register(self._free(name), "constant", kind, {}, on, size, scalar)
        self.constants[node.name] = on_device(array[..., None] if kind == "real" and scalar else array)
        return node

    def _mean(self, child: str, mean: Any, size: int, scalar: bool, plates: Plates) -> Node:
        if isinstance(mean, Node):
            self._require(child, "mean", mean, ("real", "gaussian"))
            return mean
        array = numbers(f"{child}.mean", mean)
        if not scalar and array.ndim == 0:
            array = np.broadcast_to(array, (size,))
        return self._constant(f"{child}.mean", array, "real", as_tuple(plates), 0 if scalar else 1, scalar)

    def _precision(self, child: str, precision: Any, size: int, scalar: bool, plates: Plates) -> Node:
        if isinstance(precision, Node):
            self._require(
                child, "precision", precision, ("positive",) if scalar else ("positive", "matrix", "diagonal")
            )
            if precision.quantity.value != "positive" and precision.quantity.size != size:
                raise PlateMismatch(
                    f"{child!r} has {size} entries, but its precision {precision.name!r} {precision.quantity.size}"
                )
            return precision
        array = numbers(f"{child}.precision", precision)
        matrix = not scalar and array.ndim >= 2 and array.shape[-2:] == (size, size)
        return self._constant(
            f"{child}.precision", array, "matrix" if matrix else "positive", as_tuple(plates), 2 if matrix else 0
        )


def as_tuple(plates: Plates) -> tuple[str, ...]:
    return (plates,) if isinstance(plates, str) else tuple(plates)


def event_of(name: str, mean: Any, precision: Any, dim: int | None) -> tuple[int, bool]:
    """The dimension of a Normal variable, and whether it is a number to the user."""
    found: tuple[int, bool] | None = None
    if isinstance(mean, Node):
        found = mean.quantity.size, mean.quantity.scalar
    elif isinstance(precision, Node) and precision.quantity.value in ("matrix", "diagonal"):
        found = precision.quantity.size, False
    elif dim is None and not isinstance(precision, Node) and np.ndim(precision) == 2:
        found = np.shape(precision)[-1], False
    if dim is not None and found is not None and found != (dim, False):
        raise InvalidParameter(f"{name!r} has {found[0]} entries by its parents, but dim={dim}")
    return found or ((1, True) if dim is None else (int(dim), False))


def _check_numbers(name: str, array: np.ndarray, kind: str) -> None:
    if kind == "positive" and (array <= 0).any():
        raise InvalidParameter(f"{name} must be positive, got {array.min():g}")
    if kind == "probability" and ((array < 0) | (array > 1)).any():
        raise InvalidParameter(f"{name} must lie between 0 and 1, got {array!r:.80}")
    if kind == "simplex" and ((array < 0).any() or (abs(array.sum(axis=-1) - 1.0) > 1e-8).any()):
        raise InvalidParameter(f"{name} must be numbers from 0 that sum to one, got {array!r:.80}")
    if kind == "matrix" and (np.linalg.eigvalsh(array) <= 0).any():
        raise InvalidParameter(f"{name} must be positive definite")
