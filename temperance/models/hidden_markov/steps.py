"""The steps of all sequences in the form for compiled code, and the answers of a fit about their states and their
future."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8, Key

from ..._arguments import NOT_NEGATIVE
from ...data.sequences import as_sequences
from ...errors import InvalidData, InvalidParameter
from ...families import DirichletVector
from ...families._parameters import parameters, require_finite_positive
from ...numerics.chains import CUT, FIRST, ON, Chain, best_path, filter_states, smooth_states, sum_paths
from .._blocks import Tempering
from .._data import Counted, Data, RowAccess, Stochastic
from .._model import Means, Posterior, means
from ..linear import Forecast
from ..mixture.likelihoods import Shifted, log_unit, pair_log_base, pair_volume, seen_numbers

if TYPE_CHECKING:
    from . import HMM


_APART = 2**13  # most steps of a minibatch that are treated in one block


class Steps(Counted):
    """Steps (t, d) of all sequences, one after another; each step of padding is a sequence by itself.

    Unlike the rows of most models these depend on each other: they may be cut only where a sequence begins.
    """

    x: Float[Array, "t d"]
    starts: Int8[Array, " t"]  # `ON`, `FIRST` or `CUT`, see `numerics.chains`
    offsets: Int[Array, " s"]  # the first step of each sequence
    lengths: Int[Array, " s"]
    longest: int = eqx.field(static=True)
    blocks: int = eqx.field(static=True, default=1)  # blocks into which independent steps may be cut

    @property
    def sequences(self) -> int:
        return self.offsets.shape[0]

    def uncounted(self) -> Self:
        """These steps without the length of the longest sequence, which only minibatches need."""
        return dataclasses.replace(self, longest=self.starts.shape[0])


def as_steps(x: np.ndarray, lengths: np.ndarray, size: int | None = None, blocks: int = 1) -> Steps:
    """Steps as host arrays, padded to `size` with copies of the last row."""
    offsets = np.cumsum(lengths) - lengths
    size = len(x) if size is None else size
    starts = np.full(size, ON, dtype=np.int8)
    starts[offsets] = FIRST
    starts[len(x) :] = FIRST
    if size > len(x):
        x = np.concatenate([x, np.repeat(x[-1:], size - len(x), axis=0)])
    return Steps(x, starts, offsets, lengths, int(lengths.max()), blocks)  # type: ignore[arg-type]


def one_sequence(x: Float[Array, "t d"]) -> Steps:
    """Steps that form one sequence."""
    n = x.shape[0]
    starts = jnp.full(n, ON, dtype=jnp.int8).at[0].set(FIRST)
    return Steps(x, starts, jnp.zeros(1, dtype=jnp.int64), jnp.full(1, n, dtype=jnp.int64), n)


def some_sequences(data: Data, chosen: Int[Array, " b"], scale: Float[Array, ""]) -> Data:
    """Whole sequences, padded to the longest with steps of weight zero."""
    steps = data.values
    place = jnp.arange(steps.longest)[None]
    rows = steps.offsets[chosen][:, None] + place
    seen = place < steps.lengths[chosen][:, None]
    return _gather(data, rows, seen, seen, scale, first=FIRST)


def some_windows(data: Data, chosen: Int[Array, " b"], window: int, burn_in: int, scale: Float[Array, ""]) -> Data:
    """Windows, numbered along all steps, each with `burn_in` steps on both sides that only serve as context."""
    place = jnp.arange(window + 2 * burn_in)[None]
    rows = (chosen * window - burn_in)[:, None] + place
    seen = (rows >= 0) & (rows < data.size)
    inside = seen & (place >= burn_in) & (place < burn_in + window)
    return _gather(data, rows, seen, inside, scale, first=CUT)


def _gather(data: Data, rows: Array, seen: Array, counted: Array, scale: Float[Array, ""], first: int) -> Data:
    steps = data.values
    index = jnp.clip(rows, 0, data.size - 1).reshape(-1)
    begins = jnp.zeros(rows.shape, dtype=bool).at[:, 0].set(True)
    starts = steps.starts[index].reshape(rows.shape)
    starts = jnp.where(begins & (starts == ON), first, starts)
    starts = jnp.where(seen, starts, FIRST).astype(jnp.int8).reshape(-1)
    weights = jnp.where(counted, scale * data.weights[index].reshape(rows.shape), 0.0).reshape(-1)
    blocks = 1 if index.shape[0] <= _APART else rows.shape[0]
    nothing = jnp.zeros(0, dtype=jnp.int64)
    values = Steps(jnp.take(steps.x, index, axis=0), starts, nothing, nothing, rows.shape[1], blocks)
    return Data(values, weights, index.shape[0], 1)


def label_messages(data: Data, labels: Any, size: int) -> dict[str, DirichletVector]:
    """The statistics of fixed labels (or shares) of the steps: first states, and pairs of neighbours."""
    share = labels if labels.ndim == 2 else jax.nn.one_hot(labels, size, dtype=jnp.float64)
    starts, weights = data.values.starts, data.weights
    initial = jnp.where(starts == FIRST, weights, 0.0) @ share
    pairs = (jnp.where(starts == ON, weights, 0.0)[1:, None] * share[:-1]).T @ share[1:]
    return {"initial": DirichletVector(initial), "transitions": DirichletVector(pairs)}


# Concentrations of the Dirichlet priors of a hidden Markov model, as a user gives them.


def as_concentration(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    delta = parameters(**{name: (value, 0)})[0]
    require_finite_positive(**{name: delta})
    if delta.shape not in ((), shape):
        raise InvalidParameter(f"{name} must be one number or an array of shape {shape}, got shape {delta.shape}")
    return np.broadcast_to(delta, shape)


def as_transitions(concentration: Any, sticky: Any, size: int) -> np.ndarray:
    delta = as_concentration("concentration", concentration, (size, size))
    NOT_NEGATIVE("sticky", sticky)
    return delta + float(sticky) * np.eye(size)


# ---- answers -----------------------------------------------------------------------------------------------


def by_sequence(rows: Any, x: Steps) -> Any:
    """One array for a single sequence, a list of arrays for several, without the padding."""
    rows = np.asarray(rows)
    parts = [rows[begin : begin + length] for begin, length in zip(x.offsets, x.lengths, strict=True)]
    return parts[0] if len(parts) == 1 else parts


@eqx.filter_jit
def smoothed(model: HMM, state: Any, x: Steps) -> Float[Array, "t k"]:
    return _average(model, state, lambda m: smooth_states(model.chain(m, x), model.recursion(x)))


@eqx.filter_jit
def filtered(model: HMM, state: Any, x: Steps) -> Float[Array, "t k"]:
    return _average(model, state, lambda m: jnp.exp(filter_states(model.chain(m, x), model.recursion(x))[1]))


@eqx.filter_jit
def decoded(model: HMM, q: Posterior, x: Steps) -> Int[Array, " t"]:
    return best_path(model.chain(means(q.blocks), x))


def expected_steps(model: HMM, shares: Any, q: Posterior, x: Steps) -> tuple[np.ndarray, np.ndarray]:
    """The steps of the first sequence, and their expected values under the probabilities of their states."""
    steps = model.steps_to_user(x, 0)
    shares = np.asarray(shares)[int(x.offsets[0]) :][: len(steps)]
    columns = model.units.to_user(q.blocks)["emissions"].described()
    means = np.asarray(columns.get("mean", columns.get("probability", np.full((shares.shape[1], 1), np.nan))))
    means = means.reshape(shares.shape[1], -1)
    return steps, shares @ means if means.shape[1] == steps.shape[1] else np.full(steps.shape, np.nan)


def _average(model: HMM, state: Any, one: Any) -> Any:
    if isinstance(state, Posterior):
        return one(means(state.blocks))
    return state.average(lambda draw: one(model.statistics(draw)))


def forecast(model: HMM, state: Any, key: Key[Array, ""], x: Steps, n: int, draws: int) -> Forecast:
    """The next steps of one sequence: for each draw of the parameters its last state is drawn, and then simulated
    onwards."""
    if x.sequences != 1:
        raise InvalidData(f"a forecast goes on with one sequence, but there are {x.sequences}; give one of them")
    key_q, key_x = jax.random.split(key)
    if isinstance(state, Posterior):
        parameters = _draw(state, jax.random.split(key_q, draws))
    else:
        parameters = jax.tree.map(lambda leaf: leaf[0], state.resampled(key_q, draws).blocks)
    paths, states = map(np.asarray, _go_on(model, parameters, jax.random.split(key_x, draws), x, n))
    if model.shift is not None:
        paths = paths + np.asarray(model.shift)
    shares = np.eye(model.n_states)[states].mean(axis=0)
    return Forecast(paths.mean(axis=0), paths.var(axis=0), paths, shares)


@eqx.filter_jit
def _draw(q: Posterior, keys: Key[Array, " s"]) -> dict[str, Any]:
    def one(key: Key[Array, ""]) -> dict[str, Any]:
        each = enumerate(q.blocks.items())
        return {name: block.sample(jax.random.fold_in(key, number)) for number, (name, block) in each}

    return jax.vmap(one)(keys)


@eqx.filter_jit
def _go_on(model: HMM, draws: Any, keys: Key[Array, " s"], x: Steps, n: int) -> tuple[Array, Array]:
    last = x.lengths[0] - 1

    def one(part: Any) -> tuple[Array, Array]:
        draw, key = part
        key_last, key_states, key_x = jax.random.split(key, 3)
        m: Means = model.statistics(draw)
        known = filter_states(model.chain(m, x), model.recursion(x))[1][last]
        before = jax.random.categorical(key_last, known)
        states = model.simulate_states(key_states, draw, n, before)
        return model.simulate_emissions(key_x, draw, states), states

    return jax.lax.map(one, (draws, keys), batch_size=16)


# ---- parts of the model: how steps may be cut, their coordinates, and what they are at a temperature ---------------


class Sequences(RowAccess):
    """Steps are cut into whole sequences, or into windows of long ones."""

    independent: ClassVar[bool] = False
    stochastic: ClassVar[Stochastic] = Stochastic(batch_size=16)

    def first(self, data: Data, size: int) -> Data:
        steps, begin = data.values, np.asarray(data.values.offsets)
        chosen = begin < size
        lengths = np.minimum(np.asarray(steps.lengths)[chosen], size - begin[chosen])
        offsets = jnp.asarray(begin[chosen])
        values = Steps(steps.x[:size], steps.starts[:size], offsets, jnp.asarray(lengths), int(lengths.max()))
        return Data(values, data.weights[:size], size)

    def sample(self, data: Data, size: int, rng: np.random.Generator, blocks: int | None = None) -> Data:
        """The first steps, because sequences must not be torn apart."""
        part = self.first(data, min(size, data.size))
        return dataclasses.replace(part, weights=part.weights * (data.total_weight / jnp.sum(part.weights)))

    def parts(self, data: Data) -> int:
        """Sequences, or windows of long ones."""
        return data.values.sequences if self.are_whole(data) else -(-data.size // self.model.window)

    def are_whole(self, data: Data) -> bool:
        return bool(data.values.longest <= self.model.window)

    def minibatch(
        self, data: Data, chosen: Int[Array, " b"], stands_for: Float[Array, ""], ahead: Int[Array, " b"]
    ) -> Data:
        scale = stands_for * self.parts(data) / (data.size * chosen.shape[0])
        if self.are_whole(data):
            return some_sequences(data, chosen, scale)
        return some_windows(data, chosen, self.model.window, self.model.burn_in, scale)

    def piece(self, data: Any, run: int | None = None, size: int | None = None) -> Data:
        """New sequences; or runs of `run` steps from within a long sequence, whose edges only serve as context."""
        mixture, burn_in = self.model.mixture, self.model.burn_in
        x, lengths = as_sequences(data, missing=mixture.missing, empty_columns=mixture.missing)
        rows = mixture.new_rows(x)
        if run is None or size is None:
            return self.model.place(rows, lengths, np.ones(len(rows)))
        if run <= 4 * burn_in:
            raise InvalidParameter(
                f"burn_in is {burn_in} steps on either side of the runs of {run} that this stream is read in: "
                f"give the stream at least piece_rows={32 * (4 * burn_in + 1)}, or the model a smaller burn_in"
            )
        weights = np.zeros(size)
        place = np.arange(len(rows)) % run
        inside = (place >= burn_in) & (place < run - burn_in)
        weights[: len(rows)] = np.where(inside, run / (run - 2.0 * burn_in), 0.0)
        whole = np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])
        found = self.model.place(whole, np.full(size // run, run), weights)
        cuts = jnp.where(found.values.starts[:size] == FIRST, CUT, ON).astype(jnp.int8)
        return eqx.tree_at(lambda data: data.values.starts, found, found.values.starts.at[:size].set(cuts))


class StepUnits(Shifted):
    """The units of the mixture of emissions."""

    def values_to_user(self, values: Any) -> Any:
        return values

    def log_unit(self, data: Data) -> Float[Array, ""] | float:
        return log_unit(self.mixture, data.values.x, data.weights)


class StepTempering(Tempering):
    """Tempering in which all steps of a sequence have one temperature."""

    def log_base(self, data: Data) -> Float[Array, ""] | None:
        rows = Data(data.values.x, data.weights, data.size, data.values.blocks)
        return pair_log_base(self.model.pair, rows)

    def log_volume(self, m: Means, x: Steps, power: Float[Array, ""], key: Key[Array, ""] | None) -> Float[Array, " t"]:
        key_pair, key_path = (None, None) if key is None else jax.random.split(key)
        each = pair_volume(self.model.pair, m["emissions"], x.x, power, key_pair)
        chain = Chain(power * m["initial"].log, power * m["transitions"].log, each, x.starts)
        # Many short chains of draws run side by side; a call to the host for each would cost more than it saves.
        return sum_paths(chain, key_path, "device")

    def known_gaussians(self, data: Data) -> float:
        return seen_numbers(self.model.pair, data.values.x, data.weights)
