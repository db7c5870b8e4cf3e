"""The functions that run on the workers: they read a part, summarise it, walk over it and add up results.

Results are NumPy trees: JAX stays inside a worker. Compiled functions live as long as the worker's process, and
parts of nearly equal size have one shape, so that a worker compiles once or twice, not once for each part.
"""

from __future__ import annotations

import ctypes
import functools
from collections import OrderedDict
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from ..data import Corpus
from ..data.documents import as_documents
from ..errors import PartitionFailed, TemperanceError
from ..models import Data, Model, Powers, Way
from ..models._answers import Predicting, require
from ..models.topics import LDA
from ..rowwise import rowwise
from .partitions import FromFile, FromMemory, FromShard, as_rows, row_count, take_rows

_models: OrderedDict[str, Model] = OrderedDict()  # models of the last few runs, on this worker's device
_READERS = (FromFile, FromShard, FromMemory)


class About(NamedTuple):
    """A summary of one or several parts; the client needs the summary of all parts before it can begin."""

    rows: int
    size: int = 0  # bytes
    count: Any = 0.0  # observed values of each column
    mean: Any = 0.0
    spread: Any = 0.0  # Σ (x − mean)²
    shape: tuple[int, ...] = ()  # of one row
    inputs: int = 0  # columns of X, where rows are pairs (X, y)
    tokens: float = 0.0
    n_words: int = 0
    empty: int = 0  # documents without a word
    words: frozenset[str] | None = None


class Part(NamedTuple):
    """A part in the memory of a worker: arrays padded to one of a few lengths, or documents."""

    number: int
    values: Any
    weights: np.ndarray  # 0 for padding rows
    blocks: int

    def __sizeof__(self) -> int:
        held = self.values
        arrays = [held.starts, held.words, held.counts] if isinstance(held, Corpus) else jax.tree.leaves(held)
        return sum(array.nbytes for array in arrays) + self.weights.nbytes


class Job(NamedTuple):
    """A walk over one part, for some restarts."""

    part: int
    name: str
    restarts: tuple[int, ...]
    scales: tuple[float, ...]  # factors of the weights, one for each of these restarts
    tokens: tuple[int, ...]  # the version of each restart's local blocks; −1 for a fresh start


class Walks(NamedTuple):
    """The settings that all jobs of one call share."""

    run: str
    energy: bool
    steps: int  # passes over local blocks
    cold: bool
    keep: bool  # whether the local blocks will be asked for again


# ---- looking at parts -------------------------------------------------------------------------------------------


def look(source: Any, number: int, name: str, documents: bool, options: dict[str, Any]) -> About:
    """Summarise a part: its number of rows, and their moments or words."""

    def work() -> About:
        rows = _load(source, documents, options)
        if rows is None:
            return About(0)
        if isinstance(rows, Corpus):
            words = None if rows.vocabulary is None or options.get("vocabulary") else frozenset(rows.vocabulary)
            size = rows.words.nbytes + rows.counts.nbytes + rows.starts.nbytes
            return About(len(rows), size, tokens=rows.n_tokens, n_words=rows.n_words, empty=rows.n_empty, words=words)
        table = np.column_stack(rows) if isinstance(rows, tuple) else rows.reshape(len(rows), -1)
        count = (~np.isnan(table)).sum(axis=0).astype(np.float64)
        seen = np.maximum(count, 1.0)
        # Relative to the first row, because sums of numbers far from zero lose digits.
        origin = np.nan_to_num(table[0])
        mean = origin + np.nansum(table - origin, axis=0) / seen
        spread = np.nansum(np.square(table - mean), axis=0)
        shape = rows.shape[1:] if isinstance(rows, np.ndarray) else (table.shape[1],)
        inputs = rows[0].shape[1] if isinstance(rows, tuple) else 0
        return About(len(table), table.nbytes, count, mean, spread, shape, inputs)

    return _named(number, name, work)


def join_abouts(parts: list[About]) -> About:
    """Combine the moments of parts into those of all rows (Chan, Golub & LeVeque, 1983)."""
    parts = [part for part in parts if part.rows]
    if not parts:
        return About(0)
    total = parts[0]
    for part in parts[1:]:
        if part.shape != total.shape or part.inputs != total.inputs:
            return total._replace(shape=(-1,))  # the client, which knows the names, reports this
        count = total.count + part.count
        share = np.where(count > 0, part.count / np.maximum(count, 1.0), 0.0)
        away = part.mean - total.mean
        words = None if total.words is None or part.words is None else total.words | part.words
        total = About(
            total.rows + part.rows,
            total.size + part.size,
            count,
            total.mean + share * away,
            total.spread + part.spread + np.square(away) * total.count * share,
            total.shape,
            total.inputs,
            total.tokens + part.tokens,
            max(total.n_words, part.n_words),
            total.empty + part.empty,
            words,
        )
    return total


def some(
    source: Any, number: int, name: str, documents: bool, options: dict[str, Any], which: np.ndarray | None
) -> Any:
    """These rows of a part (all of them without `which`), unchanged."""

    def work() -> Any:
        rows = _load(source, documents, options)
        return rows if which is None else take_rows(rows, which)

    return _named(number, name, work)


# ---- walking over parts -----------------------------------------------------------------------------------------


def read(source: Any, number: int, name: str, documents: bool, model: Any, run: str, length: int, block: int) -> Part:
    """A part in the coordinates of the model, padded to `length` rows."""
    return _named(number, name, lambda: _read(source, number, documents, _model(model, run), length, block))


