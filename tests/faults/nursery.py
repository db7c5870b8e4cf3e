"""A process whose children are made to be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Nursery:
    """A process that makes children of `worker.life`."""

    def __init__(self) -> None:
        environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "jax"), "PYTHONPATH": str(ROOT)}
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.worker"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, name: str, kept: Path, out: Path, again: bool) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name}\t{kept}\t{out}\t{'again' if again else ''}\n")
        self.process.stdin.flush()
        return self._number()

    def kill(self, child: int) -> bool:
        """Whether it was this that ended the child."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        return self._number() == -signal.SIGKILL

    def finish(self, name: str, kept: Path, out: Path) -> None:
        """A life that nothing cuts short."""
        self.start(name, kept, out, again=False)
        assert self._number() == 0

    def _number(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def close(self) -> None:
        """Wait until it has ended."""
        self.process.communicate(timeout=60)
