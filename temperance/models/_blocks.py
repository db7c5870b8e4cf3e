"""The elements of models: blocks and their groups, powers and temperatures, and operations on dicts of blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from .._module import Module
from ..errors import UnsupportedMethod
from ..families._family import Family
from ..numerics.host import softmax
from ._data import Data

# Powers that each datum may have, for local variational tempering.
#
# Every datum chooses between the powers s_m, by the cost of each: the integral of its tempered density,
#
#     r_m ∝ exp{s_m E log p(x_n | z_n, θ) − E log c_n(s_m)},      c(s) = ∫ p(x | z_n, θ)^s dx.
#
# For Gaussian noise c is a volume and E[s] a function of the distance of the datum alone, which a table holds.
_PLACES, _MIDDLE = 8192, 8.0  # entries of the table, and the distance (per number) at its middle
_FARTHEST = 1e15  # larger distances count as infinite


class Heat(eqx.Module):
    """The powers that each datum may have, and a table of their costs."""

    powers: Float[Array, " m"]
    table: Float[Array, "..."]  # E[s] of a Gaussian by its distance; for words Γ(λ + s)/Γ(λ + 1) at a few powers
    nodes: Float[Array, "j m"] | None = None  # for words: interpolates from a few powers to all
    costs: Float[Array, "k m"] | None = None  # for words: cost of each topic at each power
    hot: Bool[Array, ""] | bool = True  # if False, every datum keeps its power


def gaussian_heat(powers: np.ndarray, width: int) -> Heat:
    """The table for data of `width` numbers with Gaussian noise."""
    # Equal steps of t/(8 + t), with t the distance per number: for large t, E[s] ∝ 1/t is a straight line in these.
    place = np.linspace(0.0, 1.0, _PLACES)[:-1]
    distance = _MIDDLE * width * place / (1.0 - place)
    # r_m ∝ s_m^(d/2) exp{−s_m M/2}, the tempered density: E[s] is a function of the distance M/2 alone.
    logits = 0.5 * width * np.log(powers) - distance[:, None] * powers
    table = np.append(softmax(logits, axis=1) @ powers, powers.min())
    return Heat(jnp.asarray(powers), jnp.asarray(table))


def expected_power(
    heat: Heat, distance: Float[Array, " n"], width: int, before: Float[Array, " n"]
) -> Float[Array, " n"]:
    """E[s] of each datum from its distance, interpolated in the table; its power `before` if the heat is off."""
    distance = jnp.clip(distance, 0.0, _FARTHEST)
    place = (_PLACES - 1) * (distance / (distance + _MIDDLE * width))
    low = jnp.minimum(place.astype(jnp.int32), _PLACES - 2)
    below, above = (heat.table.at[low + i].get(mode="promise_in_bounds") for i in (0, 1))
    return jnp.where(heat.hot, below + (place - low) * (above - below), before)


Respond = Callable[[Array], Array]  # a new power, given the energy

Means = dict[str, Any]  # expected (or drawn) statistics, a vector for each block


class Conditional(Module):
    """A hierarchical prior such as p(w | α): natural parameters affine in each parent's statistics."""

    parents: eqx.AbstractVar[tuple[str, ...]]

    @abstractmethod
    def natural(self, m: Means) -> Any: ...

    @abstractmethod
    def log_normaliser(self, m: Means) -> Float[Array, "*b"]: ...

    @abstractmethod
    def family(self, natural: Any) -> Family:
        """The member of the child's family with this natural parameter."""


class Powers(NamedTuple):
    """Exponents of the likelihood and of the latents' prior: scalars, or one for each datum.

    (β, 1) is the path from prior to posterior; (1/T, 1/T) is temperature T. Globals are never tempered.
    """

    observation: ArrayLike = 1.0
    latent: ArrayLike = 1.0


class Way(NamedTuple):
    """The settings of a walk over the data.

    `local_steps` is the number of passes over local blocks. With `energy` the walk also reports the energy that a
    temperature acts on (both powers are then the same). With `heat` each datum finds an individual power after its
    latents are updated, and its messages have that power.
    """

    powers: Powers = Powers()
    local_steps: int = 1
    energy: bool = False
    heat: Heat | None = None


class Each(NamedTuple):
    """The slices of a stacked block along one of its batch axes, updated in turn."""

    block: str
    axis: int = 0


Group = tuple[str, ...] | Each  # the blocks of a tuple are updated together


class Posterior(NamedTuple):
    """The global blocks, and the local blocks (with a leading axis of data) that cannot be summed out."""

    blocks: dict[str, Family]
    locals: dict[str, Family]


