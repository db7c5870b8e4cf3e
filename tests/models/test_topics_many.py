"""The kernel of LDA with many topics: they are read where they are until few are left."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, logsumexp

from temperance.data import as_corpus
from temperance.data.documents import as_documents
from temperance.models.topics.walk import local_step

TOPICS = 300


def reference_step(log_topics, counts, prior, gamma, steps):
    """The updates of Blei, Ng and Jordan (2003), a document at a time."""
    gamma, messages, evidence = gamma.copy(), np.zeros(log_topics.shape), np.zeros(len(counts))
    for d, n in enumerate(counts):
        for last in [False] * steps + [True]:
            logits = (digamma(gamma[d]) - digamma(gamma[d].sum()))[:, None] + log_topics
            expected = n * np.exp(logits - logsumexp(logits, axis=0))
            if last:
                messages += expected
                evidence[d] = n @ logsumexp(logits, axis=0)
            else:
                gamma[d] = prior + expected.sum(axis=1)
    return gamma, messages, evidence


@pytest.mark.parametrize("kind", ["few are left", "all are left"])
def test_local_step_agrees_with_a_plain_reference(kind: str) -> None:
    generator = np.random.default_rng(1)
    counts = generator.poisson(0.4, (10, 25))
    few = kind == "few are left"
    prior = np.full(TOPICS, 0.002 if few else 1.0)
    concentration = generator.gamma(0.3 if few else 50.0, 1.0, (TOPICS, 25)) + 1e-3
    log_topics = digamma(concentration) - digamma(concentration.sum(1, keepdims=True))
    gamma = prior + counts.sum(1)[:, None] / TOPICS
    corpus = as_corpus(counts)
    documents = jax.tree.map(jnp.asarray, as_documents(corpus, host=True, width=int(corpus.entries.max())))
    each = (documents, jnp.ones(10), jnp.asarray(prior), jnp.asarray(gamma))
    for steps in (0, 1, 12):
        found = local_step(jnp.asarray(log_topics), *each, (1.0, 1.0), steps, 0.0, "host")
        truth = reference_step(log_topics, counts, prior, gamma, steps)
        for value, true in zip(found[:3], truth, strict=True):
            assert np.allclose(value, true, rtol=1e-8, atol=1e-8)
    left = (truth[0] > prior + 1e-3).sum(axis=1)
    assert (left < 100).all() if few else (left > 290).all()
