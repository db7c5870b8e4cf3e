"""The client's side of a run: tasks for the partitions, a tree of sums, and recovery when a worker is lost.

A walk is one task per partition and a tree of additions; the statistics of the globals are sent once, as a task of
their own. The scheduler can repeat every task, so a worker that dies costs only what it held: Dask reads its partitions
again, and recomputes their local blocks along the chain of walks that made them. Once the globals kept along that chain
outweigh the local blocks, the blocks pass through the client and a new chain begins.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..errors import ClusterLost, PartitionFailed
from . import worker
from .model import FRESH, Question, sessions
from .partitions import Partition
from .waiting import STEP, Patience, asked, completed, connected, lost, require_alive
from .worker import Job, Walks

_FAN = 8  # sums that one task adds
_TRIES = 6  # rounds of a walk in which workers keep dying
_BLAMES = 3  # rounds after which one partition is at fault
_RETRIES = 2  # of a task that fails
_LEAST = 64 << 20  # bytes of globals that a chain of walks may hold in any case
_MEMORY = 0.4  # share of the workers' memory that partitions may take
_numbers = itertools.count(1)


class Session:
    """One run on a cluster: its partitions, its model, and the local blocks that workers keep."""

    def __init__(self, client: Any, partitions: list[Partition], documents: bool, keep: bool | None = None):
        self.client, self.partitions, self.documents = client, partitions, documents
        self.keep = keep
        self.run = uuid.uuid4().hex[:8]
        self.number = next(_numbers)
        self.failure: BaseException | None = None  # an exception from a callback; JAX would turn it into text
        self.done: tuple[int, int] = (0, 0)  # partitions of the walk under way
        self.model: Any = None
        self.lengths: dict[int, int] = {}  # rows of each partition with padding
        self.counts: dict[int, int] = {}  # rows of each partition
        self.block = 1
        self.depth = 1  # walks of a sweep
        self._reads: dict[int, Any] = {}
        self._suspects: dict[int, Any] = {}  # the pending tasks of each partition
        self._calls = itertools.count()
        self._kept: dict[int, dict[int, Any]] = {}  # the local blocks of each partition, by version
        self._asked: dict[int, list[set[int]]] = {}  # the versions that its last walks used or made
        self._trail = 0  # bytes of globals since the chain was cut
        self._lock = threading.Lock()
        Patience(client)  # constructed only to raise if a setting cannot be read
        sessions[self.number] = self

    # ---- before the run -----------------------------------------------------------------------------------

    def look(self, options: dict[str, Any]) -> list[worker.About]:
        """A summary of each partition."""
        tasks = [
            self._task(worker.look, part, f"look-{number}", number, part.name, self.documents, options)
            for number, part in enumerate(self.partitions)
        ]
        return self._settle(lambda: self._gather(range(len(tasks)), tasks))

    def some(self, options: dict[str, Any], which: dict[int, np.ndarray | None]) -> list[Any]:
        """Fetch the rows `which` {partition: rows} to the client."""
        tasks = []
        for number, rows in which.items():
            part = self.partitions[number]
            rest = (number, part.name, self.documents, options, rows)
            tasks.append(self._task(worker.some, part, f"sample-{number}", *rest))
        return self._settle(lambda: self._gather(which, tasks))

    def begin(self, model: Any, counts: dict[int, int], size: int, block: int, depth: int) -> None:
        """Send the model; choose the padded lengths of partitions, and whether they stay in memory."""
        self.counts, self.lengths = counts, lengths(counts)
        self.block, self.depth = block, depth
        host = jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, model)
        self.model = self.client.submit(worker.same, host, key=self._key("model"), pure=False)
        if self.keep is None:
            self.keep = size <= _MEMORY * _memory(self.client)

    # ---- a walk -------------------------------------------------------------------------------------------

    def walk(
        self,
        question: Question,
        numbers: np.ndarray,
        scales: np.ndarray,
        ahead: np.ndarray,
        versions: np.ndarray,
        powers: np.ndarray,
        m: Any,
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """The sums over these partitions for each restart (the leading axis), and the versions of local blocks."""
        try:
            with self._lock, quiet(), connected(self.client):
                return self._walk(question, numbers, scales, ahead, versions, powers, m)
        except BaseException as error:
            self.failure = error
            raise

    def _walk(self, question, numbers, scales, ahead, versions, powers, m):  # type: ignore[no-untyped-def]
        call = next(self._calls)
        jobs = self._jobs(numbers, scales, versions)
        self.done = (0, len(jobs))
        if question.keep:
            self._shorten(m)
        about = Walks(self.run, question.energy, question.steps, question.cold, question.keep)
        sums, local = self._settle(lambda: self._round(call, about, jobs, powers, m, ahead))
        if question.keep:
            self._remember(call, jobs, local)
        if not self.keep:
            self._forget_reads(ahead)
        restarts = numbers.shape[0]
        zero = [np.zeros(shape, kind) for shape, kind in question.shapes]
        each = [sums.get(restart, zero) for restart in range(restarts)]
        stacked = [np.stack([leaves[i] for leaves in each]) for i in range(len(question.shapes))]
        return stacked, np.full(versions.shape, call if question.keep else FRESH, dtype=np.int64)

    def _jobs(self, numbers: np.ndarray, scales: np.ndarray, versions: np.ndarray) -> list[Job]:
        """A job for each partition with a weight, in order."""
        asked: dict[int, list[tuple[int, float, int]]] = {}
        for restart, (places, weights, tokens) in enumerate(zip(numbers, scales, versions, strict=True)):
            for place, weight, token in zip(places, weights, tokens, strict=True):
                if weight > 0:
                    asked.setdefault(int(place), []).append((restart, float(weight), int(token)))
        return [
            Job(place, self.partitions[place].name, *map(tuple, zip(*asked[place], strict=True)))
            for place in sorted(asked)
        ]

    def _round(self, call: int, about: Walks, jobs: list[Job], powers: np.ndarray, m: Any, ahead: np.ndarray) -> Any:
        """Submit the jobs, add up their results and wait."""
        attempt = f"{call}-{uuid.uuid4().hex[:4]}"
        sent = (
            m if len(jobs) == 1 else self.client.submit(worker.same, m, key=self._key("globals", attempt), pure=False)
        )
        fused = not self.keep and ahead.size == 0  # each task reads its partition itself, so that memory stays bounded
        parts: list[Any] = []
        given: list[Any] = []
        for job in jobs:
            source = self.partitions[job.part].source
            if fused and isinstance(source, worker._READERS) and job.part not in self._reads:
                parts.append(source)
                given.append((self.documents, self.lengths[job.part], self.block))
            else:
                parts.append(self._read(job.part))
                given.append(None)
        parents = [{token: self._kept[job.part][token] for token in set(job.tokens) if token >= 0} for job in jobs]
        walked = self.client.map(
            worker.walk, jobs, parts, [sent] * len(jobs), [powers] * len(jobs), [self.model] * len(jobs),
            [about] * len(jobs), given, parents,
            key=[self._key("walk", attempt, job.part) for job in jobs], pure=False, retries=_RETRIES,
        )  # fmt: skip
        self._suspects = {job.part: future for job, future in zip(jobs, walked, strict=True)}
        for number in np.unique(ahead):
            self._read(int(number))  # while the walk goes on
        local: list[Any] = []
        sums = walked
        if about.keep:
            places = [job.part for job in jobs]
            sums = self.client.map(
                worker.first, walked, key=[self._key("part", attempt, p) for p in places], pure=False
            )
            local = self.client.map(
                worker.second, walked, key=[self._key("local", attempt, p) for p in places], pure=False
            )
        level = 0
        while len(sums) > 1:
            groups = [sums[i : i + _FAN] for i in range(0, len(sums), _FAN)]
            keys = [self._key("sum", attempt, f"{level}.{i}") for i in range(len(groups))]
            # Additions come before more walks, because results that wait to be added take memory.
            sums = self.client.map(worker.add, groups, key=keys, pure=False, priority=level + 1)
            level += 1
        last = sums[0]
        del walked, sums
        return self._wait(last, len(jobs)), local

    def _wait(self, future: Any, walks: int) -> Any:
        ready, patience = threading.Event(), Patience(self.client)
        future.add_done_callback(lambda _: ready.set())
        while not ready.wait(STEP):
            # Workers hold a result as long as the client has its future, so drop futures whose results have been added.
            self._suspects = {part: one for part, one in self._suspects.items() if one.status != "finished"}
            self.done = (walks - len(self._suspects), walks)
            patience.look()
        self.done = (walks, walks)
        return future.result()

    def _settle(self, work: Any) -> Any:
        """Run it, and run it again if workers died too often for Dask or the data that they held were lost."""
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        blamed: Counter[int] = Counter()  # how often each partition was on a worker that died
        for attempt in range(_TRIES):
            last = attempt == _TRIES - 1
            self._suspects = {}
            try:
                return work()
            except (PartitionFailed, ClusterLost):
                raise
            except KilledWorker as error:
                failed = self._failed()
                blamed.update(failed)
                if last or any(blamed[number] == _BLAMES for number in failed):
                    why = "the workers that had it died each time: is it too large for a worker's memory?"
                    raise self._blame(why) from error
            except FutureCancelledError as error:
                require_alive(self.client)
                if last:
                    raise lost(self.client) from error
            except Exception as error:
                # The task that made the partition failed, or the connection is lost.
                if any(future.status == "error" for future in self._suspects.values()):
                    raise self._blame(f"{type(error).__name__}: {error}") from error
                require_alive(self.client)
                if last:
                    raise lost(self.client) from error
            self._reads.clear()
        raise AssertionError("every way out is above")

    def _settled(self, future: Any) -> Any:
        return self._settle(lambda: next(completed(self.client, [future])).result())

    def _failed(self) -> list[int]:
        return [number for number, future in sorted(self._suspects.items()) if future.status == "error"]

    def _blame(self, why: str) -> PartitionFailed:
        failed = self._failed()
        if not failed:
            return PartitionFailed(f"a task of the run failed: {why}")
        return PartitionFailed(f"partition {failed[0]} ({self.partitions[failed[0]].name}): {why}", failed[0])

    def _gather(self, numbers: Any, tasks: list[Any]) -> list[Any]:
        futures = self._submit(tasks)
        self._suspects = dict(zip(numbers, futures, strict=True))
        for future in completed(self.client, futures):
            if future.status == "error":
                future.result()
        return self.client.gather(futures)

    # ---- partitions in the workers' memory ----------------------------------------------------------------

    def _read(self, number: int) -> Any:
        """The future of a partition in memory."""
        if number not in self._reads:
            part = self.partitions[number]
            task = self._task(
                worker.read, part, f"read-{number}", number, part.name, self.documents, self.model, self.run,
                self.lengths[number], self.block,
            )  # fmt: skip
            self._reads[number] = self._submit([task])[0]
        return self._reads[number]

    def _forget_reads(self, ahead: np.ndarray) -> None:
        coming = {int(number) for number in np.unique(ahead)}
        self._reads = {number: future for number, future in self._reads.items() if number in coming}

    # ---- local blocks -------------------------------------------------------------------------------------

    def _remember(self, call: int, jobs: list[Job], local: list[Any]) -> None:
        """Keep the versions of local blocks that the next sweep may need: a restart that is done returns to the version
        with which its last sweep began."""
        for job, future in zip(jobs, local, strict=True):
            kept = self._kept.setdefault(job.part, {})
            kept[call] = future
            asked = self._asked.setdefault(job.part, [])
            asked.append({call, *job.tokens})
            del asked[: -self.depth]
            needed = set().union(*asked)
            self._kept[job.part] = {version: held for version, held in kept.items() if version in needed}

    def _shorten(self, m: Any) -> None:
        """End the chain of walks from which local blocks would be recomputed."""
        self._trail += sum(leaf.nbytes for leaf in jax.tree.leaves(m))
        held = {(place, version) for place, kept in self._kept.items() for version in kept}
        if not held or self._trail < _LEAST or self._trail < self._local_bytes():
            return
        for place, version in held:
            self._kept[place][version] = self.put(place, self._settled(self._kept[place][version]))
        self._trail = 0

    def _local_bytes(self) -> int:
        futures = [future for kept in self._kept.values() for future in kept.values()]
        for _ in completed(self.client, futures):
            pass
        keys = [future.key for future in futures]
        return int(asked(self.client, lambda: self.client.run_on_scheduler(_sizes, keys=keys)))

    def put(self, place: int, local: Any) -> Any:
        """Local blocks of a partition, sent by the client as a task that can be repeated."""
        return self.client.submit(worker.same, local, key=self._key("put", place, uuid.uuid4().hex[:4]), pure=False)

    def held(self, versions: np.ndarray) -> dict[str, Any]:
        """The local blocks of these versions, (restarts, partitions with rows), on the client."""
        found: dict[str, Any] = {}
        for column, place in enumerate(sorted(self.counts)):
            for restart, version in enumerate(versions[:, column]):
                if version >= 0:
                    whole = self._settled(self._kept[place][int(version)])
                    found[f"{place}/{restart}"] = whole[restart]
        return found

    def restore(self, versions: np.ndarray, found: dict[str, Any]) -> None:
        """Send local blocks that were kept on disk to the workers."""
        for column, place in enumerate(sorted(self.counts)):
            by_version: dict[int, dict[int, Any]] = {}
            for restart, version in enumerate(versions[:, column]):
                if version >= 0:
                    local = jax.tree.map(np.asarray, found[f"{place}/{restart}"])
                    by_version.setdefault(int(version), {})[restart] = local
            self._kept[place] = {version: self.put(place, local) for version, local in by_version.items()}
            self._asked[place] = [set(by_version)]
        self._calls = itertools.count(int(versions.max()) + 1)

    def status(self) -> str:
        """The progress of the current walk, for a bar."""
        done, total = self.done
        return f"partition {done} of {total}" if total else "reading"

    # ---- pieces -------------------------------------------------------------------------------------------

    def _task(self, function: Any, part: Partition, key: str, *rest: Any) -> Any:
        return function, part.source, self._key(key), rest

    def _submit(self, tasks: list[Any]) -> list[Any]:
        """Futures of calls `function(source, *rest)`; a source that is a Dask task is computed first."""
        from dask.delayed import Delayed, delayed

        futures: list[Any] = []
        for function, source, key, rest in tasks:
            if isinstance(source, Delayed):
                lazy = delayed(function, pure=False)(source, *rest, dask_key_name=key)
                futures.append(self.client.compute(lazy, retries=_RETRIES))
            else:
                futures.append(self.client.submit(function, source, *rest, key=key, pure=False, retries=_RETRIES))
        return futures

    def _key(self, *parts: Any) -> str:
        what, *rest = map(str, parts)
        return "-".join(["temperance-" + what, self.run, *rest])

    def close(self) -> None:
        """Let the cluster forget this run."""
        sessions.pop(self.number, None)
        self._reads.clear()
        self._kept.clear()
        self.model = None


def lengths(counts: dict[int, int], room: float = 0.8) -> dict[int, int]:
    """A few lengths for all partitions: each is padded to the next of them, at most a quarter longer."""
    chosen: list[int] = []
    for count in sorted(set(counts.values()), reverse=True):
        if not chosen or count < room * chosen[-1]:
            chosen.append(count)
    return {number: min(length for length in chosen if length >= count) for number, count in counts.items()}


def _memory(client: Any) -> float:
    """Bytes that the workers may use in all."""
    limits = [each.get("memory_limit") for each in client.scheduler_info(n_workers=-1)["workers"].values()]
    if not limits or not all(limits):
        import os

        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return float(sum(limits))


def _sizes(dask_scheduler: Any, keys: list[str]) -> int:
    found = (dask_scheduler.tasks.get(key) for key in keys)
    return sum(task.nbytes for task in found if task is not None)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Dask warns of large arguments of tasks, but these have to be sent."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield
