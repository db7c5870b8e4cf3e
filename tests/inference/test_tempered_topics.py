"""Tempering of topic models: the normaliser against quadrature, temperatures written out, host and device."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln, logsumexp, roots_jacobi, softmax

import temperance as tp
from temperance.errors import UnsupportedMethod
from temperance.models.topics import heat as topics_normaliser
from temperance.models.topics.heat import Prior, log_normalisers, topic_costs
from tests.inference.steps import walk_locally, walk_with_energy

T = np.array([1.0, 1.3, 2.5, 9.0])


def corpus(documents: int = 90, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    topics, theta = rng.dirichlet(np.full(30, 0.1), 3), rng.dirichlet(np.full(3, 0.2), documents)
    return np.array([rng.multinomial(40, mix @ topics) for mix in theta])


def nodes(a: float, b: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss's quadrature under Beta(a, b)."""
    x, w = roots_jacobi(count, b - 1, a - 1)
    return (x + 1) / 2, w / w.sum()


def test_normaliser_by_quadrature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two documents of two and three words out of three, two topics: five integrals."""
    monkeypatch.setattr(topics_normaliser, "_TOPICS", 64)
    alpha, eta = 0.7, 0.8
    model, data = tp.LDA(2, document_prior=alpha, topic_prior=eta).prepare(np.array([[1, 1, 0], [0, 1, 2]]))
    found = model.tempering.log_normaliser(T, data)
    theta, w_theta = nodes(alpha, alpha, 24)
    first, w_first = nodes(eta, 2 * eta, 16)
    second, w_second = nodes(eta, eta, 16)
    topic = np.stack(
        [np.repeat(first, 16), np.outer(1 - first, second).ravel(), np.outer(1 - first, 1 - second).ravel()], axis=1
    )
    weight = np.outer(w_first, w_second).ravel()
    for t, value, error in zip(T, found.log, found.error, strict=True):
        integral = np.zeros((len(topic), len(topic)))
        each = np.zeros((2, *integral.shape))
        for share, w in zip(theta, w_theta, strict=True):
            sums = ((share * topic[:, None] + (1 - share) * topic[None]) ** (1 / t)).sum(axis=2)
            each += w * np.stack([sums**2, sums**3])
        integral = each[0] * each[1]
        wanted = np.log(weight @ integral @ weight)
        assert error < 0.03 and abs(value - wanted) <= 3.5 * error + 1e-12
    assert found.log[0] == 0 and (found.error[1:] > 0).all()


def test_sparse_proportions_are_weighted_right() -> None:
    """With α = 1/50 plain draws hardly ever mix topics; fifty distinct words as topics leave one integral, which for
    whole N is a sum over compositions: E Π θ_k^(s n_k) in closed form, by convolution over topics."""
    k, n, power = 50, 12, 0.5
    prior = Prior(np.full(k, 1 / k), np.full((1, k), 1e-3), np.array([float(n)]), np.ones(1))
    # E (Σ_k θ_k^s)^n = n! Σ_{compositions} Π 1/n_k! E Π θ_k^(s n_k).
    counts = np.arange(n + 1)
    terms = np.exp(gammaln(1 / k + power * counts) - gammaln(1 / k) - gammaln(counts + 1))
    total = np.array([1.0])
    for _ in range(k):
        total = np.convolve(total, terms)[: n + 1]
    wanted = np.log(total[n]) + gammaln(n + 1) - gammaln(1.0 + power * n)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        drawn = topics_normaliser._draw(prior, rng)
        log_theta, log_weights = topics_normaliser._proportions(prior.documents, drawn)
        logs = n * logsumexp(power * log_theta, axis=1)
        found.append(np.exp(logsumexp(logs + log_weights) - logsumexp(log_weights)))
    error = np.std(found, ddof=1) / np.sqrt(200) / np.mean(found)
    assert error < 0.05 and abs(np.log(np.mean(found)) - wanted) < 4 * error
    assert log_normalisers(prior, np.array([1.0]), 2, 0).tolist() == [[0.0, 0.0]]


def test_between_a_few_powers_the_normaliser_is_interpolated() -> None:
    rng = np.random.default_rng(0)
    prior = Prior(np.full(4, 0.25), np.full((1, 40), 0.1), rng.integers(5, 90, 300).astype(float), np.ones(300))
    grid = 1 / np.geomspace(1, 10, 100)
    some = [0, 7, 33, 60, 99]
    dense, direct = log_normalisers(prior, grid, 2, 0)[some], log_normalisers(prior, grid[some], 2, 0)
    np.testing.assert_allclose(dense, direct, rtol=2e-5, atol=1e-6)


@pytest.mark.slow
def test_the_temperature_goes_by_the_energy_of_the_means() -> None:
    """E[T] after one sweep, written out from the posterior before it."""
    x = corpus()
    for engine in ("host", "device"):
        model = tp.LDA(3, engine=engine, local_tol=0.0)
        grid = np.array([1.0, 1.02, 1.2, 2.0, 5.0])
        fit = tp.fit(model, x, tp.VT(grid, method=tp.VB(max_iter=1, local_steps=40), length=2), seed=1)
        complete, data = model.prepare(x)
        log_c = complete.tempering.log_normaliser(grid, data).log
        key = jax.random.split(jax.random.fold_in(jax.random.key(1), 2), 1)[0]
        topics = np.asarray(complete.initial(key, data).blocks["topics"].concentration)
        gamma = at_power(x, topics, np.full(len(x), np.mean(1 / grid)), 1 / 3)[0]
        mean = (gamma / gamma.sum(1, keepdims=True)) @ (topics / topics.sum(1, keepdims=True))
        shares = softmax(np.sum(x * np.log(mean)) / grid - log_c)
        assert fit.history["temperature"][0] == pytest.approx(grid.mean())
        assert fit.history["temperature"][1] == pytest.approx(shares @ grid, rel=1e-6)
        assert (fit.history["temperature"][2:] == 1).all()


def at_power(x: np.ndarray, topics: np.ndarray, s: np.ndarray, alpha: float) -> tuple[np.ndarray, ...]:
    """γ to convergence at each document's power, Σ n φ E log β, and the counts of each topic."""
    log_beta = digamma(topics) - digamma(topics.sum(1, keepdims=True))
    gamma = alpha + x.sum(1, keepdims=True) / len(topics) + np.zeros((len(x), len(topics)))
    for _ in range(41):
        log_theta = digamma(gamma) - digamma(gamma.sum(1, keepdims=True))
        phi = softmax(s[:, None, None] * (log_theta[:, :, None] + log_beta[None]), axis=1)
        before, gamma = gamma, alpha + s[:, None] * np.einsum("dv,dkv->dk", x, phi)
    return before, np.einsum("dv,dkv,kv->d", x, phi, log_beta), (before - alpha) / s[:, None]


