"""Topics in the long run beside tomotopy: held-out score against CPU seconds, one thread each, α learned by both.

Corpora are simulated (5,000 documents of about 100 tokens, words with Zipf-like frequencies, document prior 5/K), or
files in the folder named by TEMPERANCE_DATA, of whose documents a tenth is for testing. Topics are judged alike: half
of the tokens of each document for testing, given the other half.

    python -m benchmarks.topics_long [simulated|ap|kos|…] [topics] [seeds]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import temperance as tp
from temperance.data import Corpus, as_corpus

from .topics import held_out


class Row(NamedTuple):
    method: str
    passes: int
    seed: int
    seconds: float  # of a processor
    score: float  # nats a token, held out

    def __str__(self) -> str:
        return f"  {self.method}, {self.passes} passes, seed {self.seed}: {self.seconds:6.1f} s  {self.score:.4f}"


WORDS, DOCUMENTS, LENGTH, SHARPNESS, ETA = 5000, 5500, 100, 250.0, 0.05


def corpus_of(name: str, k: int) -> tuple[Corpus, Corpus]:
    if name != "simulated":
        return as_corpus(tp.datasets.load(name)).split(0.1, seed=0)
    rng = np.random.default_rng(0)
    base = 1.0 / np.arange(1, WORDS + 1)
    beta = rng.dirichlet(np.maximum(SHARPNESS * base / base.sum(), 1e-3), k)
    theta = rng.dirichlet(np.full(k, 5.0 / k), DOCUMENTS)
    lengths = rng.poisson(LENGTH, DOCUMENTS)
    counts = np.stack([rng.multinomial(n, row @ beta) for n, row in zip(lengths, theta, strict=True)])
    return as_corpus(counts).split(500 / DOCUMENTS, seed=0)


def tomotopy(train: Corpus, test: Corpus, k: int, stops: tuple[int, ...], seed: int) -> Iterator[Row]:
    import tomotopy as peer

    model = peer.LDAModel(k=k, alpha=5.0 / k, eta=ETA, seed=seed + 1)
    for d in range(len(train)):
        here = slice(train.starts[d], train.starts[d + 1])
        model.add_doc([str(word) for word in np.repeat(train.words[here], train.counts[here].astype(int))])
    taken, done = 0.0, 0
    for stop in stops:
        began = time.process_time()
        model.train(stop - done, workers=1)
        taken, done = taken + time.process_time() - began, stop
        beta = np.full((k, train.n_words), 1e-12)
        numbers = [int(word) for word in model.used_vocabs]
        for topic in range(k):
            beta[topic, numbers] = model.get_topic_word_dist(topic)
        score = held_out(beta / beta.sum(axis=1, keepdims=True), np.asarray(model.alpha, dtype=np.float64), test)
        yield Row("tomotopy", stop, seed, taken, score)


def ours(train: Corpus, test: Corpus, k: int, passes: int, seed: int) -> Row:
    model = tp.LDA(k, document_prior=5.0 / k, topic_prior=ETA, precision="single", learn="document_prior")
    began = time.process_time()
    fit = tp.fit(model, train, tp.CVB0(passes=passes), seed=seed, progress=False)
    taken = time.process_time() - began
    lam = np.asarray(fit.posterior["topics"].concentration)
    alpha = np.asarray(fit.posterior["document_prior"].mode())
    return Row("tp.CVB0", passes, seed, taken, held_out(lam / lam.sum(axis=1, keepdims=True), alpha, test))


def main(arguments: tuple[str, ...] = ()) -> None:
    os.environ["TEMPERANCE_THREADS"] = "1"
    numbers = [int(word) for word in arguments if word.isdigit()]
    k, seeds = (numbers + [100, 1][len(numbers) :])[:2]
    for name in [word for word in arguments if not word.isdigit()] or ["simulated"]:
        train, test = corpus_of(name, k)
        print(f"{name}: {len(train):,} documents, {train.n_tokens:,.0f} tokens, K = {k}", flush=True)
        tp.fit(tp.LDA(k, precision="single", learn="document_prior"), train, tp.CVB0(passes=40), progress=False)
        for seed in range(seeds):
            for passes in (100, 200, 400, 800):
                print(ours(train, test, k, passes, seed), flush=True)
            for row in tomotopy(train, test, k, (100, 300, 1000), seed):
                print(row, flush=True)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
