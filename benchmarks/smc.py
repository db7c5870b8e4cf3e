"""Evidence precision per second on one target: parallel tempering beside blackjax's adaptive tempered SMC.

The galaxy data with two components and the thesis's narrow prior; both go from the prior to the posterior. blackjax's
particles move by a random walk whose covariance is that of the particles (its own tuning), in unconstrained
coordinates. Each is run several times; its precision is one over the variance of its estimates, and compilation is
not counted.

    python -m benchmarks smc
"""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import temperance as tp

from .monte_carlo import galaxy

SIZE, COUNT, RATE = 2, 0.01, 0.11  # λ ~ Gamma(1, rate), μ | λ ~ N(0, 1/(count · λ)), π uniform


def log_prior(theta: jax.Array) -> jax.Array:
    """Of (SIZE − 1 logits against the last, means, log precisions), Jacobians included."""
    logits, mean, log_precision = jnp.split(theta, [SIZE - 1, 2 * SIZE - 1])
    weights = jax.nn.log_softmax(jnp.append(logits, 0.0))
    precision = jnp.exp(log_precision)
    normal = 0.5 * (jnp.log(COUNT) + log_precision - jnp.log(2 * jnp.pi)) - 0.5 * COUNT * precision * mean**2
    gamma = jnp.log(RATE) - RATE * precision + log_precision
    return jnp.sum(weights) + jax.lax.lgamma(float(SIZE)) + jnp.sum(normal + gamma)


def sample_prior(key: jax.Array) -> jax.Array:
    one, two, three = jax.random.split(key, 3)
    log_weights = jnp.log(jax.random.dirichlet(one, jnp.ones(SIZE)))
    precision = jax.random.exponential(two, (SIZE,)) / RATE
    mean = jax.random.normal(three, (SIZE,)) / jnp.sqrt(COUNT * precision)
    return jnp.concatenate([log_weights[:-1] - log_weights[-1], mean, jnp.log(precision)])


def smc(x: np.ndarray, particles: int, moves: int) -> Callable[[int], float]:
    import blackjax
    from blackjax.mcmc.random_walk import build_additive_step, init, normal

    data, kernel = jnp.asarray(x[:, 0]), build_additive_step()

    def log_likelihood(theta: jax.Array) -> jax.Array:
        logits, mean, log_precision = jnp.split(theta, [SIZE - 1, 2 * SIZE - 1])
        weights = jax.nn.log_softmax(jnp.append(logits, 0.0))
        square = jnp.exp(log_precision)[None] * jnp.square(data[:, None] - mean[None])
        terms = weights[None] + 0.5 * (log_precision[None] - jnp.log(2 * jnp.pi) - square)
        return jnp.sum(jax.nn.logsumexp(terms, axis=1))

    def scale(positions: jax.Array) -> dict[str, jax.Array]:
        d = positions.shape[1]
        factor = jnp.linalg.cholesky(jnp.cov(positions.T) + 1e-9 * jnp.eye(d))
        return {"sigma": (2.38 / jnp.sqrt(d) * factor)[None]}

    start = jax.jit(jax.vmap(sample_prior))(jax.random.split(jax.random.key(0), particles))
    algorithm = blackjax.inner_kernel_tuning(
        blackjax.adaptive_tempered_smc,
        log_prior,
        log_likelihood,
        lambda key, state, density, sigma: kernel(key, state, density, normal(sigma)),
        init,
        blackjax.smc.resampling.systematic,
        lambda key, state, info: scale(state.particles),
        scale(start),
        num_mcmc_steps=moves,
        target_ess=0.7,
    )
    step = jax.jit(algorithm.step)

    def run(seed: int) -> float:
        key = jax.random.key(seed)
        first = jax.vmap(sample_prior)(jax.random.split(jax.random.fold_in(key, 0), particles))
        state, value, count = algorithm.init(first), 0.0, 0
        while float(state.sampler_state.tempering_param) < 1.0:
            count += 1
            state, info = step(jax.random.fold_in(key, count), state)
            value += float(info.log_likelihood_increment)
        return value

    return run


def repeated(name: str, run: Callable[[int], float], runs: int = 6) -> float:
    """Estimates of several seeds; returns the precision per second."""
    run(1000)  # compiles
    began = time.perf_counter()
    values = np.array([run(seed) for seed in range(runs)])
    each = (time.perf_counter() - began) / runs
    precision = 1.0 / (values.var(ddof=1) * each)
    print(
        f"{name}: {values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(runs):.3f}, spread {values.std(ddof=1):.3f}, "
        f"{each:.2f} s a run: precision {precision:.1f} a second",
        flush=True,
    )
    return float(precision)


def main() -> None:
    model, x = galaxy(SIZE)

    def tempering(seed: int) -> float:
        method = tp.ParallelTempering(draws=2000, warmup=500, replicas=16, reference="prior")
        return tp.fit(model, x, method, seed=seed, progress=False).log_evidence

    ours = repeated("parallel tempering, 2,500 sweeps", tempering)
    theirs = repeated("blackjax, 2,000 particles, 10 moves a step", smc(x, 2000, 10))
    print(f"ratio of precisions per second {ours / theirs:.1f}")


if __name__ == "__main__":
    main()
