"""Models with their globals integrated out: only the configurations c of the data's discrete latents remain.

With the factors exp{⟨T_nc, t(θ)⟩ + log h_nc} of `models/_factors.py`,

    p(c_n = c | x, all others) ∝ exp{A(η + T_nc) − A(η) + log h_nc},      η = prior + Σ_{m ≠ n} T_{m c_m}

Drawn one after the other this is collapsed Gibbs sampling. With shares r in place of draws, and Σ_c r_mc T_mc in η, it
is CVB0. Along a chain a label takes part in two factors, that of its step and that of the next step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from ..errors import UnsupportedMethod
from ..families import Family, Point
from ..models import Conditional, Data, Model
from ..models._factors import Blocks, Factored, Factors, Natural, exact_prior, naturals, with_naturals
from ..models._model import Means
from ..numerics.chains import ON

Choose = Callable[[Float[Array, " k"], Key[Array, ""]], Float[Array, " k"]]  # shares, from logits and a key


class Shares(NamedTuple):
    """The state of the latents."""

    labels: Float[Array, "n k"]  # the share of each value of a label; one-hot for a draw
    natural: Natural  # of the globals given the labels


def require_collapsible(name: str, model: Model, instead: str) -> Factored:
    """Refuse a model whose globals cannot be integrated out given the labels."""
    why = "its factors are not finite sums of conjugate terms"
    points = [block for block, prior in model.prior.items() if isinstance(prior, Point)]
    if points:
        why = f"{points[0]!r} is a point estimate"
    elif isinstance(model, Factored):
        why = settled(model).no_factors()
        if not why and model.linear_factors:
            return model
        why = why or "entries that are missing are latents, too"
    raise UnsupportedMethod(
        f"{name} integrates out every parameter given the discrete latents of the data, and this "
        f"{type(model).__name__} does not allow that: {why}; use {instead}"
    )


def settled(model: Any, m: Means | None = None) -> Any:
    """The model given the statistics m of its hyperparameters, on which data do not depend directly; by default those
    of their priors."""
    apart = {name: p for name, p in model.prior.items() if name in model.apart and isinstance(p, Family)}
    here = m or {name: p.mean() for name, p in apart.items()}
    prior = {
        name: p.family(p.natural(here)) if isinstance(p, Conditional) and set(p.parents) <= set(apart) else p
        for name, p in model.prior.items()
        if name not in apart
    }
    return model._with(prior=prior) if apart else model


def begin(model: Factored, m: Means, data: Data, choose: Choose, key: Key[Array, ""]) -> Shares:
    """The labels at the start: each chosen by itself, given the statistics of the globals."""
    here = settled(model, m)
    factors = here.factors(data)
    logits = jax.vmap(lambda factor: factors.terms.expected(m, factor))(factors.each)
    if factors.starts is not None:
        size = round(logits[0].size ** 0.5)
        logits = jax.nn.logsumexp(logits.reshape((-1, size, size)), axis=1)
    labels = jax.vmap(choose)(logits, jax.random.split(key, logits.shape[0]))
    return Shares(labels, together(factors, exact_prior(here), labels))


def one_pass(
    model: Factored, m: Means, data: Data, state: Shares, choose: Choose, key: Key[Array, ""]
) -> tuple[Shares, Float[Array, ""]]:
    """Choose every label in turn given all others. Also returns Σ_n log p(x_n | all other data)."""
    here = settled(model, m)
    factors, prior = here.factors(data), exact_prior(here)
    natural = together(factors, prior, state.labels)  # summed afresh, so that rounding does not build up
    keys = jax.random.split(key, state.labels.shape[0])
    walk = _along_chains if factors.starts is not None else _one_by_one
    labels, score = walk(factors, prior, natural, state.labels, choose, keys)
    return Shares(labels, together(factors, prior, labels)), score


def together(factors: Factors, prior: Blocks, labels: Float[Array, "n k"]) -> Natural:
    """The prior plus the statistics of all data: a derivative, because E log p(x, c) is affine in the statistics."""
    shares = labels * factors.live[:, None]
    if factors.starts is not None:
        before = jnp.concatenate([_first(labels)[None], labels[:-1]])
        before = jnp.where((factors.starts == ON)[:, None], before, _first(labels)[None])
        shares = before[:, :, None] * shares[:, None, :]

    def total(mean: Means) -> Float[Array, ""]:
        each = jax.vmap(lambda factor: factors.terms.expected(mean, factor))(factors.each).reshape(shares.shape)
        return jnp.sum(jnp.where(shares > 0, shares * jnp.where(shares > 0, each, 0.0), 0.0))

    added = jax.grad(total)(jax.tree.map(jnp.zeros_like, naturals(prior)))
    return jax.tree.map(jnp.add, naturals(prior), added)


def _one_by_one(
    factors: Factors, prior: Blocks, natural: Natural, labels: Array, choose: Choose, keys: Array
) -> tuple[Float[Array, "n k"], Float[Array, ""]]:
    terms, nothing = factors.terms, naturals(prior)

    def visit(natural: Natural, part: Any) -> tuple[Natural, tuple[Array, Array]]:
        factor, live, label, key = part
        rest = _minus(natural, terms.message(nothing, factor, label * live))
        logits = terms.tilt(with_naturals(prior, rest), factor, 1.0).log_terms
        fresh = choose(logits, key)
        score = jnp.where(live, jax.nn.logsumexp(logits), 0.0)
        return _plus(rest, terms.message(nothing, factor, fresh * live)), (fresh, score)

    _, (fresh, scores) = jax.lax.scan(visit, natural, (factors.each, factors.live, labels, keys))
    return fresh, jnp.sum(scores)


def _along_chains(
    factors: Factors, prior: Blocks, natural: Natural, labels: Array, choose: Choose, keys: Array
) -> tuple[Float[Array, "n k"], Float[Array, ""]]:
    assert factors.starts is not None
    terms, nothing, size = factors.terms, naturals(prior), labels.shape[1]
    on, none = factors.starts == ON, _first(labels)

    one = jax.tree.map(lambda leaf: leaf[0], factors.each)
    shape = jax.eval_shape(lambda factor: terms.expected(nothing, factor), one).shape  # (k, k), or these in one row

    def message(factor: Any, before: Array, after: Array, live: Bool[Array, ""]) -> Natural:
        return terms.message(nothing, factor, (before[:, None] * after[None] * live).reshape(shape))

    def logs(natural: Natural, factor: Any) -> Float[Array, "k k"]:
        return terms.tilt(with_naturals(prior, natural), factor, 1.0).log_terms.reshape((size, size))

    def visit(carry: tuple[Natural, Array], part: Any) -> tuple[tuple[Natural, Array], tuple[Array, Array]]:
        natural, last = carry
        (factor, live, goes_on, label), (next_factor, has_next, next_label), key = part
        before = jnp.where(goes_on, last, none)
        rest = _minus(natural, message(factor, before, label, live))
        rest = _minus(rest, message(next_factor, label, next_label, has_next))
        own = _average(before[:, None], logs(rest, factor))

        def ahead(value: Float[Array, " k"]) -> Float[Array, ""]:
            here = logs(_plus(rest, message(factor, before, value, live)), next_factor)
            return jnp.sum(_average((value[:, None] * next_label[None]), here))

        logits = own + jnp.where(has_next, jax.vmap(ahead)(jnp.eye(size)), 0.0)
        fresh = choose(logits, key)
        natural = _plus(rest, message(factor, before, fresh, live))
        natural = _plus(natural, message(next_factor, fresh, next_label, has_next))
        return (natural, fresh), (fresh, jnp.where(live, jax.nn.logsumexp(logits), 0.0))

    def ahead_of(leaf: Array) -> Array:
        return jnp.concatenate([leaf[1:], leaf[:1]])

    has_next = ahead_of(on & factors.live).at[-1].set(False)
    following = (jax.tree.map(ahead_of, factors.each), has_next, ahead_of(labels))
    parts = ((factors.each, factors.live, on, labels), following, keys)
    _, (fresh, scores) = jax.lax.scan(visit, (natural, none), parts)
    return fresh, jnp.sum(scores)


def _average(shares: Array, logs: Float[Array, "k k"]) -> Float[Array, " k"]:
    """Σ_i shares_i logs_i, where terms without a share may have log 0."""
    return jnp.sum(jnp.where(shares > 0, shares * jnp.where(shares > 0, logs, 0.0), 0.0), axis=0)


def _first(labels: Float[Array, "n k"]) -> Float[Array, " k"]:
    """The one-hot stand-in for the state before a sequence begins."""
    return jnp.zeros(labels.shape[1]).at[0].set(1.0)


def _plus(left: Natural, right: Natural) -> Natural:
    return jax.tree.map(jnp.add, left, right)


def _minus(left: Natural, right: Natural) -> Natural:
    return jax.tree.map(jnp.subtract, left, right)
