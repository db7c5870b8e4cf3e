"""Collapsed Gibbs sampling: the globals are integrated out and only the labels are drawn (`inference/collapsed.py`).

Data are visited one after the other, so a sweep costs a loop over them; it mixes better than `Gibbs` where components
overlap. Hyperparameters, on which only other parameters depend (a concentration), are drawn given these parameters.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ...models import Data, Model
from ...models._answers import Collapsible, summed
from ...models._factors import Factored
from .._method import Info
from ..collapsed import Shares, begin, one_pass, require_collapsible
from .collapsed_topics import CollapsedTopics
from .gibbs import Gibbs


class Chain(NamedTuple):
    """One chain: the labels, and the last draw of the globals given them."""

    shares: Shares
    draws: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class CollapsedGibbs(Gibbs):
    """Like `Gibbs`, for mixtures, hidden Markov models, graphs with discrete latents and topics, but with all
    parameters integrated out: labels (in topic models of tokens) are drawn one by one.

    A draw of the globals given the labels is kept every `thin` sweeps.
    """

    row_by_row: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "collapsed Gibbs"

    def prepare(self, model: Model) -> Model:
        model = super().prepare(model)
        if isinstance(model, Collapsible):
            model.as_collapsed()  # refuses topics whose shares have another prior
            return model
        return require_collapsible(self.name, summed(model), "tp.Gibbs")

    def complete(self, model: Model, data: Data) -> Any:
        method = super().complete(model, data)
        if isinstance(model, Collapsible):
            return CollapsedTopics(self.draws, self.warmup, self.chains, self.thin)
        return method

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Chain:  # type: ignore[override]
        assert isinstance(model, Factored)
        key_start, key_labels = jax.random.split(key)
        draws = super().init(key_start, model, data).draws
        return Chain(begin(model, model.statistics(draws), data, pick, key_labels), draws)

    def step(self, key: Key[Array, ""], model: Model, state: Chain, data: Data) -> tuple[Chain, Info]:  # type: ignore[override]
        assert isinstance(model, Factored)

        def sweep(number: Array, state: Chain) -> Chain:
            key_labels, key_draws = jax.random.split(jax.random.fold_in(key, number))
            shares, _ = one_pass(model, model.statistics(state.draws), data, state.shares, pick, key_labels)
            return Chain(shares, draw_globals(key_draws, model, state.draws, shares))

        state = jax.lax.fori_loop(0, self.thin, sweep, state)
        return state, {"draws": state.draws, "log_joint": model.log_joint(state.draws, data)}


def pick(logits: Float[Array, " k"], key: Key[Array, ""]) -> Float[Array, " k"]:
    """A draw, one-hot."""
    return jax.nn.one_hot(jax.random.categorical(key, logits), logits.shape[0], dtype=jnp.float64)


def draw_globals(key: Key[Array, ""], model: Model, draws: dict[str, Any], shares: Shares) -> dict[str, Any]:
    """The parameters given the labels, then the hyperparameters given the parameters."""
    draws, keys = dict(draws), dict(zip(draws, jax.random.split(key, len(draws)), strict=True))
    for name, natural in shares.natural.items():
        draws[name] = model._family(name, natural).sample(keys[name])
    for name in (name for name in model.apart if name in model.prior):
        natural = jax.grad(model.log_prior)(model.statistics(draws))[name]
        draws[name] = model._family(name, natural).sample(keys[name])
    return draws
