"""Topic models beside scikit-learn, gensim and tomotopy, on a synthetic corpus: 5,000 documents of 100 tokens, 5,000
words, θ ~ Dirichlet(0.1), β ~ Dirichlet(0.05); and how the cost grows.

Online VB: one pass in minibatches of 256, inner tolerance 1e-3 (at most 100 iterations), the same priors (1/K) and
step sizes (10 + t)^(−0.7). CVB0: CPU seconds to the quality that tomotopy has after 80 iterations. Every library's
topics are judged alike: half of the tokens of 500 further documents, given the other half.

    python -m benchmarks.topics [online|collapsed|linear] [one|two] [topics …] [figure.png]      (one, two: threads)
"""

from __future__ import annotations

import os
import sys
import time
import warnings

import numpy as np
from scipy.sparse import csr_matrix

import temperance as tp
from temperance.data import Corpus, as_corpus
from temperance.kernels.topics_collapsed import fold_in
from temperance.kernels.topics_entries import Ascent, rows_of_corpus

DOCUMENTS, TEST, WORDS, LENGTH = 5000, 500, 5000, 100
STEP_SIZE, BATCH, INNER, TOLERANCE = (10.0, 0.7), 256, 100, 1e-3


def simulate(k: int, documents: int = DOCUMENTS + TEST, length: int = LENGTH) -> Corpus:
    rng = np.random.default_rng(0)
    beta = rng.dirichlet(np.full(WORDS, 0.05), k)
    theta = rng.dirichlet(np.full(k, 0.1), documents)
    return as_corpus(np.stack([rng.multinomial(length, row @ beta) for row in theta]))


def halves(k: int) -> tuple[Corpus, Corpus]:
    corpus = simulate(k)
    return corpus.take(slice(0, DOCUMENTS)), corpus.take(slice(DOCUMENTS, None))


def held_out(beta: np.ndarray, alpha: np.ndarray, test: Corpus) -> float:
    """Nats a token, the same for everybody: proportions by collapsed updates, topics as given."""
    observed, rest = test.halves(0)
    by_word = np.ascontiguousarray(beta.T)
    ones = np.ones(len(observed))
    rows = rows_of_corpus(observed, np.arange(len(observed)), ones, ones, ones)
    theta = fold_in(rows, by_word, Ascent(alpha, 200, 1e-4)).counts
    theta /= theta.sum(axis=1, keepdims=True)
    document = np.repeat(np.arange(len(rest)), rest.entries)
    probability = np.einsum("ik,ik->i", theta[document], by_word[rest.words])
    return float(rest.counts @ np.log(probability) / rest.n_tokens)


# ---- the libraries -------------------------------------------------------------------------------------------------


def ours(corpus: Corpus, k: int, steps: int | None = None) -> np.ndarray:
    """One pass, or the first steps of it."""
    budget = {"passes": 1} if steps is None else {"steps": steps}
    method = tp.SVI(batch_size=BATCH, step_size=STEP_SIZE, local_steps=INNER, **budget)
    fit = tp.fit(tp.LDA(k, local_tol=TOLERANCE), corpus, method, progress=False)
    return np.asarray(fit.posterior["topics"].concentration)


def scikit_learn(corpus: Corpus, k: int, threads: int, passes: int = 1) -> np.ndarray:
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        k,
        learning_method="online",
        batch_size=BATCH,
        max_iter=passes,
        learning_offset=STEP_SIZE[0],
        learning_decay=STEP_SIZE[1],
        max_doc_update_iter=INNER,
        mean_change_tol=TOLERANCE,
        n_jobs=threads,
        random_state=0,
    )
    return model.fit(corpus.to_sparse()).components_


def gensim(corpus: Corpus, k: int, threads: int, passes: int = 1) -> np.ndarray:
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel, LdaMulticore

    arguments = {
        "corpus": Sparse2Corpus(corpus.to_sparse().T),
        "id2word": dict(enumerate(map(str, range(WORDS)))),
        "num_topics": k,
        "chunksize": BATCH,
        "passes": passes,
        "offset": STEP_SIZE[0],
        "decay": STEP_SIZE[1],
        "iterations": INNER,
        "gamma_threshold": TOLERANCE,
        "eval_every": None,
        "random_state": 0,
        "alpha": np.full(k, 1 / k),
        "eta": np.full(WORDS, 1 / k),
    }
    if threads > 1:
        return LdaMulticore(workers=threads, **arguments).state.get_lambda()
    return LdaModel(update_every=1, **arguments).state.get_lambda()


