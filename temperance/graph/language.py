"""The modelling language: variables with parents as arguments, on named plates.

g = tp.Graph()
weights = g.dirichlet("weights", np.ones(3))
components = g.normal_wishart("components", [0.0, 0.0], 0.01, 4.0, np.eye(2), plates=g.plate("k", 3))
z = g.categorical("z", weights, plates="n")
x = g.normal("x", components[z], observed=True)
fit = tp.fit(g.model(), data)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

from ..cards import Card, card
from ..errors import InvalidParameter
from ..families import Beta, Dirichlet, Gamma, NormalGamma, NormalWishart, Wishart
from ..families._family import Family
from .analysis import choose_elimination
from .compiled import GraphModel
from .errors import NotConjugate, PlateMismatch, drawn, users_line
from .nodes import WORDS, Node
from .parents import Plates, as_tuple, event_of
from .remarks import symmetries
from .responses import Responses, require_possible
from .sited import suits
from .spec import Quantity, Spec, told

FAMILIES = {
    "Dirichlet": "simplex",
    "Beta": "probability",
    "Gamma": "positive",
    "Wishart": "matrix",
    "NormalWishart": "gaussian",
    "NormalGamma": "gaussian",
}


class Graph(Responses, Card):
    """A conjugate model under construction.

    Each method adds a variable, given its `name`, its parents, and the `plates` on which it is repeated besides those
    of its parents. A parent is a number, an array or another variable. `observed=True` says that its values are the
    data (NaN: missing). `size` is the number of members of a plate. `model()` compiles the graph.
    """

    # ---- plates and known quantities ------------------------------------------------------------------------

    def plate(self, name: str, size: int | None = None) -> str:
        """A plate by name; a size that is not given is taken from the data."""
        self._note_plates((name,))
        if size is not None:
            self.fix_size(name, size, "g.plate")
        return name

    def input(self, name: str, dim: int | None = None, *, plates: Plates = (), kind: str = "real") -> Node:
        """Known numbers (or vectors, with `dim`) that come with the data and are not modelled; use `kind="positive"`
        for exposures and the like."""
        if kind not in ("real", "positive"):
            raise InvalidParameter(f"kind must be 'real' or 'positive', got {kind!r}")
        return self._add(name, "input", kind, {}, as_tuple(plates), dim or 1, scalar=dim is None)

    def index(self, name: str, size: int, *, plates: Plates = ()) -> Node:
        """Known numbers 0 … size − 1 that come with the data and choose members of a plate, as in `effects[group]`."""
        return self._add(name, "input", "category", {}, as_tuple(plates), int(size))

    # ---- variables with known parameters ----------------------------------------------------------------------

    def dirichlet(self, name: str, concentration: Any, *, plates: Plates = ()) -> Node:
        """Probabilities of categories, Dirichlet with this `concentration`."""
        return self.variable(name, Dirichlet(concentration), plates=plates)

    def beta(self, name: str, a: Any, b: Any, *, plates: Plates = ()) -> Node:
        """A probability, Beta with parameters `a` and `b`."""
        return self.variable(name, Beta(a, b), plates=plates)

    def wishart(self, name: str, dof: Any, scatter: Any, *, plates: Plates = ()) -> Node:
        """A precision matrix with mean `dof` · `scatter`⁻¹."""
        return self.variable(name, Wishart(dof, scatter), plates=plates)

    def normal_wishart(
        self, name: str, mean: Any, pseudo_count: Any, dof: Any, scatter: Any, *, plates: Plates = ()
    ) -> Node:
        """The mean and the precision matrix of a Gaussian vector; `mean`, `pseudo_count`, `dof` and `scatter` are those
        of `tp.NormalWishart`."""
        return self.variable(name, NormalWishart(mean, pseudo_count, dof, scatter), plates=plates)

    def normal_gamma(
        self, name: str, mean: Any, pseudo_count: Any, dof: Any, scatter: Any, *, plates: Plates = ()
    ) -> Node:
        """The mean and the precision of a Gaussian number; `mean`, `pseudo_count`, `dof` and `scatter` are those of
        `tp.NormalGamma`."""
        return self.variable(name, NormalGamma(mean, pseudo_count, dof, scatter), plates=plates)

    def variable(self, name: str, prior: Family, *, plates: Plates = ()) -> Node:
        """A variable whose `prior` is a family of this package, such as `tp.Gamma(2, 1)`."""
        family = type(prior).__name__
        if family not in FAMILIES:
            raise InvalidParameter(f"the prior of {name!r} must be one of {', '.join(FAMILIES)}, got {prior!r}")
        on, batch = as_tuple(plates), prior.batch_shape
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
        """A positive number, Gamma with this `shape` (a number) and `rate` (a number or a Gamma variable)."""
        if not isinstance(rate, Node) and not observed:
            return self.variable(name, Gamma(shape, rate), plates=plates)
        if isinstance(shape, Node):
            raise NotConjugate(
                f"{name!r} (at {users_line()}) cannot have {shape.name!r} as its shape: no family is conjugate to the "
                "shape of a Gamma; give a number, or make the rate a Gamma variable"
            )
        parents = {"rate": self._parent(name, "rate", rate, ("positive",), plates)}
        parents["shape"] = self._number(name, "shape", shape, "positive", plates)
        return self._add(name, "gamma", "positive", parents, as_tuple(plates), scalar=True, observed=observed)

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
        """A Normal number, or a vector if `mean`, a matrix `precision` or `dim` says so. `mean` is a number, a Normal
        variable, a linear function of Normal variables, or a Normal-Wishart or Normal-Gamma variable, which includes
        the precision; `precision` is a number or matrix, or a Gamma or Wishart variable."""
        both = isinstance(mean, Node) and mean.quantity.value == "gaussian"
        if both == (precision is not None):
            raise InvalidParameter(
                f"{name!r}: {mean.name!r} brings the precision, so give none" if both else f"{name!r} needs a precision"
            )
        size, scalar = event_of(name, mean, precision, dim)
        parents = {"mean": self._mean(name, mean, size, scalar, plates)}
        if precision is not None:
            parents["precision"] = self._precision(name, precision, size, scalar, plates)
        self.require_apart(name, *parents.values())
        return self._add(name, "normal", "real", parents, as_tuple(plates), size, scalar, observed=observed)

    def categorical(self, name: str, probabilities: Any, *, plates: Plates = (), observed: bool = False) -> Node:
        """A category 0, 1, 2, … with these `probabilities`: numbers or a Dirichlet variable."""
        p = self._parent(name, "probabilities", probabilities, ("simplex",), plates, event=1)
        return self._add(
            name, "categorical", "category", {"probabilities": p}, as_tuple(plates), p.quantity.size, observed=observed
        )

    def bernoulli(self, name: str, probability: Any, *, plates: Plates = (), observed: bool = False) -> Node:
        """0 or 1, the latter with this `probability`: a number or a Beta variable."""
        p = self._parent(name, "probability", probability, ("probability",), plates)
        return self._add(name, "bernoulli", "category", {"probability": p}, as_tuple(plates), 2, observed=observed)

    def poisson(self, name: str, rate: Any, *, plates: Plates = (), observed: bool = False) -> Node:
        """A count with this `rate`: a number or a Gamma variable, which an exposure may multiply."""
        p = self._parent(name, "rate", rate, ("positive",), plates)
        return self._seen(
            name, observed, self._add(name, "poisson", "count", {"rate": p}, as_tuple(plates), observed=True)
        )

    def multinomial(self, name: str, probabilities: Any, *, plates: Plates = (), observed: bool = False) -> Node:
        """Counts of categories with these `probabilities`, given their sum."""
        p = self._parent(name, "probabilities", probabilities, ("simplex",), plates, event=1)
        node = self._add(
            name, "multinomial", "count", {"probabilities": p}, as_tuple(plates), p.quantity.size, observed=True
        )
        return self._seen(name, observed, node)

    # ---- functions --------------------------------------------------------------------------------------------

    def dot(self, left: Node, right: Node) -> Node:
        """The dot product of two independent vectors, `left` and `right`."""
        return left.dot(right)

    def switches(self, of: Node, plate: str) -> Node:
        """The members on `plate` of a Bernoulli variable, `of`, as a vector of zeros and ones, which turns parts of a
        dot product on and off."""
        if of.quantity.kind != "bernoulli" or plate not in of.plates:
            raise NotConjugate(f"switches({of.name}) needs a Bernoulli variable on plate {plate!r}, got {of!r}")
        if plate not in self.sizes:
            raise PlateMismatch(f"the size of plate {plate!r} must be known for switches({of.name}): g.plate")
        plates = tuple(p for p in of.plates if p != plate)
        return self.derive(f"switches({of.name})", "switches", "real", {"of": of}, plates, self.sizes[plate])

    def diagonal(self, of: Node, plate: str) -> Node:
        """The members on `plate` of a Gamma variable, `of`, as the diagonal of a precision matrix."""
        if of.quantity.value != "positive" or plate not in of.plates:
            raise NotConjugate(f"diagonal({of.name}) needs {WORDS['positive']} on plate {plate!r}, got {of!r}")
        if plate not in self.sizes:
            raise PlateMismatch(
                f"the size of plate {plate!r} must be known for diagonal({of.name}): g.plate({plate!r}, size)"
            )
        for index in sorted(self.chosen_by(of)):
            if plate in self.quantities[index].plates:
                raise NotConjugate(
                    f"diagonal({of.name}) (at {users_line()}) joins the members of plate {plate!r}, each chosen by its "
                    f"own {index!r} (at {self.quantities[index].line}): their joint values would have to be summed; "
                    f"choose by a variable that is not on {plate!r}, or give each member a Gamma variable of its own"
                )
        plates = tuple(p for p in of.plates if p != plate)
        return self.derive(f"diagonal({of.name})", "diagonal", "diagonal", {"of": of}, plates, self.sizes[plate])

    # ---- the model --------------------------------------------------------------------------------------------

    def model(
        self, *, factorised: str | Iterable[str] = (), data_plate: str | None = None, missing: bool = False
    ) -> GraphModel:
        """The model that this graph describes, for `tp.fit` and every other function. Discrete latents of each datum
        are summed out jointly where that is possible, and a Normal vector is integrated out if it is the only other
        latent. Latents named in `factorised` get separate distributions in the posterior. The data are the members of
        `data_plate`, by default the first plate of the first observed variable. `missing` says that later data may have
        gaps (NaN), even if the fitted data have none.
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
        require_possible(spec)
        spec, remarks = choose_elimination(spec, names)
        constants = {name: _arranged(spec, spec[name], value) for name, value in self.constants.items()}
        kind: type[GraphModel] = GraphModel
        if any(q.kind == "input" for q in spec):
            kind = suits(spec)
        return kind(spec, constants, (*symmetries(spec, constants), *remarks), missing)

    def draw(self) -> Any:
        """The graph in plate notation, as an SVG picture that notebooks show."""
        from .drawing import draw

        return draw(self._spec(None, check=False))

    def __repr__(self) -> str:
        return f"<Graph of {told(self.quantities.values()) or 'nothing yet'}>"

    def _card(self) -> str:
        title = f"Graph of {told(self.quantities.values()) or 'nothing yet'}"
        steps = ("model = graph.model()", "fit = tp.fit(model, data)") if self.quantities else ()
        return card(title, picture=str(self.draw()) if self.quantities else "", next_steps=steps)

    def _seen(self, name: str, observed: bool, node: Node) -> Node:
        if not observed:
            del self.quantities[name]
            raise NotConjugate(
                f"{name!r} (at {users_line()}) is {WORDS['count']}, which can be observed but not latent: observed=True"
            )
        return node


def _arranged(spec: Spec, q: Quantity, value: Any) -> Any:
    """Known parameters with their plates in the graph's order rather than in the user's."""
    family = isinstance(value, Family)
    if q.kind == "map":
        return value
    rank = len(value.batch_shape) if family else min(len(q.plates), value.ndim)
    # A family without the first of its plates is the same for all their members: axes of length 1.
    missing = len(q.plates) - rank if family else 0
    axes = [spec.axis(plate) for plate in q.plates[len(q.plates) - rank - missing :]]
    order = sorted(range(missing + rank), key=lambda i: axes[i])
    if order == list(range(missing + rank)):
        return value

    def move(leaf: Any) -> Any:
        full = leaf.reshape((1,) * missing + leaf.shape)
        return jnp.transpose(full, (*order, *range(missing + rank, full.ndim)))

    return value.with_natural(jax.tree.map(move, value.natural)) if family else move(value)
