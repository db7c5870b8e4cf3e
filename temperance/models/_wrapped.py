"""A model made of another one, to which it passes on whatever it does not say itself."""

from __future__ import annotations

from typing import Any, Self

import equinox as eqx
from jaxtyping import Array, ArrayLike, Float, Key

from ..families._family import Family
from ._answers import Predicting, Restarting
from ._data import Data, Stochastic
from ._model import Conditional, Group, Means, Model, Posterior, Powers, Way


class Wrapped(Model, Predicting, Restarting):
    """`inner`, with some of it done otherwise. It is complete: its data are prepared already."""

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
    def stochastic(self) -> Stochastic:
        return self.inner.stochastic

    @property
    def rounding(self) -> float:
        return self.inner.rounding

    def log_unit(self, data: Data) -> Float[Array, ""] | float:
        return self.inner.log_unit(data)

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        raise NotImplementedError("the data are prepared already")

    def local_prior(self, x: Any) -> dict[str, Family | Conditional]:
        return self.inner.local_prior(x)

    def log_evidence(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        return self.inner.log_evidence(m, x, powers, key)

    def probes(self, q: Posterior, way: Way, rate: ArrayLike) -> Means:
        return self.inner.probes(q, way, rate)

    def reparametrised(self, blocks: dict[str, Family], messages: Means, data: Data) -> dict[str, Family]:
        return self.inner.reparametrised(blocks, messages, data)

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        return self.inner.simulate(key, draws, n)

    def kind_of_restart(self, number: int, data: Data) -> str | None:
        return self.inner.kind_of_restart(number, data) if isinstance(self.inner, Restarting) else None

    def starting(self, kind: str) -> Self:
        return eqx.tree_at(lambda model: model.inner, self, self.inner.starting(kind))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        return self.inner.initial(key, data)

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        return self.inner.log_predictive(q, x)

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        return self.inner.sample_predictive(key, q, n)

    def new_rows(self, data: Any) -> Any:
        return self.inner.new_rows(data)
