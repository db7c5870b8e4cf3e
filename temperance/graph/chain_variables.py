"""Variables along a plate of time: Markov chains and Gaussian chains."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidParameter
from .errors import NotConjugate, PlateMismatch, drawn, users_line
from .nodes import Node, merged
from .parents import Parents, Plates, as_tuple, event_of
from .spec import Spec


class Chains(Parents):
    """The methods of the language for variables along time."""

    def markov_chain(
        self, name: str, initial: Any, transition: Any, *, time: str, plates: Plates = (), observed: bool = False
    ) -> Node:
        """Discrete states along the plate `time`: the first is drawn from `initial`, each later one from the row of
        `transition` (a Dirichlet variable on a plate of states) that belongs to the state before it."""
        if observed:
            raise InvalidParameter(f"{name!r}: a Markov chain can be latent only; observe its categorical emissions")
        first = self._parent(name, "initial", initial, ("simplex",), plates, event=1)
        states = first.quantity.size
        if not isinstance(transition, Node):
            here = f"{name}.before"
            self._note_plates((here,))
            self.fix_size(here, states, f"the states of {name!r}")
            transition = self._constant(f"{name}.transition", transition, "simplex", (here,), 1)
        step = self._parent(name, "transition", transition, ("simplex",), plates, event=1)
        on = merged(as_tuple(plates), first.plates)
        rows = [p for p in step.plates if p not in (*on, time)]
        if len(rows) != 1 or step.quantity.size != states:
            raise PlateMismatch(
                f"the transition of {name!r} must have one plate of {states} rows, one for each state before: "
                f"{step!r} × {drawn(name, (*on, time), self.sizes)}"
            )
        self.fix_size(rows[0], states, f"the states of {name!r}")
        if time in on:
            raise PlateMismatch(f"time must be a plate of its own, {time!r} is one of {drawn(name, on, self.sizes)}")
        parents = {"initial": first, "transition": step}
        self._note_plates((*on, time))
        return self._register(name, "markov_chain", "category", parents, (*on, time), states)

    def gaussian_chain(
        self,
        name: str,
        initial: Any = 0.0,
        initial_precision: Any = 1.0,
        dynamics: Any = 1.0,
        precision: Any = 1.0,
        *,
        time: str,
        dim: int | None = None,
        plates: Plates = (),
    ) -> Node:
        """Numbers, or vectors of `dim` entries, along the plate `time`: the first is Normal with mean `initial`, each
        later one has the mean `dynamics` times the one before. `dynamics` is a number, a matrix, or a Normal variable:
        a single number for a chain of numbers, and for a chain of vectors the rows of the matrix, on a plate of `dim`
        members. `precision` and `initial_precision`
        are given as in `g.normal`. All steps are integrated out together."""
        size, scalar = event_of(name, initial, initial_precision, dim)
        if dim is None and not isinstance(dynamics, Node) and np.ndim(dynamics) == 2:
            size, scalar = np.shape(dynamics)[-1], False
        elif dim is None and isinstance(dynamics, Node) and not dynamics.quantity.scalar:
            size, scalar = dynamics.quantity.size, False
        if isinstance(initial, Node) and initial.quantity.value == "gaussian":
            raise NotConjugate(
                f"{name!r} (at {users_line()}) cannot have {initial.name!r} as its initial: it brings a precision "
                "of its own; give a Normal variable or numbers, and initial_precision"
            )
        first = self._mean(f"{name}.initial", initial, size, scalar, plates)
        width = self._precision(f"{name}.initial", initial_precision, size, scalar, plates)
        noise = self._precision(name, precision, size, scalar, plates)
        move = self._dynamics(name, dynamics, size, scalar)
        self.require_apart(name, first, width)
        self.require_apart(name, move, noise)
        on = merged(as_tuple(plates), first.plates, width.plates, noise.plates)
        rows = [p for p in move.plates if p not in on]
        if not scalar and (len(rows) != 1 or self.sizes.setdefault(rows[0], size) != size):
            raise PlateMismatch(
                f"the dynamics of {name!r} must have one plate of {size} rows besides those of the chain: "
                f"{move!r} × {drawn(name, (*on, time), self.sizes)}"
            )
        learnt = move.quantity.kind != "constant"
        if learnt and not scalar and noise.quantity.value == "matrix":
            raise NotConjugate(
                f"{name!r} (at {users_line()}): rows of the dynamics {move.name!r} that are learned meet in a full "
                f"precision matrix {noise.name!r}; g.diagonal of Gamma variables, a Gamma variable or a number keep "
                "them apart"
            )
        on = merged(on, move.plates if scalar else ())
        if time in (*on, *move.plates) or not on:
            raise PlateMismatch(
                f"{name!r} needs a plate of series besides time (of one member, if there is one series), and none of "
                f"its parents can be on {time!r}: {drawn(name, (*on, time), self.sizes)}"
            )
        parents = {"initial": first, "initial_precision": width, "dynamics": move, "precision": noise}
        self._require_ungated(name, parents)
        self._note_plates((*on, time))
        return self._register(name, "gaussian_chain", "real", parents, (*on, time), size, scalar)

    def _require_ungated(self, name: str, parents: dict[str, Node]) -> None:
        spec = Spec(tuple(self.quantities.values()), tuple(self._plates), ())
        for node in parents.values():
            if gates := spec.gates(node.name):
                raise NotConjugate(
                    f"{name!r} (at {users_line()}) cannot have {node.name!r} as a parent: {sorted(gates)[0]!r} is a "
                    "latent that chooses it, and the chain would not be Gaussian"
                )

    def _dynamics(self, child: str, dynamics: Any, size: int, scalar: bool) -> Node:
        if isinstance(dynamics, Node):
            self._require(child, "dynamics", dynamics, ("real",))
            if (dynamics.quantity.size, dynamics.quantity.scalar) != (size, scalar):
                raise PlateMismatch(
                    f"the dynamics of {child!r} must be {'numbers' if scalar else f'rows of {size} entries'}, got "
                    f"{dynamics!r} of {dynamics.quantity.size}"
                )
            return dynamics
        if scalar:
            return self._constant(f"{child}.dynamics", dynamics, "real", (), 0, True)
        array = np.asarray(dynamics, dtype=np.float64)
        array = array * np.eye(size) if array.ndim == 0 else array
        if array.shape != (size, size):
            raise PlateMismatch(f"the dynamics of {child!r} must be a matrix {size} by {size}, got {array.shape}")
        here = f"{child}.row"
        self._note_plates((here,))
        self.fix_size(here, size, f"the entries of {child!r}")
        return self._constant(f"{child}.dynamics", array, "real", (here,), 1)
