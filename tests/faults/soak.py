"""A soak: mixed fits in one process, kills −9 in the middle of fits, and faults of a cluster; what was lost is counted.

    python -m tests.faults.soak --fits 10000 --kills 1000 --faults 100 --out soak.json

Every answer is held to the first one of its kind (to the bits; on a cluster to nine digits). What was found is
printed, and written as JSON. `--minutes` ends the fits and the kills in time: what was done by then is counted.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import jax
import numpy as np

import temperance as tp
from temperance import storage
from tests.faults.attack import CASES, GOOD, PAIRS, attempt, fed, method
from tests.faults.cases import CASES as PROBLEMS
from tests.faults.cases import same
from tests.faults.nursery import Nursery
from tests.faults.outages import soak_cluster
from tests.faults.worker import COMMANDS

KEPT = 24  # pairs of a model and a method that take turns: more do not fit the programs that a process holds
COUNTS = {"fits": 10_000, "kills": 1_000, "faults": 100, "pairs": KEPT, "draws": 10, "jobs": 1, "seed": 0}
LONG = 0.25  # seconds that a fit of them counts at most, when they take turns


def _memory() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def soak_fits(
    count: int, seed: int, pairs: int, draws: int, until: float, tell: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Fits of pairs, drawn anew `draws` times, each asked everything, and its answer held to its first.

    Pairs that answer are drawn. The one that has had the least time goes next, where a long fit counts as `LONG`.
    `tell` hears now and then what was found.
    """
    rng, found, drawn = np.random.default_rng(seed), Counter[str](), Counter[tuple[str, str]]()
    memory: list[int] = []
    first: dict[tuple[str, str], Any] = {}
    spent: dict[tuple[str, str], float] = {}

    def told() -> dict[str, Any]:
        fewest = min(drawn.values(), default=0)
        return {"fits": found.total(), "outcomes": dict(found), "pairs": len(drawn), "fewest": fewest, "MB": memory}

    for number in range(count):
        if time.monotonic() > until:
            break
        if number % -(-count // draws) == 0:
            jax.clear_caches()
            at_random = map(tuple, rng.permutation(np.asarray(PAIRS)).tolist())
            chosen = (pair for pair in at_random if _once(*pair) not in ("unsupported", "refused"))
            spent = dict.fromkeys(itertools.islice(chosen, min(pairs, KEPT)), 0.0)
            first = {}  # with other programs in the process's memory, another engine may be at hand
            memory.append(round(_memory()))
        if number % 100 == 0:
            tell(told())
        pair = min(spent, key=spent.__getitem__)
        began = time.process_time()
        try:
            outcome = attempt(CASES[pair[0]], method(pair[1]), fed(CASES[pair[0]]))
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        spent[pair] += min(time.process_time() - began, LONG)
        drawn[pair] += 1
        kind = outcome if isinstance(outcome, str) else outcome.outcome
        found["changed" if first.setdefault(pair, outcome) != outcome else kind] += 1
    return told()


def _once(model: str, by: str) -> str:
    try:
        return attempt(CASES[model], method(by), fed(CASES[model])).outcome
    except Exception as error:
        return str(error)


def soak_kills(
    count: int, seed: int, jobs: int, until: float, tell: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Lives cut short at random, of all methods and of the command line, in `jobs` processes side by side.

    `tell` hears what was found after each case.
    """
    rng = np.random.default_rng(seed)
    names = [*PROBLEMS, *(COMMANDS if importlib.util.find_spec("typer") else ())]
    names = rng.permutation(names).tolist()
    done: list[tuple[int, int, str]] = []

    def found() -> dict[str, Any]:
        return {
            "kills": sum(kills for kills, _, _ in done),
            "cases": len(done),
            "after a result": sum(results for _, results, _ in done),
            "lost": [lost for _, _, lost in done if lost],
        }

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        shares = [count // len(names) + (place < count % len(names)) for place in range(len(names))]
        lives = [(name, seed + place, share) for place, (name, share) in enumerate(zip(names, shares, strict=True))]
        started = [pool.submit(_lives, Path(folder), *life, until) for life in lives if life[2]]
        for each in as_completed(started):
            done.append(each.result())
            tell(found())
    return found()


def _lives(folder: Path, name: str, seed: int, kills: int, until: float) -> tuple[int, int, str]:
    """Kills of one case, how many came after a result, and what was lost.

    After each the checkpoint and the result on disk are whole; the last life ends as one that nothing cuts short.
    """
    kept, out, whole = folder / f"{name}.kept", folder / f"{name}.tp", folder / f"{name}, whole.tp"
    rng, nursery, done, with_result = np.random.default_rng(seed), Nursery(), 0, 0
    try:
        nursery.finish(name, folder / f"{name}, whole.kept", whole)
        expected = tp.load(whole)
        while done < kills and time.monotonic() < until:
            child = nursery.start(name, kept, out, again=True)
            time.sleep(float(rng.uniform(0.0, min(1.0 + 0.3 * done, 6.0))))
            assert nursery.kill(child), "it ended by itself"
            done += 1
            if kept.exists():
                storage.load(kept)
            if out.exists():
                with_result += 1
                _same(tp.load(out), expected)
        nursery.finish(name, kept, out)
        _same(tp.load(out), expected)
    except Exception as error:
        return done, with_result, f"{name}: {type(error).__name__}: {str(error)[:200]}"
    finally:
        nursery.close()
    return done, with_result, ""


def _same(found: Any, expected: Any) -> None:
    if isinstance(expected, tp.Comparison):
        np.testing.assert_equal(found.log_evidence, expected.log_evidence)
        np.testing.assert_equal(found.probabilities, expected.probabilities)
    else:
        same(found, expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in COUNTS.items():
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop the fits and the kills after so long")
    parser.add_argument("--out", default="", help="write what was found to this file")
    parser.add_argument("--log", default="faults.jsonl", help="faults in this file are not made again")
    given = parser.parse_args()
    until = time.monotonic() + 60.0 * given.minutes
    bad, all_found = 0, {}

    def write(name: str, found: dict[str, Any]) -> None:
        all_found[name] = found
        if given.out:
            Path(given.out).write_text(json.dumps(all_found, indent=1))

    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "fits": lambda: soak_fits(
            given.fits, given.seed, given.pairs, given.draws, until, lambda found: write("fits", found)
        ),
        "kills": lambda: soak_kills(given.kills, given.seed, given.jobs, until, lambda found: write("kills", found)),
        "faults": lambda: soak_cluster(given.faults, given.seed, until, Path(given.log)),
    }
    for name, part in parts.items():
        if not getattr(given, name):
            continue
        began = time.perf_counter()
        found = part()
        write(name, found | {"s": round(time.perf_counter() - began)})
        print(json.dumps(all_found[name]), flush=True)
        outcomes = all_found[name].get("outcomes", {})
        bad += len(all_found[name].get("lost", ())) + sum(n for kind, n in outcomes.items() if kind not in GOOD)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
