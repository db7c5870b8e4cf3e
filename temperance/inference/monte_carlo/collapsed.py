"""Collapsed Gibbs sampling of a mixture: the globals are integrated out and only the labels are drawn.

    p(z | x, β) ∝ Π_j exp{A(η_j + β Σ_n z_nj T(x_n)) − A(η_j)} · B(δ + counts)/B(δ)

which is thesis (4.56) as corrected in the errata: ∫ p(x | θ, z)^β p(θ) dθ, not p(x | z)^β. Data are visited one
after the other, so a sweep costs a loop over them; it mixes better than `Gibbs` where components overlap.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ...errors import UnsupportedMethod
from ...families import Dirichlet
from ...families._family import Family
from ...models import Data, Model
from ...models._answers import Enumerable
from .._method import Info
from .gibbs import Gibbs


class Labels(NamedTuple):
    """The component of each datum, and the statistics that the labels give to each block."""

    labels: Int[Array, " n"]
    counts: Float[Array, " k"]
    components: Any  # natural parameters, one for each component


@dataclasses.dataclass(frozen=True)
class CollapsedGibbs(Gibbs):
    """Like `Gibbs`, for mixtures: labels one by one, with weights and component parameters integrated out.

    A draw of the globals given the labels is kept every `thin` sweeps.
    """

    row_by_row: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "collapsed Gibbs"

    def prepare(self, model: Model) -> Model:
        model = super().prepare(model)
        plain = isinstance(model, Enumerable) and isinstance(model.prior.get("weights"), Dirichlet)
        if not plain or not model.one_by_one:  # type: ignore[attr-defined]
            raise UnsupportedMethod(
                f"collapsed Gibbs needs a mixture with Dirichlet weights and no missing values, not this "
                f"{type(model).__name__}; use tp.Gibbs"
            )
        return model

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Labels:  # type: ignore[override]
        assert isinstance(model, Enumerable)
        key_start, key_labels = jax.random.split(key)
        start = super().init(key_start, model, data)
        logits = model.log_joint_z(model.statistics(start.draws), data.values)
        return count(model, data, jax.random.categorical(key_labels, logits), jnp.ones(()))

    def step(self, key: Key[Array, ""], model: Model, state: Labels, data: Data) -> tuple[Labels, Info]:  # type: ignore[override]
        assert isinstance(model, Enumerable)

        def one(number: Array, state: Labels) -> Labels:
            return sweep(jax.random.fold_in(key, number), model, state, data, jnp.ones(()))

        state = jax.lax.fori_loop(1, self.thin + 1, one, state)
        draws = draw_globals(jax.random.fold_in(key, 0), model, state)
        return state, {"draws": draws, "log_joint": model.log_joint(draws, data)}


def count(model: Enumerable, data: Data, labels: Int[Array, " n"], beta: Float[Array, ""]) -> Labels:
    """The statistics of given labels."""
    share = jax.nn.one_hot(labels, model.n_components, dtype=jnp.float64) * data.weights[:, None]
    statistics = jax.tree.map(
        lambda leaf: beta * jnp.tensordot(share, leaf, axes=(0, 0)), model.pair.statistics(data.values)
    )
    return Labels(labels, jnp.sum(share, axis=0), _components(model).natural + statistics)


def sweep(key: Key[Array, ""], model: Enumerable, state: Labels, data: Data, beta: Float[Array, ""]) -> Labels:
    """Every label in turn, given all others."""
    components, weights = _components(model), model.prior["weights"]
    assert isinstance(weights, Dirichlet)
    n = data.weights.shape[0]
    statistics = model.pair.statistics(data.values) * beta
    noise = jax.random.gumbel(key, (n, model.n_components))
    concentration = weights.concentration

    def visit(carry: tuple[Array, Any], datum: Any) -> tuple[tuple[Array, Any], Array]:
        counts, natural = carry
        label, own, weight, noise = datum

        def move(sign: float, label: Array) -> tuple[Array, Any]:
            share = sign * weight * jax.nn.one_hot(label, model.n_components, dtype=jnp.float64)
            return counts + share, natural + jax.tree.map(lambda leaf: leaf[None], own) * share

        counts, natural = move(-1.0, label)
        apart = components.with_natural(natural)
        together = apart + jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(counts), *leaf.shape)), own)
        logits = jnp.log(concentration + counts) + together.log_normaliser() - apart.log_normaliser()
        fresh = jnp.argmax(logits + noise)
        counts, natural = move(1.0, fresh)
        return (counts, natural), fresh

    datum = (state.labels, statistics, data.weights, noise)
    _, labels = jax.lax.scan(visit, (state.counts, state.components), datum)
    # The statistics are summed afresh, so that rounding does not build up over the sweeps.
    return count(model, data, labels, beta)


def draw_globals(key: Key[Array, ""], model: Enumerable, state: Labels) -> dict[str, Any]:
    """Weights and component parameters given the labels."""
    key_weights, key_components = jax.random.split(key)
    weights = model.prior["weights"]
    assert isinstance(weights, Dirichlet)
    posterior = Dirichlet.from_natural(weights.natural + type(weights.natural)(state.counts))
    return {
        "weights": posterior.sample(key_weights),
        "components": _components(model).with_natural(state.components).sample(key_components),
    }


def _components(model: Enumerable) -> Family:
    family = model.prior["components"]
    assert isinstance(family, Family)
    return family
