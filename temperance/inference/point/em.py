"""Expectation–maximisation: coordinate ascent in which each global block is a point.

With q(θ) at a point the bound is log p(x, θ): the E-step is the walk over the data, and the M-step sets each block to
the mode of its conditional. With a flat prior it is log p(x | θ), and the same sweep is maximum likelihood.
"""

from __future__ import annotations

import dataclasses
from functools import singledispatch
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from ..._arguments import Checks, optional, whole
from ...errors import InvalidParameter, UnsupportedMethod
from ...families import (
    BetaVector,
    DirichletVector,
    GammaVector,
    IndependentVector,
    IsotropicNormalGammaVector,
    MatrixNormalWishartVector,
    NormalGammaVector,
    NormalWishartVector,
    Point,
    ProductVector,
)
from ...families._family import Family
from ...models import Conditional, Data, Model, Posterior, Way
from ...numerics.linalg import cholesky, outer, solve
from ...programs import program
from .._method import Info, Method, Result, Run, best_restart
from ..variational.memoised import Parts, pass_over_parts, require_additive, require_whole_units, start_parts

# A density such as π^(δ − 1) with δ < 1 has no maximum. A note says so, because the value is then arbitrary.
_EDGE = (
    "the density of {!r} has no maximum (an exponent of its prior is negative), so some of it is at the edge and the "
    "value found is arbitrary; use a concentration or shape of at least 1"
)


@dataclasses.dataclass(frozen=True)
class EM(Method):
    """The parameters of highest posterior density, or with `prior=False` of highest likelihood.

    `prior=False` leaves the prior out. `restarts` are random starts, of which the best is kept. `incremental` updates
    the parameters after each part of the data rather than after a whole pass (Neal &
    Hinton, 1998): `batches` parts, or by default one datum (or sequence) at a time; this changes nothing if the data
    have no latents. A restart whose component collapses is left out; if all do, that is an error. `tol`,
    `max_iter` and `local_steps` are those of `VB`.
    """

    prior: bool = True
    restarts: int = 1
    tol: float = 1e-6
    max_iter: int = 1000
    incremental: bool = False
    batches: int | None = None
    local_steps: int = 1

    checks: ClassVar[Checks] = {**Method.checks, "batches": optional(whole(1))}
    name: ClassVar[str] = "EM"
    monotone: ClassVar[bool] = True
    may_fail: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batches is not None and not self.incremental:
            raise InvalidParameter("batches is for incremental=True: EM otherwise treats all data together")

    @property
    def row_by_row(self) -> bool:  # type: ignore[override]
        return self.incremental and self.batches is None

    def failure(self, info: Info) -> str:
        advice = "use fewer components" + ("" if self.prior else ", or a prior (prior=True)")
        for block, flags in info["collapsed"].items():
            if np.any(flags):
                return (
                    f"element {int(np.argmax(flags))} of {block!r} has collapsed on a few data, where the "
                    f"{'density' if self.prior else 'likelihood'} has no maximum; {advice}"
                )
        return f"a component may have collapsed; {advice}"

    def prepare(self, model: Model) -> Model:
        if not self.prior:
            children = [name for name, p in model.prior.items() if isinstance(p, Conditional)]
            if children:
                raise UnsupportedMethod(
                    f"the prior of {children[0]!r} in {type(model).__name__} depends on other parameters, so "
                    "it cannot be left out; use tp.EM(prior=True) or tp.VB()"
                )
        if self.incremental and not model.rows.without_latents:
            require_additive(model, "incremental EM", "tp.EM(incremental=False)")
        return model

    def complete(self, model: Model, data: Any) -> Self:
        if self.incremental:
            if model.rows.without_latents:
                return dataclasses.replace(self, incremental=False, batches=None)
            require_whole_units(model, data, "incremental EM", "tp.EM(incremental=False)")
        return self

    @property
    def counts_rows(self) -> bool:  # type: ignore[override]
        return self.incremental

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Posterior | Parts:
        posterior = self.start(key, model, data)
        if not self.incremental:
            return posterior
        return start_parts(self._target(model), posterior, data, self.batches, self.local_steps)

    def start(self, key: Key[Array, ""], model: Model, data: Data) -> Posterior:
        """The model's own start, each block at its mode."""
        q = model.initial(key, data)
        blocks: dict[str, Family] = {}
        for name, block in q.blocks.items():
            natural = block.natural
            if not self.prior:
                natural = natural - model.prior[name].natural
            blocks[name] = as_point(block.with_natural(natural))
        return Posterior(blocks, q.locals)

    def step(self, key: Key[Array, ""], model: Model, state: Any, data: Data) -> tuple[Any, Info]:
        target = self._target(model)
        fresh: Any
        if self.incremental:
            fresh, bound = pass_over_parts(target, state, data, self.local_steps)
            blocks = state.posterior.blocks
        else:
            fresh, bound = target.sweep(state, data, Way(local_steps=self.local_steps))
            blocks = state.blocks
        flags = {name: collapsed(block) for name, block in blocks.items()}
        lost = jnp.any(jnp.stack([jnp.any(flag) for flag in flags.values()]))
        return fresh, {"elbo": jnp.where(lost, jnp.nan, bound), "collapsed": flags}

    def result(self, model: Model, data: Data, run: Run) -> Result:
        best = best_restart(run)
        stretch = float(model.units.log_stretch) if self.prior else 0.0  # densities are in the user's coordinates
        history = {name: values for name, values in best.history.items() if name != "collapsed"}
        history |= {name: history[name] - stretch for name in ("elbo", "restarts")}
        state = best.state.posterior if self.incremental else best.state
        value, likelihood, edges = _values(self, model, state, data.uncounted())
        what = "log posterior density (up to the evidence)" if self.prior else "log likelihood"
        failed = int(np.sum(np.isneginf(history["restarts"])))
        notes = [f"log_evidence is the largest {what} that EM found, not an evidence: do not compare models by it"]
        notes += [_EDGE.format(name) for name, edge in edges.items() if edge]
        if failed:
            notes.append(f"{failed} of {self.restarts} restarts collapsed and were left out")
        return best._replace(
            state=state,
            history=history,
            log_evidence=float(value) - stretch,
            details={"log_likelihood": float(likelihood)},
            notes=tuple(notes),
        )

    def _target(self, model: Model) -> Model:
        """The model whose bound is maximised."""
        return model if self.prior else flatten_prior(model)


