"""Streams: every row once a pass, the same bound as in memory, resident memory that does not grow with the file."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest

import temperance as tp
from temperance.data.stream import ahead
from temperance.errors import InvalidData, InvalidParameter, UnsupportedMethod
from temperance.models._data import make_data

N = 1000
rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(-2, 1, (N // 2, 1)), rng.normal(2, 1, (N // 2, 1))])


def mixture() -> tp.GaussianMixture:
    return tp.GaussianMixture(2)


def saved(folder: Path, rows: np.ndarray, name: str = "rows.npy") -> Path:
    np.save(folder / name, rows)
    return folder / name


@pytest.fixture
def quiet() -> None:
    """No thread outlives its stream."""
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def test_a_pass_has_every_row_once_and_another_order_each_time(quiet: None) -> None:
    stream = tp.Stream(np.arange(1024.0)[:, None], piece_rows=256)
    pieces = stream.shuffled(0, lambda piece: piece[:, 0])
    passes = [np.concatenate([next(pieces) for _ in range(stream.pieces_per_pass)]) for _ in range(2)]
    pieces.close()
    for rows in passes:
        np.testing.assert_array_equal(np.sort(rows), np.arange(1024))
    assert (passes[0] != passes[1]).any()
    # A piece is a fair sample, although neighbours stay together.
    assert abs(passes[0][:256].mean() - 511.5) < 4 * 300 / np.sqrt(256 / stream.slab_rows)


def test_rows_that_do_not_fill_a_piece_are_other_ones_each_pass(quiet: None) -> None:
    stream = tp.Stream(np.arange(1000.0)[:, None], piece_rows=320)
    pieces = stream.shuffled(0, lambda piece: piece[:, 0])
    seen = {float(x) for _ in range(20 * stream.pieces_per_pass) for x in next(pieces)}
    pieces.close()
    assert len(seen) == 1000


def test_shards_follow_each_other(tmp_path: Path, quiet: None) -> None:
    rows = rng.normal(size=(50, 2, 3))
    shards = [saved(tmp_path, rows[:7], "a.npy"), np.asarray(rows[7:30], dtype=np.float32), rows[30:]]
    stream = tp.Stream(shards, piece_rows=16)
    assert len(stream) == 50 and stream.shape == (2, 3)
    np.testing.assert_allclose(stream.take([(5, 9), (28, 33)]), rows[[5, 6, 7, 8, 28, 29, 30, 31, 32]], rtol=1e-7)
    together = np.concatenate(list(stream.in_order(lambda piece: piece)))
    np.testing.assert_allclose(together, rows, rtol=1e-7)


@pytest.mark.slow
def test_a_stream_is_fitted_as_the_same_rows_in_memory(tmp_path: Path, quiet: None) -> None:
    stream = tp.Stream(saved(tmp_path, X), piece_rows=192)
    fit = tp.fit(mixture(), stream, tp.SVI(batch_size=32, passes=20, held_out=X[::10], patience=10**6), seed=1)
    data = make_data(fit.model.new_rows(X))
    np.testing.assert_allclose(fit.log_evidence, fit.model.bound(fit.state, data), rtol=1e-10)
    whole = tp.fit(fit.model, X, tp.VB(), seed=1)
    assert whole.log_evidence - 3.0 < fit.log_evidence < whole.log_evidence + 1e-6
    assert (np.diff(fit.history["step"]) == 192 // 32).all() and "held_out" in fit.history


@pytest.mark.slow
def test_images_and_other_models_stream_too(tmp_path: Path, quiet: None) -> None:
    stream = tp.Stream(saved(tmp_path, X.reshape(-1, 2, 1)), piece_rows=64)
    fit = tp.fit(tp.FactorialMixture(2, noise=1.0, probability=0.5), stream, tp.SVI(batch_size=64, passes=1))
    assert fit.components.shape == (2, 2, 1) and np.isfinite(fit.log_evidence)


def test_a_bad_row_deep_in_the_file_is_an_error_in_the_caller(tmp_path: Path, quiet: None) -> None:
    rows = X.copy()
    rows[777] = np.nan
    # The sample that completes the model meets it first, unless the file is larger than the sample.
    with pytest.raises(InvalidData, match="missing values"):
        tp.fit(mixture(), tp.Stream(saved(tmp_path, rows), piece_rows=192), tp.SVI(batch_size=32))

    def broken(piece: np.ndarray) -> np.ndarray:
        raise InvalidData("row 777")

    with pytest.raises(InvalidData, match="row 777"):
        next(tp.Stream(rows).shuffled(0, broken))


def test_reading_ahead_stops_when_asked_and_ends_when_done(quiet: None) -> None:
    taken: list[int] = []
    jobs = (lambda number=number: taken.append(number) or number for number in range(100))
    items = ahead(jobs, 2)
    assert next(items) == 0
    items.close()
    assert len(taken) <= 4
    assert list(ahead((lambda number=number: number for number in range(5)), 2)) == [0, 1, 2, 3, 4]


def test_pieces_are_read_side_by_side_and_come_in_order(quiet: None) -> None:
    second = threading.Event()
    jobs = [lambda: second.wait(60) and "first", lambda: second.set() or "second"]
    assert list(ahead(iter(jobs), 2)) == ["first", "second"]


def test_mistakes_are_named(tmp_path: Path) -> None:
    (tmp_path / "short.npy").write_bytes((saved(tmp_path, X)).read_bytes()[:100])
    for source, message in (
        (tmp_path / "none.npy", "does not exist"),
        (tmp_path / "short.npy", "is not a .npy file"),
        ([], "at least one file or array"),
        (np.array(["a"]), "rows of real numbers"),
        (3, "must be .npy files, arrays or a corpus, got int"),
        ([X, np.zeros((3, 2))], "rows of one shape"),
        (np.zeros((0, 2)), "has no rows"),
    ):
        with pytest.raises(InvalidData, match=message):
            tp.Stream(source)
    for attempt, error, message in (
        (lambda: tp.Stream(X, piece_rows=0), InvalidParameter, "piece_rows must be a whole number"),
        (lambda: tp.fit(mixture(), tp.Stream(X), tp.VB()), UnsupportedMethod, "VB needs all data in memory"),
        (lambda: tp.fit(mixture(), tp.Stream(X), tp.SVI(), weights=np.ones(N)), InvalidData, "weights"),
        (
            lambda: tp.fit(mixture(), tp.Stream(X, piece_rows=100), tp.SVI(batch_size=999)),
            InvalidParameter,
            "batch_size is 999",
        ),
        (lambda: tp.fit(mixture(), tp.Stream(X), tp.SVI(held_out=0.1)), InvalidParameter, "held_out must be data"),
    ):
        with pytest.raises(error, match=message):
            attempt()


PASS = """
import sys
import numpy as np
import temperance as tp

