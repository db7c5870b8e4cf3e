"""Other libraries on the same targets, at the settings that their documentation advises.

    blackjax NSS      nested slice sampling: 500 live points, 50 replaced at a time, max(5, 2d) slice steps
    blackjax SMC      adaptive tempered SMC: 1,000 particles, random walks with their covariance, 10 moves each
    dynesty           nested sampling: 500 live points, its own choice of bounds and moves
    bridge            4 chains of NUTS (blackjax, window adaptation, 1,000 draws each) and the bridge between half of
                      the draws and a Gaussian fitted to the other half (Gronau and others, 2017)

Each returns log Z and its own standard error, None where it gives none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from temperance.evidence.reweighting import log_ratios

from .target import Target

Found = tuple[float, float | None]
Run = Callable[[int], Found]
LIVE, REPLACED = 500, 50
PARTICLES, MOVES, SHARE = 1000, 10, 0.7
CHAINS, WARMUP, DRAWS, PART = 4, 500, 1000, 100
MOST_STEPS = 20_000  # of an outer loop: a run that takes more has failed


def nested(target: Target) -> Run:
    import blackjax

    steps = max(5, 2 * target.dimension)
    algorithm = blackjax.nss(target.log_prior, target.log_likelihood, num_inner_steps=steps, num_delete=REPLACED)
    first, step = jax.jit(algorithm.init), jax.jit(algorithm.step)
    sample = jax.jit(lambda key: target.sample_prior(key, LIVE))

    def run(seed: int) -> Found:
        key = jax.random.key(seed)
        state, count = first(sample(jax.random.fold_in(key, 0))), 0
        while float(state.integrator.logZ_live - state.integrator.logZ) > -3.0:
            count += 1
            state, _ = step(jax.random.fold_in(key, count), state)
            if count > MOST_STEPS:
                raise RuntimeError(f"{MOST_STEPS} steps were not enough")
        return float(np.logaddexp(state.integrator.logZ, state.integrator.logZ_live)), None

    return run


def sequential(target: Target) -> Run:
    import blackjax
    from blackjax.mcmc.random_walk import build_additive_step, init, normal

    kernel, d = build_additive_step(), target.dimension

    def scale(positions: jax.Array) -> dict[str, jax.Array]:
        factor = jnp.linalg.cholesky(jnp.atleast_2d(jnp.cov(positions.T)) + 1e-9 * jnp.eye(d))
        return {"sigma": (2.38 / jnp.sqrt(d) * factor)[None]}

    sample = jax.jit(lambda key: target.sample_prior(key, PARTICLES))
    algorithm = blackjax.inner_kernel_tuning(
        blackjax.adaptive_tempered_smc,
        target.log_prior,
        target.log_likelihood,
        lambda key, state, density, sigma: kernel(key, state, density, normal(sigma)),
        init,
        blackjax.smc.resampling.systematic,
        lambda key, state, info: scale(state.particles),
        scale(sample(jax.random.key(0))),
        num_mcmc_steps=MOVES,
        target_ess=SHARE,
    )
    step = jax.jit(algorithm.step)

    def run(seed: int) -> Found:
        key = jax.random.key(seed)
        state, value, count = algorithm.init(sample(jax.random.fold_in(key, 0))), 0.0, 0
        while float(state.sampler_state.tempering_param) < 1.0:
            count += 1
            state, info = step(jax.random.fold_in(key, count), state)
            value += float(info.log_likelihood_increment)
            if count > MOST_STEPS:
                raise RuntimeError(f"{MOST_STEPS} temperatures were not enough")
        return value, None

    return run


def dynesty(target: Target) -> Run:
    import dynesty as library

    density = jax.jit(target.at_variates)

    def log_likelihood(variates: np.ndarray) -> float:
        value = float(density(variates))
        return value if np.isfinite(value) else -1e300

    def run(seed: int) -> Found:
        generator = np.random.default_rng(seed)
        sampler = library.NestedSampler(log_likelihood, target.variates, target.cube, nlive=LIVE, rstate=generator)
        sampler.run_nested(print_progress=False)
        return float(sampler.results.logz[-1]), float(sampler.results.logzerr[-1])

    return run


def bridge(target: Target) -> Run:
    import blackjax

    def log_joint(u: jax.Array) -> jax.Array:
        return target.log_prior(u) + target.log_likelihood(u)

    def warmed(key: jax.Array) -> tuple[Any, Any]:
        key_start, key_warm = jax.random.split(key)
        warm = blackjax.window_adaptation(blackjax.nuts, log_joint)
        return warm.run(key_warm, target.sample_prior(key_start, 1)[0], num_steps=WARMUP)[0]

    def part(key: jax.Array, state: Any, parameters: Any) -> tuple[Any, jax.Array]:
        step = blackjax.nuts(log_joint, **parameters).step

        def one(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(key, PART))

    warm_up, go_on, densities = jax.jit(warmed), jax.jit(part), jax.jit(jax.vmap(log_joint))

    def chain(key: jax.Array) -> np.ndarray:
        (state, parameters), draws = warm_up(jax.random.fold_in(key, 0)), []
        for number in range(DRAWS // PART):
            state, positions = go_on(jax.random.fold_in(key, number + 1), state, parameters)
            draws.append(np.asarray(positions))
        return np.concatenate(draws)

    def run(seed: int) -> Found:
        draws = np.stack([chain(key) for key in jax.random.split(jax.random.key(seed), CHAINS)])
        fitted, kept = draws[:, ::2].reshape((-1, target.dimension)), draws[:, 1::2].reshape((-1, target.dimension))
        centre, factor = fitted.mean(axis=0), np.linalg.cholesky(np.atleast_2d(np.cov(fitted.T)))
        noise = np.random.default_rng(seed).normal(size=kept.shape)

        def proposal(u: np.ndarray) -> np.ndarray:
            white = np.linalg.solve(factor, (u - centre).T)
            constant = np.log(np.diag(factor)).sum() + 0.5 * target.dimension * np.log(2 * np.pi)
            return -0.5 * np.sum(white**2, axis=0) - constant

        proposed = centre + noise @ factor.T
        forward = np.asarray(densities(proposed)) - proposal(proposed)
        backward = np.asarray(densities(kept)) - proposal(kept)
        forward = np.where(np.isfinite(forward), forward, -np.inf)
        return float(log_ratios(forward[:, None], backward[:, None])[0]), None

    return run


PEERS: dict[str, Callable[[Target], Run]] = {
    "blackjax NSS": nested,
    "blackjax SMC": sequential,
    "dynesty": dynesty,
    "bridge": bridge,
}
