"""Checkpoints: a run cut short goes on to the same bits, and a file that is not this call's is refused and kept.

Kills of every method are in tests/faults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import temperance as tp
from temperance import storage
from temperance.errors import DamagedFile, InvalidParameter

rng = np.random.default_rng(0)
X = rng.normal(size=(96, 2)) + 3.0 * rng.integers(0, 2, size=(96, 1))
MODEL = tp.GaussianMixture(2)
VB = {"restarts": 2, "tol": 0.0}


def same(one: tp.Fit, other: tp.Fit) -> None:
    assert one.log_evidence == other.log_evidence and one.converged == other.converged
    for left, right in ((one.state, other.state), (one.history, other.history)):
        jax.tree.map(np.testing.assert_array_equal, left, right)


def test_a_longer_run_goes_on_where_a_shorter_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    tp.fit(MODEL, X, tp.VB(max_iter=5, **VB), seed=1, checkpoint=path)
    resumed = tp.fit(MODEL, X, tp.VB(max_iter=12, **VB), seed=1, checkpoint=path)
    whole = tp.fit(MODEL, X, tp.VB(max_iter=12, **VB), seed=1)
    same(resumed, whole)
    # A run that is over is not run again.
    same(tp.fit(MODEL, X, tp.VB(max_iter=12, **VB), seed=1, checkpoint=path), whole)


@pytest.mark.slow
def test_a_stream_goes_on_with_the_pieces_it_has_not_seen(tmp_path: Path) -> None:
    method = {"batch_size": 16, "passes": 6}

    class Cut(Exception):
        pass

    def stream(limit: int | None = None) -> tp.Stream:
        source = tp.Stream(X, piece_rows=32)
        if limit is not None:
            take, calls = source.take, []

            def counted(ranges: Any) -> Any:
                calls.append(ranges)
                if len(calls) > limit:
                    raise Cut
                return take(ranges)

            source.take = counted  # type: ignore[method-assign]
        return source

    path = tmp_path / "kept"
    with pytest.raises(Cut):
        tp.fit(MODEL, stream(9), tp.SVI(**method), seed=1, checkpoint=path, every=0)
    resumed = tp.fit(MODEL, stream(), tp.SVI(**method), seed=1, checkpoint=path)
    same(resumed, tp.fit(MODEL, stream(), tp.SVI(**method), seed=1))


def test_a_checkpoint_of_another_call_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    tp.fit(MODEL, X, tp.VB(max_iter=5, **VB), seed=1, checkpoint=path)
    before = path.read_bytes()
    for data, seed in ((X, 2), (X + 1e-9, 1)):
        with pytest.raises(InvalidParameter, match="belongs to another call"):
            tp.fit(MODEL, data, tp.VB(max_iter=5, **VB), seed=seed, checkpoint=path)
    path.write_bytes(before[: len(before) // 2])
    with pytest.raises(DamagedFile):
        tp.fit(MODEL, X, tp.VB(max_iter=5, **VB), seed=1, checkpoint=path)
    assert path.read_bytes() == before[: len(before) // 2]
    with pytest.raises(InvalidParameter, match="cannot be written"):
        tp.fit(MODEL, X, tp.VB(max_iter=5, **VB), seed=1, checkpoint=tmp_path / "nowhere" / "kept")
    with pytest.raises(InvalidParameter, match="every"):
        tp.fit(MODEL, X, tp.VB(max_iter=5, **VB), seed=1, checkpoint=tmp_path / "new", every=-1.0)


NUMBERS, WORDS = np.zeros((5, 2)), np.full((5, 2), "word")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        *(("carry", value) for value in (None, 5, [], [None], NUMBERS, {"a": 1}, tp.Gamma)),
        *(("history", value) for value in (None, True, "x", [], [None], [1.0, 2.0], NUMBERS, [WORDS], [NUMBERS[:3]])),
        ("history", [jax.random.split(jax.random.key(0), 5)]),
        ("checkpoint", NUMBERS),
    ],
)
def test_a_checkpoint_made_to_do_harm_is_refused(part: str, value: Any, tmp_path: Path) -> None:
    """Its checksums are right and it names this call."""
    path = tmp_path / "kept"

    def fit() -> tp.Fit:
        return tp.fit(MODEL, X, tp.VB(max_iter=5, **VB), seed=1, checkpoint=path)

    fit()
    storage.save(storage.load(path) | {part: value}, path)
    with pytest.raises((DamagedFile, InvalidParameter), match=r"does not hold the|belongs to another call"):
        fit()


@pytest.mark.parametrize("steps", [-(2**63), -1, 4, 2**63 - 1])
def test_the_steps_of_a_checkpoint_are_those_of_its_history(steps: int, tmp_path: Path) -> None:
    """A run whose steps are counted from -2**63 never ends."""
    path, by = tmp_path / "kept", tp.VB(max_iter=5, **VB)
    tp.fit(MODEL, X, by, seed=1, checkpoint=path)
    kept = storage.load(path)
    assert [int(leaf) for leaf in kept["carry"] if leaf.ndim == 0] == [5]
    kept["carry"] = [np.asarray(steps) if leaf.ndim == 0 else leaf for leaf in kept["carry"]]
    storage.save(kept, path)
    with pytest.raises(DamagedFile, match="the history of the steps that it counts"):
        tp.fit(MODEL, X, by, seed=1, checkpoint=path)


@pytest.mark.slow
def test_topics_are_known_by_their_words_and_not_by_a_number_in_the_process(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    counts = rng.poisson(1.0, size=(12, 5))
    first = tp.fit(tp.LDA(2), counts, tp.VB(max_iter=3), seed=1, checkpoint=path)
    same(tp.fit(tp.LDA(2), counts.copy(), tp.VB(max_iter=3), seed=1, checkpoint=path), first)
    other = np.roll(counts, 1, axis=1)  # documents of the same lengths
    with pytest.raises(InvalidParameter, match="belongs to another call"):
        tp.fit(tp.LDA(2), other, tp.VB(max_iter=3), seed=1, checkpoint=path)
