"""Mixtures that differ from `Mixture` in their components or weights.

    DirichletProcessMixture   v_k ~ Beta(1, α),   π_k = v_k Π_{j<k} (1 − v_j),   the last stick takes the rest
    GaussianMixture           components with a full, diagonal, spherical, tied (`tied.py`) or known covariance
    ClassMixture              rows of a table, every column with a likelihood of its own

E log π and log E π are sums over independent sticks, so the weights of a (truncated) Dirichlet process are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ..._arguments import check_choice, check_count
from ...errors import InvalidParameter
from ...families import (
    Beta,
    BetaVector,
    Gamma,
    KnownCovarianceGaussian,
    Pair,
    Point,
)
from ...families._family import Family, as_float
from ...families._parameters import is_traced, require_concentration
from ...numerics.special import safe_log
from .._about import COMPONENT, GROUP, Words
from .._data import Data
from .._model import Conditional, Group, Means, Posterior
from . import Mixture
from .columns import ColumnsPair

# ---- weights of a Dirichlet process ------------------------------------------------------------------------


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

    `truncation` is the largest number of components. `concentration` is α (large: many components), or a `Gamma` prior
    on it. See `Mixture` for the other arguments.
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
        second = jnp.full(count, alpha) if is_traced(alpha) else np.full(count, alpha)
        return {"sticks": Beta(np.ones(count), second)}

    @property
    def groups(self) -> tuple[Group, ...]:
        # α is coupled to the sticks by its prior, so the two are not updated together.
        first = ("sticks", "components")
        return (first, ("concentration",)) if "concentration" in self.prior else (first,)

    @property
    def words(self) -> Words:
        return COMPONENT.of(self.n_components, {**super().words.axes, "sticks": ("stick",)})

    @property
    def symmetry(self) -> None:
        """None: sticks are broken one after the other, so their order matters."""
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
    """log π from log v and log(1 − v), or E log π from their expectations."""
    zero = jnp.zeros(1)
    return jnp.concatenate([log, zero]) + jnp.concatenate([zero, jnp.cumsum(log_complement)])


# ---- Gaussian components ------------------------------------------------------------------------------------

_FORMS = {"full": "gaussian", "diag": "diagonal", "diagonal": "diagonal", "spherical": "spherical", "tied": "gaussian"}


class GaussianMixture(Mixture):
    """A mixture of Gaussians with unknown means.

    `covariance` is the form of the unknown covariances: "full", "diag" or "spherical", or "tied" for one that all
    components share; an array is a known one. `dim` is only checked against the data. See `Mixture` for the other
    arguments.
    """

    def __new__(cls, n_components: int, dim: int | None = None, **options: Any) -> GaussianMixture:
        if cls is GaussianMixture and isinstance(options.get("covariance"), str) and options["covariance"] == "tied":
            from .tied import TiedGaussianMixture

            cls = TiedGaussianMixture
        return super().__new__(cls)

    def __init__(
        self,
        n_components: int,
        dim: int | None = None,
        *,
        covariance: str | ArrayLike = "full",
        prior: Family | None = None,
        concentration: ArrayLike = 1.0,
        weights: str | ArrayLike = "dirichlet",
        init: Any = "mixed",
        missing: str | None = None,
        precision: str = "double",
    ):
        likelihood: str | Pair
        if isinstance(covariance, str):
            likelihood = check_choice("covariance", covariance, _FORMS)
        else:
            likelihood = KnownCovarianceGaussian(covariance, missing is not None)
        super().__init__(
            n_components,
            likelihood,
            prior=prior,
            concentration=concentration,
            weights=weights,
            init=init,
            missing=missing,
            precision=precision,
            columns=None if dim is None else check_count("dim", dim),
        )


# ---- tables of mixed columns -------------------------------------------------------------------------------


class ClassMixture(Mixture):
    """Classes of the rows of a table, in which every column has its own distribution.

    Data are a path, a frame, a dictionary of columns or a `tp.Table`. The kind of each column is recognised unless
    `kinds` gives it ({"income": "positive"}): real columns are Gaussian, positive ones log-normal, counts Poisson,
    binary ones Bernoulli, and categories categorical. Missing values are integrated out. `covariance="full"` lets the
    numbers vary together within a class. A `prior` is a `tp.Product` with the factors that
    `fit.model.prior["components"]` shows. See `Mixture` for the other arguments.
    """

    def __init__(
        self,
        n_components: int,
        *,
        kinds: Mapping[str, str] | None = None,
        covariance: str = "diag",
        prior: Family | None = None,
        concentration: ArrayLike = 1.0,
        weights: str | ArrayLike = "dirichlet",
        init: Any = "kmeans++",
    ):
        super().__init__(
            n_components,
            ColumnsPair(kinds, covariance),
            prior=prior,
            concentration=concentration,
            weights=weights,
            init=init,
        )

    @property
    def words(self) -> Words:  # "class", as in latent class analysis
        return GROUP.of(self.n_components, super().words.axes)
