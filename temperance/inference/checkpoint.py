"""Checkpoints of the loop: a rerun of a call continues where the last run stopped, and ends with identical bits.

A checkpoint holds the carry of `run` and the history so far, as leaves; their structure comes from the call itself, so
that the file cannot say what to build. It belongs to one call: model, method, data and seed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import storage
from .._arguments import check_path
from ..data.documents import Documents
from ..errors import DamagedFile, InvalidParameter

_BUDGET = ("max_iter", "tol")  # the budget may differ between calls


class Checkpoint:
    """The file in which a run keeps its state, how often it is written, and the call it belongs to."""

    def __init__(self, path: Any, every: float, identity: str):
        if isinstance(every, bool) or not isinstance(every, int | float) or not 0 <= every < np.inf:
            raise InvalidParameter(f"every must be a number of seconds of at least 0, got {every!r}")
        # An absolute path, so that the run may change its folder.
        self.path = check_path("checkpoint", path).absolute()
        self.every, self.identity = every, identity
        self.failure: str | None = None  # why the last write failed, if it did
        self._saved = time.monotonic()

    def read(self, carry: Any, history: Any) -> tuple[Any, Any] | None:
        """The stored carry and history, in the structure of these shapes; None if nothing is stored yet."""
        try:
            if not self.path.exists():
                return None
            kept = storage.load(self.path)
        except OSError as error:
            raise InvalidParameter(f"checkpoint {str(self.path)!r} cannot be read: {error.strerror}") from error
        if not isinstance(kept, dict) or set(kept) != {"checkpoint", "carry", "history"}:
            raise DamagedFile(f"{self.path} is not a checkpoint")
        if not isinstance(kept["checkpoint"], str) or kept["checkpoint"] != self.identity:
            raise InvalidParameter(
                f"checkpoint {str(self.path)!r} belongs to another call (its model, method, data, seed or versions "
                "differ): give another path, or remove the file"
            )
        if not _alike(kept["carry"], carry) or not _rows_alike(kept["history"], history):
            raise DamagedFile(f"{self.path} does not hold the state of this run")
        whole = jax.tree.unflatten(jax.tree.structure(carry), [jnp.asarray(leaf) for leaf in kept["carry"]])
        if int(whole.steps) != (len(kept["history"][0]) if kept["history"] else 0):
            raise DamagedFile(f"{self.path} does not hold the history of the steps that it counts")
        return whole, jax.tree.unflatten(jax.tree.structure(history), kept["history"]) if kept["history"] else None

    def begin(self, carry: Any) -> None:
        """Write the initial state, so that an unwritable folder is an error now rather than after hours."""
        try:
            self._save(carry, [])
        except OSError as error:
            raise InvalidParameter(f"checkpoint {str(self.path)!r} cannot be written: {error.strerror}") from error

    def save(self, carry: Any, history: list[Any], now: bool = False) -> None:
        """Write the state if the interval has passed. A full disk costs the checkpoint, not the run."""
        if not now and time.monotonic() - self._saved < self.every:
            return
        try:
            self._save(carry, history)
            self.failure = None
        except OSError as error:
            self.failure = f"the checkpoint {self.path} could not be written at the end: {error.strerror}"

    def _save(self, carry: Any, history: list[Any]) -> None:
        joined = join(history)
        kept = {
            "checkpoint": self.identity,
            "carry": [leaf if _is_key(leaf) else np.asarray(leaf) for leaf in jax.tree.leaves(carry)],
            "history": [np.asarray(leaf) for leaf in jax.tree.leaves(joined)],
        }
        storage.save(kept, self.path)
        self._saved = time.monotonic()


def checkpoint_of(path: Any, every: float, model: Any, method: Any, data: Any, key: Any) -> Checkpoint:
    """The checkpoint that belongs to this call."""
    return Checkpoint(path, every, identity(model, method, data, key))


def join(history: list[Any]) -> Any:
    """Join consecutive parts of a history."""
    return jax.tree.map(lambda *parts: np.concatenate(parts), *history) if history else {}


def identity(model: Any, method: Any, data: Any, key: Any) -> str:
    """A fingerprint of a call, the same in every process."""
    digest = hashlib.sha256()
    fields = {
        field.name: getattr(method, field.name) for field in dataclasses.fields(method) if field.name not in _BUDGET
    }
    versions = (jax.__version__, jax.default_backend())
    for tree in (versions, type(method).__name__, fields, model, _contents(data), jax.random.key_data(key)):
        leaves, structure = jax.tree.flatten(tree)
        # The address of a function (a user's features) differs between processes and does not identify it.
        digest.update(re.sub(r" at 0x[0-9a-f]+", "", str(structure)).encode())
        for leaf in leaves:
            if eqx.is_array_like(leaf) or isinstance(leaf, np.ndarray):
                digest.update(np.ascontiguousarray(leaf).tobytes())
            else:
                digest.update(re.sub(r" at 0x[0-9a-f]+", "", repr(leaf)).encode())
    return digest.hexdigest()


def _contents(data: Any) -> Any:
    """The data with the contents behind handles: a host corpus is known by a number that differs between processes."""

    def content(leaf: Any) -> Any:
        if not isinstance(leaf, Documents) or leaf.rows is None:
            return leaf
        parts = getattr(leaf.keep.corpus, "shards", (leaf.keep.corpus,))
        places = np.asarray(leaf.rows) - np.asarray(leaf.rows).min(initial=2**62)
        return [leaf.lengths, places, leaf.width, [(part.starts, part.words, part.counts) for part in parts]]

    return jax.tree.map(content, data, is_leaf=lambda leaf: isinstance(leaf, Documents))


def _alike(leaves: Any, tree: Any) -> bool:
    """Whether these are arrays of the shapes and types of the leaves of a tree."""
    kinds = [_kind(leaf) for leaf in leaves] if isinstance(leaves, list) else None
    return kinds == [_kind(leaf) for leaf in jax.tree.leaves(tree)]


def _rows_alike(leaves: Any, tree: Any) -> bool:
    """Whether these are arrays of numbers of one length, whose rows have the shapes of a tree; or there are none."""
    if not isinstance(leaves, list) or not all(isinstance(leaf, np.ndarray) and leaf.ndim for leaf in leaves):
        return False
    numbers = all(leaf.dtype.kind in "biuf" for leaf in leaves)
    rows = [leaf.shape[1:] for leaf in leaves]
    one_length = len({len(leaf) for leaf in leaves}) <= 1
    return numbers and one_length and rows in ([], [leaf.shape[1:] for leaf in jax.tree.leaves(tree)])


def _kind(leaf: Any) -> tuple[Any, Any]:
    return getattr(leaf, "shape", None), getattr(leaf, "dtype", None)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
