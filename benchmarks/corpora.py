"""Held-out scores on real corpora beside scikit-learn and gensim, with CPU seconds.

The corpora are those in the folder named by TEMPERANCE_DATA. A tenth of the documents is for testing: half of the
tokens of each, given the other half and every library's mean topics, by the same evaluation for all. K = 20, priors
1/K, three passes in minibatches of 256, step sizes (10 + t)^(−0.7), inner tolerance 1e-3 (at most 100 iterations).

    TEMPERANCE_DATA=folder python -m benchmarks.corpora [name …]
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

import temperance as tp
from temperance.data import Corpus, as_corpus

from . import topics
from .topics import held_out

NAMES, K, PASSES = ("ap", "kos", "nips_uci1500", "20news"), 20, 3


def ours(corpus: Corpus, method: tp.SVI | tp.CVB0, **arguments: object) -> np.ndarray:
    fit = tp.fit(tp.LDA(K, **arguments), corpus, method, progress=False)
    return np.asarray(fit.posterior["topics"].concentration)


def compare(name: str) -> None:
    corpus = as_corpus(tp.datasets.load(name))
    train, test = corpus.split(0.1, seed=0)
    topics.WORDS = corpus.n_words
    svi = tp.SVI(batch_size=256, passes=PASSES, step_size=(10.0, 0.7), local_steps=100)
    methods: dict[str, Callable[[], np.ndarray]] = {
        "tp.SVI": lambda: ours(train, svi),
        "tp.SVI, 5 local steps": lambda: ours(train, tp.SVI(batch_size=256, passes=PASSES, local_steps=5)),
        "tp.CVB0": lambda: ours(train, tp.CVB0(passes=30), precision="single"),
        "scikit-learn": lambda: topics.scikit_learn(train, K, 1, PASSES),
        "gensim": lambda: topics.gensim(train, K, 1, PASSES),
    }
    tokens = f"{train.n_tokens:,.0f}"
    print(f"{name}: {len(train):,} documents to learn from, {corpus.n_words:,} words, {tokens} tokens", flush=True)
    for method, run in methods.items():
        if method.startswith("tp."):
            run()  # compilation is left out
        began = time.process_time()
        lam = run()
        taken = time.process_time() - began
        score = held_out(lam / lam.sum(axis=1, keepdims=True), np.full(K, 1 / K), test)
        print(f"{name:14s} {method:22s} {taken:7.1f} s   {score:.4f} nats a token", flush=True)


def main(arguments: tuple[str, ...] = ()) -> None:
    warnings.simplefilter("ignore")
    os.environ["TEMPERANCE_THREADS"] = "1"
    if "TEMPERANCE_DATA" not in os.environ:
        print("TEMPERANCE_DATA names no folder with corpora")
        return
    for name in arguments or NAMES:
        compare(name)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
