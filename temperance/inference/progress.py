"""Progress on a terminal: step, bound, rate and time left; silent when output is piped."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Report = Callable[[int, dict[str, np.ndarray]], None]


class Progress:
    """Shows a bar when `show` is true, or when it is None and standard error is a terminal."""

    def __init__(self, show: bool | None = None):
        self.silent = not (sys.stderr.isatty() if show is None else show)

    @contextlib.contextmanager
    def task(self, name: str, total: int) -> Iterator[Report]:
        if self.silent:
            yield lambda step, info: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns: list[Any] = [
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[bound]}"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        ]
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=total, bound="", rate="")

            def report(step: int, info: dict[str, np.ndarray]) -> None:
                bound = f"bound {np.max(info['elbo'][-1]):.4f}" if "elbo" in info and len(info["elbo"]) else ""
                speed = bar.tasks[task].finished_speed or bar.tasks[task].speed
                bar.update(task, completed=step, bound=bound, rate=f"{speed:.0f}/s" if speed else "")

            yield report
