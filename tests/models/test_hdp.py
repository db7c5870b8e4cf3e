"""The hierarchical Dirichlet process: sticks against quadrature, simulated topics found."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, gammaln, log_expit, logsumexp

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from temperance.families.concentration import ConcentrationVector
from temperance.families.sticks import Sticks, moments


@pytest.mark.parametrize(
    ("a", "b", "c"), [(0.0, -0.5, 0.0), (3.0, 9.0, -20.0), (0.0, 0.5, 80.0), (200.0, 1000.0, 900.0)]
)
def test_moments_of_a_stick_are_those_of_a_fine_grid(a, b, c):
    y = np.linspace(-80.0, 80.0, 400_001)
    logs = (a + 1) * log_expit(y) + (b + 1) * log_expit(-y) + c * expit(y)
    weight = np.exp(logs - logsumexp(logs))
    expected = [logsumexp(logs) + np.log(y[1] - y[0]), weight @ expit(y), weight @ log_expit(y), weight @ log_expit(-y)]
    np.testing.assert_allclose([float(x[0]) for x in moments(*jnp.array([[a], [b], [c]]))], expected, atol=1e-8)


def test_sticks_rise_to_the_best_and_stay_below_the_integral():
    """The normaliser ∫ p(v) exp{⟨s, c π(v)⟩ − n A(c π(v))} dv of two sticks, on a grid."""
    s, n, first, total = -np.array([3.0, 9.0, 6.0]), 4.0, 1.5, 0.7
    grid = (np.arange(600) + 0.5) / 600
    v, w = np.meshgrid(grid, grid)
    log_prior = 2 * np.log(first) + (first - 1) * (np.log1p(-v) + np.log1p(-w))
    pieces = total * np.stack([v, (1 - v) * w, (1 - v) * (1 - w)])
    log_a = gammaln(pieces).sum(axis=0) - gammaln(total)
    exact = logsumexp(log_prior + np.einsum("k,kij->ij", s[[0, 2, 1]], pieces) - n * log_a) - 2 * np.log(600)
    prior, found = Sticks(3, first, total), []
    assert abs(float(prior.log_normaliser())) < 1e-9
    q = prior.with_natural(ConcentrationVector(jnp.zeros(3), jnp.array(1e6)))  # equal pieces
    for _ in range(4):
        q = q.with_natural(ConcentrationVector(jnp.array(s), jnp.array(n)))
        found.append(float(q.log_normaliser()))
    assert q.order.tolist() == [0, 2, 1]  # the largest s takes the largest piece
    assert np.all(np.diff(found) > -1e-9) and exact - 1.5 < found[-1] < exact
    mean = q.mean()
    assert float(mean.concentration.sum()) == pytest.approx(total)
    draws = np.array(jax.vmap(q.sample)(jax.random.split(jax.random.key(0), 4000)))
    np.testing.assert_allclose(draws.mean(axis=0), mean.concentration, atol=4 * draws.std(axis=0).max() / 60)


def simulated(seed, documents=120, length=60, k=4, n_words=50):
    rng = np.random.default_rng(seed)
    beta = rng.dirichlet(np.full(n_words, 0.05), k)
    theta = rng.dirichlet(np.full(k, 0.2), documents)
    return np.array([rng.multinomial(length, row @ beta) for row in theta]), beta


@pytest.mark.slow
def test_simulated_topics_are_found_and_the_rest_left_empty(tmp_path):
    counts, beta = simulated(0)
    fit = tp.fit(tp.HDP(8), counts, tp.VB(tol=1e-5), seed=0, progress=False)
    near = (np.sqrt(fit.model.distributions(fit.state)) @ np.sqrt(beta).T).max(axis=0)
    assert (near > 0.95).all()
    shares = np.sort(np.asarray(fit.posterior["document_prior"].mode()))[::-1]
    assert fit.converged and shares[:4].sum() > 0.98
    assert len(fit.table()) == fit.model.occupied(fit.state, fit.data) == 4
    fit.save(tmp_path / "fit.tp")
    np.testing.assert_allclose(tp.load(tmp_path / "fit.tp").transform(counts[:5]), fit.transform(counts[:5]), rtol=1e-6)
    assert tp.document_completion(fit, counts).log_predictive > -np.log(50)


@pytest.mark.slow
def test_short_documents_have_no_more_than_one_together():
    """`log_predictive` is a lower bound on the density of a document: all of one word, and all of two, sum to less
    than one (of one word to 0.55 here); the expected words of each document sum to one."""
    fit = tp.fit(tp.HDP(3), [[0, 0, 1], [1, 2, 2], [0, 2], [2, 2, 1]], tp.VB(), seed=0, progress=False)
    for length, least in ((1, 0.5), (2, 0.3)):
        every = [list(document) for document in itertools.product(range(3), repeat=length)]
        assert least < np.exp(fit.log_predictive(every)).sum() < 1.0 + 1e-9
    shares = fit.transform([[0, 1], [2]])
    np.testing.assert_allclose((shares @ fit.model.distributions(fit.state)).sum(axis=1), 1.0, atol=1e-9)


def test_mistakes_are_one_sentence():
    with pytest.raises(InvalidParameter, match="learn is for"):
        tp.HDP(5, learn="document_prior")
    with pytest.raises(InvalidParameter, match="at least 2"):
        tp.HDP(1)
    with pytest.raises(InvalidParameter, match="concentration must be a number above 0"):
        tp.HDP(5, concentration=0)
    with pytest.raises(UnsupportedMethod, match=r"tp\.VB"):
        tp.fit(tp.HDP(3), simulated(2, documents=10)[0], tp.Gibbs(draws=10, warmup=1), progress=False)
