"""Full disks, folders that cannot be written to, files cut short or with flipped bits, files made to do harm.

Nothing that was there before is lost, and what is wrong is said in one sentence.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import temperance as tp
from temperance import storage
from temperance.errors import DamagedFile, InvalidParameter

ROOT = Path(__file__).parents[2]
X = np.random.default_rng(0).normal(size=(40, 2))
MODEL = tp.LinearRegression()
DATA = (X[:, :1], X[:, 1])


@pytest.fixture(scope="module")
def fitted() -> tp.Fit:
    return tp.fit(MODEL, DATA, tp.VB(max_iter=20), seed=0)


# ---- writing ------------------------------------------------------------------------------------------------


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("place", ["builtins.open", "zipfile.ZipFile.writestr", "os.fsync", "os.replace"])
def test_a_disk_that_fills_up_during_a_save_costs_nothing_that_was_there(
    place: str, fitted: tp.Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fit.tp"
    fitted.save(path)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(place, full)
        with pytest.raises(OSError, match="No space left"):
            fitted.save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["fit.tp"]


def test_a_disk_that_fills_up_during_a_fit_costs_the_checkpoint_and_not_the_fit(
    fitted: tp.Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept"
    write, calls = os.replace, []

    def once(*arguments: Any) -> None:
        calls.append(arguments)
        write(*arguments) if len(calls) == 1 else full()

    monkeypatch.setattr("os.replace", once)
    found = tp.fit(MODEL, DATA, tp.VB(max_iter=20), seed=0, checkpoint=path, every=0.0)
    assert found.log_evidence == fitted.log_evidence
    assert any("could not be written" in note and "No space" in note for note in found.notes)
    monkeypatch.undo()
    # What was kept at the start is whole, and the same call begins there.
    assert tp.fit(MODEL, DATA, tp.VB(max_iter=20), seed=0, checkpoint=path).log_evidence == fitted.log_evidence


LIMITED = """
import resource, sys
import temperance as tp
fit = tp.load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    fit.save(sys.argv[1])
except OSError as error:
    print(error.strerror)
"""
READ_ONLY = """
import sys
import numpy as np
import temperance as tp
fit = tp.load(sys.argv[1])
for attempt in (
    lambda: fit.save(sys.argv[1]),
    lambda: tp.fit(tp.LinearRegression(), (np.ones((3, 1)), np.arange(3.0)), checkpoint=sys.argv[1] + ".kept"),
):
    try:
        attempt()
    except Exception as error:
        print(type(error).__name__, error)
