"""A problem as other libraries want it: a density over real numbers, or over the unit cube.

The model's own log p(x | θ), with its latents summed out, is the likelihood of both, so that all methods have the same
target and the same compiled code for it. Models whose latents cannot be summed out, or that have a discrete
parameter, have no such form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from temperance.errors import UnsupportedMethod
from temperance.families.unconstrained import chart
from temperance.models import Conditional
from temperance.models._answers import summed

from .problems import Problem
from .variates import from_variates, variates

Function = Callable[[Any], Any]


class Target(NamedTuple):
    """Over real numbers u: densities with their Jacobian, and draws of the prior. Over the cube: `variates` are those
    (gamma, beta, normal) that the parameters are made of, and `at_variates` is the log likelihood there."""

    dimension: int
    log_prior: Function
    log_likelihood: Function
    sample_prior: Callable[[Any, int], Any]
    cube: int
    variates: Callable[[np.ndarray], np.ndarray]
    at_variates: Function


def target(problem: Problem) -> Target:
    """Raises `UnsupportedMethod` where there is none."""
    model, data = summed(problem.model()).prepare(problem.data)
    if model.local_groups:
        raise UnsupportedMethod(f"{type(model).__name__} has latents that cannot be summed out")
    names = sorted(model.prior, key=lambda name: isinstance(model.prior[name], Conditional))
    example = model.sample_prior(jax.random.key(0))

    def families(draws: Any) -> dict[str, Any]:
        """The prior of each block, given the blocks before it."""
        m = model.statistics(draws)
        priors = ((name, model.prior[name]) for name in names)
        return {name: p.family(p.natural(m)) if isinstance(p, Conditional) else p for name, p in priors}

    known = families(example)
    lines = {name: chart(known[name]).to_line(example[name]) for name in names}
    ends = np.cumsum([lines[name].size for name in names])[:-1]

    def to_line(draws: Any) -> jax.Array:
        return jnp.concatenate([chart(known[name]).to_line(draws[name]).ravel() for name in names])

    def from_line(u: jax.Array) -> Any:
        parts = dict(zip(names, jnp.split(u, ends), strict=True))
        return {name: chart(known[name]).from_line(parts[name].reshape(lines[name].shape)) for name in names}

    def log_prior(u: jax.Array) -> jax.Array:
        draws, total = from_line(u), jnp.zeros(())
        for name, family in families(draws).items():
            change = chart(family).jacobian()
            total += jnp.sum(family.log_prob(draws[name]))
            total += jnp.sum(change.vector.dot(family.statistics(draws[name])) + change.constant)
        return total

    def sample_prior(key: Any, size: int) -> jax.Array:
        return jax.vmap(lambda key: to_line(model.sample_prior(key)))(jax.random.split(key, size))

    if not np.isfinite(jax.jit(sample_prior, static_argnums=1)(jax.random.key(1), 1000)).all():
        raise UnsupportedMethod("draws of the prior have no finite coordinates in double precision")
    kinds = {name: variates(known[name]) for name in names}
    a, b = (np.concatenate([np.ravel(kinds[name][which]) for name in names]) for which in (0, 1))
    cuts = np.cumsum([np.size(kinds[name][0]) for name in names])[:-1]

    def at_variates(all_of_them: jax.Array) -> jax.Array:
        parts = dict(zip(names, jnp.split(all_of_them, cuts), strict=True))
        draws: dict[str, Any] = {}
        for name in names:
            p = model.prior[name]
            if isinstance(p, Conditional):
                p = p.family(p.natural({of: model.prior[of].statistics(draws[of]) for of in p.parents}))
            draws[name] = from_variates(p, parts[name].reshape(np.shape(kinds[name][0])))
        return model.log_likelihood(draws, data)

    return Target(
        len(to_line(example)),
        log_prior,
        lambda u: model.log_likelihood(from_line(u), data),
        sample_prior,
        len(a),
        lambda cube: _quantiles(cube, a, b),
        at_variates,
    )


def _quantiles(cube: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of N(0, 1) where a is NaN, of Gamma(a, 1) where b is, else of Beta(a, b)."""
    normal, gamma = np.isnan(a), np.isnan(b)
    found = special.ndtri(cube)
    found[gamma & ~normal] = special.gammaincinv(a[gamma & ~normal], cube[gamma & ~normal])
    found[~gamma] = special.betaincinv(a[~gamma], b[~gamma], cube[~gamma])
    return found
