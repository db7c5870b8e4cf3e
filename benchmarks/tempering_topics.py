"""Topic models, cold, annealed and tempered: held-out predictive against passes (figure 2 of variational tempering).

    TEMPERANCE_DATA=folder python -m benchmarks.tempering_topics [--topics K …] [--seeds S] [--corpus NAME …]
        [--method NAME …] [--processes P] [--minutes M] [--device] [--out FOLDER] [--figure FILE]

10 passes of SVI at several numbers of local iterations, linear schedules over one and five passes, VT and LVT over
five, and what `tp.Annealed` does by itself, on four real corpora and two simulated ones with as many topics as are
fitted: "lda" is drawn from the model itself, "language" has sparse topics of words as frequent as in a language, three
to a document. A fifth of the documents is for testing (nats a token by document completion, at the end), a tenth of the
rest is watched (the bound of new documents, against passes; the best posterior by it is kept). Means over seeds with
standard errors. Runs go to P processes of one thread each, with `--device` on an accelerator that they share, in single
precision; what is done is in FOLDER/tempering_topics.json, and is not done again by the next call.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

CORPORA = {"ap": 0.3, "kos": 0.35, "nips_uci1500": 0.7, "20news": 2.4, "lda": 0.2, "language": 0.4}  # million entries
TITLES = {
    "ap": "AP", "kos": "KOS", "nips_uci1500": "NIPS", "20news": "20 Newsgroups",
    "lda": "drawn from LDA", "language": "like a language",
}  # fmt: skip
PASSES = 10
COLD = (2, 3, 5, 20)
MAIN = (
    *(f"SVI, {steps} local steps" for steps in COLD),
    "linear from 1.5, 1 pass", "linear from 1.5, 5 passes", "VT", "LVT", "default (pilot)",
)  # fmt: skip
MORE = ("linear from 3, 1 pass", "linear from 3, 5 passes", "LVT, 1 pass")
SHOWN = ("SVI, 5 local steps", "SVI, 20 local steps", "linear from 1.5, 5 passes", "VT", "LVT", "default (pilot)")

Task = tuple[str, int, str, tuple[int, ...], bool]  # a corpus, topics, a method, seeds, whether on an accelerator


def simulate(name: str, topics: int) -> np.ndarray:
    """Counts of 4,000 documents."""
    rng = np.random.default_rng(topics)
    if name == "lda":  # α = η = 1/K, as `tp.LDA` has by default
        beta = rng.dirichlet(np.full(2000, 1.0 / topics), topics)
        return rng.multinomial(100, rng.dirichlet(np.full(topics, 1.0 / topics), 4000) @ beta)
    weight = rng.gamma(0.05, size=(topics, 3000)) / (10.0 + np.arange(3000))[None] + 1e-8
    theta = np.zeros((4000, topics))
    np.add.at(theta, (np.arange(4000)[:, None], rng.integers(0, topics, (4000, 3))), rng.dirichlet([0.5] * 3, 4000))
    return rng.multinomial(150, theta @ (weight / weight.sum(axis=1, keepdims=True)))


def method_of(label: str, watched: Any) -> Any:
    import temperance as tp

    def svi(steps: int = COLD[-1]) -> tp.SVI:
        return tp.SVI(passes=PASSES, local_steps=steps, held_out=watched, patience=10**6)

    if label.startswith("SVI"):
        return svi(int(label.split()[1]))
    if label.startswith("linear"):
        start, length = float(label.split()[2].rstrip(",")), int(label.split()[3])
        return tp.Annealed(svi(), "linear", start=start, length=length)
    if label.startswith("VT"):
        return tp.VT(method=svi())
    if label.startswith("LVT"):
        return tp.LVT(method=svi(), length=1 if "1 pass" in label else PASSES // 2)
    return tp.Annealed(svi())


def once_only() -> None:
    """What does not depend on the seed is worked out for the first of them: log C, and the pilot's choice."""
    from temperance.inference.variational import pilot
    from temperance.models.topics.heat import TopicTempering

    for place, name in ((TopicTempering, "log_normaliser"), (pilot, "choose")):
        setattr(place, name, _remembered(getattr(place, name)))


