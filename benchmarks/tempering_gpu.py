"""Topic models cold, annealed and tempered on corpora of the shapes in the paper (figure 2 of variational tempering),
on an accelerator: 1.7 M documents × 8,000 words (New York Times), 0.64 M × 14,000 (arXiv), 3.6 M × 7,702 (Wikipedia),
K = 500. The corpora are simulated from topics, so that there is something to find.

    python -m benchmarks.tempering_gpu [--scale S] [--passes P] [--corpus NAME …] [--curve NAME …] [--out FOLDER]

`--scale` is the share of the documents; words and topics stay as they are. Curves: SVI, AVI over a tenth of a pass and
over one pass (linear from the mean of VT's grid, as in the paper), VT, LVT, and the default of `tp.Annealed`, which
decides by a pilot. Written to FOLDER (or $OUT): for each curve the held-out bound in nats a token against passes, the
temperature, document completion at the end, and seconds with compilation left out; what a run on all documents would
take is that divided by the scale, and said to be so. On a machine without an accelerator choose small sizes.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import temperance as tp
from temperance.data import Corpus
from temperance.models.renormalised import log_tempered_normaliser

SHAPES = {"nyt": (1_700_000, 8000, 150), "arxiv": (640_000, 14_000, 80), "wikipedia": (3_600_000, 7702, 100)}
CURVES = ("SVI", "AVI 0.1", "AVI 1", "VT", "LVT", "default")
START = float(np.geomspace(1, 10, 100).mean())


def simulate(documents: int, words: int, tokens: int, topics: int, seed: int = 0) -> Corpus:
    """Documents of three topics each out of sparse ones, whose words are as frequent as in a language."""
    rng = np.random.default_rng(seed)
    frequency = 1.0 / (10.0 + np.arange(words))
    weight = rng.gamma(0.05, size=(topics, words)) * frequency[None] + 1e-8
    edges = (np.cumsum(weight / weight.sum(axis=1, keepdims=True), axis=1) + np.arange(topics)[:, None]).ravel()
    chosen, shares = rng.integers(0, topics, (documents, 3)), rng.dirichlet(np.full(3, 0.5), documents)
    starts, kept_words, kept_counts = [np.zeros(1, dtype=np.int64)], [], []
    for first in range(0, documents, 20_000):
        part = slice(first, first + 20_000)
        u = rng.random((len(chosen[part]), tokens))
        place = (u[..., None] > np.cumsum(shares[part], axis=1)[:, None, :2]).sum(axis=2)
        z = np.take_along_axis(chosen[part], place, axis=1)
        word = np.searchsorted(edges, z + rng.random(z.shape) * (1 - 1e-9)) - z * words
        flat = np.arange(len(z))[:, None] * words + np.clip(word, 0, words - 1)
        unique, counts = np.unique(flat.ravel(), return_counts=True)
        kept_words.append((unique % words).astype(np.int32))
        kept_counts.append(counts.astype(np.float32))
        starts.append(starts[-1][-1] + np.cumsum(np.bincount(unique // words, minlength=len(z))))
    return Corpus(np.concatenate(starts), np.concatenate(kept_words), np.concatenate(kept_counts), words)


def method_of(curve: str, svi: tp.SVI, tempered: float) -> Any:
    if curve == "SVI":
        return svi
    if curve.startswith("AVI"):
        return tp.Annealed(svi, "linear", start=START, length=float(curve.split()[1]))
    if curve == "VT":
        return tp.VT(method=svi, length=tempered)
    return tp.LVT(method=svi, length=tempered) if curve == "LVT" else tp.Annealed(svi)


def run_curve(curve: str, train: Corpus, test: Corpus, given: argparse.Namespace) -> dict[str, Any]:
    model = tp.LDA(given.topics, engine="device", precision="single")
    a_pass = len(train) // given.batch

    def svi(passes: float) -> tp.SVI:
        report = max(1, a_pass // 4)
        return tp.SVI(
            batch_size=given.batch, passes=passes, report=report, local_steps=given.local_steps,
            held_out=test, patience=10**6,
        )  # fmt: skip

    def fit(passes: float) -> tp.Fit:
        return tp.fit(model, train, method_of(curve, svi(passes), passes / 2), seed=0, progress=False)

    fit(max(1, 2 / a_pass) if curve == "default" else 4 / a_pass)  # compiles
    began = time.perf_counter()
    found = fit(given.passes)
    taken = time.perf_counter() - began
    before = 0.0
    if curve == "VT":
        complete, data = model.prepare(train)
        began = time.perf_counter()
        log_tempered_normaliser(complete, np.geomspace(1, 10, 100), data)
        before = time.perf_counter() - began
    length = test.n_tokens / len(test)
    return {
        "passes": (np.asarray(found.history["step"]) / a_pass).tolist(),
        "held_out": (np.asarray(found.history["held_out"]) / length).tolist(),
        "temperature": np.asarray(found.history.get("temperature", np.ones(len(found.history["step"])))).tolist(),
        "completion": float(tp.document_completion(found, test)[0]),
        "seconds": taken,
        "log_c_seconds": before,
        "seconds_a_pass": (taken - before) / given.passes,
        "full_size_hours": ((taken - before) / given.scale + before) / 3600,
        "notes": list(found.notes),
    }


def main(arguments: tuple[str, ...] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.02)
    parser.add_argument("--passes", type=float, default=2.0)
    parser.add_argument("--corpus", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--curve", nargs="*", default=list(CURVES), choices=list(CURVES))
    parser.add_argument("--topics", type=int, default=500)
    parser.add_argument("--words", type=int, default=None, help="for small trials")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--local-steps", type=int, default=20)
    parser.add_argument("--out", default=os.environ.get("OUT", "out"))
    given = parser.parse_args([] if arguments is None else list(arguments))
    folder = Path(given.out)
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"device": jax.devices()[0].device_kind, "arguments": vars(given)}
    for name in given.corpus:
        documents, words, tokens = SHAPES[name]
        count = max(8 * given.batch, round(given.scale * documents))
        corpus = simulate(count + 500, given.words or words, tokens, given.topics)
        train, test = corpus.take(slice(0, count)), corpus.take(slice(count, count + 500))
        print(f"{name}: {count:,} of {documents:,} documents, {corpus.n_words:,} words", flush=True)
        for curve in given.curve:
            began = time.perf_counter()
            found = run_curve(curve, train, test, given)
            results.setdefault(name, {})[curve] = found
            print(
                f"  {curve:8s} {found['held_out'][-1]:8.4f} nats a token, completion {found['completion']:8.4f}, "
                f"{found['seconds']:6.1f} s ({time.perf_counter() - began:.0f} s with compilation), all documents: "
                f"{found['full_size_hours']:.2f} h (extrapolated)",
                flush=True,
            )
            # After every curve: what was done is kept if time runs out.
            (folder / "tempering_gpu.json").write_text(json.dumps(results, indent=1))
            with (folder / "tempering_gpu.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(("corpus", "curve", "passes", "held_out", "temperature"))
                for corpus_name, curves in results.items():
                    if corpus_name in SHAPES:
                        for label, row in curves.items():
                            lines = zip(row["passes"], row["held_out"], row["temperature"], strict=True)
                            writer.writerows((corpus_name, label, *line) for line in lines)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
