"""Ctrl-C: every method gives back what it has, and the same call goes on from its checkpoint to the same bits."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance.inference.progress import Progress
from tests.faults.cases import CASES, fit, same
from tests.tiers import with_slow

ONE_STEP = ("ImportanceSampling",)  # it is over before there is anything to interrupt


class CtrlC(Progress):
    """A person who presses the keys after the first steps."""

    @contextlib.contextmanager
    def task(self, name: str, total: int) -> Iterator[Any]:
        yield lambda step, info: signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_run_is_a_result_and_goes_on(name: str, tmp_path: Path) -> None:
    model, data, method = CASES[name]()
    cut = tp.fit(model, data, method, seed=1, progress=CtrlC(False), checkpoint=tmp_path / "kept")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if name not in ONE_STEP:
        assert cut.interrupted and not cut.converged
    assert cut.log_evidence is None or np.isfinite(cut.log_evidence)
    if isinstance(model, tp.Mixture):
        assert np.isfinite(cut.log_predictive(data)).all()
    same(fit(name, checkpoint=tmp_path / "kept"), fit(name))


@pytest.mark.slow
def test_on_the_command_line(tmp_path: Path) -> None:
    kept, out, whole = tmp_path / "kept", tmp_path / "out.tp", tmp_path / "whole.tp"
    command = [
        sys.executable,
        "-m",
        "temperance.cli",
        "fit",
        "galaxy",
        "-k",
        "2",
        "--method",
        "gibbs",
        "--draws",
        "400",
    ]
    arguments: dict[str, Any] = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True, "cwd": tmp_path}
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    resumable = [*command, "--checkpoint", str(kept), "--out", str(out)]
    with subprocess.Popen(resumable, env=environment, **arguments) as process:
        while not kept.exists():  # written before the first step
            time.sleep(0.01)
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "interrupted; the same command continues from" in said and "Traceback" not in said
    assert tp.load(out).interrupted
    subprocess.run(resumable, check=True, env=environment, **arguments)
    subprocess.run([*command, "--out", str(whole)], check=True, env=environment, **arguments)
    same(tp.load(out), tp.load(whole))
    assert not tp.load(out).interrupted


def seconds_used(process: "subprocess.Popen[str]") -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("after", with_slow([0.25, 0.5, 0.75, 1.5, 2.5], 0.5, 0.75, 1.5, 2.5))
def test_the_command_line_stops_while_it_imports_and_compiles(after: float) -> None:
    """An exception in the middle of an import crashed the process, and a compilation did not hear it."""
    command = [sys.executable, "-m", "temperance.cli", "fit", "galaxy", "--model", "state-space", "--draws", "20000",
               "--method", "gibbs"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while seconds_used(process) < after:
            time.sleep(0.01)
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 1 and said.startswith("temperance: interrupted") and "Traceback" not in said


CLI = [sys.executable, "-m", "temperance.cli"]
FIT = [*CLI, "fit", "galaxy", "--model", "state-space", "--method", "gibbs", "--draws", "200000"]
# Runs what follows as the leader of a session whose terminal its input is: what is typed there reaches it as a signal.
TERMINAL = [sys.executable, "-S", "-c", "import fcntl, os, sys, termios; os.setsid(); "
            "fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"]  # fmt: skip


@pytest.mark.parametrize("moment", with_slow(["import", "compilation", "steps"], "compilation", "steps"))
def test_the_keys_of_a_terminal_are_answered_within_two_seconds(moment: str, tmp_path: Path) -> None:
    """Seconds of the processor, as other processes may be busy; the answer stands in the terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    said, cores = b"", len(os.sched_getaffinity(0))
    with subprocess.Popen([*TERMINAL, *FIT], env=environment, cwd=tmp_path, text=True, **streams) as process:
        os.close(theirs)
        try:
            while not READY[moment](said, seconds_used(process)):
                said += read(ours)
            os.write(ours, b"\x03")
            pressed, length, begun = seconds_used(process), len(said), time.monotonic()
            while b"temperance: interrupted" not in said[length:]:
                said += read(ours)
                assert time.monotonic() - begun < 120
                assert process.poll() is not None or seconds_used(process) - pressed < 2.0 * cores
            if moment == "steps":
                os.write(ours, b"\x03")  # the table of what was done need not be waited for
            assert process.wait(timeout=120) == 1 and b"Traceback" not in said
        finally:
            process.kill()
            os.close(ours)


READY: dict[str, Any] = {
    "import": lambda said, used: used > 0.25,
    "compilation": lambda said, used: b"compiling" in said or b"for this shape" in said,
    "steps": lambda said, used: re.search(rb" [1-9]\d*/\d+", said),
}


def read(terminal: int) -> bytes:
    ready, _, _ = select.select([terminal], [], [], 0.02)
    try:
        return os.read(terminal, 4096) if ready else b""
    except OSError:  # the other side has gone
        return b""