prior = tp.IsotropicNormalGamma(np.zeros(32), 0.01, 3.0, 1.0)
model = tp.GaussianMixture(2, covariance="spherical", prior=prior, init="random")
tp.fit(model, tp.Stream(sys.argv[1]), tp.SVI(batch_size=4096, passes=1))
print(int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024)
"""

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")


def peak(folder: Path, megabytes: int) -> float:
    """The resident memory in MB that one pass over a file of this size takes."""
    path = folder / f"{megabytes}.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(megabytes << 12, 32)).flush()  # of holes
    cache = str(Path(__file__).parents[2] / ".cache" / "jax")
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache}
    command = [sys.executable, "-c", PASS, str(path)]
    return float(subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout)


@pytest.mark.slow
@needs_proc
def test_resident_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    # Reading it all would take twice its size. The allocator keeps some pieces that it was given back.
    assert peak(tmp_path, 512) < peak(tmp_path, 64) + 256


@pytest.mark.slow
@needs_proc
def test_a_pass_over_four_gigabytes_stays_below_one(tmp_path: Path) -> None:
    assert peak(tmp_path, 4096) < 1024


@pytest.mark.slow
def test_a_seed_gives_the_same_bits(tmp_path: Path) -> None:
    stream = tp.Stream(saved(tmp_path, X), piece_rows=192)
    method = tp.SVI(batch_size=32, passes=2)
    one, two = (tp.fit(mixture(), stream, method, seed=jax.random.key(3)) for _ in range(2))
    assert one.log_evidence == two.log_evidence
