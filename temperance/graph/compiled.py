"""The model that a graph compiles to: the common interface of models, derived from the spec."""

from __future__ import annotations

import math
import operator
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..data import as_weights
from ..errors import InvalidData, UnsupportedMethod
from ..families._family import Family, Packed
from ..models._about import Symmetry, Words
from ..models._answers import Drawable, Holding, Imputing, Labelled, Movable, Predicting, Regressing, Smoothing
from ..models._blocks import Tempering
from ..models._data import Data, RowAccess, make_data
from ..models._factors import Factored
from ..models._model import Conditional, Group, Means, Posterior, Powers
from ..numerics.gaussian_latents import gaussian_integral
from . import answers, exchangeable, messages, simulation, volume
from .analysis import grouped
from .columns import as_columns, check_columns, resolve_sizes
from .elimination import Factor, eliminate, power_table, tempered
from .gaussian_chain import chain_evidence, chain_of
from .integration import local_gaussian
from .responses import unconjugate
from .scope import Scope, broadcast, packable
from .spec import Quantity, Spec, told
from .start import start
from .tables import Table, add, combine, scale


class Factorised(Conditional):
    """p(variable | parents) in a graph, with its natural parameter and normaliser from derivatives of its factor."""

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
    """p(variable | parents) for a local block, whose parents may be data."""

    x: dict[str, Array] = eqx.field(kw_only=True)

    def _scope(self, m: Means) -> Scope:
        return Scope(self.spec, self.constants, m, self.x)


class Members(RowAccess):
    """Access to rows that are members of the data's plate."""

    @property
    def without_latents(self) -> bool:  # type: ignore[override]
        return not any(q.latent and self.model.spec.local(q) for q in self.model.spec)


