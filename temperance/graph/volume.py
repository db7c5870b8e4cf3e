"""The volume of a graph's tempered joint, with observed variables summed out too, for variational tempering.

The integral over a Normal variable of known precision does not depend on its mean. A discrete variable is summed over
its values, with a separate draw for each member of its plates.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..errors import UnsupportedMethod
from ..models._blocks import Heat, Tempering, gaussian_heat
from ..models._data import Data
from ..models._model import Means, Powers
from ..numerics.latents import sum_out
from ..numerics.special import LOG_2PI
from ..numerics.volumes import MaybeKey, Power, gaussian_volume, infinite
from . import factors
from .scope import Scope
from .spec import Quantity, Spec
from .tables import Table, reduce, spread


class GraphTempering(Tempering):
    """The energy and the normaliser of a graph at a temperature."""

    def log_volume(self, m: Means, x: dict[str, Array], power: Power, key: MaybeKey) -> Float[Array, " n"]:
        model = self.model
        require_volume(model.spec)
        scope = Scope(model.spec, model.constants, m, x)
        tables = {
            q.name: _normal(scope, q, power)
            if q.kind == "normal"
            else _discrete(scope, q, power, None if key is None else jax.random.fold_in(key, number))
            for number, q in enumerate(model.spec.observed)
        }
        if not model.spec.integrated:
            return model.evaluate(scope, Powers(1.0, power), key, tables=tables)
        # At observation power 0 the integrated-out variables keep their volume, and that of the observed ones does not
        # depend on them.
        volume = model.log_evidence(m, x, Powers(0.0, power), key)
        for q in model.spec.observed:
            table = tables[q.name]
            seen = scope.missing(q)
            values = spread(table.array, table.axes, seen.axes)
            whole = Table(seen.axes, jnp.where(seen.array, 0.0, values))
            volume = volume + reduce(whole, scope.axes(q), (0,), scope.sizes).array
        return volume

    def known_gaussians(self, data: Data) -> float:
        observed = [q for q in self.model.spec.observed if q.kind == "normal"]
        count = sum(float(jnp.sum(~jnp.isnan(data.values[q.name]))) for q in observed) if observed else 0.0
        return count * float(data.total_weight) / data.weights.shape[0]

    def heat(self, data: Data, powers: np.ndarray) -> Heat:
        if self.model.masked or not one_noise(self.model.spec):
            return super().heat(data, powers)
        return gaussian_heat(powers, self.numbers_each(data.values))

    def numbers_each(self, x: Any) -> int:
        (q,) = self.model.spec.observed
        return math.prod(x[q.name].shape[1:])

    def log_peak(self, m: Means, width: int) -> Float[Array, ""]:
        """½ Σ log(λ / 2π) over the `width` numbers of a datum, whose precision λ is one for all or varies along a
        plate."""
        (q,) = self.model.spec.observed
        table = _log_determinant(Scope(self.model.spec, self.model.constants, m, rows=1), q)
        return 0.5 * (width // q.size * jnp.mean(table.array) - width * LOG_2PI)


def one_noise(spec: Spec) -> bool:
    """Whether the only observed variable is Normal with a precision that depends on no latent of the datum."""
    if len(spec.observed) != 1 or any(q.kind in ("markov_chain", "gaussian_chain") for q in spec):
        return False
    (q,) = spec.observed
    name = q.parent("precision")
    return q.kind == "normal" and bool(name) and not spec.gates(name) and not spec.local(spec[name])


def _normal(scope: Scope, q: Quantity, power: Power) -> Table:
    log_det = _log_determinant(scope, q)
    return Table(log_det.axes, q.size * gaussian_volume(power) - 0.5 * (1.0 - power) * log_det.array)


def _log_determinant(scope: Scope, q: Quantity) -> Table:
    precision = scope.value(q.parent("precision"))
    if "log_det" in precision.fields:
        return precision.table("log_det")
    log = precision.table("log")
    return Table(log.axes, q.size * log.array)


def _discrete(scope: Scope, q: Quantity, power: Power, key: MaybeKey) -> Table:
    axis = scope.spec.state_axis(q.name)
    table = factors.states({argument: scope.value(parent) for argument, parent in q.parents}, axis)
    axes = tuple(sorted({*table.axes, *scope.axes(q)} - {axis}))
    logits = power * spread(table.array, table.axes, (*axes, axis))
    shape = np.broadcast_shapes(logits.shape, (*(scope.sizes.get(a, 1) for a in axes), q.size))
    return Table(axes, sum_out(jnp.broadcast_to(logits, shape), key))


def require_volume(spec: Spec) -> None:
    """Refuse a graph whose volume does not exist or is infinite."""
    for q in spec.observed:
        if any(parent == q.name for other in spec for _, parent in other.parents):
            raise _none(f"{q.name!r} is observed, and others depend on it")
        if q.kind not in ("normal", "categorical", "bernoulli"):
            raise _none(f"{q.name!r} is an observed {q.kind} variable")
        if spec.integrated and (q.kind != "normal" or spec.gates(q.parent("precision") or q.name)):
            raise _none(f"{q.name!r} depends on discrete values beside {spec.integrated!r}, which is integrated out")
    tempered = [q for q in spec.observed if q.kind == "normal"]
    tempered += [spec[spec.integrated]] if spec.integrated else []
    for q in tempered:
        names = [name for argument, name in q.parents if "precision" in argument]
        if not names or any(spec.ancestors(name) for name in names):
            raise infinite(f"precisions, that of {q.name!r} among them")


def _none(reason: str) -> UnsupportedMethod:
    return UnsupportedMethod(
        f"this graph has no tempered normaliser, which tp.VT needs: {reason}; observed variables must be Normal with a "
        "known precision, categorical or Bernoulli; or use tp.Annealed"
    )
