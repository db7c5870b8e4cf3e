"""The choice of the number of topics: held-out prediction and coherence for several sizes, and a sentence about
both."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._arguments import whole
from ..errors import InvalidData, InvalidParameter
from ..fit import fit
from ..inference._method import Method

_LEAST = 10  # fewest documents
_USUAL = (2, 5, 10, 20, 40)
_PASSES = 60


@dataclasses.dataclass(frozen=True)
class TopicSizes:
    """The scores of each number of topics; errors are over documents, and for coherence over topics."""

    sizes: tuple[int, ...]  # the numbers of topics
    held_out: np.ndarray  # log probability of a held-out token, in nats
    standard_error: np.ndarray  # of its difference from the highest
    coherence: np.ndarray  # mean NPMI of the topics
    coherence_error: np.ndarray  # its standard error
    documents: int  # that were used
    tokens: int  # that were held out
    folds: int  # into which they were divided

    @property
    def highest(self) -> int:
        """The size with the best held-out prediction."""
        return self.sizes[int(np.argmax(self.held_out))]

    @property
    def best(self) -> int:
        """The smallest size whose held-out prediction is within one standard error of the best one."""
        near = self.held_out.max() - self.held_out <= self.standard_error
        return min(size for size, close in zip(self.sizes, near, strict=True) if close)

    @property
    def sentence(self) -> str:
        """The result in a sentence, with its limits."""
        place = self.sizes.index(self.highest)
        said = (
            f"Of {', '.join(map(str, self.sizes))} topics, {self.highest} predict held-out words best "
            f"({self.held_out[place]:.3f} nats per token)"
        )
        if self.best != self.highest:
            gap = self.held_out[place] - self.held_out[self.sizes.index(self.best)]
            said += f"; {self.best} are within one standard error of that ({gap:.3f} lower), and were chosen"
        coherent = self.sizes[int(np.argmax(self.coherence))]
        said += f". The words of a topic occur together most often with {coherent} (NPMI {self.coherence.max():.2f})"
        if coherent != self.best:
            said += ", so the two measures do not agree"
        if self.highest == max(self.sizes) and len(self.sizes) > 1:
            said += ". The best is the largest that was tried: more may predict better still"
        return f"{said}. No number of topics is the true one; look at the words of a few sizes."


def topic_sizes(
    documents: Any,
    sizes: Sequence[int] | None = None,
    method: Method | None = None,
    *,
    seed: int = 0,
    folds: int = 3,
    most: int = 5000,
) -> TopicSizes:
    """The scores of several numbers of topics, by prediction of held-out words.

    LDA in each of `sizes` (by default some of 2, 5, 10, 20 and 40) is fitted to the `documents` that are not in a fold,
    and half of each document in the fold is predicted from the other half, for each of the `folds`. `seed` makes the
    folds. At most `most` documents are used, a random sample. `method` is `tp.CVB0(passes=60)` unless given.
    """
    from ..diagnostics.coherence import coherence
    from ..diagnostics.completion import completion_scores
    from ..inference.variational.cvb0 import CVB0
    from ..models.topics import LDA

    corpus = LDA(1).new_corpus(documents)
    whole(2)("folds", folds)
    filled = np.flatnonzero(corpus.entries > 0)
    if len(filled) < max(_LEAST, folds):
        raise InvalidData(
            f"a number of topics is chosen from at least {_LEAST} documents with words, got {len(filled)}"
        )
    order = np.random.default_rng(seed).permutation(filled)[:most]
    chosen = corpus.take(order)
    tried = _usual(len(order)) if sizes is None else _checked(sizes)
    fold = np.arange(len(order)) % folds
    scores, tokens = np.zeros((len(tried), len(order))), np.zeros(len(order))
    npmi: list[list[float]] = [[] for _ in tried]
    for place, size in enumerate(tried):
        for part in range(folds):
            train, test = np.flatnonzero(fold != part), np.flatnonzero(fold == part)
            found = fit(LDA(size), chosen.take(train), method or CVB0(passes=_PASSES), seed=seed + part, progress=False)
            scores[place, test], tokens[test] = completion_scores(found, chosen.take(test), seed)
            leading = np.argsort(-found.model.distributions(found._families()), axis=1)[:, :10]  # type: ignore[attr-defined]
            npmi[place] += coherence(leading.tolist(), chosen).tolist() if leading.shape[1] > 1 else [0.0]
    held_out = scores.sum(axis=1) / tokens.sum()
    best = int(np.argmax(held_out))
    gaps = scores - scores[best] - (held_out - held_out[best])[:, None] * tokens
    error = np.sqrt((gaps**2).sum(axis=1) * len(order) / (len(order) - 1)) / tokens.sum()
    coherent = np.array([np.mean(each) for each in npmi])
    spread = np.array([np.std(each) / np.sqrt(len(each)) for each in npmi])
    return TopicSizes(tuple(tried), held_out, error, coherent, spread, len(order), int(tokens.sum()), folds)


def _usual(n: int) -> list[int]:
    """Sizes for n documents: at least five documents per topic, and 2 only where 40 is not among the sizes."""
    able = [size for size in _USUAL if size <= max(2, n // 5)]
    return able[-4:]


def _checked(sizes: Sequence[int]) -> list[int]:
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise InvalidParameter(f"sizes must be whole numbers of at least 1, got {size!r}")
    if not len(sizes):
        raise InvalidParameter("sizes must have at least one number of topics, got none")
    return sorted({int(size) for size in sizes})
