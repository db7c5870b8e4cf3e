"""Checkpoints: a run cut short goes on to the same bits, and a file that is not this call's is refused and kept."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import temperance as tp
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


CALLS = {
    "VB": "tp.fit(model, x, tp.VB(restarts=3, max_iter=4000, tol=0.0), seed=1, {})",
    "SVI": "tp.fit(model, x, tp.SVI(batch_size=16, steps=20000, report=50), seed=1, {})",
    "EP": "tp.fit(model, x, tp.EP(restarts=2, max_passes=400, tol=0.0), seed=1, {})",
    "Gibbs": "tp.fit(model, x, tp.Gibbs(draws=4000), seed=1, {})",
    "ParallelTempering": "tp.fit(model, x, tp.ParallelTempering(draws=1000, replicas=4), seed=1, {})",
}
SCRIPT = """
import sys, numpy as np, temperance as tp
rng = np.random.default_rng(0)
x = rng.normal(size=(96, 2)) + 3.0 * rng.integers(0, 2, size=(96, 1))
model = tp.GaussianMixture(2)
print("started", flush=True)
CALL.save(sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_killed_at_any_moment_it_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    def script(arguments: str) -> str:
        return textwrap.dedent(SCRIPT).replace("CALL", CALLS[name].format(arguments))

    whole, kept, out = tmp_path / "whole.tp", tmp_path / "kept", tmp_path / "out.tp"
    subprocess.run([sys.executable, "-c", script(""), str(whole)], check=True)
    delays = np.random.default_rng(1)
    kills = 0
    while not out.exists():
        code = script(f"checkpoint={str(kept)!r}, every=0.0")
        with subprocess.Popen([sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            # Longer and longer lives, so that the run ends however slow the machine is.
            time.sleep(float(delays.uniform(0.0, 1.0 + 0.5 * kills)))
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
    assert kills > 0
    same(tp.load(out), tp.load(whole))
