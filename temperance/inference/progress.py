"""Progress on a terminal: step, bound, rate and time left; silent when output is piped."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Report = Callable[[int, dict[str, np.ndarray]], None]


class Progress:
    """Shows a bar when `show` is true, or when it is None and standard error is a terminal."""

    watch: Callable[[], str] | None = None  # polled for the progress within a step

    def __init__(self, show: bool | None = None):
        self.silent = not (sys.stderr.isatty() if show is None else show)

    @contextlib.contextmanager
    def task(self, name: str, total: int) -> Iterator[Report]:
        if self.silent:
            yield lambda step, info: None
            return
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
        from rich.text import Text

        watch = self.watch

        class Within(ProgressColumn):
            def render(self, task: Any) -> Text:
                return Text(watch() if watch is not None else "")

        columns: list[Any] = [
            TextColumn("{task.description}"),
            _bar_or_words(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[bound]}"),
            TextColumn("{task.fields[rate]}"),
            *([] if watch is None else [Within()]),
            TimeRemainingColumn(),
        ]
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=total, bound="", rate="")

            def report(step: int, info: dict[str, np.ndarray]) -> None:
                speed = bar.tasks[task].finished_speed or bar.tasks[task].speed
                bar.update(task, completed=step, bound=_bound(info), rate=f"{speed:.0f}/s" if speed else "")

            yield report


def words() -> str:
    """The text in place of the bar while nothing moves."""
    from ..programs import compiling

    return "compiling (first time for this shape)" if compiling() else ""


def _bar_or_words() -> Any:
    """A column of the bar, or the words in its place, asked for at every refresh from a separate thread."""
    from rich.progress import BarColumn
    from rich.text import Text

    class Column(BarColumn):
        def render(self, task: Any) -> Any:
            said = words()
            return Text(said) if said else super().render(task)

    return Column()


def as_progress(show: bool | Progress | None) -> Progress:
    return show if isinstance(show, Progress) else Progress(show)


class Grid(Progress):
    """One bar for many fits, with the time that all of them will still take."""

    def __init__(self, show: bool | None, kinds: Sequence[str], workers: int = 1):
        super().__init__(show)
        self.workers = workers
        self.left = TimeLeft(kinds, workers)
        self._stopped = threading.Event()
        self._bar: Any = None
        self._label = ""

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        if self.silent:
            yield
            return
        from rich.console import Console
        from rich.progress import Progress as Bar
        from rich.progress import TextColumn

        columns: list[Any] = [
            TextColumn("{task.description}"),
            _bar_or_words(),
            TextColumn("{task.fields[done]}"),
            TextColumn("{task.fields[bound]}"),
            TextColumn("{task.fields[left]}"),
        ]
        with Bar(*columns, console=Console(stderr=True), transient=True) as self._bar:
            yield

    @contextlib.contextmanager
    def cell(self, label: str) -> Iterator[None]:
        """One fit of the grid."""
        self._label, began = label, time.perf_counter()
        self._show(0.0, "")
        yield
        self.left.finish(time.perf_counter() - began)

    def wait(self, what: str) -> None:
        """Report that no result has come back yet."""
        self._show(0.0, what)

    def elsewhere(self, label: str, seconds: float) -> None:
        """Record a fit made on another machine."""
        self._label = f"{label}: done"
        self.left.finish(seconds)
        self._show(0.0, "")

    @contextlib.contextmanager
    def task(self, name: str, total: int) -> Iterator[Report]:
        began = time.perf_counter()

        def report(step: int, info: dict[str, np.ndarray]) -> None:
            if self._stopped.is_set():
                raise KeyboardInterrupt
            self._show(time.perf_counter() - began, _bound(info))

        yield report

    def stop(self) -> None:
        """End the fits that run in other threads, where Ctrl-C does not reach."""
        self._stopped.set()

    def _show(self, elapsed: float, bound: str) -> None:
        if self._bar is None:
            return
        if not self._bar.tasks:
            self._bar.add_task("", total=1.0, done="", bound="", left="")
        number, size = len(self.left.took), len(self.left.kinds)
        spent, left = sum(self.left.took) + elapsed, self.left.seconds(elapsed)
        share = number / size if left is None else spent / max(spent + left, 1e-9)
        self._bar.update(
            self._bar.task_ids[0],
            description=self._label,
            completed=share,
            done=f"fit {min(number + 1, size)} of {size}",
            bound=bound,
            left="" if left is None else f"about {_duration(left)} left",
        )


class TimeLeft:
    """Predicts the time of the remaining fits from earlier fits of their kind, or else from all earlier fits."""

    def __init__(self, kinds: Sequence[str], workers: int = 1):
        self.kinds, self.workers = list(kinds), workers
        self.took: list[float] = []

    def finish(self, seconds: float) -> None:
        self.took.append(seconds)

    def seconds(self, elapsed: float) -> float | None:
        """The remaining time, `elapsed` seconds into the current fit; None before the first fit is done."""
        if not self.took:
            return None
        number = len(self.took)
        every = sum(self.took) / number
        known: dict[str, list[float]] = {}
        for kind, seconds in zip(self.kinds, self.took, strict=False):
            known.setdefault(kind, []).append(seconds)
        guess = {kind: sum(seconds) / len(seconds) for kind, seconds in known.items()}
        coming = [guess.get(kind, every) for kind in self.kinds[number:]]
        return max(coming[0] - elapsed, 0.0) + sum(coming[1:]) / self.workers if coming else 0.0


def _bound(info: dict[str, np.ndarray]) -> str:
    return f"bound {np.max(info['elbo'][-1]):.4f}" if "elbo" in info and len(info["elbo"]) else ""


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
