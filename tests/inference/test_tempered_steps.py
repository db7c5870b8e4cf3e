"""One step of each tempered method, written out: what it reports, the temperatures it finds and where globals go."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, logsumexp, softmax
from scipy.stats import multivariate_normal, norm

import temperance as tp
from temperance.families import Independent, MatrixNormal
from temperance.families.categorical import BernoulliDistribution
from temperance.inference.thermostats import Grid, Own, Step
from temperance.inference.variational.hot import Stage, with_trace
from temperance.models import Data, Posterior, Powers
from tests.inference.steps import stochastic_step, walk_locally

COVARIANCE = np.array([[1.0, 0.3], [0.3, 0.8]])
SPREAD = 0.2 * np.eye(2)  # of q(μ)
CENTRES = np.array([[-2.0, 1.0], [2.0, 0.0], [0.0, -1.5]])
DELTA = np.array([3.0, 1.0, 2.0])
T = np.array([1.0, 1.5, 4.0])
LOG_PI = digamma(DELTA) - digamma(DELTA.sum())


class Problem(NamedTuple):
    """A mixture of three Gaussians of known covariance, data, and a posterior."""

    model: Any
    data: Any
    blocks: dict[str, Any]
    joint: np.ndarray  # E log p(x_n, z_n = k | θ)
    divergence: float

    def moved(self, shares: np.ndarray, rate: float = 1.0) -> dict[str, np.ndarray]:
        """Natural parameters after a step in which the data have these shares in components."""
        x, precision = np.asarray(self.data.values), np.linalg.inv(COVARIANCE)
        prior = self.model.prior
        target = {
            "concentration": np.asarray(prior["weights"].concentration) + shares.sum(axis=0),
            "precision": np.eye(2) / 9 + shares.sum(axis=0)[:, None, None] * precision,
            "linear": np.asarray(prior["components"].location) / 9 + shares.T @ x @ precision,
        }
        before = {
            "concentration": DELTA,
            "precision": np.tile(np.linalg.inv(SPREAD), (3, 1, 1)),
            "linear": CENTRES @ np.linalg.inv(SPREAD),
        }
        return {name: (1 - rate) * before[name] + rate * value for name, value in target.items()}


@pytest.fixture(scope="module")
def problem() -> Problem:
    x = np.random.default_rng(5).normal(0, 2, (12, 2))
    pair = tp.KnownCovarianceGaussian(COVARIANCE)
    model, data = tp.Mixture(3, pair, prior=tp.Normal(np.zeros(2), 9.0 * np.eye(2))).prepare(x)
    centres = tp.Normal(jnp.asarray(CENTRES), jnp.asarray(np.tile(SPREAD, (3, 1, 1))))
    blocks: dict[str, Any] = {"weights": tp.Dirichlet(jnp.asarray(DELTA)), "components": centres}
    observed = np.stack([multivariate_normal(c, COVARIANCE).logpdf(data.values) for c in CENTRES], axis=1)
    observed = observed - 0.5 * np.trace(np.linalg.solve(COVARIANCE, SPREAD))
    divergence = sum(float(jnp.sum(q.kl(model.prior[name]))) for name, q in blocks.items())  # type: ignore[arg-type]
    return Problem(model, data, blocks, LOG_PI + observed, divergence)


def check(blocks: dict[str, Any], wanted: dict[str, np.ndarray]) -> None:
    np.testing.assert_allclose(blocks["weights"].concentration, wanted["concentration"], rtol=1e-6)
    np.testing.assert_allclose(blocks["components"].precision, wanted["precision"], rtol=1e-6)
    linear = np.einsum("kij,kj->ki", blocks["components"].precision, blocks["components"].location)
    np.testing.assert_allclose(linear, wanted["linear"], rtol=1e-5, atol=1e-5)


def entropy(shares: np.ndarray) -> float:
    return -float(np.sum(shares * np.log(shares)))


def test_variational_tempering(problem: Problem) -> None:
    """Latents at the old temperature, the temperature by their energy, globals at the new one."""
    model, data, blocks, joint, divergence = problem
    method = tp.VT(T, length=5).complete(model, data)
    tempered = method.arrange(jax.random.key(0), model, data)
    heat = np.array([0.2, 0.5, 0.3])
    stage = Stage(Posterior(blocks, {}), jnp.asarray(1), jnp.log(jnp.asarray(heat)), blocks)
    step = jax.jit(lambda stage: method.step(jax.random.key(0), model, stage, tempered))
    fresh, info = step(stage)
    s = heat @ (1 / T)
    shares = softmax(s * joint, axis=1)
    energy = np.sum(shares * joint)
    log_c = model.tempering.log_normaliser(T, data).log
    r = softmax(energy / T - log_c)
    np.testing.assert_allclose(softmax(fresh.heat), r, rtol=1e-10)
    assert r.max() < 0.99  # or there would be no choice
    assert float(info["temperature"]) == pytest.approx(heat @ T)
    assert float(info["elbo"]) == pytest.approx(energy + entropy(shares) - divergence, rel=1e-12)
    bound = logsumexp(s * joint, axis=1).sum() - divergence + heat @ (-np.log(3) - log_c) + entropy(heat)
    assert float(info["tempered_elbo"]) == pytest.approx(bound, rel=1e-12)
    check(fresh.posterior.blocks, problem.moved((r @ (1 / T)) * shares))
    # When tempering is over the temperature is 1.
    over, info = step(fresh._replace(posterior=stage.posterior, steps=jnp.asarray(5)))
    np.testing.assert_array_equal(over.heat, fresh.heat)
    assert float(info["temperature"]) == 1 and float(info["tempered_elbo"]) == float(info["elbo"])
    check(over.posterior.blocks, problem.moved(softmax(joint, axis=1)))


def test_a_trace_of_the_start_when_tempering_ends(problem: Problem) -> None:
    prior, nothing = dict(problem.model.prior), jnp.zeros(1)
    for hot, rate in ((5, 0.02), (6, 0.0), (0, 0.0)):
        trace = Grid(jnp.asarray(hot), nothing, nothing).trace(jnp.asarray(5))
        mixed = with_trace(Posterior(problem.blocks, {}), prior, trace).blocks["weights"].concentration  # type: ignore[attr-defined]
        np.testing.assert_allclose(mixed, (1 - rate) * DELTA + rate * 1.0, rtol=1e-12)


def test_variational_tempering_by_minibatches(problem: Problem) -> None:
    """The natural parameters of q(T) move with the step size of the other globals."""
    model, data, blocks, joint, _ = problem
    log_prior = -np.log(3) - model.tempering.log_normaliser(T, data).log
    grid = Grid(jnp.asarray(4), jnp.asarray(1 / T), jnp.asarray(log_prior))
    heat, rate = np.array([0.1, -0.4, 0.3]), 0.3

    @jax.jit
    def step(number: Any) -> Any:
        swept, after = grid.sweep(
            model, Posterior(blocks, {}), data, jnp.asarray(heat), Step(number, jnp.asarray(rate))
        )
        return swept.posterior.blocks, after

    moved, after = step(jnp.asarray(3))
    shares = softmax(softmax(heat) @ (1 / T) * joint, axis=1)
    logits = (1 - rate) * heat + rate * (np.sum(shares * joint) / T + log_prior)
    np.testing.assert_allclose(after, logits, rtol=1e-10)
    check(moved, problem.moved((softmax(logits) @ (1 / T)) * shares, rate))
    moved, after = step(jnp.asarray(4))  # at T = 1
    np.testing.assert_array_equal(after, heat)
    check(moved, problem.moved(softmax(joint, axis=1), rate))


def test_annealing_by_minibatches(problem: Problem) -> None:
    """A whole batch at T = 2.5: latents and messages at the power, the prior and what is kept as they are."""
    model, data, blocks, joint, divergence = problem
    svi = tp.Annealed(tp.SVI(batch_size=12, steps=2, step_size=0.3), [2.5]).complete(model, data)
    batches = svi.arrange(jax.random.key(0), model, data)
    powers = [batches.thermostat.way((), Step(jnp.asarray(t)), 12).powers for t in (0, 1)]
    assert [float(p) for both in powers for p in both] == [0.4, 0.4, 1.0, 1.0]
    moved, bound = jax.jit(lambda powers: stochastic_step(model, blocks, data, 0.3, 1, powers))(powers[0])
    assert float(bound) == pytest.approx(logsumexp(0.4 * joint, axis=1).sum() - divergence, rel=1e-12)
    check(moved, problem.moved(0.4 * softmax(0.4 * joint, axis=1), 0.3))


def local_power(distance: np.ndarray, grid: np.ndarray, width: int) -> np.ndarray:
    """E[s] of data at these distances, ½ E (x − μ)ᵀ Λ (x − μ): the tempered Gaussian has covariance Σ/s."""
    return softmax(0.5 * width * np.log(grid) - distance[:, None] * grid, axis=1) @ grid


def test_local_temperatures_by_minibatches(problem: Problem) -> None:
    """Only rows of the minibatch find new temperatures; at T = 1 none does, and none counts."""
    model, data, blocks, joint, _ = problem
    powers = np.linspace(1.0, 0.05, 20)
    own = Own(jnp.asarray(4), model.tempering.heat(data, powers))
    rows, heat, rate = np.array([7, 2, 3]), np.linspace(0.3, 0.9, 12), 0.3
    batch = Data(data.values[rows], jnp.full(3, 4.0), 3)

    @jax.jit
    def step(number: Any) -> Any:
        taken = Step(number, jnp.asarray(rate), rows=jnp.asarray(rows))
        swept, after = own.sweep(model, Posterior(blocks, {}), batch, jnp.asarray(heat), taken)
        return swept.posterior.blocks, after

    moved, after = step(jnp.asarray(3))
    shares = softmax(heat[rows, None] * joint[rows], axis=1)
    peak = LOG_PI - np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(COVARIANCE)[1]
    found = local_power(np.sum(shares * (peak - joint[rows]), axis=1), powers, 2)
    np.testing.assert_allclose(np.asarray(after)[rows], found, atol=1e-6)
    others = np.delete(np.arange(12), rows)
    np.testing.assert_array_equal(np.asarray(after)[others], heat[others])
    wanted = np.zeros((12, 3))
    wanted[rows] = 4.0 * found[:, None] * shares
    check(moved, problem.moved(wanted, rate))
    moved, after = step(jnp.asarray(4))
    np.testing.assert_array_equal(after, heat)
    wanted[rows] = 4.0 * softmax(joint[rows], axis=1)
    check(moved, problem.moved(wanted, rate))


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_local_temperatures_with_learned_covariances(kind: str) -> None:
    """Two Gaussians in the plane: E log|Λ| and E (x − μ)ᵀ Λ (x − μ) by the formulas of each family."""
    rng = np.random.default_rng(6)
    x, powers, grid = rng.normal(0, 3, (10, 2)), rng.uniform(0.2, 1.0, 10), np.linspace(1.0, 0.05, 20)
    model, data = tp.GaussianMixture(2, covariance=kind, dim=2).prepare(x)
    mean, count, dof = np.array([[-1.0, 0.5], [2.0, 0.0]]), np.array([3.0, 1.5]), np.array([4.0, 7.0])
    matrix, delta = np.array([[[2.0, 0.5], [0.5, 1.0]], [[9.0, -1.0], [-1.0, 4.0]]]), np.array([2.0, 5.0])
    away = np.asarray(data.values)[:, None] - mean
    components: Any
    if kind == "full":
        components = tp.NormalWishart(mean, count, dof, matrix)
        square = 2 / count + dof * np.einsum("nki,kij,nkj->nk", away, np.linalg.inv(matrix), away)
        log_det = digamma(dof / 2) + digamma((dof - 1) / 2) + 2 * np.log(2) - np.linalg.slogdet(matrix)[1]
    elif kind == "diag":
        scatter = np.diagonal(matrix, axis1=1, axis2=2)
        both = np.ones((1, 2))
        components = Independent(tp.NormalGamma(mean, count[:, None] * both, dof[:, None] * both, scatter))
        square = 2 / count + np.sum(dof[:, None] / scatter * away**2, axis=2)
        log_det = 2 * digamma(dof / 2) - np.log(scatter / 2).sum(axis=1)
    else:
        scatter = matrix[:, 0, 0]
        components = tp.IsotropicNormalGamma(mean, count, dof, scatter)
        square = 2 / count + dof / scatter * np.sum(away**2, axis=2)
        log_det = 2 * (digamma(dof / 2) - np.log(scatter / 2))
    blocks: dict[str, Any] = {"weights": tp.Dirichlet(jnp.asarray(delta)), "components": components}
    walked = jax.jit(lambda powers: walk_locally(model, blocks, data, powers, grid, {}, 1))(jnp.asarray(powers))
    joint = digamma(delta) - digamma(delta.sum()) + 0.5 * (log_det - square) - np.log(2 * np.pi)
    shares = softmax(powers[:, None] * joint, axis=1)
    np.testing.assert_allclose(walked.energy, np.sum(shares * joint, axis=1), rtol=1e-10)
    wanted = local_power(0.5 * np.sum(shares * square, axis=1), grid, 2)
    np.testing.assert_allclose(walked.power, wanted, atol=1e-6)
    np.testing.assert_allclose(walked.messages["weights"].log, wanted @ shares, atol=1e-5)


def test_local_temperatures_of_a_factorial_mixture() -> None:
    """Latents as given: E log p(x | z), E log p(z) and the messages from the means of z and of the factors."""
    rng = np.random.default_rng(7)
    x, powers, grid = rng.normal(0, 1, (6, 3)), rng.uniform(0.2, 1.0, 6), np.linspace(1.0, 0.05, 20)
    noise, p, z = 0.4, np.array([0.3, 0.6]), rng.uniform(0.1, 0.9, (6, 2))
    mean, covariance = rng.normal(size=(2, 3)), np.array([[0.3, 0.1], [0.1, 0.2]])
    model, data = tp.FactorialMixture(2, noise=noise, probability=p, factor_variance=2.0).prepare(x)
    q = MatrixNormal(jnp.asarray(mean), jnp.linalg.inv(jnp.asarray(covariance)))
    local = {"z": BernoulliDistribution(jnp.asarray(z))}

    def walk(powers: Any) -> Any:
        return walk_locally(model, {"factors": q}, data, powers, grid, local, 0)

    walked = jax.jit(walk)(jnp.asarray(powers))
    second = z[:, :, None] * z[:, None] + (z - z**2)[:, :, None] * np.eye(2)  # E z zᵀ
    gram = mean @ mean.T + 3 * covariance  # E W Wᵀ
    square = np.sum(x**2, axis=1) - 2 * np.sum(x * (z @ mean), axis=1) + np.einsum("nkl,kl->n", second, gram)
    observed = 3 * norm(0, np.sqrt(noise)).logpdf(0.0) - 0.5 * square / noise
    latent = z @ np.log(p) + (1 - z) @ np.log(1 - p)
    np.testing.assert_allclose(walked.energy, observed + latent, rtol=1e-10)
    value = np.sum(powers * (observed + latent)) + entropy(z) + entropy(1 - z)
    assert float(walked.value) == pytest.approx(value, rel=1e-12)
    wanted = local_power(0.5 * square / noise, grid, 3)
    np.testing.assert_allclose(walked.power, wanted, atol=1e-6)
    np.testing.assert_allclose(walked.messages["factors"].cross, (wanted[:, None] * z).T @ x / noise, atol=1e-5)
    plain = model._datum({"factors": q.mean(), "z": local["z"].mean()}, data.values, Powers(), None)
    np.testing.assert_allclose(plain, observed + latent, rtol=1e-12)  # of which cold walks are made
