"""Laplace's approximation: a Gaussian around the mode, in unconstrained coordinates u.

    log p(x) ≈ f(û) + ½ d log 2π − ½ log |−∇²f(û)|,      f(u) = log p(x, θ(u)) + log |∂θ/∂u|

The log Jacobian is linear in the statistics (`families/unconstrained.py`), so it joins the prior: EM with
that prior starts the search, and Newton, with second derivatives by autodiff, ends it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from ..._arguments import Checks, whole
from ...errors import NumericalFailure, UnsupportedMethod
from ...families import Point
from ...families._family import Family
from ...families.unconstrained import chart, dimension
from ...models import Conditional, Data, Model, Posterior
from ...models._answers import summed
from ...models._model import Means, means
from ...numerics.linalg import cholesky, log_det, solve_vector, transposed_solve_vector
from ...numerics.special import LOG_2PI
from .._method import Info, Method, Result, Run, state_of
from ..monte_carlo.draws import Draws
from .em import as_point

_SWEEPS = 50  # EM iterations before Newton's
_SHORTEST = 2.0**-12  # smallest fraction of a Newton step that is tried


class Search(NamedTuple):
    """The state of a restart: its point, the density's derivatives there, and the key for its draws."""

    u: Float[Array, " d"]
    value: Float[Array, ""]
    gradient: Float[Array, " d"]
    curvature: Float[Array, "d d"]  # minus the second derivatives
    key: Key[Array, ""]


