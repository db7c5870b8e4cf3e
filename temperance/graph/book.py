"""The record of a graph under construction: its quantities by name, their plates, sizes and constants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..errors import InvalidParameter
from .errors import NotConjugate, PlateMismatch, drawn, users_line
from .nodes import Node, merged
from .spec import Quantity, Spec


class Book:
    """Every quantity is entered once; a plate has one size."""

    def __init__(self) -> None:
        self.quantities: dict[str, Quantity] = {}
        self.constants: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}
        self._plates: list[str] = []

    def _spec(self, data_plate: str | None, check: bool = True) -> Spec:
        seen = [q for q in self.quantities.values() if q.observed]
        if check and not seen:
            raise InvalidParameter("a graph needs a variable with observed=True before it can be a model")
        first = data_plate or next((q.plates[0] for q in seen if q.plates), None)
        if first is None:
            if check:
                raise PlateMismatch(f"observed {seen[0].name!r} needs a plate: its members are the data")
            first = ""
        for q in self.quantities.values():
            if check and (q.observed or q.kind == "input") and first not in q.plates:
                raise PlateMismatch(
                    f"{'observed' if q.observed else 'input'} {drawn(q.name, q.plates, self.sizes)} must be on the "
                    f"plate of the data, {first!r}"
                )
        plates = (first, *(p for p in self._plates if p != first))
        sizes = tuple(sorted((p, n) for p, n in self.sizes.items() if p != first))
        return Spec(tuple(self.quantities.values()), plates, sizes)

    # ---- entries ----------------------------------------------------------------------------------------------

    def _add(
        self, name: str, kind: str, value: str, parents: dict[str, Node], plates: tuple[str, ...],
        size: int = 1, scalar: bool = False, **seen: Any,
    ) -> Node:  # fmt: skip
        """Add a quantity on the given plates and those of its parents; `seen` says whether it is observed, and with
        which family."""
        on = merged(plates, *(parent.plates for parent in parents.values()))
        self._note_plates(on)
        return self._register(name, kind, value, parents, on, size, scalar, **seen)

    def _register(
        self, name: str, kind: str, value: str, parents: dict[str, Node], plates: tuple[str, ...],
        size: int = 1, scalar: bool = False, **seen: Any,
    ) -> Node:  # fmt: skip
        if not isinstance(name, str) or not name:
            raise InvalidParameter(f"the name of a variable must be a word, got {name!r}")
        if name in self.quantities:
            raise InvalidParameter(f"{name!r} is in the graph already, at {self.quantities[name].line}")
        for parent in parents.values():
            if parent.graph is not self:
                raise InvalidParameter(f"{parent.name!r} belongs to another graph than {name!r}")
        named = tuple((argument, parent.name) for argument, parent in parents.items())
        quantity = Quantity(name, kind, value, named, plates, size, scalar, line=users_line(), **seen)
        self.quantities[name] = quantity
        return Node(self, quantity)

    def derive(
        self, name: str, kind: str, value: str, parents: dict[str, Node], plates: tuple[str, ...],
        size: int = 1, scalar: bool = False, constant: Any = None,
    ) -> Node:  # fmt: skip
        """A function of the `parents`, called `name`: its `kind`, what its `value` is (of `size` numbers, or a
        `scalar`), and a `constant` that it may hold. Asking for the same function again returns the same quantity."""
        named = tuple((argument, parent.name) for argument, parent in parents.items())
        quantity = Quantity(name, kind, value, named, plates, size, scalar)
        if constant is None and self.quantities.get(name) == quantity:
            return Node(self, quantity)
        name = self._free(name)
        if constant is not None:
            self.constants[name] = jnp.asarray(constant)
        return self._register(name, kind, value, parents, plates, size, scalar)

    def _free(self, name: str) -> str:
        number, free = 1, name
        while free in self.quantities:
            number += 1
            free = f"{name} {number}"
        return free

    def constant(self, name: str, array: Any, kind: str, size: int = 1, scalar: bool = True) -> Node:
        name = self._free(name)
        node = self._register(name, "constant", kind, {}, (), size, scalar)
        self.constants[name] = jnp.asarray(array, dtype=jnp.float64)
        return node

    # ---- plates -----------------------------------------------------------------------------------------------

    def _note_plates(self, plates: Iterable[str]) -> None:
        for plate in plates:
            if not isinstance(plate, str) or not plate:
                raise InvalidParameter(f"a plate must be a name, got {plate!r}")
            if plate not in self._plates:
                self._plates.append(plate)

    def fix_size(self, plate: str, size: Any, origin: str) -> None:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise InvalidParameter(f"the size of plate {plate!r} must be a whole number of at least 1, got {size!r}")
        found = self.sizes.setdefault(plate, int(size))
        if found != size:
            users = " × ".join(
                drawn(q.name, q.plates, self.sizes) for q in self.quantities.values() if plate in q.plates and q.random
            )
            raise PlateMismatch(
                f"plate {plate!r} has {found} members, but {size} by {origin} (at {users_line()})"
                + (f": {users}" if users else "")
            )

    def chosen_by(self, node: Node) -> frozenset[str]:
        """The discrete latents that choose between values of this `node`."""
        return Spec(tuple(self.quantities.values()), tuple(self._plates), ()).gates(node.name)

    def require_apart(self, what: str, *nodes: Node) -> None:
        """Refuse `nodes` that share latents, as parents of the variable called `what`: they would not factorise."""
        spec = Spec(tuple(self.quantities.values()), tuple(self._plates), ())
        seen: dict[str, str] = {}
        for node in nodes:
            if node.graph is not self:
                raise InvalidParameter(f"{node.name!r} belongs to another graph than {what!r}")
            for latent in sorted(spec.ancestors(node.name)):
                if latent in seen:
                    raise NotConjugate(
                        f"{what!r} (at {users_line()}) depends on {latent!r} (at {self.quantities[latent].line}) "
                        f"twice, by {seen[latent]!r} and by {node.name!r}: a factor must be linear in each variable's "
                        "statistics; use two variables, or one function of it"
                    )
                seen[latent] = node.name
