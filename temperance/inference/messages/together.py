"""Message passing with all factors refreshed at once, each against its own cavity: for chains and for graphs.

q(θ, z) ∝ prior(θ) Π_t exp⟨η̃_t, t(θ)⟩ τ_t(z_(t−1), z_t). A site is natural parameters η̃_t and a table over the
configurations of its factor,

    τ_t = E_cav[f_t^α]^(1/α),     cav_t = q(θ) exp⟨−α η̃_t, t(θ)⟩,     q(z) ∝ Π_t τ_t,

so that the tables follow from the η̃, and their product over a chain is summed by forward and backward recursions. The
moments of cav_t f_t^α under q(z) give the next η̃_t, and

    ln s = ln Σ_z Π_t τ_t + A(q) − A(prior) + Σ_t [A(cav_t) − A(q)]/α,

which at a fixed point does not change to first order in the η̃. α → 0 is a sweep of variational Bayes, and ln s its
bound. Data that are independent are chains of one step.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ...errors import NumericalFailure
from ...models import Data, Model, Posterior
from ...models._blocks import Conditional, Each, add, entropy, means
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
from .._method import Info, Method, Result, Run, state_of
from ..collapsed import settled
from ._tables import chained
from .labels import label_overlap

SETTLED = 1e-8  # undamped change of the messages, relative to the natural parameters of q, at convergence
SHORTER = (1.0, 0.25, 0.0625)  # fractions of a step, tried until q is proper


class Sites(eqx.Module):
    """q, and the message of every factor; the tables follow from them."""

    blocks: Blocks
    natural: Natural  # leading axis of factors
    log_evidence: Float[Array, ""]  # ln s of these messages


class Look(NamedTuple):
    """The result of evaluating all factors once."""

    fresh: Natural  # the next messages, undamped
    log_evidence: Float[Array, ""]
    skipped: Int[Array, ""]  # factors with an improper cavity
    more: Info  # for the history
    tables: Any = None  # log τ, (n, configurations)
    chain: Any = None  # their recursions


@dataclasses.dataclass(frozen=True)
class Together(Method):
    """Damped passes, from a start of variational Bayes, until the messages stand still (`SETTLED`)."""

    alpha: float = 1.0
    restarts: int = 1
    max_iter: int = 100
    damping: float = 0.5
    warm_passes: int = 2

    budget: ClassVar[tuple[str, ...]] = ("restarts", "max_iter")
    row_by_row: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "EP" if self.alpha == 1 else f"message passing (α = {self.alpha:g})"

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Sites:
        blocks, natural = self.begin(key, model, data)
        return Sites(blocks, natural, jnp.full((), jnp.nan, dtype=jnp.float64))

    def begin(self, key: Key[Array, ""], model: Model, data: Data) -> tuple[Blocks, Natural]:
        """q and the messages after a few sweeps of variational Bayes."""
        assert isinstance(model, Factored)
        start, factors = model.initial(key, data).blocks, settled(model).factors(data)
        blocks = {name: start[name] for name in model.prior}
        met = naturals(met_by_data(model, blocks))
        nothing = jax.tree.map(lambda leaf: jnp.zeros((factors.live.shape[0], *leaf.shape)), met)

        def sweep(blocks: Blocks, _: None) -> tuple[Blocks, Natural]:
            fresh = look(0.0, factors, model, blocks, nothing).fresh
            return times_prior(model, blocks, _sum(fresh)), fresh

        blocks, messages = jax.lax.scan(sweep, blocks, length=1 + self.warm_passes)
        return blocks, jax.tree.map(lambda leaf: leaf[-1], messages)

    def seen(self, model: Model, data: Data, state: Sites) -> Look:
        assert isinstance(model, Factored)
        return look(self.alpha, settled(model).factors(data), model, state.blocks, state.natural)

    def step(self, key: Key[Array, ""], model: Model, state: Sites, data: Data) -> tuple[Sites, Info]:
        seen = self.seen(model, data, state)
        change = jax.tree.map(jnp.subtract, seen.fresh, state.natural)
        whole = naturals(met_by_data(model, state.blocks))
        natural, blocks, proper = self._moved(model, state, change)
        residual = _relative(_sum(jax.tree.map(jnp.abs, change)), whole)
        residual = jnp.maximum(residual, _moved_apart(model, state.blocks, blocks))
        skipped = jnp.where(proper, seen.skipped, jnp.maximum(seen.skipped, 1))
        fresh = Sites(blocks, natural, seen.log_evidence)
        info = {"log_evidence": seen.log_evidence, "change": residual, "skipped": skipped}
        return fresh, info | seen.more | {"done": (residual < SETTLED) & (skipped == 0)}

    def _moved(self, model: Model, state: Sites, change: Natural) -> tuple[Natural, Blocks, Bool[Array, ""]]:
        """The damped step, a shorter one if q would be improper, or no step at all."""
        moved, blocks, found = state.natural, state.blocks, jnp.asarray(False)
        for share in SHORTER:
            rate = share * (1.0 - self.damping)
            trial = jax.tree.map(lambda old, new, rate=rate: old + rate * new, state.natural, change)
            there = times_prior(model, state.blocks, _sum(trial))
            inside = is_proper(there)
            moved, blocks = jax.tree.map(
                lambda old, new, take=inside & ~found: jnp.where(take, new, old), (moved, blocks), (trial, there)
            )
            found = found | inside
        return moved, blocks, found

    def result(self, model: Model, data: Data, run: Run) -> Result:
        """The best converged restart. If none has converged, there is a posterior but no ln s, which could be far
        off."""
        evidence, skipped = np.asarray(run.states.log_evidence), np.asarray(run.history["skipped"][-1])
        change = np.asarray(run.history["change"][-1])
        if (np.asarray(run.history["skipped"]) >= np.sum(np.asarray(data.weights) > 0.0)).all():
            raise NumericalFailure(
                "none of the data could be used: every message was improper in every pass, as it is where the data are "
                "far from zero beside their spread; subtract the columns' means, or use tp.VB"
            )
        converged = run.converged & np.isfinite(evidence)
        best = int(np.argmax(np.where(converged, evidence, -np.inf)) if converged.any() else np.argmin(change))
        state = state_of(run.states, best)
        details: dict[str, Any] = {
            "restarts_converged": converged,
            "restarts_skipped": skipped,
            "skipped": int(skipped[best]),
            "change": float(change[best]),
            "sites": state.natural,
        }
        notes: tuple[str, ...] = ()
        if not converged.any():
            notes += (
                f"no restart converged in {run.history['change'].shape[0]} passes (in the last one the messages moved "
                f"by {change[best]:.2g} and {skipped[best]} factors were skipped), so there is no ln s: try more "
                "passes, damping=0.8 or more restarts",
            )
        labels, more = told_of_labels(model, state.blocks)
        details, notes = details | labels, notes + more
        ends = np.where(converged, evidence, np.nan)
        return Result(
            state=Posterior(state.blocks, {}),
            log_evidence=float(evidence[best]) if converged[best] else None,
            history={name: values[:, best] for name, values in run.history.items()} | {"restarts": ends},
            converged=bool(converged[best]) and not run.interrupted,
            details=details,
            notes=notes,
        )


def told_of_labels(model: Model, blocks: Blocks) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Details and a note on the labellings that q covers, if there are several."""
    overlap = label_overlap(model, blocks)
    if overlap is None:
        return {}, ()
    details = {"log_overlap": overlap.log_sum, "labels": overlap.kind, "log_labellings": overlap.missing}
    return details, (overlap.sentence,)