class Walked(NamedTuple):
    """The results of one walk over the data."""

    value: Float[Array, ""]  # Σ_n log_evidence_n, with the local blocks' prior and entropy
    messages: Means  # its gradient in the global statistics
    energy: Array | None  # Σ_n E log p(x_n, z_n | θ), or the term of each datum where each has its own power
    local: dict[str, Any]  # the local blocks after the walk
    power: Float[Array, " n"] | None = None  # the power of each datum, with `Way.heat`


class Swept(NamedTuple):
    """The results of one sweep over all groups."""

    posterior: Posterior
    bound: Float[Array, ""]  # at the start, after the first local step, at the temperature of the sweep
    energy: Array | None = None  # likewise
    power: Array | None = None  # at which globals were updated: the sweep's power, or the response to the energy
    acting: Array | None = None  # the energy of that response


def is_cold(powers: Powers) -> bool:
    """Whether these powers are known to be 1 without looking into compiled values."""
    return all(isinstance(power, float) and power == 1.0 for power in powers)


def column(power: ArrayLike) -> ArrayLike:
    """A power shaped so that it can multiply an array (datum, latent)."""
    return power[:, None] if jnp.ndim(power) == 1 else power  # type: ignore[index]


def means(blocks: dict[str, Family]) -> Means:
    return {name: family.mean() for name, family in blocks.items()}


def draw_posterior(key: Key[Array, ""], q: Posterior) -> dict[str, Any]:
    """A draw of every global block, whatever their order in the dictionary."""
    keys = jax.random.split(key, len(q.blocks))
    return {name: q.blocks[name].sample(k) for name, k in zip(sorted(q.blocks), keys, strict=True)}


def entropy(blocks: dict[str, Family]) -> Float[Array, ""]:
    return sum((jnp.sum(family.entropy()) for family in blocks.values()), start=jnp.zeros(()))


def add(left: Any, right: Any) -> Any:
    return jax.tree.map(jnp.add, left, right)


def prior_terms(p: Family | Conditional, m: Means, name: str) -> Float[Array, "*b"]:
    if isinstance(p, Conditional):
        return p.natural(m).dot(m[name]) - p.log_normaliser(m)
    return p.natural.dot(m[name]) - p.log_normaliser()


def member(p: Family | Conditional, natural: Any) -> Family:
    return p.family(natural) if isinstance(p, Conditional) else p.with_natural(natural)


def rows_sum(value: Float[Array, "n *rest"]) -> Float[Array, " n"]:
    """Sum everything but the leading axis of data."""
    return jnp.sum(value, axis=tuple(range(1, value.ndim)))


def power_rows(powers: Powers) -> dict[str, Array]:
    """The powers that differ from datum to datum, to be cut into blocks with the data."""
    return {name: p for name, p in powers._asdict().items() if jnp.ndim(p) == 1}


def join_powers(powers: Powers, rows: dict[str, Array]) -> Powers:
    return powers._replace(**rows)


def move(block: Family, target: Any, rate: ArrayLike) -> Family:
    if isinstance(rate, float) and rate == 1.0:
        return block.with_natural(target)
    return block.with_natural(block.natural.mix(target, rate))


def replace_slice(old: Any, new: Any, axis: int, index: Array) -> Any:
    """`old` with its slice `index` along a batch axis taken from `new`."""

    def replace(a: Array, b: Array) -> Array:
        fresh = jax.lax.dynamic_index_in_dim(b, index, axis, keepdims=True)
        return jax.lax.dynamic_update_slice_in_dim(a, fresh, index, axis)

    return jax.tree.map(replace, old, new)


def ascend_slices(total: Callable[[Means], Array], name: str, block: Family, axis: int) -> Family:
    """Coordinate ascent over the slices of one local block."""

    def body(index: Array, block: Family) -> Family:
        natural = jax.grad(total)({name: block.mean()})[name]
        return replace_slice(block, block.with_natural(natural), axis, index)

    return jax.lax.fori_loop(0, block.batch_shape[axis], body, block)


# ---- tempering --------------------------------------------------------------------------------------------


class Normaliser(NamedTuple):
    """log C at each temperature, its standard error (0 if it is exact), and the number of samples used."""

    log: np.ndarray
    error: np.ndarray
    samples: int = 0


def exact(log: np.ndarray) -> Normaliser:
    return Normaliser(log, np.zeros(len(log)))


