"""The contract: a model is a prior and one scalar function.

`log_evidence(m, x, powers, key)` is, for each datum, the log of the sum (or integral) over its discrete (or
Gaussian) latents of exp{E log p(x, z | θ)}, every constant kept. It is affine in each block's statistics
separately, given what it sums out. With m = E_q[t(θ)] it is the local part of the bound; with m = t(θ) of a
draw it is log p(x | θ); with a key its derivative is a draw of the latents. All else is derived (`_derive.py`).
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, Self, TypeVar

import equinox as eqx
from jaxtyping import Array, ArrayLike, Float, Key

from .._module import Module
from ..cards import Card
from ..families._family import Family
from . import _derive
from ._about import Symmetry, Units, Words, model_card
from ._blocks import (
    Conditional,
    Each,
    Group,
    Means,
    Posterior,
    Powers,
    Reparametrising,
    Swept,
    Tempering,
    Walked,
    Way,
    add,
    column,
    draw_posterior,
    entropy,
    means,
)
from ._data import Data, RowAccess

__all__ = [
    "Conditional",
    "Each",
    "Group",
    "Means",
    "Model",
    "Posterior",
    "Powers",
    "Swept",
    "Walked",
    "Way",
    "add",
    "column",
    "draw_posterior",
    "entropy",
    "means",
]


M = TypeVar("M", bound="Model")


class Model(Card, Module):
    """Base of every model."""

    prior: eqx.AbstractVar[dict[str, Family | Conditional]]

    # ---- what every author writes -------------------------------------------------------------------------

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

    # ---- how blocks hang together: by default all are global and updated together ---------------------------

    @property
    def groups(self) -> tuple[Group, ...]:
        """The order of updates. Blocks that are coupled given the latents must be in different groups."""
        return (tuple(self.prior),)

    @property
    def apart(self) -> tuple[str, ...]:
        """Blocks that only other global blocks depend on: their messages need no walk over the data."""
        return ()

    @property
    def unconjugate(self) -> dict[str, bool]:
        """Normal blocks that are not conjugate, and whether `log_evidence` is not convex in their statistics either.

        The gradient at a draw is then a proposal, which Gibbs sampling corrects by Metropolis–Hastings; without
        convexity a whole step may overshoot, and a sweep halves it until the bound rises.
        """
        return {}

    @property
    def local_groups(self) -> tuple[Group, ...]:
        """The local blocks that cannot be summed out, in the order of their updates."""
        return ()

    def local_prior(self, x: Any) -> dict[str, Family | Conditional]:
        return {}

    # ---- parts, each with a contract of its own --------------------------------------------------------------

    @property
    def rows(self) -> RowAccess:
        """How the rows of the data may be cut."""
        return RowAccess(self)

    @property
    def units(self) -> Units:
        """The coordinates in which the model works, and the maps to the user's and back."""
        return Units()

    @property
    def tempering(self) -> Tempering:
        """The model's energy, its tempered normaliser, and the costs of powers."""
        return Tempering(self)

    # ---- numbers ----------------------------------------------------------------------------------------------

    def packed(self, m: Means) -> Means:
        """The statistics in the form that `log_evidence` takes for every block of rows, so that linear work is done
        once."""
        return m

    @property
    def rounding(self) -> float:
        """The relative rounding error of the bound."""
        return 1e-9

    # ---- for people: what only some models can answer is in `_answers.py` -----------------------------------

    @property
    def symmetry(self) -> Symmetry | None:
        """The parts that can change places, or None."""
        return None

    @property
    def words(self) -> Words:
        return Words()

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        """The columns of the table that `fit.summary()` prints, in the user's coordinates."""
        return {}

    def notes(self, data: Data) -> list[str]:
        """Sentences a user should know about this model and these data."""
        return []

    def _card(self) -> str:
        return model_card(self)

    # ---- derived, final: see `_derive.py` -------------------------------------------------------------------

    log_prior = _derive.log_prior
    walk = _derive.walk
    sweep = _derive.sweep
    update = _derive.update
    bound = _derive.bound
    gibbs = _derive.gibbs
    sample_prior = _derive.sample_prior
    sample_local_prior = _derive.sample_local_prior
    statistics = _derive.statistics
    log_likelihood = _derive.log_likelihood
    log_joint = _derive.log_joint
    initial_local = _derive.initial_local
    ascend_local = _derive.ascend_local
    gibbs_local = _derive.gibbs_local
    _datum = _derive.datum
    _local_statistics = _derive.local_statistics
    _family = _derive.family

    def _with(self, **fields: Any) -> Self:
        """A copy of the model with some fields replaced (`eqx.tree_at` cannot replace static ones)."""
        return self._as(type(self), **fields)

    def _as(self, kind: type[M], **fields: Any) -> M:
        """A model of another class with the fields of this one."""
        copy = object.__new__(kind)
        for field in dataclasses.fields(self):
            object.__setattr__(copy, field.name, fields.get(field.name, getattr(self, field.name)))
        return copy


# ---- a model made of another one ---------------------------------------------------------------------------


class Wrapped(Model, Reparametrising):
    """A model that delegates to `inner` whatever it does not define itself; its data are prepared already."""

    inner: eqx.AbstractVar[Any]

    @property  # type: ignore[misc]  # a field of other models
    def prior(self) -> dict[str, Family | Conditional]:  # type: ignore[override]
        return self.inner.prior

    @property
    def groups(self) -> tuple[Group, ...]:
        return self.inner.groups

    @property
    def local_groups(self) -> tuple[Group, ...]:
        return self.inner.local_groups

    @property
    def apart(self) -> tuple[str, ...]:
        return self.inner.apart

    @property
    def unconjugate(self) -> dict[str, bool]:
        return self.inner.unconjugate

    @property
    def rounding(self) -> float:
        return self.inner.rounding

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        raise NotImplementedError("the data are prepared already")

    def local_prior(self, x: Any) -> dict[str, Family | Conditional]:
        return self.inner.local_prior(x)

    def log_evidence(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        return self.inner.log_evidence(m, x, powers, key)

    def probes(self, q: Posterior, way: Way, rate: ArrayLike) -> Means:
        return self.inner.probes(q, way, rate) if isinstance(self.inner, Reparametrising) else {}

    def reparametrised(self, blocks: dict[str, Family], messages: Means, data: Data) -> dict[str, Family]:
        known = isinstance(self.inner, Reparametrising)
        return self.inner.reparametrised(blocks, messages, data) if known else blocks

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        return self.inner.simulate(key, draws, n)

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        return self.inner.initial(key, data)
