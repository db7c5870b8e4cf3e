"""Hidden Markov models: a mixture in which the component of a step depends on the component of the step before.

    π ~ Dirichlet(δ₀)   A_j ~ Dirichlet(δ + sticky · e_j)   θ_k ~ prior
    z_1 ~ π             z_t ~ A_(z_(t−1))                    x_t ~ p(x | θ_(z_t))

A row is a step, and `log_evidence` is log p(x_t | x_1 … x_(t−1)): over a sequence the rows add up to the log of the sum
over all paths, whose derivative is the smoothed statistics (`numerics.chains`).
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Key

from ..._arguments import check_choice, check_count, whole
from ...data import as_weights, checked
from ...data.sequences import as_sequences
from ...errors import InvalidParameter, UnsupportedMethod
from ...families import Dirichlet, Pair, Point
from ...families._family import Family
from ...numerics.chains import FIRST, Chain, choose_engine, filter_states, smooth_states, sum_paths
from ...numerics.place import on_device
from ...numerics.special import safe_log
from .._about import STATE, Symmetry, Units, Words, one_set
from .._answers import Clustering, Decoding, Predicting, Sequential, Tabular
from .._blocks import Tempering
from .._data import Data, RowAccess, bucket, over_blocks
from .._factors import Factored, Factors, StepTerms, step_factors
from .._model import Conditional, Means, Posterior, Powers, column
from ..linear import Forecast
from ..mixture import Mixture
from .steps import (
    Sequences,
    Steps,
    StepTempering,
    StepUnits,
    as_concentration,
    as_steps,
    as_transitions,
    by_sequence,
    decoded,
    expected_steps,
    filtered,
    forecast,
    label_messages,
    one_sequence,
    smoothed,
)

_ENGINES = ("auto", "host", "device", "parallel", "autodiff")
_WINDOW = 1000  # steps of a window of a long sequence
_BURN_IN = 50


class HMM(Clustering, Tabular, Sequential, Decoding, Predicting, Factored):
    """A hidden Markov model with `n_states` states.

    `n_states` is the number of states. `emission` is the distribution of the data in a state: a name ("gaussian",
    "diagonal", "spherical", "poisson", "bernoulli", "categorical", "multinomial") or a conjugate `Pair`; `prior` is its
    conjugate family, by default weakly informative on the data's scale. `concentration` is the Dirichlet parameter of
    each row of the transition matrix (a number or a matrix), `sticky` is added to its diagonal, `initial_concentration`
    is that of the first state. `missing`, `columns` and `init` are those of `Mixture`; `init` may also be a draw: a
    dictionary with the block names of `fit.posterior`.

    Stochastic methods draw whole sequences, or, where one is longer than `window` steps, windows of that length with
    `burn_in` steps on either side. `engine` says what runs along the sequences: "host" (Numba, for the CPU), "device"
    (JAX), "parallel" (JAX, log T rounds of products of matrices, for accelerators), "autodiff" (derived from
    `log_evidence`) or "auto".
    """

    prior: dict[str, Family | Conditional]
    mixture: Mixture  # of the emissions: data in, starts, coordinates
    n_states: int = eqx.field(static=True)
    window: int = eqx.field(static=True)
    burn_in: int = eqx.field(static=True)
    engine: str = eqx.field(static=True)
    begin: dict[str, Any] | None = None  # a draw of all blocks to start at, in the user's coordinates
    chained: ClassVar[bool] = True

    def __init__(
        self,
        n_states: int,
        emission: str | Pair = "gaussian",
        *,
        prior: Family | None = None,
        concentration: ArrayLike = 1.0,
        initial_concentration: ArrayLike = 1.0,
        sticky: float = 0.0,
        init: Any = "kmeans++",
        missing: str | None = None,
        columns: int | None = None,
        window: int = _WINDOW,
        burn_in: int = _BURN_IN,
        engine: str = "auto",
    ):
        self.n_states = check_count("n_states", n_states)
        self.window = check_count("window", window)
        whole(0)("burn_in", burn_in)
        self.burn_in = int(burn_in)
        self.engine = check_choice("engine", engine, {name: name for name in _ENGINES})
        equal = np.full(self.n_states, 1.0 / self.n_states)
        self.begin = None
        if isinstance(init, dict):
            if set(init) != {"initial", "transitions", "emissions"}:
                raise InvalidParameter(f"init must have initial, transitions and emissions, got {sorted(init)}")
            self.begin, init = jax.tree.map(on_device, init), "kmeans++"
        self.mixture = Mixture(
            self.n_states, emission, prior=prior, weights=equal, init=init, missing=missing, columns=columns
        )
        self.prior = {
            "initial": Dirichlet(as_concentration("initial_concentration", initial_concentration, (self.n_states,))),
            "transitions": Dirichlet(as_transitions(concentration, sticky, self.n_states)),
        }
        if "components" in self.mixture.prior:
            self.prior["emissions"] = self.mixture.prior["components"]

    # ---- the model ----------------------------------------------------------------------------------------

    @property
    def pair(self) -> Pair:
        return self.mixture.pair

    @property
    def shift(self) -> Float[Array, " d"] | None:
        return self.mixture.shift

    @property
    def takes_gaps(self) -> bool:
        return self.mixture.missing

    @property
    def words(self) -> Words:
        emissions = self.mixture.words.axes["components"]
        axes = {"initial": ("state",), "transitions": ("state", "next_state")}
        axes |= {"emissions": ("state", *emissions[1:]), "x": ("time", "feature")}
        return STATE.of(self.n_states, axes)

    @property
    def symmetry(self) -> Symmetry | None:
        axes = {"initial": (0,), "transitions": (0, 1), "emissions": (0,)}
        return one_set(self.n_states, axes, self.prior, compared=("emissions", "initial"))

    def log_evidence(
        self, m: Means, x: Steps, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " t"]:
        key_pair, key_path = (None, None) if key is None else jax.random.split(key)
        return sum_paths(self.chain(m, x, powers, key_pair), key_path, self.recursion(x))

    def chain(self, m: Means, x: Steps, powers: Powers = Powers(), key: Key[Array, ""] | None = None) -> Chain:
        """E log p(z), and E log p(x_t | z_t) for every step and state."""
        observed = self.pair.tempered_log_likelihood(
            m["emissions"], x.x, column(powers.observation), column(powers.latent), key
        )
        latent = common_power(powers.latent)
        return Chain(latent * m["initial"].log, latent * m["transitions"].log, observed, x.starts)

    def packed(self, m: Means) -> Means:
        return m | {"emissions": self.pair.packed(m["emissions"])}

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Steps:
        """One sequence of n steps."""
        key_states, key_x = jax.random.split(key)
        states = self.simulate_states(key_states, draws, n)
        return one_sequence(self.simulate_emissions(key_x, draws, states))

    def simulate_states(
        self, key: Key[Array, ""], draws: dict[str, Any], n: int, before: Int[Array, ""] | None = None
    ) -> Int[Array, " n"]:
        """n states of a new sequence, or the n states that follow the state `before`."""
        log_initial, log_transitions = safe_log(draws["initial"]), safe_log(draws["transitions"])
        keys = jax.random.split(key, n)
        first = jax.random.categorical(keys[0], log_initial if before is None else log_transitions[before])

        def step(state: Array, key: Key[Array, ""]) -> tuple[Array, Array]:
            state = jax.random.categorical(key, log_transitions[state])
            return state, state

        return jnp.append(first[None], jax.lax.scan(step, first, keys[1:])[1])

    def simulate_emissions(self, key: Key[Array, ""], draws: dict[str, Any], states: Int[Array, " n"]) -> Any:
        return self.pair.sample(key, jax.tree.map(lambda leaf: leaf[states], draws["emissions"]))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """Emissions start like a mixture; transitions start as if the labels of that mixture were the states."""
        key_labels, key_prior = jax.random.split(key)
        prior: dict[str, Any] = dict(self.prior)
        if self.begin is not None or self.mixture.start.kind == "prior":
            draws = self.sample_prior(key_prior) if self.begin is None else self.units.draws_from_user(self.begin)
            messages = self.walk(self.statistics(draws), data).messages
        else:
            labels = self.mixture.starting_labels(key_labels, _rows(data))
            prior_mean = {"components": prior["emissions"].mean()}
            emissions = self.mixture._label_messages(prior_mean, _rows(data), labels)["components"]
            messages = label_messages(data, labels, self.n_states) | {"emissions": emissions}
        return Posterior({name: p + messages[name] for name, p in prior.items()}, {})

    @property
    def tempering(self) -> Tempering:
        return StepTempering(self)

    @property
    def rows(self) -> RowAccess:
        return Sequences(self)

    # ---- message passing ------------------------------------------------------------------------------------

    def factors(self, data: Data) -> Factors:
        steps: Steps = data.values
        each = step_factors(self.pair, steps.x, steps.starts == FIRST)
        return Factors(each, data.weights > 0, StepTerms(), steps.starts)

    def no_factors(self) -> str:
        if self.pair.has_latents:
            return "it cannot integrate over the missing columns of a step; emission='diagonal' has none to integrate"
        return super().no_factors()

    # ---- data in, answers out -------------------------------------------------------------------------------

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        x, lengths = as_sequences(data, missing=self.mixture.missing)
        mixture = self.mixture._complete(checked(self.pair.check, x, data))
        model = eqx.tree_at(
            lambda model: (model.mixture, model.prior),
            self,
            (mixture, self.prior | {"emissions": mixture.prior["components"]}),
        )
        each = as_weights(weights, len(lengths), "sequences")
        each = np.ones(len(lengths)) if each is None else each
        return model, model.place(mixture.to_internal(x), lengths, np.repeat(each, lengths))

    def place(self, x: np.ndarray, lengths: np.ndarray, weights: np.ndarray) -> Data:
        """Steps on the device, padded to a bucket of whole blocks."""
        room = bucket(len(x))
        blocks = max(1, -(-room // self.mixture._block_size(x)))
        size = blocks * -(-room // blocks)
        padded = np.zeros(size)
        padded[: len(x)] = weights
        values = jax.tree.map(on_device, as_steps(x, lengths, size, blocks))
        return Data(values, on_device(padded), len(x))

    def new_rows(self, data: Any) -> Steps:
        """New sequences, each with a first step from the initial distribution."""
        x, lengths = as_sequences(data, missing=self.mixture.missing, empty_columns=self.mixture.missing)
        return as_steps(self.mixture.new_rows(x), lengths)

    @property
    def units(self) -> Units:
        return StepUnits("emissions", self.shift, self.mixture)

    def log_predictive(self, q: Posterior, x: Steps) -> Float[Array, " t"]:
        """log p(x_t | x_1 … x_(t−1)) of new sequences, one step ahead: transitions at their posterior mean, each
        emission averaged over its posterior."""
        chain = self.predictive_chain(q, x)
        return filter_states(chain, self.recursion(x))[0]

    def predictive_chain(self, q: Posterior, x: Steps) -> Chain:
        emissions = q.blocks["emissions"]

        def block(rows: Any, _: Array) -> tuple[tuple[()], Float[Array, "b k"]]:
            if isinstance(emissions, Point):
                return (), self.pair.tempered_log_likelihood(emissions.mean(), rows, 1.0, 1.0, None)
            return (), self.pair.log_predictive(emissions, rows)

        observed = over_blocks(block, x.x, x.blocks)[1]
        return Chain(log_mean(q.blocks["initial"]), log_mean(q.blocks["transitions"]), observed, x.starts)

    def recursion(self, x: Steps) -> str:
        """The engine of the recursions along these sequences."""
        return choose_engine("device" if self.engine == "autodiff" else self.engine, x.starts.shape[0], self.n_states)

    def traits(self, draws: dict[str, Any], x: Steps) -> Float[Array, "t k"]:
        return smooth_states(self.chain(self.statistics(draws), x), self.recursion(x))

    def responsibilities(self, q: Posterior, x: Steps) -> Float[Array, "t k"]:
        """q(z_t), given the whole sequence."""
        m = {name: block.mean() for name, block in q.blocks.items()}
        return smooth_states(self.chain(m, x), self.recursion(x))

    def smooth(self, state: Any, x: Steps) -> Any:
        """p(z_t | its whole sequence): one array (steps, states), or a list of them for several sequences."""
        return by_sequence(smoothed(self, state, x), x)

    def filter(self, state: Any, x: Steps) -> Any:
        """p(z_t | its sequence up to t)."""
        return by_sequence(filtered(self, state, x), x)

    def decode(self, q: Posterior, x: Steps) -> Any:
        """The most probable path of each sequence (Viterbi)."""
        return by_sequence(decoded(self, q, x), x)

    def forecast(self, state: Any, key: Key[Array, ""], x: Steps, n: int, draws: int) -> Forecast:
        return forecast(self, state, key, x, n, draws)

    def fitted_steps(self, state: Any, q: Posterior, x: Steps) -> tuple[np.ndarray, np.ndarray]:
        return expected_steps(self, smoothed(self, state, x), q, x)

    def steps_to_user(self, x: Steps, sequence: int) -> np.ndarray:
        begin, length = int(x.offsets[sequence]), int(x.lengths[sequence])
        steps = np.asarray(x.x, dtype=np.float64)[begin : begin + length]
        return steps if self.shift is None else steps + np.asarray(self.shift)

    @eqx.filter_jit
    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        """One new sequence of n steps, with one draw of the parameters."""
        key_draw, key_x = jax.random.split(key)
        draws = {
            name: block.sample(jax.random.fold_in(key_draw, number))
            for number, (name, block) in enumerate(q.blocks.items())
        }
        rows = self.simulate(key_x, draws, n).x
        return rows if self.shift is None else rows + self.shift[None]

    def occupancy(self, q: Posterior, data: Data) -> Float[Array, " k"]:
        """The expected number of steps in each state."""
        return data.weights @ self.responsibilities(q, data.values)

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        """The states in use, the state with most steps first; `duration` is the mean number of steps of a visit."""
        (counts,) = self.held(q, data)
        order = self.order(q, data)
        stay = np.exp(np.asarray(log_mean(q.blocks["transitions"]))).diagonal()
        columns = {
            name: np.asarray(value) for name, value in self.units.to_user(q.blocks)["emissions"].described().items()
        }
        table: dict[str, list[Any]] = {
            "state": [self.words.label(place) for place in range(len(order))],
            "steps": [float(counts[k]) for k in order],
            "duration": [float(1.0 / max(1.0 - stay[k], 1e-300)) for k in order],
        }
        return table | {name: [value[k] for k in order] for name, value in columns.items()}

    def notes(self, data: Data) -> list[str]:
        if self.n_states > data.size:
            return [f"there are more states ({self.n_states}) than steps ({data.size}): some must stay unused"]
        return []


def log_mean(block: Any) -> Float[Array, "*b k"]:
    """log E[π] of a Dirichlet, or of a point."""
    if isinstance(block, Point):
        return safe_log(block.inner.mode())
    delta = block.concentration
    return jnp.log(delta) - jnp.log(jnp.sum(delta, axis=-1, keepdims=True))


def _rows(data: Data) -> Data:
    """The data with steps treated as independent rows."""
    return Data(data.values.x, data.weights, data.size, data.values.blocks)


def common_power(power: ArrayLike) -> Array:
    """The power that all steps share."""
    power = jnp.asarray(power)
    if power.ndim > 0:
        raise UnsupportedMethod("the steps of a sequence must have one temperature; use tp.Annealed, not tp.LVT")
    return power