def look(alpha: float, factors: Factors, model: Model, blocks: Blocks, messages: Natural) -> Look:
    """The tables of all factors, q(z), the next messages and ln s."""
    met, terms = met_by_data(model, blocks), factors.terms
    whole = log_normaliser(met)
    cavities, good = proper_cavities(alpha, met, messages)
    log_s = log_integral(model, blocks, messages)
    if alpha == 0.0:
        mean = means(met)
        tables = jax.vmap(lambda factor: terms.expected(mean, factor))(factors.each)
        chain = chained(tables, factors)
        fresh = jax.vmap(lambda factor, r: terms.message(mean, factor, r))(factors.each, chain.pairs)
        taken = [jnp.sum(messages[name].dot(mean[name].expand(0))) for name in mean]
        log_s = log_s + chain.log_sum - sum(taken, start=jnp.zeros(()))
    else:
        tilted = jax.vmap(lambda natural, factor: terms.tilt(with_naturals(met, natural), factor, alpha))(
            cavities, factors.each
        )
        tables = tilted.log_terms / alpha
        chain = chained(tables, factors)
        matched = jax.vmap(lambda one, r: naturals(one.match(r, met)))(tilted, chain.pairs)
        fresh = jax.tree.map(lambda new, cavity: (new - cavity) / alpha, matched, cavities)
        log_s = log_s + chain.log_sum + jnp.sum(jnp.where(factors.live, tilted.value - whole, 0.0)) / alpha
    fresh, skipped = usable(fresh, messages, good, factors.live)
    return Look(fresh, log_s, skipped, {}, tables, chain)


