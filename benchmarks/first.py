"""The first second: how long the first fit of each kind takes in a fresh process, in units of `import jax`.

    python -m benchmarks.first [--case NAME …] [--rounds R] [--cpu]

Every figure is the median over rounds of the wall-clock of one call, `import temperance` not counted, divided by the
time that `import jax` took in the same process (J). Cold: nothing is kept from an earlier process. Kept: an earlier
process left its compilations in a folder. Second: the same call again. New rows: seven rows fewer, in the process of
the cold call. In brackets: how many XLA programs and Numba functions were compiled. Beside them scikit-learn's first
fit, and the most that the cold call must take and aims to take. `--cpu` counts CPU seconds of all threads, for a
machine that others use, where the wall-clock means nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
FEWER = 7  # rows
KEPT, NEW_ROWS = (0.5, 0.25), 0.1  # J beyond the run: must and aim with what is kept, must for new rows


class Case(NamedTuple):
    """What is fitted, what is asked of its first fit in J, and scikit-learn's estimator of the same kind."""

    title: str
    data: str  # a function below
    fit: Callable[[Any, Any], Any]  # of the package and the data
    must: float | None
    aim: float | None
    peer: tuple[str, str, dict[str, Any]] | None = None
    kept: tuple[float, float] = KEPT


def table(rows: int = 500) -> Any:
    import numpy as np

    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(-2, 1, (250, 2)), rng.normal(2, 1, (250, 2))])[:rows]


def line(rows: int = 500) -> Any:
    import numpy as np

    x = table(rows)
    return x, x @ [1.0, -1.0] + np.random.default_rng(1).normal(size=500)[:rows]


def counts(rows: int = 200) -> Any:
    import numpy as np

    return np.random.default_rng(0).poisson(0.5, (200, 50))[:rows]


def column(rows: int = 500) -> Any:
    return table(rows)[:, 0]


def mixture(method: str) -> Callable[[Any, Any], Any]:
    return lambda tp, x: tp.fit(tp.GaussianMixture(3), x, getattr(tp, method)(), seed=0)


def compare(tp: Any, x: Any) -> Any:
    return tp.compare([tp.GaussianMixture(size) for size in range(1, 7)], x, tp.VB(restarts=5), seed=0)


def graph(tp: Any, x: Any) -> Any:
    """A mean, a precision, and the data."""
    g = tp.Graph()
    g.normal("x", g.normal("mean", 0.0, 1.0), g.gamma("precision", 1.0, 1.0), plates="n", observed=True)
    return tp.fit(g.model(), x, tp.VB(), seed=0)


SKLEARN_EM = ("sklearn.mixture", "GaussianMixture", {"n_components": 3})
SKLEARN_MIXTURE = ("sklearn.mixture", "BayesianGaussianMixture", {"n_components": 3})
SKLEARN_TOPICS = ("sklearn.decomposition", "LatentDirichletAllocation", {"n_components": 5})
CASES = {
    "vb": Case("mixture, VB", "table", mixture("VB"), 2, 0.5, SKLEARN_MIXTURE),
    "em": Case("mixture, EM", "table", mixture("EM"), None, None, SKLEARN_EM),
    "compare": Case("`compare`, 1 to 6 × 5 starts", "table", compare, 3.5, 1.5, kept=(1.0, 0.25)),
    "hmm": Case("HMM, VB", "table", lambda tp, x: tp.fit(tp.HMM(3), x, tp.VB(), seed=0), 3, 1.5),
    "factors": Case(
        "factor analysis, VB", "table", lambda tp, x: tp.fit(tp.FactorAnalysis(1), x, tp.VB(), seed=0), 3, 1.5,
        ("sklearn.decomposition", "FactorAnalysis", {"n_components": 1}),
    ),
    "regression": Case(
        "regression, VB", "line", lambda tp, xy: tp.fit(tp.LinearRegression(), xy, tp.VB(), seed=0), 3, 1.5,
        ("sklearn.linear_model", "BayesianRidge", {}),
    ),
    "ep": Case("mixture, EP", "table", mixture("EP"), 5, 3),
    "svi": Case(
        "topics, SVI", "counts", lambda tp, x: tp.fit(tp.LDA(5), x, tp.SVI(), seed=0), 5, 3,
        (*SKLEARN_TOPICS[:2], SKLEARN_TOPICS[2] | {"learning_method": "online"}),
    ),
    "cvb0": Case("topics, CVB0", "counts", lambda tp, x: tp.fit(tp.LDA(5), x, tp.CVB0(), seed=0), 5, 3, SKLEARN_TOPICS),
    "pt": Case("mixture, parallel tempering", "table", mixture("ParallelTempering"), 8, 4),
    "states": Case("state space, VB", "table", lambda tp, x: tp.fit(tp.StateSpace(2), x, tp.VB(), seed=0), 6, 3),
    "ais": Case("mixture, AIS", "table", mixture("AIS"), 15, 8),
    "graph": Case("a graph of three nodes, VB", "column", graph, 4, 2),
}  # fmt: skip


class Call(NamedTuple):
    """One timed call."""

    seconds: float  # divided by J once it is out of its process
    programs: int  # of XLA, compiled and not read from a file
    kernels: int  # of Numba, likewise


