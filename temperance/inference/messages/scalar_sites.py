"""Message passing for generalised linear models, whose factors depend on the weights through one number.

    p(y_n | a_n = φ_n · w + o_n) ≈ s̃_n exp(h_n u_n − ½ τ_n u_n²),   u_n = φ_n · w

A site is two numbers, and its projection a one-dimensional integral (Minka, 2001; Rasmussen & Williams, 2006, 3.6). The
factor between the weights and a precision α that is learned is approximated with α-divergence zero, as VB does it:

    ln s = Σ ln s̃_n + ln ∫ exp{E_q log p(w | α)} Π_n exp(h_n u_n − ½ τ_n u_n²) dw − KL(q(α) ‖ p(α))

Gaussian noise of unknown precision β adds a Gamma to each site; given β the integral over u is known, and that over
log β is a sum on a grid.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from ...families import Family, Gamma, GammaVector, Normal, NormalVector
from ...models import Data, Model, Posterior
from ...models._answers import Sited
from ...models._blocks import prior_terms
from ...models._model import add, means
from ...numerics.linalg import cholesky, explicit_inverse
from ...numerics.quadrature import gaussian_expectation, tilted_moments
from ...numerics.special import LOG_2PI, digamma
from .._method import Info, Method, Result, Run, state_of
from .scalar_corrections import all_orders, all_orders_known

_NODES, _BELOW, _ABOVE = 97, 12.0, 8.0  # nodes of the grid over log β, and its extent in standard deviations


class ScalarSites(NamedTuple):
    """exp(h u − ½ τ u²) of each datum, times exp⟨noise, t(β)⟩ where the noise has a precision β to be learned."""

    linear: Float[Array, " n"]
    precision: Float[Array, " n"]
    noise: Any = None


class Approximation(NamedTuple):
    """q as a product of the prior and the sites, and ln s."""

    blocks: dict[str, Family]
    sites: ScalarSites
    log_evidence: Float[Array, ""]


class Projected(NamedTuple):
    """New sites, whether each exists, and ln s̃ of the old sites."""

    sites: ScalarSites
    proper: Array
    log_scale: Float[Array, " n"]


@dataclasses.dataclass(frozen=True)
class ScalarPassing(Method):
    """`MessagePassing` for generalised linear models: one site after the other, then the precisions."""

    alpha: float = 1.0
    restarts: int = 1
    max_iter: int = 100
    tol: float = 1e-5
    damping: float = 0.0
    schedule: str = "random"

    budget: ClassVar[tuple[str, ...]] = ("restarts", "max_iter")
    row_by_row: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "EP" if self.alpha == 1 else f"message passing (α = {self.alpha:g})"

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Approximation:
        assert isinstance(model, Sited)
        blocks = {name: family for name, family in model.initial(key, data).blocks.items() if name != model.sited}
        n = data.weights.shape[0]
        sites = ScalarSites(*jnp.zeros((2, n)))
        if model.noise_block is not None:
            # Each site starts with an equal share of what the start knows of the noise: cavities of a vague prior would
            # be improper.
            live = _live(model.sites(data.values), data)
            share = live / jnp.maximum(jnp.sum(live), 1)
            gained = blocks[model.noise_block].natural - _noise_prior(model).natural
            sites = sites._replace(noise=jax.tree.map(lambda leaf: leaf * share, gained))
        return Approximation(_with_weights(model, blocks, sites, data), sites, jnp.zeros(()))

    def step(self, key: Key[Array, ""], model: Model, state: Approximation, data: Data) -> tuple[Approximation, Info]:
        assert isinstance(model, Sited)
        n = data.weights.shape[0]
        order = jnp.arange(n) if self.schedule == "sequential" else jax.random.permutation(key, n)
        sites, skipped = self._one_pass(model, state, data, order)
        blocks = dict(_with_weights(model, state.blocks, sites, data))
        for name in blocks:
            if name == model.noise_block:
                blocks[name] = _with_noise(model, sites)
            elif name != model.sited:
                natural = jax.grad(model.log_prior)(means(blocks))[name]
                blocks[name] = blocks[name].with_natural(natural)
        blocks = _with_weights(model, blocks, sites, data)
        value = self.log_evidence(model, blocks, sites, data)
        step = [blocks[name].natural - state.blocks[name].natural for name in blocks]
        gain = [blocks[name].mean() - state.blocks[name].mean() for name in blocks]
        moved = sum((jnp.sum(a.dot(b)) for a, b in zip(step, gain, strict=True)), start=jnp.zeros(()))
        change = jnp.maximum(jnp.sqrt(jnp.maximum(moved, 0.0)), jnp.abs(value - state.log_evidence))
        info = {"log_evidence": value, "change": change, "skipped": skipped}
        if all_orders_known(self.alpha, model, blocks, n):
            info["all_orders"] = all_orders(model, data, blocks[model.sited])
        return Approximation(blocks, sites, value), info | {"done": (change <= self.tol) & (skipped == 0)}

    def _one_pass(self, model: Sited, state: Approximation, data: Data, order: Array) -> tuple[ScalarSites, Array]:
        weights = state.blocks[model.sited]
        covariance = explicit_inverse(cholesky(weights.natural.precision))
        x = model.sites(data.values)
        all_live = _live(x, data)

        def visit(carry: Any, index: Array) -> tuple[Any, Array]:
            mean, covariance, noise, sites = carry
            features, offset, target = x.features[index], x.offset[index], x.target[index]
            along = covariance @ features
            variance, centre = features @ along, features @ mean
            old = jax.tree.map(lambda leaf: leaf[index], sites)
            row: list[Any] = jax.tree.map(lambda leaf: leaf[None], [centre, variance, old, offset, target])
            found = self._project(model, row[0], row[1], row[2], row[3], row[4], noise)
            live = all_live[index]
            use = live & found.proper[0] & (variance > 0.0)
            kept = jnp.where(use, self.damping, 1.0)
            new = jax.tree.map(lambda a, b: kept * a + (1.0 - kept) * jnp.where(use, b[0], a), old, found.sites)
            dh, dt = new.linear - old.linear, new.precision - old.precision
            share = 1.0 / (1.0 + dt * variance)
            mean = mean + along * ((dh - dt * centre) * share)
            covariance = covariance - (dt * share) * along[:, None] * along[None]
            noise = jax.tree.map(lambda q, a, b: q + b - a, noise, old.noise, new.noise)
            sites = jax.tree.map(lambda leaf, value: leaf.at[index].set(value), sites, new)
            return (mean, covariance, noise, sites), live & ~use & (variance > 0.0)

        noise = _noise(model, state.blocks)
        carry, skipped = jax.lax.scan(visit, (weights.mode(), covariance, noise, state.sites), order)
        return carry[3], jnp.sum(skipped)

    def _project(
        self, model: Sited, centre: Array, variance: Array, old: ScalarSites, offset: Array, target: Array, noise: Any
    ) -> Projected:
        """Project factors against their cavities in N(centre, variance) over u, and in q(β)."""
        if noise is not None:
            return _project_noisy(self.alpha, centre, variance, old, target - offset, noise)
        if self.alpha == 0.0:
            return _project_reversed(model, centre, variance, old, offset, target)
        alpha, h, t = self.alpha, old.linear, old.precision
        precision, linear = 1.0 / variance - alpha * t, centre / variance - alpha * h
        proper = precision > 1e-10 / variance
        precision = jnp.where(proper, precision, 1.0 / variance)
        mean, width = linear / precision, 1.0 / precision
        tilted = tilted_moments(lambda a: alpha * model.log_factor(a, target), mean + offset, width)
        sites = ScalarSites(
            ((tilted.mean - offset) / tilted.variance - linear) / alpha, (1.0 / tilted.variance - precision) / alpha
        )
        # ∫ N(cavity) s̃^α equals the integral with the factor: both are normalisers of one-dimensional Gaussians.
        apart = 0.5 * (centre * centre / variance + jnp.log(variance) - mean * linear - jnp.log(width))
        good = jnp.isfinite(tilted.log_z) & (tilted.variance > 0.0)
        return Projected(sites, proper & good, (tilted.log_z - apart) / alpha)

    def log_evidence(self, model: Sited, blocks: dict[str, Family], sites: ScalarSites, data: Data) -> Array:
        x, weights = model.sites(data.values), blocks[model.sited]
        covariance = explicit_inverse(cholesky(weights.natural.precision))
        centre, variance = x.features @ weights.mode(), jnp.sum((x.features @ covariance) * x.features, axis=1)
        # For a row of zeros it is 0. The least value is relative to other rows, whatever the unit of the target.
        variance = jnp.maximum(variance, 1e-20 * jnp.max(variance) + jnp.finfo(float).tiny)
        noise = _noise(model, blocks)
        scales = self._project(model, centre, variance, sites, x.offset, x.target, noise).log_scale
        m = means(blocks)
        value = jnp.sum(jnp.where(_live(x, data), scales, 0.0)) + weights.log_normaliser()
        for name, p in model.prior.items():
            if name == model.sited:
                value = value - (p.log_normaliser() if isinstance(p, Family) else p.log_normaliser(m))
            elif name == model.noise_block:
                value = value + blocks[name].log_normaliser() - _noise_prior(model).log_normaliser()
            else:
                value = value + jnp.sum(prior_terms(p, m, name)) + jnp.sum(blocks[name].entropy())
        return value

    def result(self, model: Model, data: Data, run: Run) -> Result:
        evidence = np.asarray(run.states.log_evidence)
        converged = run.converged & np.isfinite(evidence)
        best = int(np.lexsort((evidence, converged))[-1])
        history = {name: np.asarray(values) for name, values in run.history.items()}
        change, skipped = float(history["change"][-1, best]), int(history["skipped"][-1, best])
        state, value = state_of(run.states, best), float(evidence[best])
        if "all_orders" in history and np.isfinite(history["all_orders"][-1, best]):
            value = float(history.pop("all_orders")[-1, best])
        notes = () if converged[best] else (
            f"no restart converged in {self.max_iter} passes (in the last one q moved by {change:.2g} and {skipped} "
            "factors were skipped), so ln s is not that of a fixed point: try damping=0.5",
        )  # fmt: skip
        return Result(
            state=Posterior(state.blocks, {}),
            log_evidence=value,
            history={name: values[:, best] for name, values in history.items()} | {"restarts": evidence},
            converged=bool(converged[best]) and not run.interrupted,
            details={
                "restarts_converged": converged,
                "skipped": skipped,
                "change": change,
                "sites": state.sites,
                "log_s": float(evidence[best]),
            },
            notes=notes,
        )


def _project_reversed(
    model: Sited, centre: Array, variance: Array, old: ScalarSites, offset: Array, target: Array
) -> Projected:
    """α = 0: the site with the slope and the curvature that the log factor has on average under q."""

    def average(mean: Array, variance: Array) -> Array:
        return gaussian_expectation(lambda a: model.log_factor(a, target), mean + offset, variance)

    # Bonnet and Price: ∂/∂μ is E ℓ′ and ∂/∂v is ½ E ℓ″.
    value, back = jax.vjp(average, centre, variance)
    slope, half = back(jnp.ones_like(value))
    precision = -2.0 * half
    taken = old.linear * centre - 0.5 * old.precision * (variance + jnp.square(centre))
    sites = ScalarSites(slope + precision * centre, precision)
    return Projected(sites, jnp.isfinite(value) & jnp.isfinite(precision), value - taken)


def _project_noisy(
    alpha: float, centre: Array, variance: Array, old: ScalarSites, y: Float[Array, " n"], noise: GammaVector
) -> Projected:
    """The projection of y ~ N(u, 1/β): the integral over u for every β of a grid, and a sum over the grid."""
    q = Gamma.from_natural(jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, y.shape), noise))
    if alpha == 0.0:
        beta, square = q.mean(), jnp.square(y - centre) + variance
        site = ScalarSites(beta.value * y, beta.value, GammaVector(jnp.full_like(y, 0.5), -0.5 * square))
        taken = old.linear * centre - 0.5 * old.precision * (variance + jnp.square(centre)) + old.noise.dot(beta)
        return Projected(site, variance > 0.0, 0.5 * (beta.log - LOG_2PI - beta.value * square) - taken)
    precision, linear = 1.0 / variance - alpha * old.precision, centre / variance - alpha * old.linear
    cavity = q.with_natural(q.natural - old.noise.scale(alpha))
    proper = (precision > 1e-10 / variance) & cavity.is_proper()
    precision = jnp.where(proper, precision, 1.0 / variance)
    cavity = jax.tree.map(lambda a, b: jnp.where(proper, a, b), cavity, q)
    mean, width = linear / precision, 1.0 / precision
    # Where u is integrated out: N(y | u, 1/β)^α is a Gaussian of precision αβ, up to a constant.
    middle = digamma(cavity.shape) - jnp.log(cavity.rate)
    spread = jnp.sqrt(jax.scipy.special.polygamma(1, cavity.shape))
    log_beta = middle[:, None] + spread[:, None] * jnp.linspace(-_BELOW, _ABOVE, _NODES)[None]
    beta, total = jnp.exp(log_beta), width[:, None] + jnp.exp(-log_beta) / alpha
    log_u = -0.5 * (LOG_2PI + jnp.log(total) + jnp.square(y - mean)[:, None] / total)
    log_u = log_u + 0.5 * (alpha * (log_beta - LOG_2PI) - jnp.log(alpha) - log_beta + LOG_2PI)
    log_each = (cavity.natural.log + 1.0)[:, None] * log_beta + cavity.natural.value[:, None] * beta
    log_each = log_each + jnp.log(spread[:, None] * (_BELOW + _ABOVE) / (_NODES - 1))
    log_z = jax.nn.logsumexp(log_each + log_u, axis=1)
    share = jnp.exp(log_each + log_u - log_z[:, None])
    # Moments of u and of β under the tilted distribution.
    narrow = 1.0 / (precision[:, None] + alpha * beta)
    at = narrow * (linear[:, None] + alpha * beta * y[:, None])
    first = jnp.sum(share * at, axis=1)
    second = jnp.sum(share * (narrow + jnp.square(at - first[:, None])), axis=1)
    matched = cavity.match(GammaVector(jnp.sum(share * log_beta, axis=1), jnp.sum(share * beta, axis=1)))
    site = ScalarSites(
        (first / second - linear) / alpha,
        (1.0 / second - precision) / alpha,
        (matched.natural - cavity.natural).scale(1.0 / alpha),
    )
    apart = 0.5 * (centre * centre / variance + jnp.log(variance) - mean * linear - jnp.log(width))
    good = jnp.isfinite(log_z) & (second > 0.0) & matched.is_proper()
    return Projected(site, proper & good, (log_z - apart - q.log_normaliser()) / alpha)


def _live(x: Any, data: Data) -> Bool[Array, " n"]:
    """Whether a row counts: it is no padding, and has a target."""
    return (data.weights > 0.0) & ~jnp.isnan(x.target)


def _noise(model: Sited, blocks: dict[str, Family]) -> Any:
    return None if model.noise_block is None else blocks[model.noise_block].natural


def _noise_prior(model: Sited) -> Family:
    assert model.noise_block is not None
    prior = model.prior[model.noise_block]
    assert isinstance(prior, Family)
    return prior


def _with_noise(model: Sited, sites: ScalarSites) -> Family:
    prior = _noise_prior(model)
    return prior + jax.tree.map(jnp.sum, sites.noise)


def _with_weights(model: Sited, blocks: dict[str, Any], sites: ScalarSites, data: Data) -> dict[str, Family]:
    """The blocks with updated weights: their prior, given the other blocks, times the sites."""
    p, features = model.prior[model.sited], model.sites(data.values).features
    m = means({name: family for name, family in blocks.items() if name != model.sited})
    prior = p.natural if isinstance(p, Family) else p.natural(m)
    message = NormalVector(sites.linear @ features, features.T @ (sites.precision[:, None] * features))
    return blocks | {model.sited: Normal.from_natural(add(prior, message))}
