"""The one interface: a model is a prior and one scalar function.

`log_evidence(m, x, powers, key)` is, for each datum, the log of the sum (or integral) over its discrete (or
Gaussian) latents of exp{E log p(x, z | θ)}, every constant kept. It is affine in each block's statistics
separately, given what it sums out. With m = E_q[t(θ)] it is the local part of the bound; with m = t(θ) of a
draw it is log p(x | θ). Then, with F(m) = log_prior(m) + Σ_n log_evidence_n(m),

    message to block i = ∂F/∂m_i,        bound = F(m) + Σ_i entropy(q_i),

and coordinate ascent, stochastic and annealed steps, Gibbs sampling and expectation–maximisation are the few
lines below, the same for every model.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, Key

from .._module import Module
from ..errors import UnsupportedMethod
from ..families._family import Family
from ._blocks import (
    Conditional,
    Each,
    Group,
    Means,
    Posterior,
    Powers,
    Terms,
    Way,
    add,
    ascend_slices,
    column,
    draw_posterior,
    entropy,
    join_powers,
    means,
    member,
    move,
    power_rows,
    prior_terms,
    replace_slice,
    rows_sum,
)
from ._data import Data, over_blocks
from ._gibbs import conditional, draw_local, draw_slices
from .stochastic import Stochastic

__all__ = [
    "Conditional",
    "Each",
    "Group",
    "Means",
    "Model",
    "Posterior",
    "Powers",
    "Terms",
    "Walk",
    "Way",
    "add",
    "column",
    "draw_posterior",
    "entropy",
    "means",
]


Walk = Callable[..., tuple[Terms, dict[str, Family]]]  # see `Model.walk`


class Model(Module):
    """Base of every model. The last part, from `log_prior` on, is derived once and never overridden."""

    prior: eqx.AbstractVar[dict[str, Family | Conditional]]

    # ---- what a model's author writes -------------------------------------------------------------------

    @abstractmethod
    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        """Check the user's data, and return them as arrays with the model they complete (sizes, priors)."""

    @abstractmethod
    def log_evidence(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]: ...

    @abstractmethod
    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        """n data (as in `Data.values`) given a draw of the global blocks."""

    @abstractmethod
    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """A random start."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """The order of updates. Blocks that are coupled given the latents must be in different groups."""
        return (tuple(self.prior),)

    @property
    def local_groups(self) -> tuple[Group, ...]:
        """The local blocks that cannot be summed out, in the order of their updates."""
        return ()

    def local_prior(self, x: Any) -> dict[str, Family | Conditional]:
        return {}

    def initial_local(self, m: Means, x: Any) -> dict[str, Family]:
        """Where the local blocks of new data start: at their prior, given the globals."""
        local: dict[str, Family] = {}
        for name, p in self.local_prior(x).items():
            here = m | means(local)
            local[name] = p.family(p.natural(here)) if isinstance(p, Conditional) else p
        return local

    def packed(self, m: Means) -> Means:
        """The statistics as `log_evidence` meets them in every block of rows: linear work on them done once."""
        return m

    @property
    def apart(self) -> tuple[str, ...]:
        """Blocks that only other global blocks depend on: their messages need no walk over the data."""
        return ()

    def walk(
        self, m: Means, data: Data, way: Way = Way(), local: dict[str, Family] | None = None
    ) -> tuple[Terms, dict[str, Family]]:
        """`terms` as sweeps use it; a model may override it by a closed form, with a test that they agree."""
        return self.terms(m, data, way, local)

    def ascend_local(self, m: Means, x: Any, powers: Powers, q: dict[str, Family], steps: int) -> dict[str, Family]:
        """Coordinate ascent of the local blocks, `steps` times; a model may override it, as `walk`."""
        if not q or steps == 0:
            return q

        def step(_: Any, q: dict[str, Family]) -> dict[str, Family]:
            q = dict(q)
            for group in self.local_groups:
                names = (group.block,) if isinstance(group, Each) else group
                rest = means({name: family for name, family in q.items() if name not in names})

                def total(m_group: Means, rest: Means = rest) -> Float[Array, ""]:
                    return jnp.sum(self._datum(m | rest | m_group, x, powers, None))

                if isinstance(group, Each):
                    q[group.block] = ascend_slices(total, group.block, q[group.block], group.axis)
                else:
                    natural = jax.grad(total)(means({name: q[name] for name in names}))
                    q |= {name: q[name].with_natural(natural[name]) for name in names}
            return q

        return jax.lax.fori_loop(0, steps, step, q)

    def gibbs_local(
        self, key: Key[Array, ""], draws: dict[str, Any], data: Data, powers: Powers, local: dict[str, Any]
    ) -> dict[str, Any]:
        """Draw the local blocks given the globals; a model may override it, as `walk`."""
        return draw_local(self, key, draws, data, powers, local)

    def probes(self, q: Posterior, way: Way, rate: ArrayLike) -> Means:
        """Statistics, all zero, whose messages `reparametrised` needs from the first walk of a sweep."""
        return {}

    def reparametrised(self, blocks: dict[str, Family], messages: Means, data: Data) -> dict[str, Family]:
        """The blocks in better coordinates: a joint change that raises the bound, made after a group's update."""
        return blocks

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        """log p(x_new | data) under the posterior, a normalised density."""
        raise UnsupportedMethod(f"{type(self).__name__} has no predictive density for new data")

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        """n new data, in the user's coordinates, each with its own draw of the globals."""
        raise UnsupportedMethod(f"{type(self).__name__} cannot sample new data")

    def predict(self, q: Any, inputs: Any) -> Any:
        """Mean and variance of the target at each new input, for models of targets given inputs."""
        raise UnsupportedMethod(f"{type(self).__name__} has no targets to predict; see fit.log_predictive")

    def new_rows(self, data: Any) -> Any:
        """New data as arrays like `Data.values`."""
        raise UnsupportedMethod(f"{type(self).__name__} has no predictions for new data")

    def to_user(self, blocks: dict[str, Family]) -> dict[str, Family]:
        """The posterior in the user's coordinates."""
        return blocks

    def draws_to_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        return draws

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        """The columns of the table that `fit.summary()` prints, in the user's coordinates."""
        return {}

    def notes(self, data: Data) -> list[str]:
        """Sentences a user should know about this model and these data."""
        return []

    @property
    def stochastic(self) -> Stochastic:
        """Minibatches and step sizes that suit this model."""
        return Stochastic()

    @property
    def independent_rows(self) -> bool:
        """Whether rows are independent given the parameters: then they may be cut anywhere and drawn one by one."""
        return True

    def units(self, data: Data) -> int:
        """How many parts of the data minibatches are drawn from: rows, or what belongs together."""
        return data.size

    def minibatch(
        self, data: Data, chosen: Int[Array, " b"], stands_for: Float[Array, ""], ahead: Int[Array, " b"]
    ) -> Data:
        """These parts, weighted to stand for so many rows; for models whose rows are not independent. Those `ahead`
        will be asked for next."""
        raise UnsupportedMethod(f"{type(self).__name__} has no minibatches of its own")

    def at_hand(self, data: Data) -> tuple[Model, Data]:
        """The model and data in this process's memory, for what some rows can tell: all of them, unless they are
        elsewhere."""
        return self, data

    def piece(self, data: Any, run: int | None = None, size: int | None = None) -> Data:
        """New data as `Data`, filled up to `size` rows: with `run`, rows of which only so many at a time belong
        together, as a stream brings them; for models whose rows are not independent."""
        raise UnsupportedMethod(f"{type(self).__name__} cannot be fitted to a stream")

    @property
    def quick(self) -> bool:
        """Whether the model can take many minibatch steps at once, faster than one by one."""
        return False

    def quick_steps(
        self,
        blocks: dict[str, Family],
        x: Any,
        rows: Int[Array, "t b"],
        weights: Float[Array, "t b"],
        rates: Float[Array, " t"],
        powers: Float[Array, " t"],
        local_steps: int,
    ) -> dict[str, Family]:
        """The blocks after t steps, each on its rows of x with its rate (0: no step) and its power 1/T; local blocks
        start afresh."""
        raise UnsupportedMethod(f"{type(self).__name__} takes minibatch steps one by one")

    @property
    def rounding(self) -> float:
        """The relative rounding error of the bound."""
        return 1e-9

    # ---- derived, final ---------------------------------------------------------------------------------

    def log_prior(self, m: Means) -> Float[Array, ""]:
        """E log p(θ) as a function of the statistics."""
        return sum((jnp.sum(prior_terms(p, m, name)) for name, p in self.prior.items()), start=jnp.zeros(()))

    def terms(
        self,
        m: Means,
        data: Data,
        way: Way = Way(),
        local: dict[str, Family] | None = None,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Terms, dict[str, Family]]:
        """One walk over the data: the local value, the messages to the globals, and refreshed local blocks.

        Local blocks that are not given start afresh.
        """
        powers, local_steps = way
        ready, unpack = jax.vjp(self.packed, m)

        def block(part: Any, index: Array) -> tuple[Terms, dict[str, Family]]:
            x, weights, rows, q_local = part
            scaled = join_powers(powers, rows)
            block_key = None if key is None else jax.random.fold_in(key, index)
            q_local = self.ascend_local(m, x, scaled, q_local or self.initial_local(m, x), local_steps)
            m_local = means(q_local)

            def total(m_global: Means) -> Float[Array, ""]:
                return jnp.sum(weights * self._datum(m_global | m_local, x, scaled, block_key))

            value, messages = jax.value_and_grad(total)(ready)
            entropy = sum((rows_sum(q.entropy()) for q in q_local.values()), start=jnp.zeros(()))
            return Terms(value + jnp.sum(weights * entropy), messages), q_local

        rows = (data.values, data.weights, power_rows(powers), local or {})
        terms, refreshed = over_blocks(block, rows, *data.cuts)
        return Terms(terms.value, unpack(terms.messages)[0]), refreshed

    def bound(self, q: Posterior, data: Data, powers: Powers = Powers()) -> Float[Array, ""]:
        """The evidence lower bound, every constant kept (at temperature 1/power, the annealed bound)."""
        m = means(q.blocks)
        terms, _ = self.walk(m, data, Way(powers, local_steps=0), q.locals)
        return self.log_prior(m) + terms.value + entropy(q.blocks)

    def sweep(
        self, q: Posterior, data: Data, way: Way = Way(), rate: ArrayLike = 1.0, walk: Walk | None = None
    ) -> tuple[Posterior, Float[Array, ""]]:
        """Update every group in turn; returns the bound at the start, after the first local step.

        `walk` is `self.walk`, unless the data are elsewhere.
        """
        walk = walk or self.walk
        blocks, local = dict(q.blocks), q.locals
        bound: Float[Array, ""] | None = None
        for group in self.groups:
            names = (group.block,) if isinstance(group, Each) else group
            m = means(blocks)
            value, target = jax.value_and_grad(self.log_prior)(m)
            messages: Means = {}
            if bound is None or not (set(names) <= set(self.apart) or isinstance(group, Each)):
                terms, local = walk(m | self.probes(q, way, rate) if bound is None else m, data, way, local)
                messages = terms.messages
                target = {name: add(target[name], messages[name]) for name in target}
                bound = value + terms.value + entropy(blocks) if bound is None else bound
            if isinstance(group, Each):
                blocks, local = self._sweep_slices(group, Posterior(blocks, local), data, way, rate, walk)
            else:
                blocks |= {name: move(blocks[name], target[name], rate) for name in names}
                blocks = self.reparametrised(blocks, messages, data)
        assert bound is not None
        return Posterior(blocks, local), bound

    def gibbs(
        self,
        key: Key[Array, ""],
        draws: dict[str, Any],
        data: Data,
        powers: Powers = Powers(),
        local: dict[str, Any] | None = None,
        backwards: bool = False,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Draw every group in turn from its conditional given the rest; a new key, so new latents, for each.

        `backwards` takes the groups in the opposite order: the sweep run backwards in time.
        """
        draws, local = dict(draws), dict(local or {})
        order = list(enumerate(self.groups))
        for number, group in reversed(order) if backwards else order:
            group_key = jax.random.fold_in(key, number)
            if isinstance(group, Each):
                draws[group.block] = draw_slices(self, group_key, group, draws, data, powers, local, backwards)
                continue
            key_data, key_draw = jax.random.split(group_key)
            natural = conditional(self, key_data, draws, data, powers, local)
            for index, name in enumerate(group):
                family = self._family(name, natural[name])
                draws[name] = family.sample(jax.random.fold_in(key_draw, index))
        if self.local_groups:
            local = self.gibbs_local(jax.random.fold_in(key, len(self.groups)), draws, data, powers, local)
        return draws, local

    def sample_prior(self, key: Key[Array, ""]) -> dict[str, Any]:
        """A draw of all global blocks, parents before children."""
        draws: dict[str, Any] = {}
        m: Means = {}
        waiting = dict(self.prior)
        while waiting:
            for name, p in list(waiting.items()):
                if isinstance(p, Conditional) and not all(parent in m for parent in p.parents):
                    continue
                key, key_draw = jax.random.split(key)
                family = p.family(p.natural(m)) if isinstance(p, Conditional) else p
                draws[name] = family.sample(key_draw)
                m[name] = family.statistics(draws[name])
                del waiting[name]
        return draws

    def statistics(self, draws: dict[str, Any]) -> Means:
        """t(θ) of a draw of the global blocks."""
        m: Means = {}
        for name, p in self.prior.items():
            if isinstance(p, Conditional):
                continue
            m[name] = p.statistics(draws[name])
        for name, p in self.prior.items():
            if isinstance(p, Conditional):
                m[name] = self._child_family(p, m, draws).statistics(draws[name])
        return m

    def log_likelihood(
        self, draws: dict[str, Any], data: Data, powers: Powers = Powers(), local: dict[str, Any] | None = None
    ) -> Float[Array, ""]:
        """Σ_n log p(x_n | θ, local blocks), to the powers, at a draw; other latents are summed out."""
        m = self.statistics(draws)
        m_local = self._local_statistics(m, data, local or {})

        def block(part: Any, _: Array) -> tuple[Float[Array, ""], tuple[()]]:
            x, weights, rows, here = part
            return jnp.sum(weights * self.log_evidence(m | here, x, join_powers(powers, rows))), ()

        rows = (data.values, data.weights, power_rows(powers), m_local)
        return over_blocks(block, rows, *data.cuts)[0]

    def log_joint(
        self, draws: dict[str, Any], data: Data, powers: Powers = Powers(), local: dict[str, Any] | None = None
    ) -> Float[Array, ""]:
        """log p(θ) + Σ_n log p(x_n | θ, local blocks)^powers at a draw (without the local blocks' prior)."""
        return self.log_prior(self.statistics(draws)) + self.log_likelihood(draws, data, powers, local)

    # ---- pieces -----------------------------------------------------------------------------------------

    def _with(self, **fields: Any) -> Self:
        """The same model with some fields replaced (`eqx.tree_at` cannot replace static ones)."""
        copy = object.__new__(type(self))
        for field in dataclasses.fields(self):
            object.__setattr__(copy, field.name, fields.get(field.name, getattr(self, field.name)))
        return copy

    def _datum(self, m: Means, x: Any, powers: Powers, key: Key[Array, ""] | None) -> Float[Array, " n"]:
        """The part of F that belongs to each datum: evidence and prior of its local blocks."""
        value = self.log_evidence(m, x, powers, key)
        for name, p in self.local_prior(x).items():
            value = value + rows_sum(prior_terms(p, m, name))
        return value

    def _sweep_slices(self, group: Each, q: Posterior, data: Data, way: Way, rate: ArrayLike, walk: Walk) -> Posterior:
        blocks = q.blocks
        size = blocks[group.block].batch_shape[group.axis]

        def body(index: Array, carry: tuple[Family, dict[str, Family]]) -> tuple[Family, dict[str, Family]]:
            block, local = carry
            m = means(blocks | {group.block: block})
            terms, local = walk(m, data, way, local)
            target = add(jax.grad(self.log_prior)(m), terms.messages)[group.block]
            return replace_slice(block, move(block, target, rate), group.axis, index), local

        block, local = jax.lax.fori_loop(0, size, body, (blocks[group.block], q.locals))
        return Posterior(blocks | {group.block: block}, local)

    def sample_local_prior(self, key: Key[Array, ""], x: Any, draws: dict[str, Any]) -> dict[str, Any]:
        """A draw of the local blocks from their prior given the globals."""
        m = self.statistics(draws)
        local: dict[str, Any] = {}
        for index, (name, p) in enumerate(self.local_prior(x).items()):
            family = p.family(p.natural(m)) if isinstance(p, Conditional) else p
            local[name] = family.sample(jax.random.fold_in(key, index))
            m = m | {name: family.statistics(local[name])}
        return local

    def _local_statistics(self, m: Means, data: Data, local: dict[str, Any]) -> Means:
        result: Means = {}
        for name, p in self.local_prior(data.values).items():
            family = p.family(p.natural(m | result)) if isinstance(p, Conditional) else p
            result[name] = family.statistics(local[name])
        return result

    def _family(self, name: str, natural: Any) -> Family:
        return member(self.prior[name], natural)

    def _child_family(self, p: Conditional, m: Means, draws: dict[str, Any]) -> Family:
        for parent in p.parents:
            if parent not in m:
                grandparent = self.prior[parent]
                assert isinstance(grandparent, Conditional)
                m[parent] = self._child_family(grandparent, m, draws).statistics(draws[parent])
        return p.family(p.natural(m))
