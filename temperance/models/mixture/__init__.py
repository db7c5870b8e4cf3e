"""Finite mixtures of any conjugate pair: each datum comes from one of K components.

    π ~ Dirichlet(δ),   θ_k ~ prior,   z_n ~ π,   x_n ~ p(x | θ_{z_n})

The sum over z is exact, so the whole model is one line of `log_evidence`. `variants.py` and `student.py` change the
weights or the components; `likelihoods.py` and `columns.py` have the kinds of x, `starts.py` the starts of a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ..._arguments import check_choice, check_count
from ...data import Table, as_matrix, as_weights, checked, column_moments
from ...errors import InvalidData
from ...families import Dirichlet, GaussianWithMissing, Pair, Point, Product, ProductPair
from ...families._family import Family
from ...families.translate import translate
from ...numerics.latents import sum_out
from ...numerics.place import on_device
from ...numerics.special import log_mix, safe_log
from .._about import COMPONENT, Symmetry, Units, Words, one_set
from .._answers import Enumerable, Predicting, Profiling, Restarting, Start, Tabular, compiled_occupancy
from .._blocks import Tempering
from .._data import Data, make_data, over_blocks
from .._model import Conditional, Means, Posterior, Powers, column
from .columns import ColumnsPair, Profiles, profile_of, profiles
from .likelihoods import (
    MixtureTempering,
    Shifted,
    as_pair,
    axes_of,
    log_known_weights,
    match_rows,
    require_conjugate,
    stack_prior,
    weights_prior,
)
from .starts import as_start, kind_of_restart, label_messages, match_start, start_labels


class Mixture(Profiling, Tabular, Predicting, Restarting, Enumerable):
    """A mixture of `n_components` distributions of one kind.

    `n_components` is the number of components. `likelihood` is a name ("gaussian", "diagonal", "spherical", "poisson",
    "bernoulli", "categorical", "multinomial", or "columns" for tables of mixed columns) or a conjugate `Pair`. `prior`
    is its conjugate family (shared, or one per component), by default weakly informative on the data's scale.
    `concentration` is the Dirichlet parameter of the weights. `weights="point"` estimates the weights (automatic
    relevance); numbers that sum to one are known weights.

    `init` is where a run starts: "mixed" (restarts differ in kind), "kmeans++", "random", "uneven", "annealed",
    "prior", an array of means (k, d) or of responsibilities (n, k). `missing="marginalise"` integrates NaN out.
    `precision="single"` sums over the data in float32. `columns` is only checked against the data.
    """

    prior: dict[str, Family | Conditional]
    pair: Pair
    component_prior: Family | None  # as given, in the user's coordinates
    shift: Float[Array, " d"] | None
    start: Start
    known: Float[Array, " k"] | None  # the logarithms of known weights
    n_components: int = eqx.field(static=True)
    columns: int | None = eqx.field(static=True)
    missing: bool = eqx.field(static=True)
    single: bool = eqx.field(static=True)

    def __init__(
        self,
        n_components: int,
        likelihood: str | Pair = "gaussian",
        *,
        prior: Family | None = None,
        concentration: ArrayLike = 1.0,
        weights: str | ArrayLike = "dirichlet",
        init: Any = "mixed",
        missing: str | None = None,
        precision: str = "double",
        columns: int | None = None,
    ):
        self.n_components = check_count("n_components", n_components)
        self.missing = check_choice("missing", missing, {None: False, "marginalise": True})
        self.single = check_choice("precision", precision, {"double": False, "single": True})
        self.columns = columns
        self.start = as_start(init, self.n_components)
        self.shift = None
        self.pair = as_pair(likelihood, self.missing, prior)
        self.component_prior = prior
        self.known = None if isinstance(weights, str) else log_known_weights(weights, self.n_components)
        self.prior = self._weights_prior(concentration, weights) if isinstance(weights, str) else {}
        components = prior and stack_prior(prior, self.pair, self.n_components, columns)
        if components is not None:
            self.prior["components"] = components

    def _weights_prior(self, concentration: Any, weights: str) -> dict[str, Family | Conditional]:
        return weights_prior(self.n_components, concentration, weights)

    # ---- the model ----------------------------------------------------------------------------------------

    def log_weights(self, m: Means) -> Float[Array, " k"]:
        """E log π as a function of the statistics of the weights' block."""
        return m["weights"].log if self.known is None else self.known

    def log_evidence(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        key_pair, key_sum = (None, None) if key is None else jax.random.split(key)
        return sum_out(self.log_joint_z(m, x, powers, key_pair), key_sum)

    def log_joint_z(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, "n k"]:
        """E log p(x, z = k | θ) for every component."""
        observed = self.pair.tempered_log_likelihood(
            m["components"], x, column(powers.observation), column(powers.latent), key
        )
        return jnp.asarray(column(powers.latent)) * self.log_weights(m)[None] + observed

    def packed(self, m: Means) -> Means:
        return m | {"components": self.pair.packed(m["components"])}

    @property
    def words(self) -> Words:
        axes = {"weights": ("component",), "components": ("component", *axes_of(self.pair))}
        return COMPONENT.of(self.n_components, axes)

    @property
    def plain_weights(self) -> bool:
        return isinstance(self.prior.get("weights"), Dirichlet)

    # ---- exchangeable components ----------------------------------------------------------------------------

    @property
    def symmetry(self) -> Symmetry | None:
        axes = {name: (0,) for name in (*self.prior, "known")}
        return one_set(self.n_components, axes, self.prior | {"known": self.known}, compared=tuple(self.prior))

    def traits(self, draws: dict[str, Any], x: Any) -> Float[Array, "n k"]:
        return jax.nn.softmax(self.log_joint_z(self.statistics(draws), x), axis=-1)

    @property
    def tempering(self) -> Tempering:
        return MixtureTempering(self)

    # ---- draws and starts -----------------------------------------------------------------------------------

    def mean_log_weights(self, q: Posterior) -> Float[Array, " k"]:
        """log E[π]."""
        if self.known is not None:
            return self.known
        weights = q.blocks["weights"]
        if isinstance(weights, Point):
            return safe_log(weights.mode())
        assert isinstance(weights, Dirichlet)
        delta = weights.concentration
        return jnp.log(delta) - jnp.log(jnp.sum(delta))

    def _mean_weights(self, q: Posterior) -> np.ndarray:
        """E[π], for people."""
        weights = q.blocks.get("weights")
        if type(weights) is not Dirichlet:
            return np.exp(np.asarray(self.mean_log_weights(q)))
        delta = np.asarray(weights.natural.log) + 1.0
        return delta / delta.sum()

    def draw_weights(self, draws: dict[str, Any]) -> Float[Array, " k"]:
        return draws["weights"] if self.known is None else jnp.exp(self.known)

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        key_z, key_x = jax.random.split(key)
        z = jax.random.categorical(key_z, safe_log(self.draw_weights(draws)), shape=(n,))
        return self.pair.sample(key_x, jax.tree.map(lambda leaf: leaf[z], draws["components"]))

    def kind_of_restart(self, number: int, data: Data) -> str | None:
        return kind_of_restart(self.start, number, data, self.n_components)

    def starting(self, kind: str) -> Self:
        return eqx.tree_at(lambda model: model.start, self, Start(kind))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        key_labels, key_prior = jax.random.split(key)
        m = {name: p.mean() for name, p in self._families().items()}
        if self.start.kind == "prior":
            draws = self.sample_prior(key_prior)
            m = self.statistics(draws)
            messages = self.walk(m, data).messages
        else:
            messages = self._label_messages(m, data, self.starting_labels(key_labels, data))
        blocks = {name: p.with_natural(p.natural + messages[name]) for name, p in self._families().items()}
        return Posterior(blocks, {})

    def starting_labels(self, key: Key[Array, ""], data: Data) -> Any:
        """A component for each datum, or its share in each."""
        start = self.start
        if start.kind == "means":
            start = Start("means", self.pair.coordinates(start.values))
        return start_labels(key, start, self.pair.coordinates(data.values), data, self.n_components)

    def _label_messages(self, m: Means, data: Data, labels: Any) -> Means:
        return label_messages(self, m, data, labels)

    # ---- data in, answers out -----------------------------------------------------------------------------

    @property
    def takes_gaps(self) -> bool:
        return self.missing or isinstance(self.pair, ColumnsPair)

    def as_table(self, data: Any) -> Table | None:
        return self.pair.table(data) if isinstance(self.pair, ColumnsPair) else None

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        model = self
        if isinstance(self.pair, ColumnsPair):
            table = self.pair.table(data)
            model = eqx.tree_at(lambda model: model.pair, self, self.pair.opened(table))
            weights = table.weights if weights is None else weights
        x = model._rows(data)
        weights = as_weights(weights, x.shape[0])
        model = model._complete(x, weights)
        block = model._block_size(x)
        return model, make_data(x, weights, block, model.to_internal)

    def _rows(self, data: Any, new: bool = False) -> np.ndarray:
        """A user's data as a matrix; in `new` data a column may have no value."""
        if isinstance(self.pair, ColumnsPair):
            return self.pair.matrix(self.pair.table(data))
        if isinstance(self.pair, ProductPair):
            raise InvalidData("a product of pairs is for dictionaries of arrays; for the columns of a table use "
                              "tp.ClassMixture(k), or Mixture(k, 'columns')")  # fmt: skip
        x = as_matrix(data, missing=self.missing, empty_columns=self.missing and new)
        return checked(self.pair.check, x, data)

    def _complete(self, x: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """The model completed by the data: the prior's scale if it was not given, and the shift that centres the
        data."""
        pair = self.pair.complete(x)
        given = self.component_prior
        mean, deviation = column_moments(x, weights)
        # Two rows with the mean and the variance of all rows are all that a default prior needs.
        summary = np.stack([mean - deviation, mean + deviation])
        components = stack_prior(given or self._default_prior(pair, summary), pair, self.n_components, x.shape[1])
        assert components is not None
        self._match_width(components, x)
        require_conjugate(components, pair, x)
        shift = None
        width = components.natural.width
        if width is not None:
            moved = np.arange(len(mean)) < width
            shift = on_device(np.where(moved, mean, 0.0))
            pair = pair.shifted(shift)
            # A default prior is made for centred data, because far from the origin v m mᵀ swallows the scatter.
            components = (
                translate(components, -np.asarray(shift))
                if given is not None
                else self._default_prior(pair, np.where(moved, np.stack([-deviation, deviation]), summary))
            )
        start = match_start(self.start, x)
        if start.kind == "means" and shift is not None:
            assert start.values is not None
            start = Start("means", start.values - shift[None])
        return eqx.tree_at(
            lambda model: (model.prior, model.pair, model.shift, model.start),
            self,
            (self.prior | {"components": components}, pair, shift, start),
            is_leaf=lambda leaf: leaf is None,
        )

    def with_prior(self, blocks: dict[str, Family]) -> Self:
        """This model with these families as its prior, such as an earlier posterior in the user's coordinates."""
        return eqx.tree_at(
            lambda model: (model.prior, model.component_prior),
            self,
            (dict(blocks), blocks["components"]),
            is_leaf=lambda leaf: leaf is None,
        )

    def _default_prior(self, pair: Pair, summary: np.ndarray) -> Family:
        return pair.default_prior(summary, self.n_components)

    def to_internal(self, x: np.ndarray) -> np.ndarray:
        """A user's rows in the coordinates the model works in."""
        if self.shift is not None:
            x = x - np.asarray(self.shift)
        return x.astype(np.float32) if self.single else x

    def new_rows(self, data: Any) -> np.ndarray:
        """Data to predict, checked against the data the model was completed with."""
        x = self._rows(data, new=True)
        self._match_width(self._families()["components"], x)
        match_rows(self._families()["components"], x)
        return self.to_internal(x)

    @property
    def units(self) -> Units:
        return Shifted("components", self.shift, self)

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        """log Σ_k E[π_k] ∫ p(x | θ_k) q(θ_k) dθ_k: a mixture of Student-t densities for Gaussians."""
        components = q.blocks["components"]
        x = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), x)
        if isinstance(components, Point):
            each = self.pair.tempered_log_likelihood(components.mean(), x, 1.0, 1.0, None)
        else:
            each = self.pair.log_predictive(components, x)
        return log_mix(jnp.broadcast_to(self.mean_log_weights(q)[None], each.shape), each)

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        return self.units.values_to_user(self._sample_rows(key, q, n))

    @eqx.filter_jit
    def _sample_rows(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        def one(key: Key[Array, ""]) -> Any:
            key_z, key_theta, key_x = jax.random.split(key, 3)
            z = jax.random.categorical(key_z, self.mean_log_weights(q))
            draw = q.blocks["components"][z].sample(key_theta)
            return self.pair.sample(key_x, draw)

        rows = jax.vmap(one)(jax.random.split(key, n))
        return rows if self.shift is None else rows + self.shift[None]

    def notes(self, data: Data) -> list[str]:
        notes = []
        if self.n_components > data.size:
            notes.append(
                f"there are more components ({self.n_components}) than data ({data.size}): some must stay empty"
            )
        if self.component_prior is None and self.shift is not None:
            # The default prior cannot learn the scale of a constant column.
            x = np.asarray(data.values)
            for column in np.flatnonzero(np.nanmax(x, axis=0) == np.nanmin(x, axis=0)):
                notes.append(
                    f"column {column} never varies, so its scale in the default prior, and with it the evidence, "
                    "is arbitrary: leave the column out or give a prior"
                )
        return notes

    def responsibilities(self, q: Posterior, x: Any) -> Float[Array, "n k"]:
        """q(z) ∝ exp{E log p(x, z | θ)}."""
        return jax.nn.softmax(self.log_joint_z({name: b.mean() for name, b in q.blocks.items()}, x), axis=-1)

    def responsibilities_of_few(self, q: Posterior, x: Any) -> np.ndarray | None:
        from ...kernels import small_mixture

        rows = Data(np.asarray(x), np.ones(len(x)), len(x))  # type: ignore[arg-type]
        return small_mixture.shares(self, q, rows)

    def occupancy(self, q: Posterior, data: Data) -> Float[Array, " k"]:
        """The expected number of data in each component."""
        m = {name: block.mean() for name, block in q.blocks.items()}

        def block(part: Any, _: Array) -> tuple[Float[Array, " k"], tuple[()]]:
            x, weights = part
            return weights @ jax.nn.softmax(self.log_joint_z(m, x), axis=-1), ()

        return over_blocks(block, (data.values, data.weights), *data.cuts)[0]

    def held(self, q: Posterior, data: Data) -> tuple[np.ndarray, ...]:
        return (occupancy(self, q, data),)

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        """The components that hold data, the heaviest first."""
        (counts,), order = self.held(q, data), self.order(q, data)
        weights = self._mean_weights(q)
        components = self.units.to_user(jax.tree.map(np.asarray, q.blocks))["components"]
        columns = {name: np.asarray(value) for name, value in self._described(components).items()}
        table: dict[str, list[Any]] = {
            self.words.part: [self.words.label(place) for place in range(len(order))],
            "data": [float(counts[k]) for k in order],
            "weight": [float(weights[k]) for k in order],
        }
        return table | {name: [value[k] for k in order] for name, value in columns.items()}

    def profiles(self, q: Posterior, data: Data, level: float, names: Sequence[str] = ()) -> Profiles | None:
        """The profiles of the components that hold data, with intervals; None if the posterior gives no intervals."""
        components = self.units.to_user(jax.tree.map(np.asarray, q.blocks))["components"]
        items, order = profile_of(self.pair, components, level, names), self.order(q, data)
        weights = self._mean_weights(q), q.blocks.get("weights")
        return None if items is None else profiles(self.words, order, *weights, items, level)

    def contributions(self, q: Posterior) -> dict[str, float] | None:
        """`Profiling.contributions`, for tables."""
        return self.pair.contributions(self.prior["components"], q.blocks["components"]) if isinstance(
            self.pair, ColumnsPair) else None  # fmt: skip

    def _described(self, components: Family) -> dict[str, Any]:
        """Columns of the table: readable numbers of each component."""
        return self.pair.described(components) if isinstance(self.pair, ColumnsPair) else components.described()

    @property
    def rounding(self) -> float:
        """Relative rounding error of the bound: float32 contractions keep about six digits."""
        return 1e-5 if self.single else 1e-9

    def _block_size(self, x: np.ndarray) -> int:
        """The number of rows whose features stay in the cache (measured); fewer if each row has a matrix per
        component."""
        if isinstance(self.pair, GaussianWithMissing):
            return max(16, 2**21 // (self.n_components * x.shape[1] ** 2))
        return 2048

    def _match_width(self, components: Family, x: np.ndarray) -> None:
        for width in (self.columns, None if isinstance(components, Product) else components.natural.width):
            if width is not None and x.shape[1] != width:
                raise InvalidData(f"data has {x.shape[1]} columns, but the model is for {width}")

    def _families(self) -> dict[str, Family]:
        """The prior of each block; for a block with parents, at their prior means."""
        families = {name: p for name, p in self.prior.items() if isinstance(p, Family)}
        children = {name: p for name, p in self.prior.items() if isinstance(p, Conditional)}
        m = {name: family.mean() for name, family in families.items()} if children else {}
        return families | {name: p.family(p.natural(m)) for name, p in children.items()}


# ---- sums over the data ------------------------------------------------------------------------------------


def occupancy(model: Mixture, q: Posterior, data: Data) -> np.ndarray:
    """`Mixture.occupancy`, without a compilation if the data are few."""
    from ...kernels import small_mixture

    shares = small_mixture.shares(model, q, data)
    return np.asarray(compiled_occupancy(model, q, data)) if shares is None else shares.sum(axis=0)
