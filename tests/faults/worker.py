"""Processes to be killed. Each line on standard input, CASE⇥CHECKPOINT⇥OUT⇥again, makes a child; its number is printed.

A child fits the case, with a checkpoint after every chunk of steps and a pause after each, so that there is time to
kill it, and saves the result; with `again` it goes on saving it over the file that is there until it is killed. The
parent imports everything once and never computes anything, so that to fork it is safe.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from temperance.inference.checkpoint import Checkpoint
from tests.faults.cases import fit

PAUSE = 0.1  # seconds


def life(name: str, checkpoint: str, out: str, again: bool) -> None:
    save = Checkpoint.save

    def slowly(self: Checkpoint, carry: Any, history: list[Any], now: bool = False) -> None:
        save(self, carry, history, now)
        time.sleep(PAUSE)

    Checkpoint.save = slowly  # type: ignore[method-assign]
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