def child(name: str, peer: bool, once: bool, cpu: bool) -> dict[str, Any]:
    """In a fresh process: `import jax`, and the calls (with `once` the first only), each in units of it."""
    clock = time.process_time if cpu else time.perf_counter
    began = clock()
    import jax
    import jax.monitoring

    unit = clock() - began
    case, events = CASES[name], []
    data = globals()[case.data]
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: events.append(event))
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event))

    def timed(run: Callable[[], Any]) -> Call:
        before, heard = kernels(), len(events)
        began = clock()
        run()
        seconds = clock() - began
        programs = [event.rpartition("/")[2] for event in events[heard:]]
        read = programs.count("cache_hits")
        return Call(seconds / unit, programs.count("backend_compile_duration") - read, kernels() - before)

    x = data()
    if peer:
        assert case.peer is not None
        module, estimator, arguments = case.peer
        theirs = getattr(importlib.import_module(module), estimator)(**arguments)
        return {"unit": unit, "first": timed(lambda: theirs.fit(*x) if isinstance(x, tuple) else theirs.fit(x))}
    fewer = data(len(x[0] if isinstance(x, tuple) else x) - FEWER)
    tp = importlib.import_module("temperance")
    calls = {"first": x} if once else {"first": x, "second": x, "new": fewer}
    return {"unit": unit} | {key: timed(lambda rows=rows: case.fit(tp, rows)) for key, rows in calls.items()}


def kernels() -> int:
    """How many Numba functions this process has compiled, rather than read from a file."""
    modules = [module for name, module in sys.modules.items() if name.startswith("temperance.kernels")]
    found = {id(value): value for module in modules for value in vars(module).values() if hasattr(value, "overloads")}
    return sum(len(each.overloads) - sum(each.stats.cache_hits.values()) for each in found.values())


def measure(name: str, *flags: str, folder: Path | None = None, **variables: str) -> dict[str, Any]:
    """What a fresh process measures; `folder` is where compilations are kept, if they are."""
    with tempfile.TemporaryDirectory() as empty:
        # An installed package has its bytecode: the first process writes it here.
        left_out = ("JAX_COMPILATION_CACHE_DIR", "TEMPERANCE_ENGINE", "PYTHONDONTWRITEBYTECODE")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        environment |= {
            "JAX_ENABLE_COMPILATION_CACHE": "false" if folder is None else "true",
            "TEMPERANCE_CACHE": "off" if folder is None else str(folder / "temperance"),
            "NUMBA_CACHE_DIR": empty if folder is None else str(folder / "numba"),
        }
        command = [sys.executable, "-m", "benchmarks.first", "--child", name, *flags]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment | variables)
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {key: value if key == "unit" else Call(*value) for key, value in found.items()}


def one_round(name: str, *flags: str) -> dict[str, Any]:
    cold = measure(name, *flags)
    with tempfile.TemporaryDirectory() as kept:
        _, again = (measure(name, "--once", *flags, folder=Path(kept)) for _ in range(2))
    row = {"cold": cold["first"], "kept": again["first"]} | {key: cold[key] for key in ("unit", "second", "new")}
    return row | ({"peer": measure(name, "--peer", *flags)["first"]} if CASES[name].peer else {})


def middle(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians of the times, and the largest of the counts."""
    found: dict[str, Any] = {"unit": median(each["unit"] for each in rounds)}
    for key in rounds[0].keys() - {"unit"}:
        calls = [each[key] for each in rounds]
        times = median(call.seconds for call in calls)
        found[key] = Call(times, *(max(column) for column in list(zip(*calls, strict=True))[1:]))
    return found


HEADER = """\
| first fit of | cold | must | aim | kept | second | new rows | scikit-learn |
|---|---|---|---|---|---|---|---|"""


def asked(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def formatted(name: str, row: dict[str, Any]) -> str:
    case = CASES[name]
    cells = {
        key: f"{row[key].seconds:.2f} ({row[key].programs}, {row[key].kernels})" for key in ("cold", "kept", "new")
    }
    peer = f"{row['peer'].seconds:.2f}" if "peer" in row else ""
    return (
        f"| {case.title} | {cells['cold']} | {asked(case.must)} | {asked(case.aim)} | {cells['kept']} | "
        f"{row['second'].seconds:.2f} | {cells['new']} | {peer} |"
    )


def beyond(rows: dict[str, dict[str, Any]]) -> str:
    """What the second fit does not explain, beside what is asked of it."""
    lines = []
    for name, row in rows.items():
        kept, new = (max(0.0, row[key].seconds - row["second"].seconds) for key in ("kept", "new"))
        must, aim = CASES[name].kept
        lines.append(f"| {CASES[name].title} | {kept:.2f} | {must:g} | {aim:g} | {new:.2f} | {NEW_ROWS:g} |")
    header = "| beyond the second fit | kept | must | aim | new rows | must |\n|---|---|---|---|---|---|"
    return "\n".join([header, *lines])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", choices=list(CASES), help=argparse.SUPPRESS)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args([] if arguments is None else list(arguments))
    if given.child:
        print(json.dumps(child(given.child, given.peer, given.once, given.cpu)))
        return
    flags = ["--cpu"] if given.cpu else []
    measure("vb", "--once")  # writes the bytecode and fills the file system's cache
    print(HEADER, flush=True)
    rows = {}
    for name in given.case:
        rows[name] = middle([one_round(name, *flags) for _ in range(given.rounds)])
        print(formatted(name, rows[name]), flush=True)
    print(
        f"\n{beyond(rows)}\n\nJ = {median(row['unit'] for row in rows.values()):.2f} s (median); in brackets XLA, Numba"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