def proper_cavities(alpha: float, met: Blocks, messages: Natural) -> tuple[Natural, Bool[Array, " n"]]:
    """The cavity of every factor, or q where it is improper; and whether it is proper."""
    cavities = jax.tree.map(lambda q, part: q[None] - alpha * part, naturals(met), messages)
    good = jax.vmap(lambda natural: is_proper(with_naturals(met, natural)))(cavities)
    cavities = jax.tree.map(lambda a, q: jnp.where(_column(good, a), a, q[None]), cavities, naturals(met))
    return cavities, good


def usable(
    fresh: Natural, messages: Natural, good: Bool[Array, " n"], live: Bool[Array, " n"]
) -> tuple[Natural, Int[Array, ""]]:
    """The fresh messages, the old ones where a cavity or a moment does not exist, and how many those are."""
    finite = jax.vmap(lambda new: jnp.all(jnp.stack([jnp.all(jnp.isfinite(a)) for a in jax.tree.leaves(new)])))(fresh)
    kept = good & finite
    fresh = jax.tree.map(
        lambda new, old: jnp.where(_column(live, new), jnp.where(_column(kept, new), new, old), 0.0), fresh, messages
    )
    return fresh, jnp.sum(live & ~kept)


# ---- the prior times all messages --------------------------------------------------------------------------


def met_by_data(model: Model, blocks: dict[str, Any]) -> dict[str, Any]:
    """The blocks that the factors of the data depend on."""
    return {name: blocks[name] for name in blocks if name not in model.apart}


def hierarchical(model: Model) -> bool:
    """Whether the prior of a block depends on another block."""
    return any(isinstance(p, Conditional) for p in model.prior.values())


def times_prior(model: Model, blocks: Blocks, messages: Natural) -> Blocks:
    """q, given the sum of the messages. Blocks whose prior depends on others hear from these as in variational
    Bayes."""
    if not hierarchical(model):
        prior = exact_prior(model)
        return with_naturals(prior, _plus(naturals(prior), messages))
    blocks = dict(blocks)
    for group in model.groups:
        target = jax.grad(model.log_prior)(means(blocks))
        for name in (group.block,) if isinstance(group, Each) else group:
            natural = add(target[name], messages[name]) if name in messages else target[name]
            blocks[name] = blocks[name].with_natural(natural)
    return blocks


def log_integral(model: Model, blocks: Blocks, messages: Natural) -> Float[Array, ""]:
    """ln of the integral of the prior times all messages; a bound where a prior depends on other blocks."""
    if not hierarchical(model):
        return log_normaliser(blocks) - log_normaliser(exact_prior(model))
    m, whole = means(blocks), _sum(messages)
    taken = [jnp.sum(whole[name].dot(m[name])) for name in whole]
    return model.log_prior(m) + entropy(blocks) + sum(taken, start=jnp.zeros(()))


def _moved_apart(model: Model, old: Blocks, new: Blocks) -> Float[Array, ""]:
    """The change of the blocks that no message reaches, relative to themselves."""
    before = {name: old[name].natural for name in old if name in model.apart}
    if not before:
        return jnp.zeros(())
    return _relative(jax.tree.map(jnp.subtract, naturals({name: new[name] for name in before}), before), before)


def _column(flags: Bool[Array, " n"], like: Array) -> Bool[Array, "n *b"]:
    return flags.reshape((-1,) + (1,) * (like.ndim - 1))


def _plus(left: Natural, right: Natural) -> Natural:
    return jax.tree.map(jnp.add, left, right)


def _sum(messages: Natural) -> Natural:
    return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), messages)


def _relative(change: Natural, whole: Natural) -> Float[Array, ""]:
    """The largest change, relative to the largest natural parameter of its kind (or to one)."""
    parts = [
        jnp.max(jnp.abs(a), initial=0.0) / (1.0 + jnp.max(jnp.abs(b), initial=0.0))
        for a, b in zip(jax.tree.leaves(change), jax.tree.leaves(whole), strict=True)
    ]
    return jnp.max(jnp.stack(parts))
