"""The functions that the tests call, compiled once for each example and used at many parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import temperance as tp
from tests.families.coordinates import hessian, lift, size
from tests.families.registry import Example

DRAWS = 2000
# Rounding is that of the emitters that users have; `conftest.py` has faster ones for tests, where JAX knows the option.
_OPTIONS = {"xla_cpu_use_fusion_emitters": True} if jax.__version__.startswith("0.10.") else None


def program(function: Callable[..., Any]) -> Any:
    return jax.jit(function, compiler_options=_OPTIONS)


@cache
def compiled(example: Example) -> dict[str, Any]:
    def look(family: tp.Family) -> dict[str, Any]:
        return {
            "proper": family.is_proper(),
            "value": family.log_normaliser(),
            "mean": family.mean().weights(),
            "hessian": hessian(family),
            "eta": family.natural.features(),
            "size": size(family.natural),
        }

    def gradient(family: tp.Family) -> Any:
        plain = example.plain or (lambda eta: family.with_natural(eta).log_normaliser())
        return jax.grad(lambda eta: jnp.sum(plain(eta)))(family.natural).weights()

    def cold(family: tp.Family) -> Any:
        guess = family if isinstance(family, tp.Independent | tp.Product) else None  # says what is inside
        return type(family).from_mean(family.mean(), guess)

    def moments(family: tp.Family, draws: Any) -> tuple[jax.Array, ...]:
        """Of the statistics about their mean: averages of first and second order, and the latter's error."""
        centred = jax.vmap(family.statistics)(draws).weights() - family.mean().weights()[None]
        squares = jnp.square(centred)
        return (
            jnp.mean(centred, axis=0),
            jnp.mean(squares, axis=0),
            jnp.std(squares, axis=0) / np.sqrt(DRAWS),
            jnp.isfinite(centred).all(axis=(0, -1)),
        )

    return {
        "look": program(look),
        "gradient": program(gradient),
        "cold": program(cold),
        "warm": program(lambda family, guess: guess.match(family.mean())),
        "kl": program(lambda family, other: family.kl(other)),
        "mix": program(lambda family, other, rate: family.mix(other, rate)),
        "sample": program(lambda family, key: jax.vmap(family.sample)(jax.random.split(key, DRAWS))),
        "moments": program(moments),
        "density": program(lambda family, draw: (family.log_prob(draw), family.entropy())),
        "move": program(lambda family, row: family + lift(family.natural, row)),
    }


def look(example: Example, family: tp.Family) -> dict[str, np.ndarray]:
    found = {name: np.asarray(value) for name, value in compiled(example)["look"](family).items()}
    found["terms"], found["second_terms"] = np.abs(found["mean"]), np.abs(found["hessian"])
    if example.terms:
        first, second = example.terms(family)
        k = first.shape[-1]
        found["terms"][:, -k:] += first
        found["second_terms"][:, -k:, -k:] += second
    return found
