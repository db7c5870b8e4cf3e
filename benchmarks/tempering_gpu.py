"""Topic models cold, annealed and tempered on corpora of the shapes in the paper (figure 2 of variational tempering),
on an accelerator: 1.7 M documents × 8,000 words (New York Times), 0.64 M × 14,000 (arXiv), 3.6 M × 7,702 (Wikipedia),
K = 500. The corpora are simulated from topics, so that there is something to find.

    python -m benchmarks.tempering_gpu [--scale S] [--passes P] [--corpus NAME …] [--curve NAME …] [--out FOLDER]

Curves: SVI, AVI over a tenth of a pass and over one pass (linear from the mean of VT's grid, as in the paper), VT and
LVT over half of the passes, and the default of `tp.Annealed`, which decides by a pilot. Written to FOLDER (or $OUT)
after every curve: the held-out bound in nats a token against passes, the temperature, document completion at the end,
and seconds, with compilation and what comes before the first step (log C of VT, the pilot) apart. The same call again
goes on after the last curve that was written. At the end a table, a figure, and the time of all calls together.
`--scale` is the share of the documents; on a machine without an accelerator choose small sizes.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

import temperance as tp
from temperance.data import Corpus
from temperance.inference.progress import Progress
from temperance.inference.run import run

SHAPES = {"nyt": (1_700_000, 8000, 150), "arxiv": (640_000, 14_000, 80), "wikipedia": (3_600_000, 7702, 100)}
NAMES = {"nyt": "New York Times", "arxiv": "arXiv", "wikipedia": "Wikipedia"}
CURVES = ("SVI", "AVI 0.1", "AVI 1", "VT", "LVT", "default")
START = float(np.geomspace(1, 10, 100).mean())
PIECE, TEST = 20_000, 500  # documents
PLACES = 2**16  # of the row that the tokens of a topic are drawn from
REPORTS = 8  # a pass


def simulate(documents: int, words: int, tokens: int, topics: int, seed: int = 0) -> tuple[Corpus, Corpus]:
    """Documents of three topics each out of sparse ones, whose words are as frequent as in a language; and as many for
    testing as are asked for. Pieces have seeds of their own: the number of threads makes no difference."""
    frequency = 1.0 / (10.0 + np.arange(words))

    def row(topic: int) -> np.ndarray:
        rng = np.random.default_rng([seed, 0, topic])
        edges = np.cumsum(rng.gamma(0.05, size=words) * frequency + 1e-8)
        return np.searchsorted(edges / edges[-1], (np.arange(PLACES) + rng.random()) / PLACES).astype(np.uint16)

    def piece(number: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng([seed, 1, number])
        chosen = rng.integers(0, topics, (size, 3), dtype=np.int32)
        ends = np.cumsum(rng.dirichlet(np.full(3, 0.5), size), axis=1, dtype=np.float32)
        u = rng.random((size, tokens), dtype=np.float32)
        place = (u > ends[:, :1]).astype(np.int32) + (u > ends[:, 1:2])
        z = np.take(chosen.ravel(), place + 3 * np.arange(size, dtype=np.int32)[:, None])
        word = np.take(table, z * PLACES + rng.integers(0, PLACES, z.shape, dtype=np.int32))
        word.sort(axis=1)
        first = np.ones(word.shape, dtype=bool)
        np.not_equal(word[:, 1:], word[:, :-1], out=first[:, 1:])
        where = np.flatnonzero(first)
        counts = np.diff(where, append=word.size).astype(np.float32)
        return first.sum(axis=1), word.ravel()[where].astype(np.int32), counts

    sizes = [min(PIECE, documents - start) for start in range(0, documents, PIECE)]
    with ThreadPoolExecutor() as pool:
        table = np.concatenate(list(pool.map(row, range(topics))))
        parts = list(pool.map(piece, range(len(sizes) + 1), [*sizes, TEST]))

    def joined(parts: list[Any]) -> Corpus:
        entries, kept, counts = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Corpus(np.concatenate([[0], np.cumsum(entries)]), kept, counts, words)

    return joined(parts[:-1]), joined(parts[-1:])


class Compilation:
    """Seconds in which JAX traced or compiled, whatever else it did then."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, seconds: float, **_: Any) -> None:
        if event.startswith("/jax/core/compile"):
            now = time.perf_counter()
            self.spans.append((now - seconds, now))

    def seconds(self, since: float) -> float:
        total = until = 0.0
        for begin, end in sorted(span for span in self.spans if span[1] > since):  # one is often part of another
            begin = max(begin, until, since)
            total, until = total + max(0.0, end - begin), max(until, end)
        return total