def _remembered(function: Any) -> Any:
    found: list[Any] = []

    def call(*given: Any) -> Any:
        if not found:
            found.append(function(*given))
        return found[0]

    return call


def run(task: Task) -> list[dict[str, Any]]:
    import temperance as tp
    from temperance.data import as_corpus
    from temperance.inference.variational import pilot
    from temperance.models.topics.heat import TopicTempering

    name, topics, label, seeds, device = task
    plain = TopicTempering.log_normaliser, pilot.choose
    once_only()
    corpus = as_corpus(simulate(name, topics) if name in ("lda", "language") else tp.datasets.load(name))
    order = np.random.default_rng(0).permutation(len(corpus))
    fifth = len(corpus) // 5
    rest = order[fifth:]
    test, watched, train = (
        corpus.take(np.sort(part)) for part in (order[:fifth], rest[: len(rest) // 10], rest[len(rest) // 10 :])
    )
    model = tp.LDA(topics, engine="device", precision="single") if device else tp.LDA(topics)
    results = []
    for seed in seeds:
        began = time.perf_counter() if device else time.process_time()
        fit = tp.fit(model, train, method_of(label, watched), seed=seed, progress=False)
        steps = np.asarray(fit.history["step"])
        found = {
            "corpus": name, "topics": topics, "method": label, "seed": seed,
            "completion": float(tp.document_completion(fit, test)[0]),
            "passes": (PASSES * steps / steps[-1]).tolist(),
            "watched": (np.asarray(fit.history["held_out"]) * len(watched) / watched.n_tokens).tolist(),
            "temperature": float(fit.details.get("temperature", 1.0)),
            "seconds": (time.perf_counter() if device else time.process_time()) - began,
            "notes": list(fit.notes),
        }  # fmt: skip
        results.append(found)
    TopicTempering.log_normaliser, pilot.choose = plain  # type: ignore[method-assign]
    return results


def tasks(given: argparse.Namespace, done: list[dict[str, Any]]) -> Iterator[Task]:
    """The longest first, seeds of long runs apart."""
    known = {(row["corpus"], row["topics"], row["method"], row["seed"]) for row in done}
    wanted = itertools.product(given.corpus, given.topics, given.method)

    def cost(cell: tuple[str, int, str]) -> float:
        """About the seconds of a fit."""
        name, k, label = cell
        slower = {"LVT": 2.2, "linear": 1.5, "default": 1.5, "VT": 1.3}.get(label.replace(",", "").split()[0], 1.0)
        return 0.33 * CORPORA[name] * k * slower

    found = []
    for cell in wanted:
        seeds = tuple(seed for seed in range(given.seeds) if (*cell, seed) not in known)
        groups = [(seed,) for seed in seeds] if cost(cell) >= 25 else [seeds] if seeds else []
        once = 12 * cost(cell) * min(1.0, 0.3 / CORPORA[cell[0]]) if cell[2].startswith("default") else 10
        found += [(once + len(some) * cost(cell), cell, some) for some in groups]
    for _, cell, some in sorted(found, key=lambda task: -task[0]):
        yield *cell, some, given.device


def show(rows: list[dict[str, Any]]) -> None:
    for name, k in dict.fromkeys((row["corpus"], row["topics"]) for row in sorted(rows, key=lambda row: row["topics"])):
        print(f"{name}, {k} topics: nats a token, standard error, seeds, seconds, E[T]")
        for label in MAIN + MORE:
            here = [row for row in rows if (row["corpus"], row["topics"], row["method"]) == (name, k, label)]
            if here:
                scores = np.array([row["completion"] for row in here])
                error = scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.nan
                warm = np.mean([row["temperature"] for row in here])
                seconds = np.median([row["seconds"] for row in here])
                note = " ".join(here[0]["notes"]) if label.startswith("default") else ""
                line = f"{scores.mean():8.4f} ± {error:.4f}  {len(here)}  {seconds:6.1f} s  {warm:.3f}  {note}"
                print(f"  {label:28s} {line}", flush=True)


def draw(rows: list[dict[str, Any]], path: str) -> None:
    """A panel for each corpus and number of topics that a cold run is there to compare with."""
    import matplotlib.pyplot as plt

    cold = {(row["topics"], row["corpus"]) for row in rows if row["method"].startswith("SVI")}
    panels = [(k, name) for k, name in itertools.product(sorted({k for k, _ in cold}), CORPORA) if (k, name) in cold]
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    tall = 2.7 * down + 0.7
    figure, axes = plt.subplots(down, across, figsize=(3.6 * across, tall), squeeze=False)
    for axis, (k, name) in itertools.zip_longest(axes.flat, panels, fillvalue=(0, "")):
        here = [row for row in rows if (row["topics"], row["corpus"]) == (k, name)]
        if not here:
            axis.set_axis_off()
            continue
        for number, label in enumerate(SHOWN):
            curves = np.array([row["watched"] for row in here if row["method"] == label])
            if not len(curves):
                continue
            mean, error = curves.mean(axis=0), curves.std(axis=0) / np.sqrt(max(1, len(curves) - 1))
            passes, style = here[0]["passes"], "--" if label.startswith("default") else "-"
            axis.plot(passes, mean, style, color=f"C{number}", lw=1.3, label=label)
            axis.fill_between(passes, mean - error, mean + error, color=f"C{number}", alpha=0.2, lw=0)
        final = [row["watched"][-1] for row in here]
        axis.set(title=f"{TITLES[name]}, {k} topics", ylim=(min(final) - 0.25, max(final) + 0.03), xlabel="passes")
        axis.spines[["top", "right"]].set_visible(False)
    for row in axes:
        row[0].set_ylabel("nats a token, new documents")
    lines = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
    figure.legend(lines.values(), lines.keys(), fontsize=10, frameon=False, loc="lower center", ncols=3)
    figure.tight_layout(rect=(0, 0.6 / tall, 1, 1))
    figure.savefig(path, dpi=120)


def main(arguments: tuple[str, ...] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, nargs="*", default=[50, 100])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--corpus", nargs="*", default=list(CORPORA), choices=list(CORPORA))
    parser.add_argument("--method", nargs="*", default=list(MAIN), choices=list(MAIN + MORE))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=np.inf, help="then what is not done is left for the next call")
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--out", default="out")
    parser.add_argument("--figure", default=None)
    given = parser.parse_args([] if arguments is None else list(arguments))
    began, path = time.monotonic(), Path(given.out) / "tempering_topics.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    one = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "TEMPERANCE_THREADS")
    os.environ |= dict.fromkeys(names, "1") | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    os.environ |= {} if given.device else {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": one}
    pool = ProcessPoolExecutor(given.processes, multiprocessing.get_context("spawn"))
    waiting = [pool.submit(run, task) for task in tasks(given, rows)]
    try:
        for future in as_completed(waiting, timeout=60 * given.minutes if given.minutes < np.inf else None):
            rows += future.result()
            beside = path.with_suffix(".new")
            beside.write_text(json.dumps(rows))
            beside.rename(path)
            last = rows[-1]
            place = f"{last['corpus']} {last['topics']} {last['method']}"
            print(f"{time.monotonic() - began:6.0f} s  {place}: {last['completion']:.4f}", flush=True)
    except TimeoutError:
        left = sum(not future.done() for future in waiting)
        print(f"out of time: {left} of {len(waiting)} left", flush=True)
        for process in (pool._processes or {}).values():
            process.kill()
    pool.shutdown(wait=False, cancel_futures=True)
    show(rows)
    if given.figure:
        draw(rows, given.figure)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
