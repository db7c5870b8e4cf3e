"""Processes to be killed. Each line on standard input, CASE⇥CHECKPOINT⇥OUT⇥again, makes a child; its number is printed.

A case is a name of `cases.CASES`, or a command of `COMMANDS`.

A child fits the case, with a checkpoint after every chunk of steps and a pause after each, so that there is time to
kill it, and saves the result; with `again` it goes on saving it over the file that is there until it is killed. The
parent imports everything once and never computes anything, so that to fork it is safe.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from pathlib import Path
from typing import Any

from temperance.inference.checkpoint import Checkpoint
from tests.faults.cases import fit

PAUSE = 0.1  # seconds


# What the command line saves; a comparison goes on from the one that was saved before.
COMMANDS = {
    "temperance fit": ["fit", "galaxy", "--components", "3", "--method", "vb", "--restarts", "4"],
    "temperance compare": ["compare", "galaxy", "--components", "1:3", "--method", "vb,ep", "--restarts", "2"],
}


def command(name: str, checkpoint: str, out: str) -> list[str]:
    before = ["--checkpoint", checkpoint] if name.endswith("fit") else ["--resume", out] * Path(out).exists()
    return [*COMMANDS[name], "--out", out, "--format", "json", *before]


def by_command(name: str, checkpoint: str, out: str, again: bool) -> None:
    from temperance.cli import main

    with contextlib.redirect_stdout(io.StringIO()):
        assert main(command(name, checkpoint, out)) == 0
        while again:
            assert main(command(name, checkpoint, out)) == 0


def life(name: str, checkpoint: str, out: str, again: bool) -> None:
    save = Checkpoint.save

    def slowly(self: Checkpoint, carry: Any, history: list[Any], now: bool = False) -> None:
        save(self, carry, history, now)
        time.sleep(PAUSE)

    Checkpoint.save = slowly  # type: ignore[method-assign]
    if name in COMMANDS:
        return by_command(name, checkpoint, out, again)
    result = fit(name, checkpoint=checkpoint, every=0.0)
    result.save(out)
    while again:
        result.save(out)


def main() -> None:
    for line in sys.stdin:
        name, checkpoint, out, again = line.rstrip("\n").split("\t")
        child = os.fork()
        if child:
            print(child, flush=True)
            # How it ended, when it has.
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        else:
            life(name, checkpoint, out, bool(again))
            os._exit(0)


if __name__ == "__main__":
    main()