def method_of(curve: str, svi: tp.SVI, tempered: float) -> Any:
    if curve == "SVI":
        return svi
    if curve.startswith("AVI"):
        return tp.Annealed(svi, "linear", start=START, length=float(curve.split()[1]))
    if curve == "VT":
        return tp.VT(method=svi, length=tempered)
    return tp.LVT(method=svi, length=tempered) if curve == "LVT" else tp.Annealed(svi)


def run_curve(
    curve: str, model: Any, arrays: Any, test: Corpus, given: argparse.Namespace, compilation: Compilation
) -> dict[str, Any]:
    """`tp.fit` in its parts, each with its time: the documents are on the device already."""
    a_pass, key = arrays.size // given.batch, jax.random.key(0)
    svi = tp.SVI(
        batch_size=given.batch, passes=given.passes, report=max(1, a_pass // REPORTS), local_steps=given.local_steps,
        held_out=test, patience=10**6,
    )  # fmt: skip
    method, taken = method_of(curve, svi, given.passes / 2), {}

    def timed(name: str, function: Any) -> Any:
        began = time.perf_counter()
        value = function()
        compiling = compilation.seconds(began)
        taken["compilation"] = taken.get("compilation", 0.0) + compiling
        taken[name] = time.perf_counter() - began - compiling
        return value

    complete = timed("before", lambda: method.complete(model, arrays))
    arranged = complete.arrange(jax.random.fold_in(key, 0), model, arrays)
    done = timed("steps", lambda: run(complete, model, arranged, key, Progress(False)))
    result = timed("bound", lambda: complete.result(model, arranged, done))
    fit = tp.Fit(
        model=model, method=method, log_evidence=result.log_evidence, bracket=None, history=result.history,
        converged=result.converged, seconds=taken["steps"], seed=0, state=result.state, data=arranged,
        details=dict(result.details), notes=result.notes,
    )  # fmt: skip
    completion = timed("completion", lambda: tp.document_completion(fit, test)[0])
    history = {name: np.asarray(values) for name, values in result.history.items()}
    pilot = result.details.get("pilot")
    return {
        "passes": (history["step"] / a_pass).tolist(),
        "held_out": (history["held_out"] * len(test) / test.n_tokens).tolist(),
        "temperature": history.get("temperature", np.ones(len(history["step"]))).tolist(),
        "completion": float(completion),
        "bound": result.log_evidence,
        "seconds": taken,
        "seconds_a_pass": taken["steps"] / given.passes,
        "pilot": None if pilot is None else {name: np.asarray(score).tolist() for name, score in pilot.items()},
        "notes": list(result.notes),
    }


def write(folder: Path, results: dict[str, Any]) -> None:
    (folder / "tempering_gpu.json").write_text(json.dumps(results, indent=1))
    with (folder / "tempering_gpu.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("corpus", "curve", "passes", "held_out", "temperature"))
        for name, corpus in results["corpora"].items():
            for curve, row in corpus["curves"].items():
                lines = zip(row["passes"], row["held_out"], row["temperature"], strict=True)
                writer.writerows((name, curve, *line) for line in lines)


def table(results: dict[str, Any]) -> str:
    lines = ["corpus     curve     held-out  completion  s a pass  before  compilation"]
    for name, corpus in results["corpora"].items():
        for curve in (curve for curve in CURVES if curve in corpus["curves"]):
            row = corpus["curves"][curve]
            lines.append(
                f"{name:10s} {curve:8s} {row['held_out'][-1]:9.4f} {row['completion']:11.4f} "
                f"{row['seconds_a_pass']:9.2f} {row['seconds']['before']:7.1f} {row['seconds']['compilation']:12.1f}"
            )
    return "\n".join(lines)


def draw(results: dict[str, Any], path: Path) -> None:
    """A panel for each corpus: held-out nats a token against passes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(results["corpora"]), 3.6), layout="constrained")
    panels = figure.subplots(1, len(results["corpora"]), squeeze=False)[0]
    for panel, (name, corpus) in zip(panels, results["corpora"].items(), strict=True):
        for number, curve in enumerate(CURVES):
            row = corpus["curves"].get(curve)
            if row is not None:
                style = "--" if curve == "default" else "-"
                panel.plot(row["passes"], row["held_out"], style, color=f"C{number}", linewidth=1.4, label=curve)
        size = f"{corpus['documents'] / 1e6:.3g} M × {corpus['words']:,}"
        panel.set_title(f"simulated, the size of {NAMES[name]}: {size}", fontsize=10)
        panel.set_xlabel("passes")
    panels[0].set_ylabel("held-out nats a token")
    panels[-1].legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)


def main(arguments: tuple[str, ...] | None = None) -> None:
    began = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--passes", type=float, default=4.0)
    parser.add_argument("--corpus", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--curve", nargs="*", default=list(CURVES), choices=list(CURVES))
    parser.add_argument("--topics", type=int, default=500)
    parser.add_argument("--words", type=int, default=None, help="for small trials")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--local-steps", type=int, default=20)
    parser.add_argument("--out", default=os.environ.get("OUT", "out"))
    given = parser.parse_args([] if arguments is None else list(arguments))
    folder = Path(given.out)
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in vars(given).items() if name not in ("corpus", "curve", "out")}
    results: dict[str, Any] = {"device": jax.devices()[0].device_kind, "arguments": kept, "calls": [], "corpora": {}}
    path = folder / "tempering_gpu.json"
    if path.exists() and (before := json.loads(path.read_text()))["arguments"] == kept:
        results = before
    earlier, compilation = tuple(results["calls"]), Compilation()
    for name in given.corpus:
        documents, words, tokens = SHAPES[name]
        corpus = results["corpora"].setdefault(name, {"curves": {}})
        left = [curve for curve in given.curve if curve not in corpus["curves"]]
        if not left:
            continue
        count, clock = max(8 * given.batch, round(given.scale * documents)), time.perf_counter()
        train, test = simulate(count, given.words or words, tokens, given.topics)
        corpus["simulation_seconds"], clock = time.perf_counter() - clock, time.perf_counter()
        model, arrays = tp.LDA(given.topics, engine="device", precision="single").prepare(train)
        jax.block_until_ready(arrays.values)
        corpus["copying_seconds"] = time.perf_counter() - clock
        corpus |= {"documents": count, "words": train.n_words, "tokens": train.n_tokens, "entries": len(train.words)}
        print(
            f"{name}: {count:,} of {documents:,} documents × {train.n_words:,} words, {train.n_tokens:,.0f} tokens, "
            f"{len(train.words) / count:.0f} distinct words a document; simulated in "
            f"{corpus['simulation_seconds']:.1f} s, padded and copied in {corpus['copying_seconds']:.1f} s",
            flush=True,
        )
        del train
        for curve in left:
            found = corpus["curves"][curve] = run_curve(curve, model, arrays, test, given, compilation)
            results["calls"] = [*earlier, time.perf_counter() - began]
            write(folder, results)  # what was done is kept if time runs out
            parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in found["seconds"].items())
            print(
                f"  {curve:8s} {found['held_out'][-1]:8.4f} nats a token, completion {found['completion']:8.4f}, "
                f"{found['seconds_a_pass']:.2f} s a pass; seconds: {parts}; at {results['calls'][-1]:.0f} s",
                *found["notes"], flush=True,
            )  # fmt: skip
        jax.tree.map(lambda leaf: leaf.delete(), arrays)
    print(table(results))
    try:
        draw(results, folder / "tempering_gpu.png")
    except ImportError:
        print("no figure without Matplotlib: the same call where it is draws it from what was written")
    calls = len(results["calls"])
    print(f"{sum(results['calls']):.0f} s in all" + (f", in {calls} calls" if calls > 1 else ""))


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
