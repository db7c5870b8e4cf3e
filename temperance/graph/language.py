"""The modelling language: variables with parents as arguments, on named plates.

g = tp.Graph()
weights = g.dirichlet("weights", np.ones(3))
components = g.normal_wishart("components", [0.0, 0.0], 0.01, 4.0, np.eye(2), plates=g.plate("k", 3))
z = g.categorical("z", weights, plates="n")
x = g.normal("x", components[z], observed=True)
fit = tp.fit(g.model(), data)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InvalidParameter
from ..families import Beta, Dirichlet, Gamma, NormalGamma, NormalWishart, Wishart
from ..families._family import Family
from .analysis import choose_elimination
from .compiled import ConditionalGraphModel, GraphModel
from .errors import NotConjugate, PlateMismatch, drawn, users_line
from .nodes import WORDS, Node, merged
from .remarks import symmetries
from .spec import Quantity, Spec

Plates = str | Sequence[str]
FAMILIES = {
    "Dirichlet": "simplex",
    "Beta": "probability",
    "Gamma": "positive",
    "Wishart": "matrix",
    "NormalWishart": "gaussian",
    "NormalGamma": "gaussian",
}


class Graph:
    """A conjugate model in the making. Each method adds a variable: its name, its parents, and the `plates` on which
    it is repeated besides those of its parents. `observed=True` says that its values are the data (NaN: not seen).
    `model()` compiles what there is."""

    def __init__(self) -> None:
        self.quantities: dict[str, Quantity] = {}
        self.constants: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}
        self._plates: list[str] = []

    # ---- plates and known quantities ------------------------------------------------------------------------

    def plate(self, name: str, size: int | None = None) -> str:
        """A plate by name; its size, where it is not given, is that of the data."""
        self._note_plates((name,))
        if size is not None:
            self.fix_size(name, size, "g.plate")
        return name

    def input(self, name: str, dim: int | None = None, *, plates: Plates = (), kind: str = "real") -> Node:
        """Known numbers (or with `dim` vectors) that come with the data and are not modelled; `kind="positive"` for
        exposures and the like."""
        if kind not in ("real", "positive"):
            raise InvalidParameter(f"kind must be 'real' or 'positive', got {kind!r}")
        return self._add(name, "input", kind, {}, _tuple(plates), dim or 1, scalar=dim is None)

    def index(self, name: str, size: int, *, plates: Plates = ()) -> Node:
        """Known numbers 0 … size − 1 that come with the data, to choose members of a plate by: `effects[group]`."""
        return self._add(name, "input", "category", {}, _tuple(plates), int(size))

    # ---- variables with known parameters ----------------------------------------------------------------------

    def dirichlet(self, name: str, concentration: Any, *, plates: Plates = ()) -> Node:
        return self.variable(name, Dirichlet(concentration), plates=plates)

    def beta(self, name: str, a: Any, b: Any, *, plates: Plates = ()) -> Node:
        return self.variable(name, Beta(a, b), plates=plates)

    def wishart(self, name: str, dof: Any, scatter: Any, *, plates: Plates = ()) -> Node:
        """A precision matrix with mean dof · scatter⁻¹."""
        return self.variable(name, Wishart(dof, scatter), plates=plates)

    def normal_wishart(
        self, name: str, mean: Any, pseudo_count: Any, dof: Any, scatter: Any, *, plates: Plates = ()
    ) -> Node:
        """The mean and the precision matrix of a Gaussian vector."""
        return self.variable(name, NormalWishart(mean, pseudo_count, dof, scatter), plates=plates)

    def normal_gamma(
        self, name: str, mean: Any, pseudo_count: Any, dof: Any, scatter: Any, *, plates: Plates = ()
    ) -> Node:
        """The mean and the precision of a Gaussian number."""
        return self.variable(name, NormalGamma(mean, pseudo_count, dof, scatter), plates=plates)

    def variable(self, name: str, prior: Family, *, plates: Plates = ()) -> Node:
        """A variable whose prior is a family of this package."""
        family = type(prior).__name__
        if family not in FAMILIES:
            raise InvalidParameter(f"the prior of {name!r} must be one of {', '.join(FAMILIES)}, got {prior!r}")
        on, batch = _tuple(plates), prior.batch_shape
        if len(batch) > len(on):
            raise PlateMismatch(
                f"the parameters of {name!r} have the leading axes {batch}, but {drawn(name, on, self.sizes)}"
            )
        self._note_plates(on)
        for plate, size in zip(on[len(on) - len(batch) :], batch, strict=True):
            self.fix_size(plate, size, f"the parameters of {name!r}")
        leaf = jax.tree.leaves(prior.natural)[0]
        node = self._add(name, "fixed", FAMILIES[family], {}, on, leaf.shape[-1] if leaf.ndim > len(batch) else 1,
                         scalar=family in ("NormalGamma", "Gamma", "Beta"), family=family)  # fmt: skip
        self.constants[name] = prior
        return node

    # ---- variables with parents -------------------------------------------------------------------------------

    def gamma(self, name: str, shape: Any, rate: Any, *, plates: Plates = (), observed: bool = False) -> Node:
        if not isinstance(rate, Node) and not observed:
            return self.variable(name, Gamma(shape, rate), plates=plates)
        if isinstance(shape, Node):
            raise NotConjugate(
                f"{name!r} (at {users_line()}) cannot have {shape.name!r} as its shape: no family is conjugate to the "
                "shape of a Gamma; give a number, or make the rate a Gamma variable"
            )
        parents = {"rate": self._parent(name, "rate", rate, ("positive",), plates)}
        parents["shape"] = self._number(name, "shape", shape, "positive", plates)
        return self._add(name, "gamma", "positive", parents, _tuple(plates), scalar=True, observed=observed)

    def normal(
        self,
        name: str,
        mean: Any = 0.0,
        precision: Any = None,
        *,
        dim: int | None = None,
        plates: Plates = (),
        observed: bool = False,
    ) -> Node:
        """A number, or a vector where `mean`, a matrix `precision` or `dim` say so. `mean` is a number, a Normal
        variable or a linear function of some, or a Normal-Wishart or Normal-Gamma variable, which brings the precision
        too; `precision` is a number or matrix, or a Gamma or Wishart variable."""
        both = isinstance(mean, Node) and mean.quantity.value == "gaussian"
        if both == (precision is not None):
            raise InvalidParameter(
                f"{name!r}: {mean.name!r} brings the precision, so give none" if both else f"{name!r} needs a precision"
            )
        size, scalar = _event(name, mean, precision, dim)
        parents = {"mean": self._mean(name, mean, size, scalar, plates)}
        if precision is not None:
            parents["precision"] = self._precision(name, precision, size, scalar, plates)
        self.require_apart(name, *parents.values())
        return self._add(name, "normal", "real", parents, _tuple(plates), size, scalar, observed)

    def categorical(self, name: str, probabilities: Any, *, plates: Plates = (), observed: bool = False) -> Node:
        p = self._parent(name, "probabilities", probabilities, ("simplex",), plates, event=1)
        return self._add(
            name, "categorical", "category", {"probabilities": p}, _tuple(plates), p.quantity.size, observed=observed
        )

    def bernoulli(self, name: str, probability: Any, *, plates: Plates = (), observed: bool = False) -> Node:
        p = self._parent(name, "probability", probability, ("probability",), plates)
        return self._add(name, "bernoulli", "category", {"probability": p}, _tuple(plates), 2, observed=observed)

    def poisson(self, name: str, rate: Any, *, plates: Plates = (), observed: bool = False) -> Node:
        p = self._parent(name, "rate", rate, ("positive",), plates)
        return self._seen(
            name, observed, self._add(name, "poisson", "count", {"rate": p}, _tuple(plates), observed=True)
        )

    def multinomial(self, name: str, probabilities: Any, *, plates: Plates = (), observed: bool = False) -> Node:
        """Counts of categories, given their sum."""
        p = self._parent(name, "probabilities", probabilities, ("simplex",), plates, event=1)
        node = self._add(
            name, "multinomial", "count", {"probabilities": p}, _tuple(plates), p.quantity.size, observed=True
        )
        return self._seen(name, observed, node)

    def markov_chain(
        self, name: str, initial: Any, transition: Any, *, time: str, plates: Plates = (), observed: bool = False
    ) -> Node:
        """Discrete states along the plate `time`: the first from `initial`, each next from the row of `transition`
        (a Dirichlet variable on a plate of states) that the one before names."""
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
        on = merged(_tuple(plates), first.plates)
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
        next one with the mean `dynamics` times the one before. `dynamics` is a number, a matrix, or a Normal variable:
        of a chain of numbers a number, of vectors the rows of the matrix, on a plate of `dim` members. The precisions
        are as those of `g.normal`. All steps together are integrated out."""
        size, scalar = _event(name, initial, initial_precision, dim)
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
        on = merged(_tuple(plates), first.plates, width.plates, noise.plates)
        rows = [p for p in move.plates if p not in on]
        if not scalar and (len(rows) != 1 or self.sizes.setdefault(rows[0], size) != size):
            raise PlateMismatch(
                f"the dynamics of {name!r} must have one plate of {size} rows besides those of the chain: "
                f"{move!r} × {drawn(name, (*on, time), self.sizes)}"
            )
        learnt = move.quantity.kind != "constant"
        if learnt and not scalar and noise.quantity.value == "matrix":
            raise NotConjugate(
                f"{name!r} (at {users_line()}): rows of the dynamics {move.name!r} that are learnt meet in a full "
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
        spec = Spec(tuple(self.quantities.values()), tuple(self._plates), ())
        for node in parents.values():
            if gates := spec.gates(node.name):
                raise NotConjugate(
                    f"{name!r} (at {users_line()}) cannot have {node.name!r} as a parent: {sorted(gates)[0]!r} is a "
                    "latent that chooses it, and the chain would not be Gaussian"
                )
        self._note_plates((*on, time))
        return self._register(name, "gaussian_chain", "real", parents, (*on, time), size, scalar)

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

    # ---- functions --------------------------------------------------------------------------------------------

    def dot(self, left: Node, right: Node) -> Node:
        """The dot product of two independent vectors."""
        for node in (left, right):
            if node.quantity.value != "real":
                raise NotConjugate(
                    f"dot({left.name}, {right.name}): {node.name!r} must be {WORDS['real']}, it is "
                    f"{WORDS[node.quantity.value]}"
                )
        if left.quantity.size != right.quantity.size:
            raise PlateMismatch(
                f"dot({left.name}, {right.name}): {left.quantity.size} entries and {right.quantity.size} entries"
            )
        self.require_apart(f"dot({left.name}, {right.name})", left, right)
        plates = merged(left.plates, right.plates)
        return self.derive(
            f"dot({left.name}, {right.name})", "dot", "real", {"left": left, "right": right}, plates, 1, True
        )

    def switches(self, of: Node, plate: str) -> Node:
        """The members of a plate of Bernoulli variables as a vector of zeros and ones, to turn parts of a dot product
        on and off."""
        if of.quantity.kind != "bernoulli" or plate not in of.plates:
            raise NotConjugate(f"switches({of.name}) needs a Bernoulli variable on plate {plate!r}, got {of!r}")
        if plate not in self.sizes:
            raise PlateMismatch(f"the size of plate {plate!r} must be known for switches({of.name}): g.plate")
        plates = tuple(p for p in of.plates if p != plate)
        return self.derive(f"switches({of.name})", "switches", "real", {"of": of}, plates, self.sizes[plate])

    def diagonal(self, of: Node, plate: str) -> Node:
        """The members of a plate of Gamma variables as the diagonal of a precision matrix."""
        if of.quantity.value != "positive" or plate not in of.plates:
            raise NotConjugate(f"diagonal({of.name}) needs {WORDS['positive']} on plate {plate!r}, got {of!r}")
        if plate not in self.sizes:
            raise PlateMismatch(
                f"the size of plate {plate!r} must be known for diagonal({of.name}): g.plate({plate!r}, size)"
            )
        plates = tuple(p for p in of.plates if p != plate)
        return self.derive(f"diagonal({of.name})", "diagonal", "diagonal", {"of": of}, plates, self.sizes[plate])

    # ---- the model --------------------------------------------------------------------------------------------

    def model(
        self, *, factorised: str | Iterable[str] = (), data_plate: str | None = None, missing: bool = False
    ) -> GraphModel:
        """The model that this graph describes, for `tp.fit` and all else.

        Discrete latents of each datum are summed out together where that is possible, and a Normal vector is
        integrated out where it is the only other one; those named in `factorised` get a distribution of their own.
        The data are the members of `data_plate`, by default the first plate of the first observed variable.
        `missing` says that data to come may have gaps (NaN), even if those that are fitted have none.
        """
        spec = self._spec(data_plate)
        names = (factorised,) if isinstance(factorised, str) else tuple(factorised)
        for name in names:
            known = name in self.quantities and spec[name].latent
            if not known or not (spec[name].discrete or spec.local(spec[name])):
                raise InvalidParameter(f"factorised must name latents of the data or discrete ones, got {name!r}")
            if spec[name].kind == "markov_chain":
                raise InvalidParameter(f"{name!r} is a Markov chain, which is always summed out")
            if spec[name].kind == "gaussian_chain":
                raise InvalidParameter(f"{name!r} is a Gaussian chain, which is always integrated out")
        for q in spec:
            if q.kind in ("markov_chain", "gaussian_chain") and (not spec.local(q) or q.plates[-1] == spec.data_plate):
                raise PlateMismatch(
                    f"the data are the members of plate {spec.data_plate!r}, but {drawn(q.name, q.plates, self.sizes)} "
                    f"runs along {q.plates[-1]!r}: a chain needs a plate of series (of one member, if there is one), "
                    "first of its plates"
                )
        spec, remarks = choose_elimination(spec, names)
        constants = {name: _arranged(spec, spec[name], value) for name, value in self.constants.items()}
        kind = ConditionalGraphModel if any(q.kind == "input" for q in spec) else GraphModel
        return kind(spec, constants, (*symmetries(spec, constants), *remarks), missing)

    def draw(self) -> Any:
        """The graph in plate notation, as an SVG picture that notebooks show."""
        from .drawing import draw

        return draw(self._spec(None, check=False))

    def _repr_svg_(self) -> str:
        return str(self.draw())

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

    # ---- pieces -----------------------------------------------------------------------------------------------

    def _add(
        self, name: str, kind: str, value: str, parents: dict[str, Node], plates: tuple[str, ...],
        size: int = 1, scalar: bool = False, observed: bool = False, family: str = "",
    ) -> Node:  # fmt: skip
        on = merged(plates, *(parent.plates for parent in parents.values()))
        self._note_plates(on)
        return self._register(name, kind, value, parents, on, size, scalar, observed, family)

    def _register(
        self, name: str, kind: str, value: str, parents: dict[str, Node], plates: tuple[str, ...],
        size: int = 1, scalar: bool = False, observed: bool = False, family: str = "",
    ) -> Node:  # fmt: skip
        if not isinstance(name, str) or not name:
            raise InvalidParameter(f"the name of a variable must be a word, got {name!r}")
        if name in self.quantities:
            raise InvalidParameter(f"{name!r} is in the graph already, at {self.quantities[name].line}")
        for parent in parents.values():
            if parent.graph is not self:
                raise InvalidParameter(f"{parent.name!r} belongs to another graph than {name!r}")
        named = tuple((argument, parent.name) for argument, parent in parents.items())
        quantity = Quantity(name, kind, value, named, plates, size, scalar, observed, family, users_line())
        self.quantities[name] = quantity
        return Node(self, quantity)

    def derive(
        self, name: str, kind: str, value: str, parents: dict[str, Node], plates: tuple[str, ...],
        size: int = 1, scalar: bool = False, constant: Any = None,
    ) -> Node:  # fmt: skip
        """A function of other quantities; the same one twice is one quantity."""
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
        return self._constant(f"{child}.{argument}", given, kind, _tuple(plates), event)

    def _constant(
        self, name: str, given: Any, kind: str, plates: tuple[str, ...], event: int = 0, scalar: bool = False
    ) -> Node:
        try:
            array = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidParameter(f"{name} must be a variable of the graph or numbers, got {given!r:.80}") from None
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
        self.constants[node.name] = jnp.asarray(array[..., None] if kind == "real" and scalar else array)
        return node

    def _mean(self, child: str, mean: Any, size: int, scalar: bool, plates: Plates) -> Node:
        if isinstance(mean, Node):
            self._require(child, "mean", mean, ("real", "gaussian"))
            return mean
        array = np.asarray(mean, dtype=np.float64)
        if not scalar and array.ndim == 0:
            array = np.broadcast_to(array, (size,))
        return self._constant(f"{child}.mean", array, "real", _tuple(plates), 0 if scalar else 1, scalar)

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
        array = np.asarray(precision, dtype=np.float64)
        matrix = not scalar and array.ndim >= 2 and array.shape[-2:] == (size, size)
        return self._constant(
            f"{child}.precision", array, "matrix" if matrix else "positive", _tuple(plates), 2 if matrix else 0
        )

    def require_apart(self, what: str, *nodes: Node) -> None:
        """Parents of one variable must not share latents: their statistics would not factorise."""
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

    def _seen(self, name: str, observed: bool, node: Node) -> Node:
        if not observed:
            del self.quantities[name]
            raise NotConjugate(
                f"{name!r} (at {users_line()}) is {WORDS['count']}, which can be observed but not latent: observed=True"
            )
        return node


def _tuple(plates: Plates) -> tuple[str, ...]:
    return (plates,) if isinstance(plates, str) else tuple(plates)


def _event(name: str, mean: Any, precision: Any, dim: int | None) -> tuple[int, bool]:
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


def _arranged(spec: Spec, q: Quantity, value: Any) -> Any:
    """Known parameters with their plates in the graph's order rather than in the user's."""
    family = isinstance(value, Family)
    if q.kind == "map":
        return value
    rank = len(value.batch_shape) if family else min(len(q.plates), value.ndim)
    axes = [spec.axis(plate) for plate in q.plates[len(q.plates) - rank :]]
    order = sorted(range(rank), key=lambda i: axes[i])
    if order == list(range(rank)):
        return value

    def move(leaf: Any) -> Any:
        return jnp.transpose(leaf, (*order, *range(rank, leaf.ndim)))

    return value.with_natural(jax.tree.map(move, value.natural)) if family else move(value)
