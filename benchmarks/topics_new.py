"""New documents beside tomotopy: CPU seconds of one thread for the shares of all topics in documents that are new.

    python -m benchmarks.topics_new [--documents 100000] [--topics 100]

Both are fitted to 5,000 simulated documents (`topics_long`); the new ones, of about 100 tokens, have the same topics.
tomotopy takes its default of 100 iterations, ours go on until a document's counts change by less than 1e-4 on average.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import temperance as tp

from .topics_long import ETA, LENGTH, SHARPNESS, WORDS, corpus_of

_PIECE = 200_000  # tokens drawn at a time


def draw(documents: int, k: int) -> tuple[Any, np.ndarray]:
    """Counts of words, and the share of each topic that the documents were drawn with."""
    from scipy import sparse

    base = 1.0 / np.arange(1, WORDS + 1)
    beta = np.random.default_rng(0).dirichlet(np.maximum(SHARPNESS * base / base.sum(), 1e-3), k)
    edges = np.arange(k)[:, None] + np.cumsum(beta, axis=1) / beta.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(1)
    theta = rng.dirichlet(np.full(k, 5.0 / k), documents)
    owners = np.repeat(np.arange(documents), np.maximum(rng.poisson(LENGTH, documents), 1))
    upto, words = np.cumsum(theta, axis=1), np.empty(len(owners), dtype=np.int64)
    for first in range(0, len(owners), _PIECE):
        here = slice(first, first + _PIECE)
        z = np.minimum((rng.random(len(owners[here]))[:, None] > upto[owners[here]]).sum(axis=1), k - 1)
        words[here] = np.searchsorted(edges.ravel(), z + rng.random(len(z))) - z * WORDS
    ones = np.ones(len(words))
    return sparse.csr_array((ones, (owners, np.clip(words, 0, WORDS - 1))), shape=(documents, WORDS)), theta


def ours(train: Any, new: Any, k: int) -> tuple[float, np.ndarray, np.ndarray]:
    model = tp.LDA(k, document_prior=5.0 / k, topic_prior=ETA, learn="document_prior")
    fit = tp.fit(model, train, tp.CVB0(), seed=0, progress=False)
    fit.transform(new[:300])  # kernels are compiled
    began = time.process_time()
    shares = fit.transform(new)
    return time.process_time() - began, shares, fit.model.distributions(fit.state)


def tomotopy(train: Any, new: Any, k: int) -> tuple[float, np.ndarray, np.ndarray]:
    import tomotopy as peer

    model = peer.LDAModel(k=k, alpha=5.0 / k, eta=ETA, seed=1)
    for d in range(len(train)):
        here = slice(train.starts[d], train.starts[d + 1])
        model.add_doc([str(word) for word in np.repeat(train.words[here], train.counts[here].astype(int))])
    model.train(300, workers=1)
    tokens = [np.repeat(new.indices[a:b], new.data[a:b].astype(int)) for a, b in itertools.pairwise(new.indptr)]
    documents = [model.make_doc([str(word) for word in each]) for each in tokens]
    began = time.process_time()
    shares = np.array(model.infer(documents, workers=1)[0])
    taken = time.process_time() - began
    beta = np.zeros((k, WORDS))
    for topic in range(k):
        beta[topic, [int(word) for word in model.used_vocabs]] = model.get_topic_word_dist(topic)
    return taken, shares, beta


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--topics", type=int, default=100)
    given = parser.parse_args([] if arguments is None else arguments)
    train, _ = corpus_of("simulated", given.topics)
    new, _ = draw(given.documents, given.topics)
    new.sum_duplicates()
    some = slice(0, 2000)
    with threadpool_limits(1):
        for name, infer in (("tp.CVB0", ours), ("tomotopy", tomotopy)):
            seconds, shares, beta = infer(train, new, given.topics)
            explained = shares[some] @ beta
            each = new[some].tocoo()
            score = float(each.data @ np.log(explained[each.row, each.col] + 1e-12) / each.data.sum())
            print(json.dumps({"method": name, "CPU seconds": seconds, "nats per token": score}), flush=True)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
