"""Observed variables that depend on a number a, linear in Normal variables, by a likelihood that is not conjugate.

Their factors are the links of `families/links.py`: a lower bound from E[a] and E[a²] under a posterior, and exact at a
draw. For drawing parameters and for the start, the gradient is that of a second-order expansion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Array, Key

from ..errors import InvalidParameter
from ..families.links import (
    FAR,
    Censored,
    Link,
    Logistic,
    LogPoisson,
    Ordered,
    Probit,
    Softmax,
    Truncated,
)
from .chain_variables import Chains
from .errors import NotConjugate, PlateMismatch, users_line
from .nodes import Node
from .parents import Plates, as_tuple
from .spec import RESPONSES, Quantity, Spec
from .tables import Axes, Table, spread, union
from .values import Value, second

if TYPE_CHECKING:
    from .scope import Scope


class Responses(Chains):
    """The methods of the language for these variables. `a` is a Normal number or a linear function of Normal
    variables."""

    def logistic(self, name: str, a: Node, *, plates: Plates = (), observed: bool = False) -> Node:
        """A variable that is 1 with probability 1/(1 + exp(−`a`)), else 0."""
        return self._response(name, "logistic", "category", a, plates, observed, size=2)

    def probit(self, name: str, a: Node, *, plates: Plates = (), observed: bool = False) -> Node:
        """A variable that is 1 with probability Φ(`a`), the normal distribution function, else 0."""
        return self._response(name, "probit", "category", a, plates, observed, size=2)

    def log_poisson(self, name: str, a: Node, *, plates: Plates = (), observed: bool = False) -> Node:
        """A count with the rate exp(a); add the logarithm of an exposure to `a`."""
        return self._response(name, "log_poisson", "count", a, plates, observed)

    def ordered(self, name: str, a: Node, cuts: Any, *, plates: Plates = (), observed: bool = False) -> Node:
        """How many of the `cuts`, increasing numbers, lie below a Normal number of mean `a` and precision 1."""
        ends = np.asarray(cuts, dtype=np.float64)
        if ends.ndim != 1 or not ends.size or not np.isfinite(ends).all() or (np.diff(ends) <= 0).any():
            raise InvalidParameter(f"cuts must be a row of increasing finite numbers, got {cuts!r}")
        known = {"cuts": self.constant(f"{name}.cuts", ends, "real", len(ends), False)}
        return self._response(name, "ordered", "category", a, plates, observed, size=len(ends) + 1, known=known)

    def censored(
        self, name: str, a: Node, precision: Any, lower: Any = -np.inf, upper: Any = np.inf, *,
        plates: Plates = (), observed: bool = False,
    ) -> Node:  # fmt: skip
        """A Normal number of mean `a` and known `precision`, cut off at the limits: the value `lower` says that it lies
        there or below, `upper` that it lies there or above."""
        known = self._limits(name, precision, lower, upper, plates)
        return self._response(name, "censored", "real", a, plates, observed, scalar=True, known=known)

    def truncated(
        self, name: str, a: Node, precision: Any, lower: Any = -np.inf, upper: Any = np.inf, *,
        plates: Plates = (), observed: bool = False,
    ) -> Node:  # fmt: skip
        """A Normal number of mean `a` and known `precision`, given that it lies between `lower` and `upper`."""
        known = self._limits(name, precision, lower, upper, plates)
        return self._response(name, "truncated", "real", a, plates, observed, scalar=True, known=known)

    def softmax(self, name: str, a: Node, plate: str, *, plates: Plates = (), observed: bool = False) -> Node:
        """A category k with probability proportional to exp(a_k); `a` has a member for each category on `plate`."""
        if isinstance(a, Node) and (plate not in a.plates or plate not in self.sizes):
            raise PlateMismatch(
                f"softmax {name!r} (at {users_line()}) needs a number for each category on plate {plate!r}, whose size "
                f"must be known (g.plate): {a!r}"
            )
        size = self.sizes.get(plate, 0)
        return self._response(name, "softmax", "category", a, plates, observed, size=size, along=plate)

    def _limits(self, name: str, precision: Any, lower: Any, upper: Any, plates: Plates) -> dict[str, Node]:
        ends = [np.clip(np.asarray(end, dtype=np.float64), -FAR, FAR) for end in (lower, upper)]
        if np.isnan(ends).any() or not (ends[0] < ends[1]).all():
            raise InvalidParameter(f"lower must be below upper, got {lower!r} and {upper!r}")
        if isinstance(precision, Node):
            raise NotConjugate(
                f"{name!r} (at {users_line()}) cannot have {precision.name!r} as its precision: it must be known; give "
                "a number"
            )
        return {
            "precision": self._number(name, "precision", precision, "positive", plates),
            "lower": self._constant(f"{name}.lower", ends[0], "real", as_tuple(plates), scalar=True),
            "upper": self._constant(f"{name}.upper", ends[1], "real", as_tuple(plates), scalar=True),
        }

    def _response(
        self, name: str, kind: str, value: str, a: Node, plates: Plates, observed: bool, *,
        size: int = 1, scalar: bool = False, along: str = "", known: dict[str, Node] | None = None,
    ) -> Node:  # fmt: skip
        if not isinstance(a, Node):
            raise InvalidParameter(f"the mean of {name!r} must be a variable or a linear function of some, got {a!r}")
        self._require(name, "mean", a, ("real",))
        if not a.quantity.scalar:
            raise PlateMismatch(f"{name!r} (at {users_line()}) needs a number, but {a!r} has {a.quantity.size} entries")
        spec = Spec(tuple(self.quantities.values()), tuple(self._plates), ())
        for latent in sorted(spec.ancestors(a.name)):
            if spec[latent].kind != "normal":
                raise NotConjugate(
                    f"{name!r} (at {users_line()}) depends on {latent!r} (at {spec[latent].line}), and only Normal "
                    f"variables may enter the number behind a {kind.replace('_', ' ')} variable"
                )
        if not observed:
            raise NotConjugate(f"{name!r} (at {users_line()}) can be observed but not latent: observed=True")
        on = tuple(p for p in dict.fromkeys((*as_tuple(plates), *a.plates)) if p != along)
        self._note_plates(on)
        return self._register(name, kind, value, {"mean": a, **(known or {})}, on, size, scalar, observed=True)


# ---- responses in a spec ----------------------------------------------------------------------------------------


def responses(spec: Spec) -> tuple[Quantity, ...]:
    return tuple(q for q in spec if q.kind in RESPONSES)


def unconjugate(spec: Spec) -> dict[str, bool]:
    """The global Normal blocks on which responses depend, each with whether a whole step of its update may
    overshoot."""
    found: dict[str, bool] = {}
    for q in responses(spec):
        for name in spec.factor_blocks(q.name):
            if not spec.local(spec[name]):
                found[name] = found.get(name, False) or q.kind == "log_poisson" or classes_apart(spec, q)
    return found


def require_possible(spec: Spec) -> None:
    """Refuse a graph with responses that no method can treat."""
    met = unconjugate(spec)
    for q in responses(spec):
        for name in sorted(spec.factor_blocks(q.name)):
            if q.kind == "log_poisson" and spec.local(spec[name]):
                raise NotConjugate(
                    f"{name!r} (at {spec[name].line}) has a value for each datum and enters the log rate of "
                    f"{q.name!r}: its updates could overshoot; make it a variable that data share"
                )
    for q in spec:
        parents = set().union(*(spec.ancestors(parent) for _, parent in q.parents)) & set(met)
        if q.latent and parents:
            name = min(parents)
            raise NotConjugate(
                f"{q.name!r} (at {q.line}) is a latent child of {name!r}, which an observed variable that is not "
                "conjugate depends on too: draws of it could not be accepted; give them separate parents"
            )


# ---- factors of responses ---------------------------------------------------------------------------------------


def factor(scope: Scope, q: Quantity, own: Value, parents: dict[str, Value]) -> Table:
    """The bound on E log p(y | a). If the scope says `expand`: the value of log p(y | a) with the gradient of its
    second-order expansion, around a draw ("draw") or around the a that is typical of y ("typical")."""
    a, along, expand = parents["mean"], along_axis(scope.spec, q), scope.expand
    axes = tuple(axis for axis in union([own.axes, a.axes]) if axis != along)
    behind = axes if along is None else (*axes, along)
    first = spread(a.fields["mean"][..., 0], a.axes, behind)
    square = spread(second(a)[..., 0, 0], a.axes, behind)
    seen = own.fields["index"] if "index" in own.fields else own.fields["mean"][..., 0]
    y = targets(q.kind, spread(seen, own.axes, axes))
    link = Softmax(classes_apart(scope.spec, q)) if along is not None else link_of(q.kind, parents, axes)
    if not expand:
        value = link.expected(first, square, y)
    else:
        at = stop_gradient(first) if expand == "draw" else _typical(link, first, y)
        value, slope, curvature = link.expansion(at, y)
        tangent = slope * first + 0.5 * curvature * (square - 2.0 * at * first)
        tangent = jnp.sum(tangent, axis=-1) if along is not None else tangent
        value = value + tangent - stop_gradient(tangent)
    return Table(axes, value)


def _typical(link: Link | Softmax, a: Array, y: Array) -> Array:
    return jnp.zeros_like(a) if isinstance(link, Softmax) else link.typical(y) + jnp.zeros_like(a)


def targets(kind: str, y: Array) -> Array:
    """y in the form that the link expects."""
    return 2.0 * y - 1.0 if kind in ("logistic", "probit") else y


def link_of(kind: str, parents: dict[str, Value], axes: Axes) -> Link:
    if kind == "log_poisson":
        return LogPoisson()
    if kind in ("logistic", "probit"):
        return Logistic() if kind == "logistic" else Probit()
    if kind == "ordered":
        return Ordered(jnp.ones(()), parents["cuts"].fields["mean"])
    precision = parents["precision"]
    scale = spread(jnp.sqrt(precision.fields["value"]), precision.axes, axes)
    low, high = (spread(parents[end].fields["mean"][..., 0], parents[end].axes, axes) for end in ("lower", "upper"))
    return (Censored if kind == "censored" else Truncated)(scale, low, high)


# ---- draws and predictions --------------------------------------------------------------------------------------


def draw(key: Key[Array, ""], scope: Scope, q: Quantity) -> Array:
    """Values of an observed variable at a draw of everything else."""
    parents = {argument: scope.value(parent) for argument, parent in q.parents}
    axes, a, along = _numbers(scope, q, parents)
    if along is not None:
        return jax.random.categorical(key, a).astype(jnp.float64)
    y = link_of(q.kind, parents, axes).draw(key, a)
    return (y + 1.0) / 2.0 if q.kind in ("logistic", "probit") else y


def moments(scope: Scope, q: Quantity) -> tuple[Table, Table]:
    """E[y] and E[y²] at a draw of everything else; for classes the probability of each class, twice."""
    parents = {argument: scope.value(parent) for argument, parent in q.parents}
    a = parents["mean"]
    along = along_axis(scope.spec, q)
    if along is not None:
        axes = tuple(axis for axis in a.axes if axis != along)
        p = jax.nn.softmax(spread(a.fields["mean"][..., 0], a.axes, (*axes, along)), axis=-1)
        return Table(axes, p), Table(axes, p)
    mean, variance = link_of(q.kind, parents, a.axes).at(a.fields["mean"][..., 0])
    return Table(a.axes, mean), Table(a.axes, variance + jnp.square(mean))


def _numbers(scope: Scope, q: Quantity, parents: dict[str, Value]) -> tuple[Axes, Array, int | None]:
    """The plates, the value of a for each of their members, and the axis of the classes, if any."""
    a, axes, along = parents["mean"], scope.axes(q), along_axis(scope.spec, q)
    target = axes if along is None else (*axes, along)
    wide = spread(a.fields["mean"][..., 0], a.axes, target)
    return axes, jnp.broadcast_to(wide, scope.shape(q) + (() if along is None else (q.size,))), along


def classes_apart(spec: Spec, q: Quantity) -> bool:
    """Whether there are three classes or more, and their a_k are independent under the posterior."""
    if q.kind != "softmax" or q.size < 3:
        return False
    plate = spec.plate_beyond(q, "mean")
    latents = [spec[name] for name in spec.factor_blocks(q.name)]
    return all(plate in latent.plates and not spec.local(latent) for latent in latents)


def along_axis(spec: Spec, q: Quantity) -> int | None:
    """The axis of the classes of a softmax."""
    return spec.axis(spec.plate_beyond(q, "mean")) if q.kind == "softmax" else None
