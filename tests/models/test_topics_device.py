"""The steps of topic models on an accelerator, by a kernel (compiled for the CPU) and by topics gathered afresh for
each product, beside the same step on arrays that are kept and beside the host's."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma

from temperance.data import as_corpus
from temperance.data.documents import Documents, as_documents
from temperance.kernels import cuda
from temperance.kernels.topics_cuda import fused_sums
from temperance.models.topics import walk
from temperance.models.topics.walk import Heat, device_local_step, local_step, mean_energies
from tests.kernels import cuda_on_host
from tests.tiers import with_slow

K, V, N = 13, 40, 6
KERNEL = pytest.param("kernel", marks=pytest.mark.skipif(cuda_on_host.COMPILER is None, reason="no C++ compiler"))
ROUTES = (KERNEL, "afresh")


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    if jax.default_backend() == "cpu":
        monkeypatch.setattr(cuda, "launch", cuda_on_host.launch)


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


@functools.partial(jax.jit, static_argnames=("single", "route"))
def step(problem, steps, tolerance, single, route):
    log_topics, x, each, prior, gamma = problem
    return jax.vmap(
        lambda topics: device_local_step(topics, x, each, prior, gamma, steps, tolerance, single, route=route)
    )(log_topics)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("steps", "tolerance"), [(30, 1e-3), (4, 0.0), (0, 0.0)])
def test_routes_agree_with_each_other_and_with_the_host(
    problem: tuple, steps: int, tolerance: float, route: str
) -> None:
    """Weights, powers, restarts side by side, documents that converge one after the other, and no step at all."""
    log_topics, x, (weights, observation, latent), prior, gamma = problem
    plain, found = (step(problem, steps, tolerance, False, each) for each in ("kept", route))
    for one, other in zip(plain[:3], found[:3], strict=True):
        assert one.shape == other.shape
        assert np.allclose(one, other, rtol=1e-10, atol=1e-10)
    assert (steps == 0) == np.allclose(found.gamma, np.asarray(gamma)[None])
    for r, topics in enumerate(log_topics):
        powers = (observation, latent)
        truth = local_step(topics, x, weights, prior, gamma, powers, steps, tolerance, "host")
        for one, other in zip(truth[:3], found[:3], strict=True):
            assert np.allclose(one, other[r], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("route", ROUTES)
def test_routes_in_single_precision(problem: tuple, route: str) -> None:
    truth = step(problem, 4, 0.0, False, "kept")
    found = step(problem, 4, 0.0, True, route)
    for one, other in zip(truth[:3], found[:3], strict=True):
        assert np.allclose(one, other, rtol=1e-5, atol=1e-5)


@functools.partial(jax.jit, static_argnames=("single", "route"))
def hot_step(problem, powers, costs, single, route):
    """Two sets of topics and of powers; the documents find new ones on a grid of five."""
    log_topics, x, each, prior, gamma = problem
    heat = Heat(jnp.linspace(1.0, 0.2, 5), costs, jnp.asarray(True))
    return jax.vmap(
        lambda topics, power: device_local_step(
            topics, x, (each[0], power, power), prior, gamma, 4, 0.0, single, heat, route
        )
    )(log_topics, powers)


@pytest.fixture(scope="module")
def heated() -> tuple:
    generator = np.random.default_rng(2)
    return jnp.asarray(generator.random((2, N)) * 0.8 + 0.2), jnp.asarray(generator.random((K, 5)))


@pytest.mark.parametrize("route", ROUTES)
def test_a_power_for_each_document(problem: tuple, heated: tuple, route: str) -> None:
    plain, found = (hot_step(problem, *heated, False, each) for each in ("kept", route))
    for one, other in zip(plain, found, strict=True):
        assert one.shape == other.shape
        assert np.allclose(one, other, rtol=1e-10, atol=1e-10)
    assert np.ptp(found.powers, axis=1).min() > 0.01  # they did find powers of their own
    # The truth, word by word: what topics of tokens say of their words at γ.
    log_topics, x, _, _, _ = problem
    words, counts = (np.asarray(array) for array in x.padded())
    for r, d in np.ndindex(2, N):
        power, log_beta = float(heated[0][r, d]), np.asarray(log_topics)[r].T[words[d]]
        phi = np.exp(power * (digamma(np.asarray(found.gamma)[r, d]) + log_beta))
        level = (phi * log_beta).sum(axis=1) / phi.sum(axis=1)
        assert np.isclose(found.observed[r, d], counts[d] @ level, rtol=1e-9)


@pytest.mark.parametrize("route", ROUTES)
def test_a_power_for_each_document_in_single_precision(problem: tuple, heated: tuple, route: str) -> None:
    truth, found = (hot_step(problem, *heated, *each) for each in ((False, "kept"), (True, route)))
    for one, other in zip(truth, found, strict=True):
        assert np.allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("single", "error"), [(False, 1e-12), (True, 1e-6)])
def test_energies_of_mean_parameters(problem: tuple, single: bool, error: float, route: str) -> None:
    log_topics, x, _, _, gamma = problem
    concentration, gamma = np.exp(np.asarray(log_topics)[0]), np.asarray(gamma) + np.arange(K)
    found = mean_energies(jnp.asarray(concentration), jnp.asarray(gamma), x, "device", single, route=route)
    words, counts = (np.asarray(array) for array in x.padded())
    beta = concentration / concentration.sum(axis=1, keepdims=True)
    theta = gamma / gamma.sum(axis=1, keepdims=True)
    truth = [counts[d] @ np.log(theta[d] @ beta[:, words[d]]) for d in range(N)]
    assert np.allclose(found, truth, rtol=error, atol=error)


@pytest.mark.parametrize("hot", [False, True])
def test_documents_of_a_word_are_added_up_by_the_kernel(hot: bool) -> None:
    """A word in all of 150 documents, which is several rounds of every part; one in a single document, one in none."""
    generator = np.random.default_rng(3)
    words = np.stack([np.zeros(150), generator.integers(1, 4, 150), np.zeros(150)], axis=1).astype(np.int32)
    words[7, 1] = 4
    ratios = generator.random((150, 3))
    ratios[:, 2] = 0.0  # what fills up a document
    share, levels, powers = generator.random((150, K)), -generator.random((6, K)), generator.random(150)
    truth = np.zeros((6, K))
    for d, i in np.ndindex(150, 3):
        truth[words[d, i]] += ratios[d, i] * share[d] * (np.exp(powers[d] * levels[words[d, i]]) if hot else 1.0)
    own = (jnp.asarray(levels), jnp.asarray(powers)) if hot else None
    found = fused_sums(jnp.asarray(words), jnp.asarray(ratios), jnp.asarray(share), 6, own)
    assert np.allclose(found, truth, rtol=1e-12, atol=1e-12)
    assert (truth[5] == 0).all() and (np.asarray(found)[5] == 0).all()


@pytest.mark.parametrize("route", with_slow(["kept", *ROUTES], "kept", "afresh"))
def test_one_token_and_many_topics_in_single_precision(route: str) -> None:
    """γ is 1/150 everywhere: exp ψ(γ) is 7e-66, and as a number of single precision it would be zero."""
    generator = np.random.default_rng(1)
    topics = generator.dirichlet(np.ones(5), 300)
    prior, gamma = jnp.full(300, 1 / 300), jnp.full((1, 300), 1 / 150)
    x = documents(np.eye(5)[:1])
    each = tuple(jnp.asarray(value) for value in (np.ones(1), 1.0, np.ones(1)))
    found = device_local_step(jnp.log(topics), x, each, prior, gamma, 1, 0.0, True, route=route)
    truth = local_step(jnp.log(topics), x, jnp.ones(1), prior, gamma, (1.0, 1.0), 1, 0.0, "host")
    # The first step: as likely as the topics make the word.
    assert np.allclose(found.gamma[0], 1 / 300 + topics[:, 0] / topics[:, 0].sum(), atol=1e-6)
    assert np.allclose(found.messages, truth.messages, atol=1e-5)
    assert np.isclose(found.evidence[0], truth.evidence[0], rtol=1e-5)


def test_where_kernels_cannot_be_compiled_topics_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.available.cache_clear()
    assert not cuda.available() and not walk._kernel_suits(64)  # no GPU here
    device = types.SimpleNamespace(device_kind="NVIDIA H200", compute_capability="9.0")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    monkeypatch.setattr(jax, "local_device_count", lambda: 1)
    monkeypatch.setattr(cuda, "available", lambda: True)
    assert walk._kernel_suits(64) and not walk._kernel_suits(8)
    monkeypatch.undo()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    monkeypatch.setattr(cuda, "_places", lambda: ["no such library"])
    for cached in (cuda.available, cuda._nvrtc):
        cached.cache_clear()
    assert not cuda.available() and not walk._kernel_suits(64)
    cuda.available.cache_clear()
