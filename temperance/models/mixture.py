"""Finite mixtures of any conjugate pair.

    π ~ Dirichlet(δ),   θ_k ~ prior,   z_n ~ π,   x_n ~ p(x | θ_{z_n})

The local sum over z is exact, so the whole model is one line of `log_evidence`.
"""

from __future__ import annotations

from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ..data import as_matrix, as_weights
from ..errors import InvalidData, InvalidParameter
from ..families import Dirichlet, Pair, Point
from ..families._family import Family, as_float, require_finite_positive
from ..families.translate import location_width, translate, translate_draw
from ..numerics.latents import sum_out
from ..numerics.special import log_mix, safe_log
from ._data import Data, make_data, over_blocks
from ._model import Conditional, Means, Model, Posterior, Powers, column
from .likelihoods import as_pair, stack_prior
from .starts import Start, as_start, start_labels


class Mixture(Model):
    """A mixture of `n_components` distributions of one kind.

    `likelihood` is a name ("gaussian", "diagonal", "spherical", "poisson", "bernoulli", "categorical",
    "multinomial") or a conjugate `Pair`; `prior` is its conjugate family (shared by all components unless it has
    a batch axis of that length), by default weakly informative from the data's scale. `concentration` is the
    Dirichlet parameter of the weights, or `weights="point"` estimates them (the automatic-relevance variant).
    """

    prior: dict[str, Family | Conditional]
    pair: Pair
    component_prior: Family | None  # as given, in the user's coordinates
    shift: Float[Array, " d"] | None
    start: Start
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
        weights: str = "dirichlet",
        init: Any = "kmeans++",
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
        self.pair = as_pair(likelihood, self.missing)
        self.component_prior = prior
        self.prior = {"weights": self._weights_prior(concentration, weights)}
        components = prior and stack_prior(prior, self.pair, self.n_components, columns)
        if components is not None:
            self.prior["components"] = components

    def _weights_prior(self, concentration: ArrayLike, weights: str) -> Family:
        if check_choice("weights", weights, {"dirichlet": False, "point": True}):
            return Point(Dirichlet(jnp.ones(self.n_components)))
        delta = as_float(concentration)
        require_finite_positive(concentration=delta)
        if delta.ndim > 1 or (delta.ndim == 1 and delta.shape[0] != self.n_components):
            raise InvalidParameter(
                f"concentration must be one number or {self.n_components} of them, got shape {delta.shape}"
            )
        return Dirichlet(jnp.broadcast_to(delta, (self.n_components,)))

    # ---- the model ----------------------------------------------------------------------------------------

    def log_weights(self, m: Means) -> Float[Array, " k"]:
        """E log π as a function of the statistics of the weights' block."""
        return m["weights"].log

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
        return column(powers.latent) * self.log_weights(m)[None] + observed

    def mean_log_weights(self, q: Posterior) -> Float[Array, " k"]:
        """log E[π]."""
        weights = q.blocks["weights"]
        if isinstance(weights, Point):
            return safe_log(weights.mode())
        assert isinstance(weights, Dirichlet)
        delta = weights.concentration
        return jnp.log(delta) - jnp.log(jnp.sum(delta))

    def draw_weights(self, draws: dict[str, Any]) -> Float[Array, " k"]:
        return draws["weights"]

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        key_z, key_x = jax.random.split(key)
        z = jax.random.categorical(key_z, safe_log(self.draw_weights(draws)), shape=(n,))
        return self.pair.sample(key_x, jax.tree.map(lambda leaf: leaf[z], draws["components"]))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        key_labels, key_prior = jax.random.split(key)
        m = {name: p.with_natural(p.natural).mean() for name, p in self._families().items()}
        if self.start.kind == "prior":
            draws = self.sample_prior(key_prior)
            m = self.statistics(draws)
            terms, _ = self.terms(m, data)
            messages = terms.messages
        else:
            labels = start_labels(key_labels, self.start, self.pair.coordinates(data.values), data, self.n_components)
            messages = self._label_messages(m, data, labels)
        blocks = {name: p.with_natural(p.natural + messages[name]) for name, p in self._families().items()}
        return Posterior(blocks, {})

    def _label_messages(self, m: Means, data: Data, labels: Any) -> Means:
        """The statistics that fixed responsibilities (or labels) give to each block."""
        def block(part: Any, _: Array) -> tuple[Means, tuple[()]]:
            x, weights, here = part
            share = here if here.ndim == 2 else jax.nn.one_hot(here, self.n_components, dtype=jnp.float64)

            def total(m: Means) -> Float[Array, ""]:
                return jnp.sum(weights[:, None] * share * self.log_joint_z(m, x))

            return jax.grad(total)(m), ()

        return over_blocks(block, (data.values, data.weights, labels), data.blocks)[0]

    # ---- data in, answers out -----------------------------------------------------------------------------

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        x = self.pair.check(as_matrix(data, missing=self.missing))
        model = self._complete(x)
        x = model.to_internal(x)
        block = model._block_size(x)
        return model, make_data(x, as_weights(weights, x.shape[0]), block)

    def _complete(self, x: np.ndarray) -> Self:
        """Fill in what was left to the data: the prior's scale, and the shift that centres them."""
        pair = self.pair.complete(x)
        given = self.component_prior
        if given is None:
            given = pair.default_prior(jnp.asarray(x), self.n_components)
        components = stack_prior(given, pair, self.n_components, x.shape[1])
        assert components is not None
        self._match_width(components, x)
        shift = None
        if location_width(components) is not None:
            shift = jnp.asarray(np.nanmean(x, axis=0))
            components = translate(components, -shift)
        start = self.start
        if start.kind == "means" and shift is not None:
            assert start.values is not None
            start = Start("means", start.values - shift[None])
        return eqx.tree_at(
            lambda model: (model.prior, model.pair, model.shift, model.start),
            self,
            (self.prior | {"components": components}, pair, shift, start),
            is_leaf=lambda leaf: leaf is None,
        )

    def to_internal(self, x: np.ndarray) -> np.ndarray:
        """A user's rows in the coordinates the model works in."""
        if self.shift is not None:
            x = x - np.asarray(self.shift)
        return x.astype(np.float32) if self.single else x

    def new_rows(self, data: Any) -> np.ndarray:
        """Data to predict, checked against the data the model was completed with."""
        x = self.pair.check(as_matrix(data, missing=self.missing))
        self._match_width(self._families()["components"], x)
        return self.to_internal(x)

    def to_user(self, blocks: dict[str, Family]) -> dict[str, Family]:
        """The posterior in the user's coordinates."""
        if self.shift is None:
            return blocks
        return blocks | {"components": translate(blocks["components"], self.shift)}

    def draws_to_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        if self.shift is None:
            return draws
        return draws | {"components": translate_draw(draws["components"], self.shift)}

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        """log Σ_k E[π_k] ∫ p(x | θ_k) q(θ_k) dθ_k: a mixture of Student-t densities for Gaussians."""
        components = q.blocks["components"]
        x = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), x)
        if isinstance(components, Point):
            each = self.pair.log_likelihood(components.mean(), x)
        else:
            each = self.pair.log_predictive(components, x)
        return log_mix(jnp.broadcast_to(self.mean_log_weights(q)[None], each.shape), each)

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        def one(key: Key[Array, ""]) -> Any:
            key_z, key_theta, key_x = jax.random.split(key, 3)
            z = jax.random.categorical(key_z, self.mean_log_weights(q))
            draw = q.blocks["components"][z].sample(key_theta)
            return self.pair.sample(key_x, draw)

        rows = jax.vmap(one)(jax.random.split(key, n))
        return rows if self.shift is None else rows + self.shift[None]

    def notes(self, data: Data) -> list[str]:
        if self.n_components <= data.size:
            return []
        return [f"there are more components ({self.n_components}) than data ({data.size}): some must stay empty"]

    def responsibilities(self, q: Posterior, x: Any) -> Float[Array, "n k"]:
        """q(z) ∝ exp{E log p(x, z | θ)}."""
        return jax.nn.softmax(self.log_joint_z({name: b.mean() for name, b in q.blocks.items()}, x), axis=-1)

    def occupancy(self, q: Posterior, data: Data) -> Float[Array, " k"]:
        """The expected number of data in each component."""
        m = {name: block.mean() for name, block in q.blocks.items()}

        def total(log_weights: Float[Array, " k"]) -> Float[Array, ""]:
            observed = self.pair.tempered_log_likelihood(m["components"], data.values, 1.0, 1.0, None)
            return jnp.sum(data.weights * sum_out(log_weights[None] + observed))

        return jax.grad(total)(self.log_weights(m))

    @property
    def rounding(self) -> float:
        """Relative rounding error of the bound: float32 contractions keep about six digits."""
        return 1e-5 if self.single else 1e-9

    def _block_size(self, x: np.ndarray) -> int:
        """Rows whose features and responsibilities fit in the cache."""
        width = x.shape[1] ** 2 + 4 * self.n_components
        return max(256, int(2**21 / (width * (4 if self.single else 8))))

    def _match_width(self, components: Family, x: np.ndarray) -> None:
        width = location_width(components) or self.columns or x.shape[1]
        if x.shape[1] != width:
            raise InvalidData(f"data has {x.shape[1]} columns, but the model is for {width}")

    def _families(self) -> dict[str, Family]:
        families = {}
        for name, p in self.prior.items():
            assert isinstance(p, Family)
            families[name] = p
        return families


def check_count(name: str, value: Any) -> int:
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise InvalidParameter(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(value)


def check_choice(name: str, value: Any, options: dict[Any, Any]) -> Any:
    if value not in options:
        accepted = ", ".join(repr(option) for option in options)
        raise InvalidParameter(f"{name} must be one of {accepted}, got {value!r}")
    return options[value]
