"""The kernel of topic models on a GPU, interpreted on the CPU, beside the same step on arrays and beside the host's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma

from temperance.data import as_corpus
from temperance.models.topics_data import Documents, as_documents
from temperance.models.topics_local import device_local_step, local_step

pytest.importorskip("jax.experimental.pallas.triton")

K, V, N = 13, 40, 6


def documents(matrix: np.ndarray) -> Documents:
    corpus = as_corpus(matrix)
    return jax.tree.map(jnp.asarray, as_documents(corpus, host=True, width=int(corpus.entries.max())))


@pytest.fixture(scope="module")
def problem() -> tuple:
    """Two sets of topics; an empty document, a short one, and numbers that fill no power of two."""
    generator = np.random.default_rng(0)
    counts = generator.poisson(0.3, (N, V)).astype(float)
    counts[2] = 0
    counts[4] = np.where(np.arange(V) == V - 1, 1, 0)
    concentration = generator.gamma(0.3, 1.0, (2, K, V)) + 0.01
    log_topics = digamma(concentration) - digamma(concentration.sum(axis=2, keepdims=True))
    prior = generator.random(K) + 0.02
    gamma = prior + counts.sum(axis=1)[:, None] / K
    each = (generator.random(N), 0.7, generator.random(N) + 0.3)
    assert documents(counts).width not in (8, 16, 32)
    return jnp.asarray(log_topics), documents(counts), jax.tree.map(jnp.asarray, each), jnp.asarray(prior), gamma


@functools.partial(jax.jit, static_argnames=("single", "fused"))
def step(problem, steps, tolerance, single, fused):
    log_topics, x, each, prior, gamma = problem
    return jax.vmap(
        lambda topics: device_local_step(topics, x, each, prior, gamma, steps, tolerance, single, fused=fused)
    )(log_topics)


@pytest.mark.parametrize(("steps", "tolerance"), [(30, 1e-3), (4, 0.0), (0, 0.0)])
def test_kernel_equals_the_step_on_arrays(problem: tuple, steps: int, tolerance: float) -> None:
    """Weights, powers, restarts side by side, documents that converge one after the other, and no step at all."""
    plain, fused = (step(problem, steps, tolerance, False, fused) for fused in (False, True))
    for one, other in zip(plain[:3], fused[:3], strict=True):
        assert one.shape == other.shape
        assert np.allclose(one, other, rtol=1e-10, atol=1e-10)
    still = np.asarray(problem[4])
    assert (steps == 0) == np.allclose(fused.gamma, still[None])


def test_kernel_in_single_precision(problem: tuple) -> None:
    truth = step(problem, 4, 0.0, False, False)
    found = step(problem, 4, 0.0, True, True)
    for one, other in zip(truth[:3], found[:3], strict=True):
        assert np.allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fused", [False, True])
def test_one_token_and_many_topics_in_single_precision(fused: bool) -> None:
    """γ is 1/150 everywhere: exp ψ(γ) is 7e-66, and as a number of single precision it would be zero."""
    generator = np.random.default_rng(1)
    topics = generator.dirichlet(np.ones(5), 300)
    prior, gamma = jnp.full(300, 1 / 300), jnp.full((1, 300), 1 / 150)
    x = documents(np.eye(5)[:1])
    each = tuple(jnp.asarray(value) for value in (np.ones(1), 1.0, np.ones(1)))
    found = device_local_step(jnp.log(topics), x, each, prior, gamma, 1, 0.0, True, fused=fused)
    truth = local_step(jnp.log(topics), x, jnp.ones(1), prior, gamma, (1.0, 1.0), 1, 0.0, "host")
    # The first step: as likely as the topics make the word.
    assert np.allclose(found.gamma[0], 1 / 300 + topics[:, 0] / topics[:, 0].sum(), atol=1e-6)
    assert np.allclose(found.messages, truth.messages, atol=1e-5)
    assert np.isclose(found.evidence[0], truth.evidence[0], rtol=1e-5)
