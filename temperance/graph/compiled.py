"""The model that a graph compiles to: the one interface, filled in from the description."""

from __future__ import annotations

from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..data import as_weights
from ..families._family import Family, Packed
from ..models._data import Data, make_data
from ..models._model import Conditional, Group, Means, Model, Posterior, Powers
from .analysis import colour, coupling
from .columns import as_columns, check_columns, resolve_sizes
from .elimination import Factor, eliminate, power_table, tempered
from .scope import Scope, broadcast, packable
from .simulation import simulate
from .spec import Quantity, Spec
from .tables import Table, add, scale


class Factorised(Conditional):
    """p(variable | parents) of a graph: natural parameter and normaliser by differentiating its factor."""

    constants: dict[str, Any]
    spec: Spec = eqx.field(static=True)
    name: str = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    parents: tuple[str, ...] = eqx.field(static=True)

    def natural(self, m: Means) -> Any:
        return self._scope(m).natural(self.name)

    def log_normaliser(self, m: Means) -> Float[Array, "*b"]:
        return self._scope(m).log_normaliser(self.name)

    def family(self, natural: Any) -> Family:
        return self._scope({}).family(self.name, natural)

    def _scope(self, m: Means) -> Scope:
        return Scope(self.spec, self.constants, m, rows=self.rows)


class LocalFactorised(Factorised):
    """The same for a local block, whose parents may be data."""

    x: dict[str, Array] = eqx.field(kw_only=True)

    def _scope(self, m: Means) -> Scope:
        return Scope(self.spec, self.constants, m, self.x)


