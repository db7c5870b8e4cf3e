"""Linear Gaussian state space: hidden states that evolve linearly, seen through a linear map in noise.

    z_1 ~ N(0, start),   z_t = A z_{t−1} + B u_t + N(0, 1/λ),   x_t = C z_t + D u_t + μ + N(0, 1/τ)

Either the matrices are learned, with λ = 1 and a precision for each state's loadings (rows of (A, B) and of (C, D, μ)
are blocks), or they are known and the variances are learned (local level, local trend). The states are integrated out
exactly, whatever is missing.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ..._arguments import check_choice, check_count
from ...data import as_weights, column_moments
from ...errors import InvalidData, InvalidParameter
from ...families import Gamma, GammaVector, Normal
from ...families._family import Family, as_float
from ...numerics.gaussian_chains import chain_integral
from ...numerics.linalg import outer, symmetrise
from ...numerics.place import on_device
from .._about import STATE, Symmetry, Units, Words
from .._answers import Creeping, Decomposing, Sequential
from .._blocks import Tempering
from .._data import Data, make_data
from .._model import Conditional, Group, Means, Posterior, Powers, draw_posterior, means
from . import Loaded, Prediction, average, each, factor_symmetry, finite, gamma_or_positive, positive, stack
from .series import (
    CentredSeries,
    LinearMap,
    Potentials,
    Series,
    SeriesTempering,
    as_future,
    as_series,
    filtered_states,
    forecast_series,
    potentials,
    principal_start,
    series_entries,
    smoothed_states,
)


class Known(NamedTuple):
    """Matrices that are not learned, and the scales of the variances' priors relative to the data's variance."""

    dynamics: Float[Array, "k k"]
    observation: Float[Array, "d k"]
    noise_share: Float[Array, " k"]  # rate of the Gamma over each state's noise precision, over the data's variance
    start_share: Float[Array, " k"]  # variance of the first state, over the data's variance


class StateSpace(Loaded, Creeping, Decomposing, Sequential):
    """`n_states` hidden states behind one or several series; the data are a table (steps, columns) or a list of them.

    `n_states` is the number of states. All matrices are learned, and the states' noise is 1, which fixes their unit;
    `tp.StateSpace.local_level()` and `local_trend()` know the matrices and learn the variances instead. `noise` and
    `state_noise` are a `tp.Gamma` over the precision (of one, or of each, column or state), or known variances.
    `relevance` is a `tp.Gamma` over the precision of each state's loadings in units of the columns' spread, or a
    number. `start` is the variance of the first state. With `n_controls` the data are a pair (values, controls).
    `missing="marginalise"` lets NaN stand for a missing value. `centre` and `scale` are the mean and the spread of the
    columns to which the priors refer. `known` holds matrices that are not learned; the two constructors above fill it
    in.
    """

    prior: dict[str, Family | Conditional]  # complete once there are data
    known: Known | None
    relevance: Gamma | Array
    noise: Gamma | Array | None  # as given; an array holds known variances
    state_noise: Gamma | Array | None
    start: Float[Array, " k"] | None
    centre: Float[Array, " d"] | None
    scale: Float[Array, " d"] | None
    n_states: int = eqx.field(static=True)
    n_controls: int = eqx.field(static=True)
    missing: bool = eqx.field(static=True)
    steps: int = eqx.field(static=True)  # of the longest series
    apart: ClassVar[tuple[str, ...]] = ("relevance",)
    loaded: ClassVar[str] = "observation"

    def __init__(
        self,
        n_states: int,
        *,
        noise: Gamma | ArrayLike | None = None,
        state_noise: Gamma | ArrayLike | None = None,
        relevance: Gamma | ArrayLike | None = None,
        start: ArrayLike | None = None,
        n_controls: int = 0,
        centre: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        missing: str | None = None,
        known: Known | None = None,
    ):
        self.n_states = check_count("n_states", n_states)
        self.n_controls = 0 if n_controls == 0 else check_count("n_controls", n_controls)
        self.missing = check_choice("missing", missing, {None: False, "marginalise": True})
        if known is None and state_noise is None:
            state_noise = 1.0
        self.noise = None if noise is None else gamma_or_positive("noise", noise)
        self.state_noise = None if state_noise is None else gamma_or_positive("state_noise", state_noise)
        self.relevance = gamma_or_positive("relevance", Gamma(1.0, 0.1) if relevance is None else relevance)
        self.start = None if start is None else each("start", positive("start", start), self.n_states)
        self.centre = None if centre is None else finite("centre", centre)
        self.scale = None if scale is None else positive("scale", scale)
        self.known, self.prior, self.steps = known, {}, 0

    @classmethod
    def local_level(cls, **options: Any) -> Self:
        """A level that walks at random, observed with noise: two variances are learned."""
        return cls(1, known=_known([[1.0]], [[1.0]], [0.01], [100.0]), **options)

    @classmethod
    def local_trend(cls, **options: Any) -> Self:
        """A level with a slope, both of which walk at random: three variances are learned."""
        return cls(2, known=_known([[1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0]], [0.01, 0.0001], [100.0, 1.0]), **options)

    # ---- the model ----------------------------------------------------------------------------------------

    @property
    def words(self) -> Words:
        axes = {"dynamics": ("state", "cause"), "observation": ("feature", "loading"), "noise": ("feature",)}
        axes |= {"relevance": ("state",), "state_noise": ("state",), "x": ("series", "time", "feature")}
        causes = [f"state {k}" for k in range(self.n_states)] + [f"control {k}" for k in range(self.n_controls)]
        return STATE.of(self.n_states, axes, {"cause": causes, "loading": [*causes, "offset"]})

    @property
    def n_loadings(self) -> int:
        return self.n_states

    @property
    def units(self) -> Units:
        assert self.centre is not None
        return CentredSeries(self.loaded, self.centre, self._scale(), "observation" in self.prior)

    @property
    def tempering(self) -> Tempering:
        return SeriesTempering(self)

    @property
    def symmetry(self) -> Symmetry | None:
        if "observation" not in self.prior:
            return None  # known matrices give every state its meaning
        known = {"start": self.start, "state_noise": self.state_noise}
        return factor_symmetry(self.n_states, "observation", known | self.prior)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Given the states, dynamics and observation are independent of each other, but not of their precisions."""
        rows = tuple(name for name in ("dynamics", "observation") if name in self.prior)
        precisions = tuple(name for name in ("relevance", "state_noise", "noise") if name in self.prior)
        return tuple(group for group in (rows, precisions) if group)

    def log_evidence(
        self, m: Means, x: Series, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        p = self.potentials(m, x, powers)
        if key is None:
            return p.constant + jax.vmap(chain_integral)(p.linear, p.precision, p.coupling, p.links)
        keys = jax.random.split(key, p.constant.shape[0])
        return p.constant + jax.vmap(chain_integral)(p.linear, p.precision, p.coupling, p.links, keys)

    def potentials(self, m: Means, x: Series, powers: Powers = Powers()) -> Potentials:
        """exp{E log p(x, z | θ)} of each series."""
        seen, move = self._rows(m, "observation", "noise"), self._rows(m, "dynamics", "state_noise")
        assert self.start is not None
        return potentials(x, seen, move, self.start, powers)

    def _rows(self, m: Means, name: str, noise: str) -> LinearMap:
        """The expectations of a matrix, learned or known, and of the noise that goes with it."""
        return LinearMap(*self._matrix(m, name), self._precisions(m, noise))

    def _matrix(self, m: Means, name: str) -> tuple[Float[Array, "r c"], Float[Array, "r c c"]]:
        """E[w] and E[w wᵀ] of the rows of a matrix, learned or known."""
        if name in self.prior:
            return m[name].linear, -2.0 * symmetrise(m[name].precision)
        assert self.known is not None
        rows = getattr(self.known, name)
        return rows, outer(rows, rows)

    def _precisions(self, m: Means, name: str) -> GammaVector:
        if name in self.prior:
            return m[name]
        variance = getattr(self, name)
        return GammaVector(-jnp.log(variance), 1.0 / variance)

    def _noise(self, m: Means) -> GammaVector:
        """The statistics of each column's noise precision."""
        return self._precisions(m, "noise")

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Series:
        """Series of full length, with standard Normal controls, because the model does not describe controls."""
        key_u, key_start, key_z, key_x = jax.random.split(key, 4)
        k, t = self.n_states, self.steps
        controls = jax.random.normal(key_u, (n, t, self.n_controls))
        assert self.start is not None
        first = jax.random.normal(key_start, (n, k)) * jnp.sqrt(self.start)[None]
        noise = jax.random.normal(key_z, (t - 1, n, k))
        a, deviation = self._dynamics_of(draws)

        def step(z: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
            u, noise = here
            z = jnp.concatenate([z, u], axis=1) @ a.T + noise * deviation[None]
            return z, z

        _, rest = jax.lax.scan(step, first, (jnp.swapaxes(controls, 0, 1)[1:, :, : a.shape[1] - k], noise))
        z = jnp.swapaxes(jnp.concatenate([first[None], rest]), 0, 1)
        return Series(self.observe(key_x, draws, z, controls), controls, jnp.ones((n, t)))

    def _dynamics_of(self, draws: dict[str, Any]) -> tuple[Float[Array, "k c"], Float[Array, " k"]]:
        """Rows of (A, B), and the standard deviations of the states' noise."""
        a = draws["dynamics"] if "dynamics" in self.prior else self._matrix({}, "dynamics")[0]
        if "state_noise" in self.prior:
            return a, 1.0 / jnp.sqrt(draws["state_noise"])
        return a, jnp.sqrt(jnp.asarray(self.state_noise))

    def observe(self, key: Key[Array, ""], draws: dict[str, Any], z: Array, controls: Array) -> Float[Array, "*n d"]:
        """Observations drawn given these states."""
        c = draws["observation"] if "observation" in self.prior else self._matrix({}, "observation")[0]
        v = jnp.concatenate([z, controls, jnp.ones((*z.shape[:-1], 1))], axis=-1)[..., : c.shape[1]]
        variance = 1.0 / draws["noise"] if "noise" in self.prior else jnp.asarray(self.noise)
        mean = v @ c.T
        return mean + jax.random.normal(key, mean.shape) * jnp.sqrt(jnp.broadcast_to(variance, mean.shape))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        return principal_start(self, key, data)

    # ---- data in ------------------------------------------------------------------------------------------

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        series = as_series(data, self.missing, self.n_controls)
        model = self._complete(series)
        n = series.real.shape[0]
        # Long series go one at a time, because their potentials are (steps, states, states).
        # The block size divides the number of series, so that padding repeats none of them.
        most = max(1, 2**16 // (model.steps * self.n_states))
        block = max(size for size in range(1, min(n, most) + 1) if n % size == 0)
        return model, make_data(model._internal(series), as_weights(weights, n), block, spread=False, bucketed=False)

    def _complete(self, series: Series) -> Self:
        k, d = self.n_states, series.x.shape[2]
        mean, deviation = column_moments(np.asarray(series.x).reshape((-1, d)))
        centre, scale = self._units(mean, deviation)
        overall = np.mean(np.square(np.asarray(scale)))
        prior: dict[str, Family | Conditional] = {}
        state_noise, start = self.state_noise, self.start
        if self.known is not None:
            if self.known.observation.shape[0] != d:
                raise InvalidParameter(
                    f"this model is for {self.known.observation.shape[0]} columns, the data have {d}"
                )
            if state_noise is None:
                state_noise = Gamma(1.0, np.asarray(self.known.noise_share) * overall)
            start = on_device(np.asarray(self.known.start_share) * overall) if start is None else start
        else:
            size = np.sqrt(np.nanmean(np.square(series.controls), axis=(0, 1))) if self.n_controls else np.zeros(0)
            size = np.square(np.where(size > 0.0, size, 1.0))
            rows = np.concatenate([0.5 * np.eye(k), np.zeros((k, self.n_controls))], axis=1)
            prior["dynamics"] = Normal(rows, precision=np.diag(np.append(np.full(k, 4.0 * k), size)))
            prior |= self._loadings_priors(scale, on_device(np.append(size, 1.0)))
            start = on_device(np.ones(k)) if start is None else start
        if isinstance(state_noise, Gamma):
            prior["state_noise"] = stack("state_noise", state_noise, k)
        else:
            assert state_noise is not None
            state_noise = each("state_noise", state_noise, k)
        unknown, noise = self._noise_prior(scale)
        prior |= unknown
        if not prior:
            raise InvalidParameter(
                "noise and state_noise are both known, so nothing is left to learn: give one a tp.Gamma"
            )
        return self._with(
            prior=prior, noise=noise, state_noise=state_noise, start=start, centre=centre, scale=scale,
            steps=series.real.shape[1],
        )  # fmt: skip

    def _internal(self, series: Series) -> Series:
        assert self.centre is not None
        return Series(series.x - np.asarray(self.centre), series.controls, series.real)

    def new_rows(self, data: Any) -> Series:
        return self._internal(as_series(data, self.missing, self.n_controls, len(self._scale())))

    # ---- answers out --------------------------------------------------------------------------------------

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        """n series, each as long as the longest in the data."""

        def one(key: Key[Array, ""]) -> Any:
            key_q, key_x = jax.random.split(key)
            return self.simulate(key_x, draw_posterior(key_q, q), 1).x[0]

        return jax.vmap(one)(jax.random.split(key, n)) + jnp.asarray(self.centre)[None, None]

    def components(self, q: Posterior) -> Float[Array, "k d"]:
        """The expected loadings: how each state appears in the columns."""
        return self._matrix(means(q.blocks), "observation")[0][:, : self.n_states].T

    @property
    def state_offset(self) -> np.ndarray:
        """The shift of states to the user's coordinates. If the matrices are known and the data's centre is the image
        of a state that stays in place (a level), it is that state; otherwise zero."""
        if self.known is None:
            return np.zeros(self.n_states)
        a, c, centre = (np.asarray(value) for value in (self.known.dynamics, self.known.observation, self.centre))
        still = np.linalg.lstsq(np.concatenate([c, a - np.eye(len(a))]), np.append(centre, np.zeros(len(a))))[0]
        return still if np.allclose(c @ still, centre) and np.allclose(a @ still, still) else np.zeros(len(a))

    def smooth(self, q: Any, x: Series) -> Any:
        """Mean and variance of every state (steps, states) given its whole series; a list for several series."""
        mean, variance = average(smoothed_states, self, q, x)
        return by_series(x, Prediction(np.asarray(mean) + self.state_offset, np.asarray(variance)))

    def filter(self, q: Any, x: Series) -> Any:
        """Mean and variance of every state given only the steps up to its own."""
        mean, variance = average(filtered_states, self, q, x)
        return by_series(x, Prediction(np.asarray(mean) + self.state_offset, np.asarray(variance)))

    def forecast(self, q: Any, key: Key[Array, ""], x: Series, n: int, draws: int = 1000, controls: Any = None) -> Any:
        """The next n steps of one series, with the controls that go with them."""
        if x.real.shape[0] != 1:
            raise InvalidData(f"a forecast goes on after one series, got {x.real.shape[0]}: name it as x_new")
        return forecast_series(self, q, key, x, as_future(controls, n, self.n_controls), draws)

    def fitted_steps(self, state: Any, q: Posterior, x: Series) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(x.x)[0] + np.asarray(self.centre), np.asarray(self.signal(state, x).mean)[0]

    def impute(self, q: Any, data: Any) -> Any:
        """Every entry with its variance: observed ones as they are (variance 0), missing ones by their expectation."""
        x = self.new_rows(data)
        mean, variance = self.signal(q, x)
        seen = ~np.isnan(x.x)
        whole = np.where(seen, x.x + np.asarray(self.centre), mean)
        return by_series(x, Prediction(whole, np.where(seen, 0.0, variance)))

    def signal(self, q: Any, x: Series) -> Prediction:
        """The expectation of every entry (series, step, column) without its noise; the variance includes the noise."""
        mean, variance = average(series_entries, self, q, x)
        return Prediction(np.asarray(mean) + np.asarray(self.centre), np.asarray(variance))

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        """A row for each state and column: the variance of its noise, with its 5% and 95% quantiles."""
        from scipy.stats import gamma

        names = {"state_noise": "state", "noise": "column"}
        table: dict[str, list[Any]] = {"noise of": [], "variance": [], "5%": [], "95%": []}
        for block, name in names.items():
            family = q.blocks.get(block)
            for index, value in enumerate(
                np.atleast_1d(np.asarray(1.0 / self._precisions(means(q.blocks), block).value))
            ):
                table["noise of"].append(f"{name} {index + 1}")
                table["variance"].append(float(value))
                for level, side in ((0.95, "5%"), (0.05, "95%")):
                    found = float(value)
                    if isinstance(family, Gamma):
                        shape, rate = float(family.shape[index]), float(family.rate[index])
                        found = float(1.0 / gamma(shape, scale=1.0 / rate).ppf(level))
                    table[side].append(found)
        return table


def by_series(x: Series, found: Prediction) -> Any:
    """The predictions without the padding: a single one, or a list with one per series."""
    each = [
        Prediction(mean[:length], variance[:length])
        for mean, variance, length in zip(found.mean, found.variance, x.lengths, strict=True)
    ]
    return each[0] if len(each) == 1 else each


def _known(dynamics: Any, observation: Any, noise_share: Any, start_share: Any) -> Known:
    return Known(*(as_float(value) for value in (dynamics, observation, noise_share, start_share)))