@program
def _values(
    method: EM, model: Model, q: Posterior, data: Data
) -> tuple[Float[Array, ""], Float[Array, ""], dict[str, Bool[Array, ""]]]:
    """The bound, log p(x | θ), and which blocks are at the edge."""
    target = method._target(model)
    bound = target.bound(q, data)
    likelihood = bound - target.log_prior({name: block.mean() for name, block in q.blocks.items()})
    return bound, likelihood, {name: at_edge(block) for name, block in q.blocks.items()}


def as_point(block: Family) -> Point:
    return block if isinstance(block, Point) else Point(block)


def flatten_prior(model: Model) -> Model:
    """The model with a flat prior: natural parameter zero, normaliser one."""
    flat: dict[str, Any] = {}
    for name, p in model.prior.items():
        assert isinstance(p, Family)
        flat[name] = as_point(p.with_natural(jax.tree.map(jnp.zeros_like, p.natural)))
    return eqx.tree_at(lambda model: model.prior, model, flat)


# ---- collapse ----------------------------------------------------------------------------------------------
#
# Degenerate point estimates: a Gaussian collapsed on a few data, a probability driven to zero.


# The scatter is a difference of second moments: below this share of them all its digits are rounding error.
_TRUSTED = 1e-12


def collapsed(block: Family) -> Bool[Array, "*b"]:
    """Which members of the block have no finite mode, or a mode that depends on rounding error."""
    return ~block.is_proper() | _singular(block.natural)


def at_edge(block: Family) -> Bool[Array, ""]:
    """Whether a probability or rate is at the smallest number, and its density still increases towards zero."""
    lowest = np.log(np.finfo(np.float64).tiny) + 1.0
    pairs = zip(_logarithms(block.natural), _logarithms(block.mean()), strict=True)
    at = [jnp.any((eta < 0) & (log < lowest)) for eta, log in pairs]
    return jnp.any(jnp.stack(at)) if at else jnp.asarray(False)


def _logarithms(vector: Any) -> list[Array]:
    """The statistics that are logarithms of parameters that can approach zero."""
    if isinstance(vector, IndependentVector):
        return _logarithms(vector.inner)
    if isinstance(vector, ProductVector):
        return [log for factor in vector.factors.values() for log in _logarithms(factor)]
    if isinstance(vector, BetaVector):
        return [vector.log, vector.log_complement]
    return [vector.log] if isinstance(vector, DirichletVector | GammaVector) else []


@singledispatch
def _singular(natural: Any) -> Bool[Array, "*b"]:
    return jnp.zeros(natural.batch_shape, dtype=bool)


@_singular.register
def _(natural: NormalWishartVector) -> Bool[Array, "*b"]:
    scatter = natural.second - outer(natural.first, natural.first) / natural.count[..., None, None]
    return _flat(scatter, natural.second)


@_singular.register
def _(natural: MatrixNormalWishartVector) -> Bool[Array, "*b"]:
    explained = natural.cross @ solve(cholesky(natural.inputs), jnp.swapaxes(natural.cross, -1, -2))
    return _flat(natural.outputs - explained, natural.outputs)


@_singular.register
def _(natural: NormalGammaVector) -> Bool[Array, "*b"]:
    scatter = natural.second - jnp.square(natural.first) / natural.count
    return ~(scatter > _TRUSTED * natural.second)  # written so that a NaN counts


@_singular.register
def _(natural: IsotropicNormalGammaVector) -> Bool[Array, "*b"]:
    scatter = natural.second - jnp.sum(jnp.square(natural.first), axis=-1) / natural.count
    return ~(scatter > _TRUSTED * natural.second)


@_singular.register
def _(natural: IndependentVector) -> Bool[Array, "*b"]:
    return jnp.any(_singular(natural.inner), axis=-1)


@_singular.register
def _(natural: ProductVector) -> Bool[Array, "*b"]:
    return jnp.any(jnp.stack([_singular(factor) for factor in natural.factors.values()]), axis=0)


def _flat(scatter: Float[Array, "*b d d"], second: Float[Array, "*b d d"]) -> Bool[Array, "*b"]:
    """Whether the scatter has a direction without extent, in units of the second moments."""
    unit = jnp.sqrt(jnp.diagonal(second, axis1=-2, axis2=-1))
    pivots = jnp.square(jnp.diagonal(cholesky(scatter / outer(unit, unit)), axis1=-2, axis2=-1))
    return ~jnp.all(pivots > _TRUSTED, axis=-1)