@pytest.mark.slow
def test_powers_of_documents_written_out() -> None:
    """One walk: E[1/T] of each document and the messages, by the corrected update."""
    x = corpus(20)
    rng = np.random.default_rng(3)
    powers, grid = rng.uniform(0.3, 1.0, 20), np.linspace(1.0, 0.05, 30)
    topics = rng.gamma(0.5, 1.0, (3, 30)) + 0.01
    costs = np.log(np.exp(gammaln(topics[..., None] + grid) - gammaln(topics[..., None])).sum(1)) - (
        gammaln(topics.sum(1)[:, None] + grid) - gammaln(topics.sum(1)[:, None])
    )
    _, observed, counts = at_power(x, topics, powers, 1 / 3)
    wanted = softmax(observed[:, None] * grid - counts @ costs, axis=1) @ grid
    blocks = {"topics": tp.Dirichlet(jnp.asarray(topics))}
    for engine in ("host", "device"):
        model, data = tp.LDA(3, engine=engine, local_tol=0.0).prepare(x)
        found = topic_costs(model.tempering.heat(data, grid), jnp.asarray(topics), engine == "host")
        np.testing.assert_allclose(found, costs, rtol=1e-5, atol=1e-5)
        walked = jax.jit(lambda s, model=model, data=data: walk_locally(model, blocks, data, s, grid, {}, 40))(
            jnp.asarray(powers)
        )
        np.testing.assert_allclose(walked.power, wanted, rtol=1e-4)
        gamma = 1 / 3 + powers[:, None] * counts
        own_prior = np.sum(counts * (digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))), axis=1)
        # Powers of their own are in single precision on the host.
        error = 1e-5 if engine == "host" else 1e-8
        np.testing.assert_allclose(walked.energy, observed + own_prior, rtol=error)
        total = np.asarray(walked.messages["topics"].log)
        assert total.sum() == pytest.approx(np.sum(wanted * x.sum(1)), rel=1e-4)


