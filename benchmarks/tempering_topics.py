"""Topic models, cold and annealed: held-out predictive by document completion (the paper's figure 2, small).

    TEMPERANCE_DATA=folder python -m benchmarks.tempering_topics [topics [seeds [corpus ... [-- method ...]]]]

Nats a token on a fifth of the documents, after 10 passes: SVI at several numbers of local iterations, linear schedules
over one and five passes, VT and LVT over five, and what `tp.Annealed` does by itself; means over seeds with standard
errors.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import temperance as tp

CORPORA = ("ap", "kos", "nips_uci1500", "20news")
PASSES = 10


def methods() -> dict[str, object]:
    svi, few = tp.SVI(passes=PASSES), tp.SVI(passes=PASSES, local_steps=5)
    cold = {f"SVI, {steps} local steps": tp.SVI(passes=PASSES, local_steps=steps) for steps in (2, 3, 5, 20)}
    hot = {
        f"linear from {start:g}, {length} passes": tp.Annealed(svi, "linear", start=start, length=length)
        for start in (1.5, 3.0)
        for length in (1, 5)
    }
    found = {
        "VT": tp.VT(method=svi),
        "LVT": tp.LVT(method=svi),
        "VT, 1 pass": tp.VT(method=svi, length=1),
        "LVT, 1 pass": tp.LVT(method=svi, length=1),
        "VT, 5 local steps": tp.VT(method=few),
        "LVT, 5 local steps": tp.LVT(method=few),
    }
    return cold | hot | found | {"default (pilot)": tp.Annealed(svi)}


def main(topics: int = 50, seeds: int = 5, names: tuple[str, ...] = CORPORA, wanted: tuple[str, ...] = ()) -> None:
    for name in names:
        corpus = tp.datasets.load(name)
        order = np.random.default_rng(0).permutation(corpus.shape[0])
        test, train = (corpus[np.sort(part)] for part in np.split(order, [corpus.shape[0] // 5]))
        print(f"{name}: {train.shape[0]} documents, {train.shape[1]} words, {topics} topics", flush=True)
        for label, method in methods().items():
            if wanted and label not in wanted:
                continue
            began, scores, notes, warm = time.perf_counter(), [], (), []
            for seed in range(seeds):
                fit = tp.fit(tp.LDA(topics), train, method, seed=seed, progress=False)
                scores.append(tp.document_completion(fit, test)[0])
                notes = fit.notes
                if "temperature" in fit.details:
                    warm.append(fit.details["temperature"])
            error = np.std(scores, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.nan
            took = (time.perf_counter() - began) / seeds
            print(
                f"  {label:28s} {np.mean(scores):8.4f} ± {error:.4f}   {took:5.1f} s  "
                f"{' '.join(notes) if not warm else f'E[T] {np.mean(warm):.3f}'}",
                flush=True,
            )


if __name__ == "__main__":
    given = sys.argv[1:]
    wanted: tuple[str, ...] = ()
    if "--" in given:
        wanted, given = tuple(given[given.index("--") + 1 :]), given[: given.index("--")]
    main(int(given[0]) if given else 50, int(given[1]) if given[1:] else 5, tuple(given[2:]) or CORPORA, wanted)