def online(k: int, threads: int) -> None:
    """Documents a second in the first pass: CPU seconds on one thread, wall-clock seconds on more.

    Ours come from two runs of different length, so that set-up and the final bound cancel.
    """
    os.environ["TEMPERANCE_THREADS"] = str(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    train, test = halves(k)
    some = train if k < 500 else train.take(slice(0, 1024))  # the others would take minutes
    few, many = 1, len(some) // BATCH
    ours(some, k, few)

    def run(steps: int) -> float:
        began = clock()
        ours(some, k, steps)
        return clock() - began

    # A first pass is short beside the bound at the end: wall-clock differences need many rounds, and their medians.
    pairs = np.array([(run(few), run(many)) for _ in range(3 if threads == 1 else 25)])
    least, middle = pairs.min(axis=0), np.median(pairs, axis=0)
    taken = float(np.diff(least if threads == 1 else middle)[0])
    low, high = np.quantile((many - few) * BATCH / np.maximum(np.diff(pairs).ravel(), 1e-3), [0.25, 0.75])
    print(f"online, K = {k}, threads {threads}: quartiles of the rounds {low:.0f} and {high:.0f} docs/s", flush=True)
    results = {"temperance": ((many - few) * BATCH / taken, ours(some, k))}
    for name, fit in (("scikit-learn", scikit_learn), ("gensim", gensim)):
        began = clock()
        lam = fit(some, k, threads)
        results[name] = len(some) / (clock() - began), lam
    for name, (rate, lam) in results.items():
        ratio = results["temperance"][0] / rate
        score = held_out(lam / lam.sum(axis=1, keepdims=True), np.full(k, 1 / k), test)
        print(
            f"online, K = {k}, threads {threads}, {name:13s} {rate:8.0f} docs/s, held out {score:.4f}, ×{ratio:.1f}",
            flush=True,
        )


def collapsed(k: int) -> None:
    """CPU seconds, on one thread each."""
    import tomotopy

    os.environ["TEMPERANCE_THREADS"] = "1"
    train, test = halves(k)
    model = tomotopy.LDAModel(k=k, alpha=0.1, eta=0.01, seed=1)
    for d in range(len(train)):
        entries = slice(train.starts[d], train.starts[d + 1])
        words = np.repeat(train.words[entries], train.counts[entries].astype(int))
        model.add_doc([str(word) for word in words])
    began = time.process_time()
    model.train(80, workers=1)
    theirs = time.process_time() - began
    beta = np.full((k, WORDS), 1e-12)
    numbers = [int(word) for word in model.used_vocabs]
    for topic in range(k):
        beta[topic, numbers] = model.get_topic_word_dist(topic)
    target = held_out(beta / beta.sum(axis=1, keepdims=True), np.asarray(model.alpha, dtype=np.float64), test)
    print(f"collapsed, K = {k}, tomotopy, 80 iterations: {theirs:.2f} s, held out {target:.4f}", flush=True)
    for learn in ((), ("document_prior",)):
        lda = tp.LDA(k, document_prior=0.1, topic_prior=0.01, precision="single", learn=learn)
        tp.fit(lda, train, tp.CVB0(passes=10, tol=0.0), progress=False)
        for passes in (1, 2, 4, 8, 12, 20, 40, 80, 160):
            mine = float("inf")
            for _ in range(3):  # of a second, a half may be the system finding memory
                began = time.process_time()
                method = tp.CVB0(passes=passes, tol=0.0, report=_report(passes, learn))
                fit = tp.fit(lda, train, method, progress=False)
                mine = min(mine, time.process_time() - began)
            lam = np.asarray(fit.posterior["topics"].concentration)
            alpha = np.asarray(fit.posterior["document_prior"].mode()) if learn else np.full(k, 0.1)
            score = held_out(lam / lam.sum(axis=1, keepdims=True), alpha, test)
            name = "learned α" if learn else "fixed α"
            print(
                f"collapsed, K = {k}, CVB0 {name}, {passes} passes: {mine:.2f} s ({mine / theirs:.2f} of tomotopy), "
                f"held out {score:.4f} ({score - target:+.4f})",
                flush=True,
            )
            if score >= target:
                break


def _report(passes: int, learn: tuple[str, ...]) -> int:
    """A look at the priors every ten passes, otherwise none before the end."""
    return 10 if learn else passes


def linear(figure: str | None = None) -> list[tuple[str, float, float]]:
    """CPU seconds of a pass of online VB against documents, distinct words of a document (its entries: a word that
    comes twice costs as much as once) and topics; all topics stay in all documents, so that the work is what it seems.

    What a minibatch costs whatever is in it, on all words of the vocabulary, is found from minibatches of one-word
    documents and printed beside it.
    """
    os.environ["TEMPERANCE_THREADS"] = "1"
    rows = []
    slopes = {}
    for name, sizes in (
        ("documents", [(n, LENGTH, 50) for n in (1024, 2048, 4096, 8192)]),
        ("entries", [(1024, length, 50) for length in (100, 200, 400, 800, 1600)]),
        ("topics", [(1024, LENGTH, k) for k in (32, 64, 128, 256, 512)]),
    ):
        for n, length, k in sizes:
            corpus = _even(n, length)
            size = {"documents": n, "entries": corpus.entries.mean(), "topics": k}[name]
            rows.append((name, float(size), _seconds(corpus, k)))
            empty = _seconds(_even(n, 1), k)
            print(f"linear, {name} = {size:.0f}: {rows[-1][2]:.3f} s a pass, {empty:.3f} with one word", flush=True)
        x, y = np.log([row[1:] for row in rows if row[0] == name]).T
        slopes[name] = float(np.polyfit(x, y, 1)[0])
        print(f"linear, slope in {name}: {slopes[name]:.2f}", flush=True)
    if figure is not None:
        _draw(rows, slopes, figure)
    return rows


def _even(documents: int, length: int) -> Corpus:
    """Documents of so many different words, each of them once."""
    noise = np.random.default_rng(0).random((documents, WORDS), np.float32)
    words = np.sort(np.argpartition(noise, length, axis=1)[:, :length], axis=1).astype(np.int32)
    counts = np.ones(words.size)
    return as_corpus(csr_matrix((counts, words.ravel(), np.arange(documents + 1) * length), (documents, WORDS)))


def _seconds(corpus: Corpus, k: int) -> float:
    """A pass in minibatches, by the kernel itself: the bound at the end of a fit would be most of it."""
    from temperance.kernels.topics_minibatches import Online

    def once() -> float:
        online = Online(np.random.default_rng(1).gamma(100.0, 0.01, (k, WORDS)), np.full((1, WORDS), 1.0))
        began = time.process_time()
        for t in range(len(corpus) // BATCH):
            each = (np.full(BATCH, len(corpus) / BATCH), np.ones(BATCH), np.ones(BATCH))
            rows = rows_of_corpus(corpus, np.arange(t * BATCH, (t + 1) * BATCH), *each)
            online.step(rows, (10.0 + t) ** -0.7, Ascent(np.full(k, 1.0), 20, 0.0))
        return time.process_time() - began

    return min(once() for _ in range(3))


def _draw(rows: list[tuple[str, float, float]], slopes: dict[str, float], path: str) -> None:
    """Both axes logarithmic, each kind of size in units of its smallest: a linear cost is the dotted line."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(5.0, 3.6), layout="constrained")
    axes = picture.subplots()
    for name, marker in zip(slopes, "osv", strict=True):
        size, taken = np.array([row[1:] for row in rows if row[0] == name]).T
        label = f"{name} (from {size[0]:,.0f}): slope {slopes[name]:.2f}"
        axes.loglog(size / size[0], taken / taken[0], marker=marker, label=label)
    axes.loglog([1, 16], [1, 16], "k:", linewidth=1)
    axes.set(xlabel="size, in units of the smallest", ylabel="CPU time of a pass, likewise")
    axes.legend(frameon=False)
    picture.savefig(path, dpi=120)


def main(arguments: tuple[str, ...] = ()) -> None:
    warnings.simplefilter("ignore")
    threads = [1] if "one" in arguments else [2] if "two" in arguments else [1, 2]
    figure = next((word for word in arguments if word.endswith(".png")), None)
    known = ["online", "collapsed", "linear"]
    kinds = [word for word in arguments if word in known] or known
    topics = [int(word) for word in arguments if word.isdigit()]
    if "online" in kinds:
        for k in topics or (20, 100, 500):
            for number in threads:
                online(k, number)
    if "collapsed" in kinds:
        for k in topics or (20, 100):
            collapsed(k)
    if "linear" in kinds:
        linear(figure)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