@pytest.mark.slow
def test_the_energy_of_documents_written_out() -> None:
    """At one power for all, in the walk that has no derivative."""
    x, power = corpus(20), 0.4
    topics = np.random.default_rng(3).gamma(0.5, 1.0, (3, 30)) + 0.01
    m = {"topics": tp.Dirichlet(jnp.asarray(topics)).mean()}
    model, data = tp.LDA(3, engine="host", local_tol=0.0).prepare(x)
    walked = jax.jit(lambda s: walk_with_energy(model, m, data, s, 40))(jnp.asarray(power))
    _, observed, counts = at_power(x, topics, np.full(20, power), 1 / 3)
    gamma = 1 / 3 + power * counts
    own_prior = np.sum(counts * (digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))), axis=1)
    assert float(walked.energy) == pytest.approx(np.sum(observed + own_prior), rel=1e-8)


def run(method: Any, engine: str = "host", **arguments: Any) -> tp.Fit:
    return tp.fit(tp.LDA(3, engine=engine), corpus(), method, seed=1, **arguments)


def test_one_temperature_is_the_plain_method_bit_for_bit() -> None:
    svi = tp.SVI(batch_size=15, passes=2)
    plain = run(svi)
    for kind in (tp.VT, tp.LVT):
        ones = run(kind([1.0], method=svi))
        np.testing.assert_array_equal(ones.posterior["topics"].concentration, plain.posterior["topics"].concentration)
        assert ones.log_evidence == plain.log_evidence


@pytest.mark.slow
@pytest.mark.parametrize("kind", [tp.VT, tp.LVT])
def test_one_temperature_is_plain_coordinate_ascent_bit_for_bit(kind: Any) -> None:
    vb = tp.VB(local_steps=5, max_iter=30)
    plain, ones = run(vb), run(kind([1.0], method=vb))
    np.testing.assert_array_equal(ones.posterior["topics"].concentration, plain.posterior["topics"].concentration)
    assert ones.log_evidence == plain.log_evidence and ones.converged == plain.converged


@pytest.mark.slow
def test_minibatches_cool_by_themselves_on_host_and_device() -> None:
    """The host takes many steps at once; the device one by one."""
    svi = tp.SVI(batch_size=15, passes=4, report=2)
    fits = [run(tp.VT(np.geomspace(1, 5, 20), method=svi), engine) for engine in ("host", "device")]
    one, other = (fit.history["temperature"] for fit in fits)
    np.testing.assert_allclose(one, other, rtol=1e-8)
    assert one[0] > 1.01 and one[5] < 1.01 and (one[6:] == 1).all()
    assert fits[0].details["temperature"] == pytest.approx(one[5], rel=1e-8)
    # Hot steps are in single precision on the host.
    np.testing.assert_allclose(*(fit.posterior["topics"].concentration for fit in fits), rtol=1e-4)
    normaliser = fits[0].details["normaliser"]
    assert normaliser.samples > 0 and (normaliser.error[1:] > 0).all()


@pytest.mark.slow
def test_documents_have_temperatures_of_their_own() -> None:
    """Documents of words drawn at random fit no topics, and are warmer."""
    x = corpus()
    x[:5] = np.random.default_rng(5).multinomial(40, np.full(30, 1 / 30), 5)
    powers = [
        tp.fit(tp.LDA(3, engine=engine), x, tp.LVT(method=tp.SVI(batch_size=15, passes=12)), seed=1).details[
            "inverse_temperature"
        ]
        for engine in ("host", "device")
    ]
    for each in powers:
        assert each.shape == (90,) and ((each > 0) & (each <= 1)).all()
        assert each[:5].max() < np.median(each[5:])
    # On the host what a temperature costs is worked out once a report, not at every step.
    assert np.corrcoef(*powers)[0, 1] > 0.9


def test_what_is_learned_has_no_normaliser() -> None:
    with pytest.raises(UnsupportedMethod, match=r"fixed priors.*use tp\.Annealed"):
        tp.fit(tp.LDA(2, learn="document_prior"), corpus(10), tp.VT(method=tp.SVI()))