class GraphModel(Drawable, Labelled, Holding, Smoothing, Imputing, Predicting, Movable, Factored):
    """A graph as a model; made by `tp.Graph.model()`, completed by data."""

    prior: dict[str, Family | Conditional]  # complete once all sizes are known
    constants: dict[str, Any]
    spec: Spec = eqx.field(static=True)
    remarks: tuple[str, ...] = eqx.field(static=True)
    masked: bool = eqx.field(static=True)  # whether some of the data are missing

    def __init__(self, spec: Spec, constants: dict[str, Any], remarks: tuple[str, ...], masked: bool = False):
        self.spec, self.constants, self.remarks, self.masked = spec, constants, remarks, masked
        known = dict(spec.sizes)
        complete = all(p in known for q in self._global(spec) for p in q.plates)
        self.prior = self._priors() if complete else {}

    # ---- blocks -------------------------------------------------------------------------------------------

    @staticmethod
    def _global(spec: Spec) -> tuple[Quantity, ...]:
        return tuple(q for q in spec if q.latent and not spec.local(q))

    def _local(self) -> tuple[Quantity, ...]:
        """Latents of each datum that are not summed out."""
        away = (*self.spec.summed_out, self.spec.integrated)
        return tuple(q for q in self.spec if q.latent and self.spec.local(q) and q.name not in away)

    def _priors(self) -> dict[str, Family | Conditional]:
        scope = Scope(self.spec, self.constants, {}, rows=1)
        priors: dict[str, Family | Conditional] = {}
        for q in self._global(self.spec):
            parents = self._parents(q)
            if q.kind == "fixed":
                priors[q.name] = broadcast(self.constants[q.name], scope.shape(q))
            elif not parents:
                natural = scope.known_natural(q.name)
                priors[q.name] = scope.family(q.name, scope.natural(q.name) if natural is None else natural)
            else:
                priors[q.name] = Factorised(
                    constants=self.constants, spec=self.spec, name=q.name, rows=1, parents=parents
                )
        return priors

    def _parents(self, q: Quantity) -> tuple[str, ...]:
        blocks = self.spec.factor_blocks(q.name) | (self.spec.factor_gates(q.name) & set(self.spec.factorised))
        return tuple(other.name for other in self.spec if other.name in blocks - {q.name})

    @property
    def groups(self) -> tuple[Group, ...]:
        return grouped(self.spec, tuple(q.name for q in self._global(self.spec)), self.unconjugate)

    @property
    def unconjugate(self) -> dict[str, bool]:
        return unconjugate(self.spec)

    @property
    def local_groups(self) -> tuple[Group, ...]:
        return grouped(self.spec, tuple(q.name for q in self._local()))

    @property
    def apart(self) -> tuple[str, ...]:
        met = {name for q in self.spec if q.random and self.spec.local(q) for name in self.spec.factor_blocks(q.name)}
        return tuple(q.name for q in self._global(self.spec) if q.name not in met)

    @property
    def rows(self) -> RowAccess:
        return Members(self)

    @property
    def tempering(self) -> Tempering:
        return volume.GraphTempering(self)

    def local_prior(self, x: Any) -> dict[str, Family | Conditional]:
        priors: dict[str, Family | Conditional] = {}
        for q in self._local():
            if q.kind == "fixed":
                priors[q.name] = broadcast(self.constants[q.name], Scope(self.spec, self.constants, {}, x).shape(q))
            else:
                rows = jax.tree.leaves(x)[0].shape[0]
                priors[q.name] = LocalFactorised(
                    constants=self.constants, spec=self.spec, name=q.name, rows=rows, parents=self._parents(q), x=x
                )
        return priors

    @property
    def symmetry(self) -> Symmetry | None:
        return exchangeable.graph_symmetry(self)

    held = exchangeable.held

    # ---- the one function ---------------------------------------------------------------------------------

    def log_evidence(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        if chain_of(self.spec) is not None:
            return chain_evidence(self, m, x, powers, key)
        if self.spec.integrated:
            constant, natural = local_gaussian(self, m, x, powers)
            return constant + gaussian_integral(natural.linear, natural.precision, key)
        return self.evaluate(self.scope(m, x, "" if key is None else "draw"), powers, key)

    def scope(self, m: Means, x: Any, expand: str = "") -> Scope:
        """The scope of these data; missing values are expected only if the model was made for data with gaps."""
        return Scope(self.spec, self.constants, m, x, gaps=self.masked, expand=expand)

    def evaluate(
        self,
        scope: Scope,
        powers: Powers = Powers(),
        key: Key[Array, ""] | None = None,
        *,
        shares: dict[str, Table] | None = None,
        tilt: dict[str, Table] | None = None,
        strengths: dict[str, Array] | None = None,
        tables: dict[str, Table] | None = None,
    ) -> Float[Array, " n"]:
        """The factors of each datum, with the discrete latents summed out (or averaged over `shares`).

        `tilt` adds tables to the factors of variables, and `strengths` multiplies them: derivatives in either are
        posterior expectations. `tables` are used in place of factors.
        """
        observation, latent = power_table(powers.observation), power_table(powers.latent)
        needed = reach(scope) if self.masked else {}
        factors: list[Factor] = []
        for q in self.spec:
            if not q.random or not self.spec.local(q) or q.kind == "markov_chain":
                continue
            plates = scope.axes(q)
            if q.observed:
                table = tables[q.name] if tables is not None and q.name in tables else scope.factor(q.name)
                if self.masked:  # only then, because masking nearly doubles the cost of a large table
                    missing = scope.missing(q)
                    table = _where(Table(missing.axes, ~missing.array), table, 0.0)
                table = tempered(table, observation)
            elif q.name in self.spec.summed_out:
                table = tempered(scope.factor(q.name), latent)
                if q.name in needed:
                    table = _where(needed[q.name], table, -math.log(q.size))
            elif q.discrete:
                # The block of a discrete latent counts its prior once; this raises the prior to the requested power.
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
        return eliminate(scope, factors, latent, key, shares, needed)

    def packed(self, m: Means) -> Means:
        ready = {name: Packed(m[name].weights()) for name in packable(self.spec) if name in m}
        return m | ready

    # ---- message passing ------------------------------------------------------------------------------------

    factors = messages.factors

    @property
    def chained(self) -> bool:
        return messages.chain(self.spec) is not None

    def no_factors(self) -> str:
        return messages.obstacle(self) or super().no_factors()

    # ---- moves, where the graph is a mixture ----------------------------------------------------------------

    @property
    def moves(self) -> bool:
        return len(self.spec.summed_out) == 1 and not self.chained and not messages.obstacle(self)

    @property
    def parts(self) -> int:
        return self.spec[self.spec.summed_out[0]].size

    log_joint_z = messages.log_configurations

    def coordinates(self, x: Any) -> Float[Array, "n c"]:
        columns = [x[q.name].reshape((x[q.name].shape[0], -1)) for q in self.spec.observed]
        return jnp.nan_to_num(jnp.concatenate(columns, axis=1))

    # ---- starts, simulation and answers: functions of the model in files of their own -----------------------

    initial = start
    simulate = simulation.simulate
    sample_predictive = answers.sample_predictive
    log_predictive = answers.log_predictive
    responsibilities = answers.responsibilities
    smooth = answers.smooth
    impute = answers.impute
    bound_terms = answers.bound_terms
    table = answers.table

    def general(self) -> Self:
        """This model, made ready for data with gaps."""
        return self._with(masked=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {told(self.spec)}>"

    def drawing(self) -> str:
        from .drawing import draw

        return str(draw(self.spec))

    @property
    def words(self) -> Words:
        axes: dict[str, tuple[str, ...]] = {"x": (self.spec.data_plate,)}
        for q in self.spec:
            plates = tuple(plate for plate in self.spec.plates if plate in q.plates)
            axes[q.name] = (*plates, f"{q.name}_dimension")
        return Words(axes=axes)

    def variables(self) -> list[str]:
        return [q.name for q in self.spec if q.random]

    _repr_svg_ = drawing

    def notes(self, data: Data) -> list[str]:
        return list(self.remarks)

    # ---- data in ------------------------------------------------------------------------------------------

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        columns = as_columns(self.spec, data)
        spec = resolve_sizes(self.spec, columns)
        totals = {
            f"{q.name}.total": jnp.asarray(np.round(np.nanmean(np.nansum(columns[q.name], axis=-1))))
            for q in spec.observed
            if q.kind == "multinomial"
        }
        masked = self.masked or any(np.isnan(columns[q.name]).any() for q in spec.observed)
        model = type(self)(spec, self.constants | totals, self.remarks, masked)
        rows = next(iter(columns.values())).shape[0]
        width = max(1, sum(leaf.size for leaf in columns.values()) // max(rows, 1))
        block = max(16, min(2048, 2**22 // (width * model._states())))
        return model, make_data(columns, as_weights(weights, rows), block)

    def _states(self) -> int:
        """The number of entries that each datum has in the largest table."""
        if chain := chain_of(self.spec):
            return chain.size**2
        return max([1, *(int(np.prod([self.spec[name].size for name in names])) for names in self.spec.elimination)])

    def new_rows(self, data: Any) -> Any:
        columns = as_columns(self.spec, data)
        check_columns(self.spec, columns)
        gaps = any(np.isnan(columns[q.name]).any() for q in self.spec.observed)
        if gaps and not self.masked:
            raise InvalidData(
                "new data have missing values (NaN), but the data that were fitted had none, and the model was made "
                "for that; g.model(missing=True) allows it"
            )
        return columns


class ConditionalGraphModel(Regressing, GraphModel):
    """A graph with inputs, which it does not model; it predicts its observed variable at new inputs."""

    def __init__(self, spec: Spec, constants: dict[str, Any], remarks: tuple[str, ...], masked: bool = False):
        GraphModel.__init__(self, spec, constants, remarks, masked)

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(q.name for q in self.spec.observed)

    predict = answers.predict

    def fitted(self, q: Any, data: Data) -> tuple[np.ndarray, np.ndarray]:
        rows = {name: np.asarray(column)[: data.size] for name, column in data.values.items()}
        seen = [v.name for v in self.spec.observed]
        mean = self.predict(q, {name: column for name, column in rows.items() if name not in seen}).mean
        return rows[seen[0]], mean

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        raise UnsupportedMethod(
            "a graph with inputs does not describe them, so it cannot sample new data; fit.predict gives the mean and "
            "the variance of its observed variable at inputs of your choice"
        )


def _where(condition: Table, table: Table, otherwise: float) -> Table:
    return combine(lambda where, value: jnp.where(where, value, otherwise), condition, table)


def reach(scope: Scope) -> dict[str, Table]:
    """For each discrete latent that is summed out, whether any observed value depends on it. Latents on which none
    depends are left out, because integrating over them would only lower the bound."""
    spec = scope.spec
    found: dict[str, Table] = {}
    for q in reversed(spec.quantities):
        if q.name not in spec.summed_out:
            continue
        plates = scope.axes(q)
        seen = Table((), jnp.asarray(False))
        for child in spec:
            if not child.random or q.name not in spec.factor_gates(child.name):
                continue
            if child.observed:
                missing = scope.missing(child)
                here = Table(missing.axes, ~missing.array)
            else:
                here = found.get(child.name, Table((), jnp.asarray(True)))
            gone = tuple(i for i, axis in enumerate(here.axes) if axis not in plates)
            here = Table(tuple(a for a in here.axes if a in plates), jnp.any(here.array, axis=gone))
            seen = combine(operator.or_, seen, here)
        found[q.name] = seen
    return found
