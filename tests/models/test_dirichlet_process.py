"""Stick-breaking mixtures against enumeration of every assignment, and scikit-learn's stick parameters."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln, gammaln, logsumexp
from scipy.stats import gamma as gamma_density
from sklearn.mixture import BayesianGaussianMixture

import temperance as tp
from temperance.errors import InvalidParameter

X = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1])[:, None]
COUNT, DOF, SCATTER = 0.1, 2.0, 0.3
PRIOR = tp.NormalWishart(mean=[0.0], pseudo_count=COUNT, dof=DOF, scatter=[[SCATTER]])


def log_marginal(x: np.ndarray) -> float:
    """∫ Π p(x | μ, λ) p(μ, λ) dμ dλ for one component, in ordinary parameters."""
    n, mean = len(x), x.mean() if len(x) else 0.0
    count, dof = COUNT + n, DOF + n
    scatter = SCATTER + np.sum((x - mean) ** 2) + COUNT * n / count * mean**2
    return float(
        gammaln(dof / 2)
        - gammaln(DOF / 2)
        + 0.5 * (DOF * np.log(SCATTER / 2) - dof * np.log(scatter / 2))
        + 0.5 * (np.log(COUNT) - np.log(count) - n * np.log(2 * np.pi))
    )


def log_assignment(counts: np.ndarray, alpha: float) -> float:
    """log p(z | α): one beta integral for each stick but the last, which takes what is left."""
    after = counts[::-1].cumsum()[::-1] - counts
    return float(np.sum(betaln(1 + counts[:-1], alpha + after[:-1]) - betaln(1, alpha)))


@pytest.fixture(scope="module")
def partitions() -> list[tuple[np.ndarray, float]]:
    """(counts, Σ_k log marginal) for every assignment of X to three components."""
    known = {
        subset: log_marginal(X[list(subset), 0])
        for size in range(len(X) + 1)
        for subset in itertools.combinations(range(len(X)), size)
    }
    result = []
    for z in itertools.product(range(3), repeat=len(X)):
        groups = [tuple(i for i, k in enumerate(z) if k == j) for j in range(3)]
        result.append((np.array([len(group) for group in groups]), sum(known[group] for group in groups)))
    return result


def exact(partitions: list[tuple[np.ndarray, float]], alpha: float) -> float:
    return float(logsumexp([value + log_assignment(counts, alpha) for counts, value in partitions]))


def test_one_component_is_exact() -> None:
    fit = tp.fit(tp.DirichletProcessMixture(1, prior=PRIOR), X)
    assert fit.log_evidence == pytest.approx(log_marginal(X[:, 0]), abs=1e-9)


@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_bound_is_below_the_enumerated_evidence(partitions, alpha: float) -> None:
    truth = exact(partitions, alpha)
    model = tp.DirichletProcessMixture(3, prior=PRIOR, concentration=alpha)
    fit = tp.fit(model, X, tp.VB(restarts=5, tol=1e-10))
    assert truth - 3.0 < fit.log_evidence < truth


SHAPE, RATE = 2.0, 1.5


@pytest.fixture(scope="module")
def fit() -> tp.Fit:
    model = tp.DirichletProcessMixture(3, prior=PRIOR, concentration=tp.Gamma(SHAPE, RATE))
    return tp.fit(model, X, tp.VB(restarts=5, tol=1e-10))


def test_bound_with_a_prior_on_the_concentration(partitions, fit: tp.Fit) -> None:
    # Given the counts p(z | α) is known, so the integral over α is one-dimensional.
    distinct: dict[tuple[int, ...], list[float]] = {}
    for counts, value in partitions:
        distinct.setdefault(tuple(counts), []).append(value)
    table = [(np.array(counts), float(logsumexp(values))) for counts, values in distinct.items()]
    peak = exact(table, 1.0)

    def integrand(alpha: float) -> float:
        return np.exp(exact(table, alpha) - peak) * gamma_density.pdf(alpha, SHAPE, scale=1 / RATE)

    truth = peak + np.log(quad(integrand, 0, np.inf, epsabs=1e-6)[0])
    assert truth - 3.0 < fit.log_evidence < truth
    # q(α) is what two sticks say of it: Gamma(shape + 2, rate − Σ E log(1 − v)).
    posterior, sticks = fit.posterior["concentration"], fit.posterior["sticks"].mean()
    assert float(posterior.shape) == pytest.approx(SHAPE + 2)
    assert float(posterior.rate) == pytest.approx(RATE - float(np.sum(sticks.log_complement)), rel=1e-4)


def test_sticks_agree_with_scikit_learn() -> None:
    """Same responsibilities, same stick parameters (scikit-learn leaves its last stick free, we do not)."""
    share = np.random.default_rng(0).dirichlet(np.ones(3), size=len(X))
    peer = BayesianGaussianMixture(n_components=3, weight_concentration_prior=0.7)
    peer.weight_concentration_prior_ = 0.7
    peer._estimate_weights(share.sum(axis=0))
    model, data = tp.DirichletProcessMixture(3, prior=PRIOR, concentration=0.7, init=share).prepare(X)
    sticks = eqx.filter_jit(model.initial)(jax.random.key(0), data).blocks["sticks"]
    np.testing.assert_allclose(sticks.a, peer.weight_concentration_[0][:-1], atol=1e-8)
    np.testing.assert_allclose(sticks.b, peer.weight_concentration_[1][:-1], atol=1e-8)


def test_predictive_density_integrates_to_one(fit: tp.Fit) -> None:
    # On an angle, because the tails of a Student-t are long.
    angle = np.linspace(-np.pi / 2, np.pi / 2, 4002)[1:-1]
    density = np.exp(fit.log_predictive(np.tan(angle)[:, None])) / np.cos(angle) ** 2
    assert np.trapezoid(density, angle) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.slow
def test_counts_the_components_that_hold_data(fit: tp.Fit) -> None:
    share = fit.responsibilities(X).sum(axis=0)
    assert fit.model.occupied(fit.state, fit.data) == np.sum(share >= 0.5) == 2


def test_mean_weights_are_those_of_draws(fit: tp.Fit) -> None:
    sticks = fit.state.blocks["sticks"]
    draws = np.random.default_rng(1).beta(sticks.a, sticks.b, size=(20000, 2))
    weights = np.asarray(jax.vmap(lambda v: fit.model.draw_weights({"sticks": v}))(jnp.asarray(draws)))
    mean = np.exp(fit.model.mean_log_weights(fit.state))
    assert mean.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.all(np.abs(mean - weights.mean(axis=0)) < 4.5 * weights.std(axis=0) / np.sqrt(len(weights)))


def test_starts_with_the_largest_component() -> None:
    model, data = tp.DirichletProcessMixture(3, prior=PRIOR).prepare(X)
    labels = eqx.filter_jit(model.starting_labels)
    for seed in range(5):
        counts = np.bincount(labels(jax.random.key(seed), data), minlength=3)
        assert np.all(np.diff(counts) <= 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"truncation": 0}, "truncation must be a whole number of at least 1, got 0"),
        ({"truncation": 3, "concentration": -1.0}, "concentration must be positive and finite"),
        ({"truncation": 3, "concentration": [1.0, 2.0]}, "concentration must be one number or a Gamma"),
        ({"truncation": 3, "concentration": tp.Gamma([1.0, 2.0], 1.0)}, "concentration must be one Gamma"),
    ],
)
def test_wrong_arguments(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        tp.DirichletProcessMixture(**arguments)
