"""Dirichlet-process mixtures, truncated: stick-breaking weights over any conjugate pair.

    v_k ~ Beta(1, α),   π_k = v_k Π_{j<k} (1 − v_j),   the last stick taking all that is left

Everything else is the mixture's. E log π and log E π are sums over independent sticks, so both are exact.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Key

from ..._arguments import check_count
from ...errors import InvalidParameter
from ...families import Beta, BetaVector, Gamma, Pair, Point
from ...families._family import Family, as_float
from ...families._parameters import require_concentration
from ...numerics.special import safe_log
from .._data import Data
from .._model import Conditional, Group, Means, Posterior
from .finite import Mixture


class Sticks(Conditional):
    """p(v | α) = Π_k Beta(v_k | 1, α): natural parameter (0, α − 1) and log normaliser −log α, each k."""

    parents: tuple[str, ...] = eqx.field(static=True, default=("concentration",))
    count: int = eqx.field(static=True, kw_only=True)

    def natural(self, m: Means) -> BetaVector:
        return BetaVector(jnp.zeros(self.count), jnp.full(self.count, m["concentration"].value - 1.0))

    def log_normaliser(self, m: Means) -> Float[Array, " k-1"]:
        return jnp.full(self.count, -m["concentration"].log)

    def family(self, natural: BetaVector) -> Beta:
        return Beta.from_natural(natural)


class DirichletProcessMixture(Mixture):
    """A mixture that uses as many of its `truncation` components as the data support.

    `concentration` is α (large: many components), or a `Gamma` prior on it. See `Mixture` for the rest.
    """

    apart: ClassVar[tuple[str, ...]] = ("concentration",)

    def __init__(
        self,
        truncation: int,
        likelihood: str | Pair = "gaussian",
        *,
        prior: Family | None = None,
        concentration: ArrayLike | Gamma = 1.0,
        init: Any = "mixed",
        missing: str | None = None,
        precision: str = "double",
        columns: int | None = None,
    ):
        super().__init__(
            check_count("truncation", truncation),
            likelihood,
            prior=prior,
            concentration=concentration,  # type: ignore[arg-type]
            init=init,
            missing=missing,
            precision=precision,
            columns=columns,
        )

    def _weights_prior(self, concentration: Any, weights: str) -> dict[str, Family | Conditional]:
        count = self.n_components - 1
        if isinstance(concentration, Gamma):
            if concentration.batch_shape != ():
                raise InvalidParameter(
                    f"concentration must be one Gamma, got a batch of shape {concentration.batch_shape}"
                )
            return {"sticks": Sticks(count=count), "concentration": concentration}
        alpha = as_float(concentration)
        require_concentration(concentration=alpha)
        if alpha.ndim > 0:
            raise InvalidParameter(f"concentration must be one number or a Gamma, got shape {alpha.shape}")
        return {"sticks": Beta(jnp.ones(count), jnp.full(count, alpha))}

    @property
    def groups(self) -> tuple[Group, ...]:
        # α is coupled to the sticks by its prior, so the two are not updated together.
        first = ("sticks", "components")
        return (first, ("concentration",)) if "concentration" in self.prior else (first,)

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        return super().axes | {"sticks": ("stick",)}

    @property
    def symmetry(self) -> None:
        """Sticks are broken one after the other: their order counts."""
        return None

    def log_weights(self, m: Means) -> Float[Array, " k"]:
        return _break(m["sticks"].log, m["sticks"].log_complement)

    def mean_log_weights(self, q: Posterior) -> Float[Array, " k"]:
        sticks = q.blocks["sticks"]
        if isinstance(sticks, Point):
            return _break(safe_log(sticks.mode()), safe_log(1.0 - sticks.mode()))
        assert isinstance(sticks, Beta)
        a, b = sticks.a, sticks.b
        return _break(jnp.log(a) - jnp.log(a + b), jnp.log(b) - jnp.log(a + b))

    def draw_weights(self, draws: dict[str, Any]) -> Float[Array, " k"]:
        return jnp.exp(_break(safe_log(draws["sticks"]), safe_log(1.0 - draws["sticks"])))

    def starting_labels(self, key: Key[Array, ""], data: Data) -> Any:
        """The largest component first: the order that stick-breaking expects."""
        labels = super().starting_labels(key, data)
        if self.start.kind == "responsibilities":
            return labels
        if labels.ndim == 2:
            return labels[:, jnp.argsort(-(data.weights @ labels))]
        counts = jnp.zeros(self.n_components).at[labels].add(data.weights)
        return jnp.argsort(jnp.argsort(-counts))[labels]


def _break(log: Float[Array, " k-1"], log_complement: Float[Array, " k-1"]) -> Float[Array, " k"]:
    """log π from log v and log(1 − v), or the same of their expectations."""
    zero = jnp.zeros(1)
    return jnp.concatenate([log, zero]) + jnp.concatenate([zero, jnp.cumsum(log_complement)])