@dataclasses.dataclass(frozen=True)
class Laplace(Method):
    """A Gaussian around the highest mode of the posterior in unconstrained coordinates, and its evidence.

    Each mode is climbed by at most `max_iter` steps of Newton's method, until the expected gain is below `tol`. Of
    `restarts` modes the one with the largest evidence is kept; `draws` of its Gaussian, mapped back, are
    the posterior. Symmetric modes (the K! orders of a mixture's components) are counted once.
    """

    restarts: int = 1
    tol: float = 1e-10
    max_iter: int = 200
    draws: int = 1000

    budget: ClassVar[tuple[str, ...]] = ("restarts", "max_iter", "tol", "draws")
    checks: ClassVar[Checks] = {**Method.checks, "draws": whole(1)}
    name: ClassVar[str] = "Laplace"
    monotone: ClassVar[bool] = True
    may_fail: ClassVar[bool] = True

    def failure(self, info: Info) -> str:
        return "the density is not finite there; try a stronger prior or fewer components"

    def prepare(self, model: Model) -> Model:
        model, kind = summed(model), type(model).__name__
        if model.local_groups:
            raise UnsupportedMethod(
                f"tp.Laplace needs the latents of {kind} to be summed out, and they are not; use tp.VB()"
            )
        for name, family in families(model).items():
            if isinstance(family, Point):
                raise UnsupportedMethod(
                    f"tp.Laplace needs a prior for every parameter, but {name!r} of {kind} is a point "
                    "estimate; give it a prior, or use tp.EM()"
                )
            chart(family)
        return model

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Search:
        key_start, key_draws = jax.random.split(key)
        target, q = in_coordinates(model), model.initial(key_start, data)
        start: dict[str, Family] = {}
        for name, block in q.blocks.items():
            start[name] = as_point(block.with_natural(block.natural + chart(block).jacobian().vector))

        def sweep(_: Array, q: Posterior) -> Posterior:
            return target.sweep(q, data)[0]

        q = jax.lax.fori_loop(0, _SWEEPS, sweep, Posterior(start, {}))
        u = to_line({name: block.mode() for name, block in q.blocks.items()}, families(model))
        # The first step has length zero and only evaluates, which saves a second compilation of the derivatives.
        nowhere = jnp.asarray(np.finfo(np.float64).min)
        return Search(u, nowhere, jnp.zeros_like(u), jnp.eye(u.shape[0]), key_draws)

    def step(self, key: Key[Array, ""], model: Model, state: Search, data: Data) -> tuple[Search, Info]:
        density = log_density(model, data)
        # A Newton step at a maximum's curvature; elsewhere the absolute curvature still gives a step length.
        unit, curvature = _scaled(state.curvature)
        spectrum, basis = jnp.linalg.eigh(curvature)
        size = jnp.maximum(jnp.abs(spectrum), 1e-10 * jnp.max(jnp.abs(spectrum)))
        step = basis @ ((basis.T @ (state.gradient / unit)) / size) / unit

        def shorter(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            length = 0.5 * carry[0]
            return length, density(state.u + length * step) >= state.value

        def too_long(carry: tuple[Array, Array]) -> Bool[Array, ""]:
            # Part of the state, because recomputed in another fusion it might round differently and the loop never end.
            return ~carry[1] & (carry[0] > _SHORTEST)

        length, rises = jax.lax.while_loop(too_long, shorter, (jnp.asarray(2.0), jnp.asarray(False)))
        u = state.u + jnp.where(rises, length, 0.0) * step
        return Search(u, *derivatives(density, u), state.key), {"elbo": state.value}

    def result(self, model: Model, data: Data, run: Run) -> Result:
        value = np.asarray(run.states.value)
        log_evidence, decrement, proper = (np.asarray(part) for part in _peaks(run.states))
        usable = proper & np.isfinite(log_evidence) & (value > np.finfo(np.float64).min)
        if not usable.any():
            best = int(np.argmax(np.where(np.isnan(value), -np.inf, value)))
            raise NumericalFailure(
                f"Laplace found no maximum: the best point of {self.restarts} restarts (log density "
                f"{value[best]:.6g}) is flat or a saddle; try more restarts, a stronger prior or fewer components"
            )
        found = np.where(usable, log_evidence, -np.inf)
        best = int(np.argmax(found))
        mode, draws = _around(model, state_of(run.states, best), self.draws)
        # The expected gain of one more Newton step; the log evidence would change by about as much.
        settled = bool(decrement[best] < 1e-6)
        history = {"elbo": run.history["elbo"][1:, best]} if run.history else {}
        notes = [] if usable.all() else [f"{int((~usable).sum())} of {self.restarts} restarts found no maximum"]
        return Result(
            state=Draws(jax.tree.map(lambda leaf: leaf[None], draws)),
            log_evidence=float(log_evidence[best]),
            history=history | {"restarts": found},
            converged=bool(run.converged[best]) and settled and not run.interrupted,
            details={
                "mode": model.units.draws_to_user(mode),
                "log_density": float(value[best]),
                "dimension": run.states.u.shape[-1],
            },
            notes=(*notes, *_symmetry(model)),
        )


# ---- coordinates -----------------------------------------------------------------------------------------


class InCoordinates(Conditional):
    """A prior as a density over u: its log density of θ plus the log Jacobian."""

    parents: tuple[str, ...] = eqx.field(static=True)
    inner: Family | Conditional
    jacobian: Any

    def natural(self, m: Means) -> Any:
        inner = self.inner
        return (inner.natural(m) if isinstance(inner, Conditional) else inner.natural) + self.jacobian.vector

    def log_normaliser(self, m: Means) -> Float[Array, "*b"]:
        inner = self.inner
        value = inner.log_normaliser(m) if isinstance(inner, Conditional) else inner.log_normaliser()
        return value - self.jacobian.constant

    def family(self, natural: Any) -> Family:
        inner = self.inner
        return inner.family(natural) if isinstance(inner, Conditional) else inner.with_natural(natural)


def in_coordinates(model: Model) -> Model:
    """The model whose log joint, as a function of θ(u), is the density over u."""
    known = families(model)
    prior = {
        name: InCoordinates(
            parents=p.parents if isinstance(p, Conditional) else (),
            inner=p,
            jacobian=chart(known[name]).jacobian(),
        )
        for name, p in model.prior.items()
    }
    return eqx.tree_at(lambda model: model.prior, model, prior)


def families(model: Model) -> dict[str, Family]:
    """The family of each block, with parents before children."""
    found: dict[str, Family] = {}
    while len(found) < len(model.prior):
        for name, p in model.prior.items():
            if name in found or (isinstance(p, Conditional) and not set(p.parents) <= set(found)):
                continue
            found[name] = p.family(p.natural(means(found))) if isinstance(p, Conditional) else p
    return found


def to_line(draws: dict[str, Any], known: dict[str, Family]) -> Float[Array, " d"]:
    """All blocks as one vector, in the order of their names."""
    return jnp.concatenate([chart(known[name]).to_line(draws[name]).reshape(-1) for name in sorted(known)])


def from_line(u: Float[Array, " d"], known: dict[str, Family]) -> dict[str, Any]:
    draws, first = {}, 0
    for name in sorted(known):
        shape = (*known[name].batch_shape, dimension(known[name]))
        last = first + int(np.prod(shape))
        draws[name] = chart(known[name]).from_line(u[first:last].reshape(shape))
        first = last
    return draws


# ---- the density -----------------------------------------------------------------------------------------


def log_density(model: Model, data: Data) -> Any:
    """f(u) = log p(x, θ(u)) + log |∂θ/∂u|."""
    target, known = in_coordinates(model), families(model)
    return lambda u: target.log_joint(from_line(u, known), data)


def derivatives(density: Any, u: Float[Array, " d"]) -> tuple[Array, Float[Array, " d"], Float[Array, "d d"]]:
    """f, ∇f and −∇²f; column by column, so that memory does not grow with the dimension."""
    (value, gradient), tangent = jax.linearize(jax.value_and_grad(density), u)
    columns = jax.lax.map(lambda direction: tangent(direction)[1], jnp.eye(u.shape[0]))
    return value, gradient, -0.5 * (columns + columns.T)


def _scaled(curvature: Float[Array, "d d"]) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    """Units for the coordinates, and the curvature in these units, so that neither a step nor the test for a maximum
    depends on the units of the data."""
    unit = jnp.sqrt(jnp.abs(jnp.diagonal(curvature)))
    unit = jnp.where((unit > 0.0) & jnp.isfinite(unit), unit, 1.0)
    return unit, curvature / unit[:, None] / unit[None, :]


@eqx.filter_jit
def _peaks(states: Search) -> tuple[Array, Array, Array]:
    """The log evidence at each point, what one more Newton step would gain, and whether it is a maximum."""

    def one(state: Search) -> tuple[Array, Array, Array]:
        unit, scaled = _scaled(state.curvature)
        lowest = jnp.linalg.eigvalsh(jnp.where(jnp.isfinite(scaled), scaled, 0.0))[0]
        factor = cholesky(state.curvature)
        log_evidence = state.value + 0.5 * (unit.shape[0] * LOG_2PI - log_det(factor))
        decrement = 0.5 * jnp.sum(state.gradient * solve_vector(factor, state.gradient))
        return log_evidence, decrement, lowest > 1e-9

    return jax.lax.map(one, states)


@eqx.filter_jit
def _around(model: Model, state: Search, n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """θ at the mode, and draws of the Gaussian around it."""
    known, factor = families(model), cholesky(state.curvature)
    noise = jax.random.normal(state.key, (n, state.u.shape[0]))
    points = state.u[None] + jax.vmap(transposed_solve_vector, in_axes=(None, 0))(factor, noise)
    return from_line(state.u, known), jax.vmap(lambda u: from_line(u, known))(points)


def _symmetry(model: Model) -> list[str]:
    symmetry = model.symmetry and model.symmetry.alike
    if symmetry is None or model.words.size is None or model.words.size < 2:
        return []
    k = model.words.size
    return [
        f"the evidence is that of one mode: if all {k} {model.words.parts} are in use and well apart, the posterior "
        f"has {k}! modes alike, and log_evidence lacks ln {k}! = {math.lgamma(k + 1):.4f}"
    ]