class Heated(NamedTuple):
    """The terms and messages of each datum at its present power, and the power that it finds."""

    value: Float[Array, " n"]
    energy: Float[Array, " n"]
    power: Float[Array, " n"]
    messages: Callable[[Float[Array, " n"]], Means]  # given the weights of the data, at the powers that they found


class Tempering(Module):
    """The functions that tempering needs from a model besides `log_evidence`: energy, normaliser and heat."""

    model: Any

    @property
    def name(self) -> str:
        """The name of the model in the errors of `heat`."""
        return type(self.model).__name__

    # ---- one temperature for all ------------------------------------------------------------------------------

    @property
    def melts(self) -> bool:
        """Whether there can be a critical temperature, above which all parts are equal."""
        return True

    def log_base(self, data: Data) -> Float[Array, ""] | None:
        """Σ_n log h(x_n), if E log p(x, z | θ) is this base measure plus a term linear in all statistics together; else
        None."""
        return None

    def acting_energy(self, blocks: dict[str, Family], walked: Walked, data: Data) -> Array:
        """The energy that belongs to the model's tempered normaliser."""
        assert walked.energy is not None
        return walked.energy

    def log_normaliser(self, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
        """log C(T) for this number of data; by sampling if a model has no closed form."""
        from ..evidence.tempered_normaliser import by_sampling

        return by_sampling(self.model, temperatures, data, seed)

    def log_volume(self, m: Means, x: Any, power: Float[Array, ""], key: Key[Array, ""] | None) -> Float[Array, " n"]:
        """log Σ_z ∫ p(x, z | θ)^power dx of each row, integrated over its observed entries: a missing entry has no
        volume. As in `log_evidence`, with a key every sum is a draw, so that derivatives are the statistics of
        simulated latents and data."""
        raise UnsupportedMethod(
            f"{type(self.model).__name__} has no tempered normaliser, which tp.VT needs; use tp.Annealed or tp.VB"
        )

    def known_gaussians(self, data: Data) -> float:
        """About how many numbers of these data are Gaussian, so that their part of the volume is known in closed
        form."""
        return 0.0

    # ---- one temperature for each datum -----------------------------------------------------------------------

    def heat(self, data: Data, powers: np.ndarray) -> Heat:
        """The powers that each datum may have, with their costs; refuses data without a single noise to temper."""
        raise UnsupportedMethod(
            "tp.LVT is for Gaussian, Bernoulli and categorical mixtures without missing values, linear regressions, "
            "factor analysis without missing values, factorial mixtures and LDA, not for "
            f"{self.name}; use tp.Annealed or tp.VB"
        )

    def priced(self, heat: Heat, blocks: dict[str, Family]) -> Heat:
        """The heat with the costs of the powers under these globals, if the costs depend on them."""
        return heat

    def heated(self, m: Means, ready: Means, m_local: Means, x: Array, power: Float[Array, " n"], heat: Heat) -> Heated:
        """The terms of each datum at its power, and the power that it finds; `ready` holds the packed statistics to
        which messages go. At fixed latents the messages of a datum are proportional to its power. This default takes
        derivatives in both powers, for models whose data have one noise whatever their latents are."""

        def rows(m_global: Means, observation: Array, latent: Array) -> Float[Array, " n"]:
            return self.model._datum(m_global | m_local, x, Powers(observation, latent), None)

        width = self.numbers_each(x)
        value, back = jax.vjp(rows, ready, power, power)
        _, observed, latent = back(jnp.ones_like(value))
        fresh = expected_power(heat, self.log_peak(ready, width) - observed, width, power)
        return Heated(value, observed + latent, fresh, lambda weights: back(weights * fresh / power)[0])

    def numbers_each(self, x: Any) -> int:
        """How many numbers a datum has."""
        return int(x.shape[1])

    def log_peak(self, m: Means, width: int) -> Float[Array, ""]:
        """E log of a datum's highest density, which must not depend on its latents."""
        raise AssertionError("a model with `heat` has `log_peak` or `heated`")


# ---- better coordinates, for sweeps that would creep along a ridge ------------------------------------------------


class Reparametrising(ABC):
    """A model that has a joint change of its blocks that raises the bound."""

    @abstractmethod
    def probes(self, q: Posterior, way: Way, rate: ArrayLike) -> Means:
        """Statistics, all zero, whose messages `reparametrised` needs from the first walk of a sweep."""

    @abstractmethod
    def reparametrised(self, blocks: dict[str, Family], messages: Means, data: Data) -> dict[str, Family]:
        """The blocks in better coordinates, after a group's update."""