class GraphModel(Model):
    """A graph as a model; made by `tp.Graph.model()`, completed by data."""

    prior: dict[str, Family | Conditional]  # complete once all sizes are known
    constants: dict[str, Any]
    spec: Spec = eqx.field(static=True)
    remarks: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, spec: Spec, constants: dict[str, Any], remarks: tuple[str, ...]):
        self.spec, self.constants, self.remarks = spec, constants, remarks
        known = dict(spec.sizes)
        complete = all(p in known for q in self._global(spec) for p in q.plates)
        self.prior = self._priors() if complete else {}

    # ---- blocks -------------------------------------------------------------------------------------------

    @staticmethod
    def _global(spec: Spec) -> tuple[Quantity, ...]:
        return tuple(q for q in spec if q.latent and not spec.local(q))

    def _local(self) -> tuple[Quantity, ...]:
        """Latents of each datum that are not summed out."""
        return tuple(
            q for q in self.spec if q.latent and self.spec.local(q) and q.name not in self.spec.summed_out
        )

    def _priors(self) -> dict[str, Family | Conditional]:
        scope = Scope(self.spec, self.constants, {}, rows=1)
        priors: dict[str, Family | Conditional] = {}
        for q in self._global(self.spec):
            parents = self._parents(q)
            if q.kind == "fixed":
                priors[q.name] = broadcast(self.constants[q.name], scope.shape(q))
            elif not parents:
                priors[q.name] = scope.family(q.name, scope.natural(q.name))
            else:
                priors[q.name] = Factorised(self.constants, self.spec, q.name, 1, parents)
        return priors

    def _parents(self, q: Quantity) -> tuple[str, ...]:
        blocks = self.spec.factor_blocks(q.name) | (self.spec.factor_gates(q.name) & set(self.spec.factorised))
        return tuple(other.name for other in self.spec if other.name in blocks - {q.name})

    @property
    def groups(self) -> tuple[Group, ...]:
        return colour(coupling(self.spec, tuple(q.name for q in self._global(self.spec))))

    @property
    def local_groups(self) -> tuple[Group, ...]:
        return colour(coupling(self.spec, tuple(q.name for q in self._local())))

    def local_prior(self, x: Any) -> dict[str, Family | Conditional]:
        priors: dict[str, Family | Conditional] = {}
        for q in self._local():
            if q.kind == "fixed":
                priors[q.name] = broadcast(self.constants[q.name], Scope(self.spec, self.constants, {}, x).shape(q))
            else:
                rows = jax.tree.leaves(x)[0].shape[0]
                priors[q.name] = LocalFactorised(self.constants, self.spec, q.name, rows, self._parents(q), x=x)
        return priors

    # ---- the one function ---------------------------------------------------------------------------------

    def log_evidence(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        return self.evaluate(Scope(self.spec, self.constants, m, x), powers, key)

    def evaluate(
        self,
        scope: Scope,
        powers: Powers = Powers(),
        key: Key[Array, ""] | None = None,
        *,
        shares: dict[str, Table] | None = None,
        tilt: dict[str, Table] | None = None,
        strengths: dict[str, Array] | None = None,
    ) -> Float[Array, " n"]:
        """The factors of each datum, with the discrete latents summed out (or averaged over `shares`).

        `tilt` adds tables to the factors of variables, and `strengths` multiplies them: derivatives in either are
        posterior expectations.
        """
        observation, latent = power_table(powers.observation), power_table(powers.latent)
        factors: list[Factor] = []
        for q in self.spec:
            if not q.random or not self.spec.local(q) or q.kind == "markov_chain":
                continue
            plates = scope.axes(q)
            if q.observed:
                table = _hidden(scope.factor(q.name), scope.missing(q))
                table = tempered(table, observation)
            elif q.name in self.spec.summed_out:
                table = tempered(scope.factor(q.name), latent)
            elif q.discrete:
                # The block of a discrete latent counts its prior once; this makes it the power asked for.
                table = tempered(scope.factor(q.name), Table(latent.axes, latent.array - 1.0))
            else:
                continue
            if strengths is not None and q.name in strengths:
                table = scale(table, strengths[q.name])
            if tilt is not None and q.name in tilt:
                table = add(table, tilt[q.name])
            factors.append(Factor(scope.averaged(table), plates))
        for name, table in (tilt or {}).items():
            if self.spec[name].kind == "markov_chain":
                factors.append(Factor(table, scope.axes(self.spec[name])))
        return eliminate(scope, factors, latent, key, shares)

    def packed(self, m: Means) -> Means:
        ready = {name: Packed(m[name].weights()) for name in packable(self.spec) if name in m}
        return m | ready

    # ---- starts and simulation ----------------------------------------------------------------------------

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        from .start import start

        return start(self, key, data)

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        return simulate(self, key, draws, n)

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        from .answers import sample_predictive

        return sample_predictive(self, key, q, n)

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        from .answers import log_predictive

        return log_predictive(self, q, x)

    def responsibilities(self, q: Posterior, x: Any) -> Float[Array, "n *k"]:
        from .answers import responsibilities

        return responsibilities(self, q, x)

    def predict(self, q: Any, inputs: Any) -> Any:
        from .answers import predict

        return predict(self, q, inputs)

    def impute(self, q: Posterior, data: Any) -> Any:
        """The data with every missing entry replaced by its expected value."""
        from .answers import impute

        return impute(self, q, data)

    def bound_terms(self, q: Posterior, data: Data) -> dict[str, float]:
        """The bound, node by node: E log p(node | parents), plus the entropy of a latent; they sum to the bound."""
        from .answers import bound_terms

        return bound_terms(self, q, data)

    def notes(self, data: Data) -> list[str]:
        return list(self.remarks)

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        from .answers import table

        return table(self, q)

    # ---- data in ------------------------------------------------------------------------------------------

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        columns = as_columns(self.spec, data)
        spec = resolve_sizes(self.spec, columns)
        model = type(self)(spec, self.constants, self.remarks)
        rows = next(iter(columns.values())).shape[0]
        width = max(1, sum(leaf.size for leaf in columns.values()) // max(rows, 1))
        block = max(16, min(2048, 2**22 // (width * model._states())))
        return model, make_data(columns, as_weights(weights, rows), block)

    def _states(self) -> int:
        """How many numbers a row of the largest table has."""
        return max([1, *(int(np.prod([self.spec[name].size for name in names])) for names in self.spec.elimination)])

    def new_rows(self, data: Any) -> Any:
        columns = as_columns(self.spec, data)
        check_columns(self.spec, columns)
        return columns


def _hidden(table: Table, missing: Table) -> Table:
    index = tuple(slice(None) if axis in missing.axes else None for axis in table.axes)
    return Table(table.axes, jnp.where(missing.array[index], 0.0, table.array))
