"""Message passing for generalised linear models, whose factors depend on the weights through one number.

    p(y_n | a_n = φ_n · w + o_n) ≈ s̃_n exp(h_n u_n − ½ τ_n u_n²),   u_n = φ_n · w

A site is two numbers, and its projection a one-dimensional integral (Minka, 2001; Rasmussen & Williams, 2006, 3.6). The
factor between the weights and a precision α that is learned is approximated with α-divergence zero, as VB does it:

    ln s = Σ ln s̃_n + ln ∫ exp{E_q log p(w | α)} Π_n exp(h_n u_n − ½ τ_n u_n²) dw − KL(q(α) ‖ p(α))
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...families import Family, Normal, NormalVector
from ...models import Data, Model, Posterior
from ...models._answers import Sited
from ...models._blocks import prior_terms
from ...models._model import add, means
from ...numerics.linalg import cholesky, explicit_inverse
from ...numerics.quadrature import gaussian_expectation, tilted_moments
from .._method import Info, Method, Result, Run, state_of


class ScalarSites(NamedTuple):
    """exp(h u − ½ τ u²) of each datum."""

    linear: Float[Array, " n"]
    precision: Float[Array, " n"]


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
        blocks = {name: family for name, family in model.initial(key, data).blocks.items() if name != "weights"}
        sites = ScalarSites(*jnp.zeros((2, data.weights.shape[0])))
        return Approximation(_with_weights(model, blocks, sites, data), sites, jnp.zeros(()))

    def step(self, key: Key[Array, ""], model: Model, state: Approximation, data: Data) -> tuple[Approximation, Info]:
        assert isinstance(model, Sited)
        n = data.weights.shape[0]
        order = jnp.arange(n) if self.schedule == "sequential" else jax.random.permutation(key, n)
        sites, skipped = self._one_pass(model, state, data, order)
        blocks = dict(_with_weights(model, state.blocks, sites, data))
        for name in blocks:
            if name != "weights":
                natural = jax.grad(model.log_prior)(means(blocks))[name]
                blocks[name] = blocks[name].with_natural(natural)
        blocks = _with_weights(model, blocks, sites, data)
        value = self._log_evidence(model, blocks, sites, data)
        step = [blocks[name].natural - state.blocks[name].natural for name in blocks]
        gain = [blocks[name].mean() - state.blocks[name].mean() for name in blocks]
        moved = sum((jnp.sum(a.dot(b)) for a, b in zip(step, gain, strict=True)), start=jnp.zeros(()))
        change = jnp.maximum(jnp.sqrt(jnp.maximum(moved, 0.0)), jnp.abs(value - state.log_evidence))
        info = {"log_evidence": value, "change": change, "skipped": skipped}
        return Approximation(blocks, sites, value), info | {"done": (change <= self.tol) & (skipped == 0)}

    def _one_pass(self, model: Sited, state: Approximation, data: Data, order: Array) -> tuple[ScalarSites, Array]:
        weights = state.blocks["weights"]
        covariance = explicit_inverse(cholesky(weights.natural.precision))
        x = data.values

        def visit(carry: Any, index: Array) -> tuple[Any, Array]:
            mean, covariance, sites = carry
            features, offset, target = x.features[index], x.offset[index], x.target[index]
            along = covariance @ features
            variance, centre = features @ along, features @ mean
            old = ScalarSites(sites.linear[index], sites.precision[index])
            found = self._project(model, *(leaf[None] for leaf in (centre, variance, *old, offset, target)))
            live = data.weights[index] > 0.0
            use = live & found.proper[0] & (variance > 0.0)
            kept = jnp.where(use, self.damping, 1.0)
            new = ScalarSites(*(kept * a + (1.0 - kept) * b[0] for a, b in zip(old, found.sites, strict=True)))
            dh, dt = new.linear - old.linear, new.precision - old.precision
            share = 1.0 / (1.0 + dt * variance)
            mean = mean + along * ((dh - dt * centre) * share)
            covariance = covariance - (dt * share) * along[:, None] * along[None]
            sites = ScalarSites(*(leaf.at[index].set(value) for leaf, value in zip(sites, new, strict=True)))
            return (mean, covariance, sites), live & ~use & (variance > 0.0)

        carry, skipped = jax.lax.scan(visit, (weights.mode(), covariance, state.sites), order)
        return carry[2], jnp.sum(skipped)

    def _project(
        self, model: Sited, centre: Array, variance: Array, h: Array, t: Array, offset: Array, target: Array
    ) -> Projected:
        """Project factors against the cavities that result from N(centre, variance) over u."""
        if self.alpha == 0.0:
            return _project_reversed(model, centre, variance, ScalarSites(h, t), offset, target)
        alpha = self.alpha
        precision, linear = 1.0 / variance - alpha * t, centre / variance - alpha * h
        proper = precision > 1e-10 / variance
        precision = jnp.where(proper, precision, 1.0 / variance)
        mean, width = linear / precision, 1.0 / precision
        tilted = tilted_moments(lambda a: alpha * model.log_factor(a, target), mean + offset, width)
        sites = ScalarSites(
            ((tilted.mean - offset) / tilted.variance - linear) / alpha, (1.0 / tilted.variance - precision) / alpha
        )
        # ∫ N(cavity) s̃^α is the same as that of the factor: the normalisers of one-dimensional Gaussians.
        apart = 0.5 * (centre * centre / variance + jnp.log(variance) - mean * linear - jnp.log(width))
        good = jnp.isfinite(tilted.log_z) & (tilted.variance > 0.0)
        return Projected(sites, proper & good, (tilted.log_z - apart) / alpha)

    def _log_evidence(self, model: Sited, blocks: dict[str, Family], sites: ScalarSites, data: Data) -> Array:
        x, weights = data.values, blocks["weights"]
        covariance = explicit_inverse(cholesky(weights.natural.precision))
        centre, variance = x.features @ weights.mode(), jnp.sum((x.features @ covariance) * x.features, axis=1)
        variance = jnp.maximum(variance, 1e-20)
        scales = self._project(model, centre, variance, *sites, x.offset, x.target).log_scale
        m = means(blocks)
        value = jnp.sum(jnp.where(data.weights > 0.0, scales, 0.0)) + weights.log_normaliser()
        for name, p in model.prior.items():
            if name == "weights":
                value = value - (p.log_normaliser() if isinstance(p, Family) else p.log_normaliser(m))
            else:
                value = value + jnp.sum(prior_terms(p, m, name)) + jnp.sum(blocks[name].entropy())
        return value

    def result(self, model: Model, data: Data, run: Run) -> Result:
        evidence = np.asarray(run.states.log_evidence)
        converged = run.converged & np.isfinite(evidence)
        best = int(np.lexsort((evidence, converged))[-1])
        history = {name: np.asarray(values) for name, values in run.history.items()}
        change, skipped = float(history["change"][-1, best]), int(history["skipped"][-1, best])
        state = state_of(run.states, best)
        notes = () if converged[best] else (
            f"no restart converged in {self.max_iter} passes (in the last one q moved by {change:.2g} and {skipped} "
            "factors were skipped), so ln s is not that of a fixed point: try damping=0.5",
        )  # fmt: skip
        return Result(
            state=Posterior(state.blocks, {}),
            log_evidence=float(evidence[best]),
            history={name: values[:, best] for name, values in history.items()} | {"restarts": evidence},
            converged=bool(converged[best]) and not run.interrupted,
            details={"restarts_converged": converged, "skipped": skipped, "change": change, "sites": state.sites},
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


def _with_weights(model: Sited, blocks: dict[str, Any], sites: ScalarSites, data: Data) -> dict[str, Family]:
    """The blocks with updated weights: their prior, given the other blocks, times the sites."""
    p, features = model.prior["weights"], data.values.features
    m = means({name: family for name, family in blocks.items() if name != "weights"})
    prior = p.natural if isinstance(p, Family) else p.natural(m)
    message = NormalVector(sites.linear @ features, features.T @ (sites.precision[:, None] * features))
    return blocks | {"weights": Normal.from_natural(add(prior, message))}
