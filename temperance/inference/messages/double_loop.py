"""The double loop: the free energy of EP minimised with a guarantee (thesis 2.9.1; Opper and Winther 2005).

With cavities λ_n = η − η̃_n, whose sum is (N−1)η + η₀, and Z_n(λ) = ∫ f_n(θ) exp⟨λ, t(θ)⟩ dθ,

    −ln s = (N−1) A(η) − Σ_n ln Z_n(λ_n) + A(η₀).

Inner loop: at fixed η this is concave in the cavities, and its maximum, where all Z_n have the same means μ, is found
by Newton's method; the remaining function of η is G(η) = (N−1)A(η) − φ((N−1)η + η₀) + A(η₀) with a convex φ of gradient
μ. Outer loop: the member with means μ never has a larger G (the convex–concave procedure). That step is short, of the
order of 1/N of the way, so Newton's step for G is tried first and taken only where it lowers G as well.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from ...models import Data, Model
from ...models._factors import (
    Blocks,
    Factored,
    Factors,
    Natural,
    exact_prior,
    is_proper,
    log_normaliser,
    naturals,
    with_naturals,
)
from ...numerics.linalg import cholesky, explicit_inverse, solve_vector
from .._method import Info, Result, Run
from ._tables import flatten, unflatten, unflatten_mean
from .alpha_divergence import Approximation, MessagePassing, distance, one_by_one, require_whole
from .sweep import Sites, factors_of
from .together import Together, told_of_labels

INNER_STEPS = 100
INNER_TOLERANCE = 1e-20  # largest Newton decrement (a squared distance in nats) at convergence
SETTLED = 1e-8  # largest decrement at which an inner loop has converged
SHORTEST = 2.0**-30


class Inner(NamedTuple):
    """The cavities at which all factors agree, for one η."""

    cavities: Float[Array, "n p"]
    value: Float[Array, ""]  # φ
    mean: Float[Array, " p"]  # μ
    curvature: Float[Array, "p p"]  # φ″ at N times its argument: (Σ H_n⁻¹)⁻¹
    decrement: Float[Array, ""]
    steps: Int[Array, ""]


class Search(NamedTuple):
    """The state of an outer step under search."""

    attempt: Int[Array, ""]
    eta: Float[Array, " p"]
    inner: Inner
    energy: Float[Array, ""]
    newton: Float[Array, " p"]
    sure: Float[Array, " p"]
    accepted: Bool[Array, ""]


@dataclasses.dataclass(frozen=True)
class DoubleLoop(MessagePassing):
    """EP by the double loop, from where `warm_passes` passes of plain EP end; a pass is one outer step."""

    alpha: float = dataclasses.field(default=1.0, init=False, repr=False)
    name: ClassVar[str] = "EP (double loop)"

    @property
    def _warm(self) -> int:
        return min(self.warm_passes, self.passes)

    def complete(self, model: Model, data: Any) -> Any:
        require_whole(self.name, data)
        return dataclasses.replace(self, warm_passes=self._warm)

    def host_engine(self, model: Model, data: Any) -> None:
        return None  # the engine of plain passes would take other steps

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Approximation:
        if one_by_one(model):
            return super().init(key, model, data)
        assert isinstance(model, Factored)
        begun = Together(warm_passes=self._warm).init(key, model, data)
        sites = Sites(begun.natural, jnp.zeros(data.weights.shape))
        return Approximation(begun.blocks, exact_prior(model), jnp.asarray(True), sites, jnp.zeros(()), {})

    def step(self, key: Key[Array, ""], model: Model, state: Approximation, data: Data) -> tuple[Approximation, Info]:
        assert isinstance(model, Factored)
        factors = factors_of(model, data) if one_by_one(model) else model.factors(data)
        problem = Problem.of(model, state.blocks, factors)
        eta = flatten(naturals(state.blocks))
        eta, inner = problem.outer_step(eta, problem.proper_start(eta, state.sites))
        fresh = problem.approximation(eta, inner, state)
        moved = jnp.sqrt(distance(fresh.blocks, state.blocks))
        change = jnp.maximum(moved, jnp.abs(fresh.log_evidence - state.log_evidence))
        info = {
            "log_evidence": fresh.log_evidence,
            "change": change,
            "skipped": jnp.asarray(0),
            "corrected": jnp.asarray(True),
        }
        return fresh, info | {"done": (change <= self.tol) & (inner.decrement <= SETTLED)}

    def result(self, model: Model, data: Data, run: Run) -> Result:
        found = super().result(model, data, run)
        if one_by_one(model):
            return found
        details, notes = told_of_labels(model, found.state.blocks)
        details = {**found.details, "sites": found.details["sites"].natural, **details}
        return found._replace(details=details, notes=(*found.notes, *notes))


class Problem(NamedTuple):
    """The data and the prior of one free energy, in flat coordinates."""

    factors: Factors
    like: Blocks
    prior: Float[Array, " p"]
    size: Float[Array, ""]  # N, without padding

    @staticmethod
    def of(model: Factored, blocks: Blocks, factors: Factors) -> Problem:
        prior = flatten(naturals(exact_prior(model)))
        return Problem(factors, blocks, prior, jnp.sum(factors.live.astype(jnp.float64)))

    def blocks(self, eta: Float[Array, " p"]) -> Blocks:
        return with_naturals(self.like, unflatten(eta, naturals(self.like)))

    def normaliser(self, eta: Float[Array, " p"]) -> Float[Array, ""]:
        return log_normaliser(self.blocks(eta))

    def log_z(self, cavity: Float[Array, " p"], factor: Any) -> Float[Array, ""]:
        tilted = self.factors.terms.tilt(self.blocks(cavity), factor, 1.0)
        return tilted.value + jax.nn.logsumexp(tilted.log_terms)

    def value(self, cavities: Float[Array, "n p"]) -> Float[Array, ""]:
        each = jax.vmap(self.log_z)(cavities, self.factors.each)
        return jnp.sum(jnp.where(self.factors.live, each, 0.0))

    def target(self, eta: Float[Array, " p"]) -> Float[Array, " p"]:
        """The sum that the cavities must have."""
        return (self.size - 1.0) * eta + self.prior

    def free_energy(self, eta: Float[Array, " p"], inner: Inner) -> Float[Array, ""]:
        """G = −ln s."""
        return (self.size - 1.0) * self.normaliser(eta) - inner.value + self.normaliser(self.prior)

    # ---- the inner loop -------------------------------------------------------------------------------------

    def proper_start(self, eta: Float[Array, " p"], sites: Sites) -> Float[Array, "n p"]:
        """The cavities of these messages, or equal cavities if one is improper or they belong to another prior."""
        cavities = eta[None] - jax.vmap(flatten)(sites.natural)
        return self.feasible(cavities, self.target(eta))

    def feasible(self, cavities: Float[Array, "n p"], target: Float[Array, " p"]) -> Float[Array, "n p"]:
        """Shift the cavities to sum to `target` if that keeps them proper; otherwise give each an equal share."""
        live = self.factors.live[:, None]
        missing = target - jnp.sum(jnp.where(live, cavities, 0.0), axis=0)
        moved = cavities + (missing / self.size)[None]
        inside = jnp.isfinite(self.value(moved))
        return jnp.where(inside, moved, jnp.broadcast_to((target / self.size)[None], cavities.shape))

    def newton(self, cavities: Float[Array, "n p"]) -> tuple[Inner, Float[Array, "n p"]]:
        """The value, gradient and Newton step of Σ ln Z_n at a fixed sum of the cavities."""
        live = self.factors.live[:, None]
        slopes = jax.vmap(jax.grad(self.log_z))(cavities, self.factors.each)
        curves = jax.vmap(jax.hessian(self.log_z))(cavities, self.factors.each)
        inverses = jnp.where(live[..., None], jax.vmap(_inverse)(curves), 0.0)
        curvature = _inverse(jnp.sum(inverses, axis=0))
        mean = curvature @ jnp.einsum("npq,nq->p", inverses, slopes)
        apart = jnp.where(live, slopes - mean[None], 0.0)
        step = -jnp.einsum("npq,nq->np", inverses, apart)
        decrement = jnp.maximum(-jnp.sum(step * apart), 0.0)
        return Inner(cavities, self.value(cavities), mean, curvature, decrement, jnp.asarray(0)), step

    def settle(self, cavities: Float[Array, "n p"]) -> Inner:
        """The minimum of Σ ln Z_n over cavities with this sum: a convex problem, so Newton with a line search solves
        it."""

        def unfinished(search: tuple[Inner, Any, Bool[Array, ""]]) -> Bool[Array, ""]:
            inner, _, moving = search
            return moving & (inner.decrement > INNER_TOLERANCE) & (inner.steps < INNER_STEPS)

        def body(search: tuple[Inner, Any, Bool[Array, ""]]) -> tuple[Inner, Any, Bool[Array, ""]]:
            inner, step, _ = search
            length = self.line_search(inner, step)
            fresh, next_step = self.newton(inner.cavities + length * step)
            # Close to the optimum only rounding remains: stop when the decrement no longer falls.
            better = (length > 0.0) & ((fresh.decrement < inner.decrement) | (inner.decrement > 1e-8))
            fresh = fresh._replace(steps=inner.steps + 1)
            kept = jax.tree.map(lambda a, b: jnp.where(better, a, b), (fresh, next_step), (inner, step))
            return *kept, better

        size = cavities.shape[1]
        # The first step has length zero: it only evaluates.
        nowhere = Inner(
            cavities=cavities,
            value=self.value(cavities),
            mean=jnp.zeros(size),
            curvature=jnp.zeros((size, size)),
            decrement=jnp.full((), jnp.inf, dtype=jnp.float64),
            steps=jnp.asarray(0),
        )
        first = (nowhere, jnp.zeros_like(cavities), jnp.asarray(True))
        return jax.lax.while_loop(unfinished, body, first)[0]

    def line_search(self, inner: Inner, step: Float[Array, "n p"]) -> Float[Array, ""]:
        """Halve the step until the sum falls enough; 0 if it never does."""
        slack = 1e-13 * (1.0 + jnp.abs(inner.value))
        decrement = jnp.where(jnp.isfinite(inner.decrement), inner.decrement, 0.0)

        def too_long(length: Float[Array, ""]) -> Bool[Array, ""]:
            value = self.value(inner.cavities + length * step)
            enough = value <= inner.value - 0.1 * length * decrement + slack
            return ~enough & (length > SHORTEST)

        length = jax.lax.while_loop(too_long, lambda length: 0.5 * length, jnp.asarray(1.0))
        return jnp.where(length > SHORTEST, length, 0.0)

    # ---- the outer loop -------------------------------------------------------------------------------------

    def outer_step(self, eta: Float[Array, " p"], cavities: Float[Array, "n p"]) -> tuple[Float[Array, " p"], Inner]:
        """Newton's step for G, a quarter or a sixteenth of it, or the safe step: the first that lowers G."""

        def unfinished(search: Search) -> Bool[Array, ""]:
            return ~search.accepted & (search.attempt < 5)

        def body(search: Search) -> Search:
            # Attempt 0 has length zero: it settles the cavities and finds the directions.
            looking, sure = search.attempt == 0, search.attempt == 4
            newton = 0.25 ** (search.attempt - 1) * search.newton
            step = jnp.where(looking, 0.0, jnp.where(sure, search.sure, newton))
            usable = jnp.all(jnp.isfinite(step)) & is_proper(self.blocks(search.eta + step))
            there = jnp.where(usable, search.eta + step, search.eta)
            found = self.settle(self.feasible(search.inner.cavities, self.target(there)))
            energy = self.free_energy(there, found)
            lower = energy <= search.energy + 1e-12 * (1.0 + jnp.abs(search.energy))
            accepted = ~looking & usable & lower & (found.decrement <= SETTLED)
            directions = self.directions(there, found)
            fresh = Search(search.attempt + 1, there, found, energy, *directions, accepted)
            kept = search._replace(attempt=search.attempt + 1)
            return jax.tree.map(lambda a, b: jnp.where(looking | accepted, a, b), fresh, kept)

        none, size = jnp.zeros_like(eta), eta.shape[0]
        nothing = Inner(cavities, none[0], none, jnp.zeros((size, size)), jnp.asarray(jnp.inf), jnp.asarray(0))
        first = Search(jnp.asarray(0), eta, nothing, jnp.asarray(jnp.inf), none, none, jnp.asarray(False))
        search = jax.lax.while_loop(unfinished, body, first)
        return search.eta, search.inner

    def directions(self, eta: Float[Array, " p"], inner: Inner) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Newton's step for G (NaN where G is not convex), and the step to the member with means μ."""
        slope = jax.grad(self.normaliser)(eta) - inner.mean
        curve = jax.hessian(self.normaliser)(eta) - (self.size - 1.0) * inner.curvature
        blocks, means = self.blocks(eta), unflatten_mean(inner.mean, naturals(self.like))
        matched = {name: blocks[name].match(mean) for name, mean in means.items()}
        return -_solve(curve, slope), flatten(naturals(matched)) - eta

    def approximation(self, eta: Float[Array, " p"], inner: Inner, state: Approximation) -> Approximation:
        """The messages that belong to η and its cavities."""
        like = naturals(self.like)

        def message(cavity: Float[Array, " p"], live: Bool[Array, ""]) -> Natural:
            return unflatten(jnp.where(live, eta - cavity, 0.0), like)

        natural = jax.vmap(message)(inner.cavities, self.factors.live)
        each = jax.vmap(self.log_z)(inner.cavities, self.factors.each) - self.normaliser(eta)
        sites = Sites(natural, jnp.where(self.factors.live, each, 0.0))
        prior = with_naturals(self.like, unflatten(self.prior, like))
        log_s = -self.free_energy(eta, inner)
        return Approximation(self.blocks(eta), prior, jnp.asarray(True), sites, log_s, state.warm)


def _inverse(matrix: Float[Array, "p p"]) -> Float[Array, "p p"]:
    """The inverse of a positive-definite matrix, scaled to unit diagonal first; NaN if it is not positive definite.

    Coordinates without variance (the weight of a single component) are left out."""
    unit, scale = _unit(matrix)
    return explicit_inverse(cholesky(unit)) * scale[:, None] * scale[None, :]


def _solve(matrix: Float[Array, "p p"], right: Float[Array, " p"]) -> Float[Array, " p"]:
    unit, scale = _unit(matrix)
    return scale * solve_vector(cholesky(unit), scale * right)


def _unit(matrix: Float[Array, "p p"]) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
    diagonal = jnp.diagonal(matrix)
    scale = jnp.where(diagonal == 0.0, 0.0, jax.lax.rsqrt(jnp.abs(jnp.where(diagonal == 0.0, 1.0, diagonal))))
    return matrix * scale[:, None] * scale[None, :] + jnp.diag(jnp.where(diagonal == 0.0, 1.0, 0.0)), scale
