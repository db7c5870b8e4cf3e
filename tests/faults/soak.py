"""A soak: mixed fits in one process, kills −9 in the middle of fits, and faults of a cluster; what was lost is counted.

    python -m tests.faults.soak --fits 10000 --kills 1000 --faults 100

Every answer is held to the first one of its kind (to the bits; on a cluster to nine digits). Prints a line of JSON for
each part.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np

import temperance as tp
from temperance import storage
from temperance.errors import ClusterLost
from tests.faults.attack import CASES, PAIRS, attempt, fed, method
from tests.faults.cases import CASES as PROBLEMS
from tests.faults.cases import fit, same
from tests.faults.test_kills import Nursery

KEPT = 24  # pairs of a model and a method that take turns: more do not fit the programs that a process holds


def _memory() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def soak_fits(count: int, seed: int, pairs: int) -> dict[str, Any]:
    """Fits of pairs drawn anew after every tenth of all, each asked everything, and its answer held to its first."""
    rng, first, found = np.random.default_rng(seed), {}, Counter[str]()
    memory, chosen = [], []
    for number in range(count):
        if number % max(1, count // 10) == 0:
            chosen = [PAIRS[place] for place in rng.choice(len(PAIRS), size=min(pairs, KEPT), replace=False)]
            jax.clear_caches()
            memory.append(round(_memory()))
        model, by = chosen[number % len(chosen)]
        try:
            outcome = attempt(CASES[model], method(by), fed(CASES[model]))
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        # With other programs in the process's memory, another engine may be at hand.
        key = (model, by, len(memory))
        kind = outcome if isinstance(outcome, str) else outcome.outcome
        found["changed" if first.setdefault(key, outcome) != outcome else kind] += 1
    return {"fits": count, "outcomes": dict(found), "MB": memory}


def soak_kills(count: int, seed: int) -> dict[str, Any]:
    """Lives cut short at random: the checkpoint and the result on disk are whole, and the last life ends right."""
    rng, names, lost = np.random.default_rng(seed), list(PROBLEMS), []
    lives = Counter(names[place] for place in rng.integers(0, len(names), size=count))
    with_result, nursery = 0, Nursery()
    with tempfile.TemporaryDirectory() as folder:
        for name, kills in lives.items():
            kept, out = Path(folder) / f"{name}.kept", Path(folder) / f"{name}.tp"
            try:
                for number in range(kills):
                    child = nursery.start(name, kept, out, again=True)
                    time.sleep(float(rng.uniform(0.0, 1.0 + 0.3 * number)))
                    assert nursery.kill(child), "it ended by itself"
                    if kept.exists():
                        storage.load(kept)
                    if out.exists():
                        with_result += 1
                        tp.load(out)
                nursery.finish(name, kept, out)
                same(tp.load(out), fit(name))
            except Exception as error:
                lost.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
    nursery.process.communicate(timeout=60)
    return {"kills": count, "cases": len(lives), "after a result": with_result, "lost": lost}


def soak_cluster(count: int, seed: int) -> dict[str, Any]:
    """Workers killed or stopped for seconds, and schedulers closed, during fits; each fit ends right, or goes on."""
    from tests.cluster.local import local_client

    rng, lost = np.random.default_rng(seed), []
    x = rng.normal(size=(600, 2)) + 4.0 * rng.integers(0, 2, size=(600, 1))
    by = tp.VB(restarts=2, max_iter=60, tol=1e-8)
    whole = tp.fit(tp.GaussianMixture(2), x, by, seed=0)
    kinds = Counter(rng.choice(["kill", "stop", "scheduler"], p=[0.6, 0.3, 0.1], size=count).tolist())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept"
        while sum(kinds.values()):
            with local_client() as client, contextlib.suppress(ClusterLost):
                while sum(kinds.values()):
                    kind = next(kind for kind in ("kill", "stop", "scheduler") if kinds[kind])
                    kinds[kind] -= 1
                    timer = threading.Timer(float(rng.uniform(0.2, 2.0)), _harm, (client, kind))
                    timer.start()
                    done = tp.fit(tp.GaussianMixture(2), x, by, seed=0, engine=client, checkpoint=path, every=0.0)
                    timer.join()
                    path.unlink()
                    if not np.isclose(done.log_evidence, whole.log_evidence, rtol=1e-9):
                        lost.append(f"{kind}: {done.log_evidence} instead of {whole.log_evidence}")
                    if client.status != "running":
                        break
    return {"faults": count, "lost": lost}


def _harm(client: Any, kind: str) -> None:
    if kind == "scheduler":
        client.sync(client.cluster.scheduler.close)
        return
    alive = [nanny.process.pid for nanny in client.cluster.workers.values() if nanny.process and nanny.process.pid]
    if alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(alive[0], signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
            if kind == "stop":
                time.sleep(2.0)
                os.kill(alive[0], signal.SIGCONT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in (("fits", 10_000), ("kills", 1_000), ("faults", 100), ("pairs", KEPT), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=count)
    given = parser.parse_args()
    bad = 0
    for part in (
        lambda: soak_fits(given.fits, given.seed, given.pairs),
        lambda: soak_kills(given.kills, given.seed),
        lambda: soak_cluster(given.faults, given.seed),
    ):
        began = time.perf_counter()
        found = part()
        print(json.dumps(found | {"s": round(time.perf_counter() - began)}), flush=True)
        good = ("answered", "refused", "unsupported")
        bad += len(found.get("lost", ())) + sum(n for kind, n in found.get("outcomes", {}).items() if kind not in good)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