def _read(source: Any, number: int, documents: bool, model: Model, length: int, block: int) -> Part:
    if isinstance(model, LDA):
        raw = source.read(documents) if isinstance(source, _READERS) else source
        corpus = model.new_corpus(raw)
        weights = np.zeros(length)
        weights[: len(corpus)] = 1.0
        return Part(number, corpus, weights, 1)
    values = require(model, Predicting).new_rows(_load(source, documents, {}))
    blocks = max(1, -(-length // block))
    size = blocks * -(-length // blocks)
    count = jax.tree.leaves(values)[0].shape[0]

    def fill(leaf: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        rows = _aligned((size, *leaf.shape[1:]), leaf.dtype)
        rows[:count], rows[count:] = leaf, leaf[-1:]
        return rows

    weights = _aligned((size,), np.float64)
    weights[:count], weights[count:] = 1.0, 0.0
    return Part(number, jax.tree.map(fill, values), weights, blocks)


def walk(job: Job, part: Any, m: Any, powers: np.ndarray, model: Any, about: Walks, given: Any, parents: Any) -> Any:
    """The sums over one part for each restart, {restart: leaves}, and with `keep` its local blocks, {restart: …}.

    `part` is a `Part`, or, if `given` says how to read it, its source.
    """

    def work() -> Any:
        here = _model(model, about.run)
        ready = part if given is None else _read(part, job.part, given[0], here, *given[1:])
        data = _on_device(here, ready)
        sums, locals_ = {}, {}
        for restart, scale, token in zip(job.restarts, job.scales, job.tokens, strict=True):
            local = {} if token < 0 else parents[token][restart]
            scaled = data if scale == 1.0 else eqx.tree_at(lambda d: d.weights, data, data.weights * scale)
            mine = jax.tree.map(lambda leaf, r=restart: np.asarray(leaf[r]), m)
            given_powers = None if about.cold else jax.numpy.asarray(powers[restart])
            found, fresh = _walk(about.energy, here, mine, scaled, given_powers, local, about.steps)
            sums[restart] = [np.asarray(leaf) for leaf in jax.tree.leaves(found)]
            if about.keep:
                locals_[restart] = jax.tree.map(np.asarray, fresh)
        return (sums, locals_) if about.keep else sums

    try:
        return _named(job.part, job.name, work)
    finally:
        hand_back()


def answer(energy: bool, model: Model, m: Any, data: Data, powers: Any, local: Any, steps: int) -> tuple[Any, Any]:
    """(sums, local blocks) of a walk. A worker runs it; the client only asks for the shapes of its result."""
    way = Way(Powers() if powers is None else Powers(powers[0], powers[1]), steps, energy)
    walked = model.walk(m, data, way, local)
    return (walked.value, walked.messages, *((walked.energy,) if energy else ())), walked.local


_walk = eqx.filter_jit(answer)


def add(parts: list[dict[int, list[np.ndarray]]]) -> dict[int, list[np.ndarray]]:
    """The sum of several results, restart by restart, always added in the order of `parts`."""
    total: dict[int, list[np.ndarray]] = {}
    for part in parts:
        for restart, leaves in part.items():
            before = total.get(restart)
            total[restart] = leaves if before is None else [a + b for a, b in zip(before, leaves, strict=True)]
    return total


def same(value: Any) -> Any:
    """Return the value: this makes it a task, which the scheduler can give to another worker if one is lost."""
    return value


def first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def second(pair: tuple[Any, Any]) -> Any:
    return pair[1]


def predict(source: Any, name: str, model: Any, state: Any, width: int | None) -> np.ndarray:
    """`fit.log_predictive` or `fit.responsibilities` of a block of new data."""
    if row_count(source) == 0:
        return np.zeros(0 if width is None else (0, width))
    return rowwise(name, model, state, source)


# ---- pieces -----------------------------------------------------------------------------------------------------


def _load(source: Any, documents: bool, options: dict[str, Any]) -> Any:
    return as_rows(source.read(documents) if isinstance(source, _READERS) else source, documents, options)


def _named(number: int, name: str, work: Any) -> Any:
    """Run a call, and name the partition in any error."""
    try:
        return work()
    except PartitionFailed:
        raise
    except Exception as error:
        kind = "" if isinstance(error, TemperanceError) else f"{type(error).__name__}: "
        raise PartitionFailed(f"partition {number} ({name}): {kind}{error}", number) from None


def _model(model: Any, run: str) -> Model:
    if run not in _models:
        while len(_models) >= 4:
            _models.popitem(last=False)
        _models[run] = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf) if eqx.is_array(leaf) else leaf, model)
    _models.move_to_end(run)
    return _models[run]


def _on_device(model: Model, part: Part) -> Data:
    length = len(part.weights)
    if not isinstance(part.values, Corpus):
        values = jax.tree.map(lambda leaf: jax.device_put(leaf, may_alias=True), part.values)
        return Data(values, jax.device_put(part.weights, may_alias=True), length, part.blocks)
    assert isinstance(model, LDA)
    host = model._engine() == "host"
    width = 1 << (int(part.values.entries.max(initial=1)) - 1).bit_length()
    documents = as_documents(part.values, host, width, padded=not host)
    missing = length - len(part.values)

    def fill(leaf: np.ndarray) -> Any:
        return jax.numpy.asarray(np.concatenate([leaf, np.repeat(leaf[-1:], missing, axis=0)]))

    return Data(jax.tree.map(fill, documents), jax.numpy.asarray(part.weights), length, 1)


def hand_back() -> None:
    """Return freed memory to the system, where glibc can. Dask stops a worker that seems to use too much, and the
    memory that the allocator keeps for later, in an arena for each thread, can exceed a partition."""
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


@functools.cache
def _libc() -> Any:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):
        return None


def _aligned(shape: tuple[int, ...], kind: Any) -> np.ndarray:
    """An empty array that begins at a multiple of 64 bytes, so that JAX on a CPU can use it without a copy."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    room = np.empty(size + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size].view(kind).reshape(shape)