"""


def run(code: str, path: Path, **arguments: Any) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_ENABLE_COMPILATION_CACHE": "false"}
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, **arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_file_that_may_not_grow(fitted: tp.Fit, tmp_path: Path) -> None:
    """A real failure of the system in the middle of a write."""
    path = tmp_path / "fit.tp"
    fitted.save(path)
    before = path.read_bytes()
    assert len(before) > 1000
    assert "too large" in run(LIMITED, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["fit.tp"]


@pytest.mark.slow
def test_a_folder_that_is_read_only(fitted: tp.Fit) -> None:
    arguments = {"user": 65534, "cwd": "/"} if os.geteuid() == 0 else {}  # nothing is read-only to root
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to other users
        folder, path = Path(name), Path(name) / "fit.tp"
        fitted.save(path)
        before = path.read_bytes()
        path.chmod(0o644)
        folder.chmod(0o555)
        try:
            said = run(READ_ONLY, path, **arguments).splitlines()
        except PermissionError:
            pytest.skip("root, to whom nothing is read-only, and nobody else may run the interpreter")
        finally:
            folder.chmod(0o755)
        assert said[0].startswith("PermissionError")
        assert said[1].startswith("InvalidParameter checkpoint") and "cannot be written: Permission denied" in said[1]
        assert path.read_bytes() == before


# ---- reading ------------------------------------------------------------------------------------------------


def flips(content: bytes, count: int) -> Any:
    rng = np.random.default_rng(0)
    for _ in range(count):
        damaged = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            damaged[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        yield bytes(damaged)
    for _ in range(count // 3):
        yield content[: int(rng.integers(len(content)))]
        start, stop = np.sort(rng.integers(len(content), size=2))
        yield content[:start] + bytes(stop - start) + content[stop:]


@pytest.mark.parametrize("count", [30, pytest.param(3000, marks=pytest.mark.slow)])
def test_damaged_results(count: int, fitted: tp.Fit, tmp_path: Path) -> None:
    path = tmp_path / "fit.tp"
    fitted.save(path)
    noticed = 0
    for damaged in flips(path.read_bytes(), count):
        path.write_bytes(damaged)
        try:
            found = tp.load(path)
        except DamagedFile:
            noticed += 1
        else:
            assert found.log_evidence == fitted.log_evidence
            np.testing.assert_array_equal(found.history["elbo"], fitted.history["elbo"])
        assert path.read_bytes() == damaged
    assert noticed > count


@pytest.mark.parametrize("count", [6, pytest.param(300, marks=pytest.mark.slow)])
def test_damaged_checkpoints(count: int, fitted: tp.Fit, tmp_path: Path) -> None:
    path = tmp_path / "kept"
    tp.fit(MODEL, DATA, tp.VB(max_iter=20), seed=0, checkpoint=path)
    for damaged in flips(path.read_bytes(), count):
        path.write_bytes(damaged)
        try:
            found = tp.fit(MODEL, DATA, tp.VB(max_iter=20), seed=0, checkpoint=path)
        except (DamagedFile, InvalidParameter):
            assert path.read_bytes() == damaged
        else:
            assert found.log_evidence == fitted.log_evidence


def write(path: Path, tree: Any, arrays: dict[str, bytes] | None = None) -> None:
    """A file with a valid checksum, whatever it holds."""
    entries = {"tree.json": json.dumps(tree).encode(), **(arrays or {})}
    header = {"format": "temperance", "version": 1}
    header["sha256"] = {name: hashlib.sha256(content).hexdigest() for name, content in entries.items()}  # type: ignore[assignment]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {"header.json": json.dumps(header).encode(), **entries}.items():
            archive.writestr(name, content)


NAMES = [
    "temperance.fit:Fit", "temperance.models.linear.regression:LinearRegression", "temperance.storage:save",
    "os:system", "builtins:eval", "temperance.families.gamma:Gamma", "temperance.models._model:Posterior", "temperance",
]  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=4) | st.sampled_from(NAMES)
TAGS = ["float", "array", "on", "key", "value", "type", "class", "items", "fields", "dict", "tuple", "list"]
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(TAGS) | st.text(max_size=3), inner, max_size=3)
        | st.fixed_dictionaries(
            {"class": st.sampled_from(NAMES), "fields": st.dictionaries(st.text(max_size=3), inner)}
        )
    ),
    max_leaves=8,
)


@pytest.mark.slow
@pytest.mark.parametrize("examples", [40, 2000])
def test_files_made_to_do_harm(examples: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("harm") / "file"
    zeros = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999,), }"

    @settings(max_examples=examples)
    @given(TREES, st.sampled_from([{}, {"arrays/0.npy": zeros}, {"arrays/0.npy": b"cos\nsystem\n(S'exit'\ntR."}]))
    def load(tree: Any, arrays: dict[str, bytes]) -> None:
        write(path, tree, arrays)
        for read in (storage.load, tp.load):
            try:
                read(path)
            except DamagedFile as error:
                assert str(error)

    load()


@pytest.mark.parametrize("header", [b"[]", b"null", b"{}", b'{"format": "temperance", "version": 1}', b"\xff"])
def test_headers_that_are_not_ours(header: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "file", "w") as archive:
        archive.writestr("header.json", header)
    with pytest.raises(DamagedFile):
        tp.load(tmp_path / "file")
