"""The joint test of Geweke (2004) for any model: does a sampler leave the posterior invariant?

A draw of θ from the prior and of x given θ is a draw of their joint distribution. A correct sampler of θ given x,
followed by a draw of x given θ, leaves that distribution invariant. So chains that start with a draw of the prior and
alternate these two draws must show the prior's moments of t(θ) at every step. They start in equilibrium, so nothing is
thrown away; and the averages of independent chains have an error that no autocorrelation can spoil.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..models import Data, Model

if TYPE_CHECKING:
    from ..inference._method import Method

Draws = dict[str, Any]
# (model, key, draws of the globals, data, draws of the local blocks) → draws of both
Kernel = Callable[[Model, Key[Array, ""], Draws, Data, Draws], tuple[Draws, Draws]]


class JointTest(NamedTuple):
    """Differences between the chains and the prior, in standard errors: about standard normal for a right sampler."""

    names: tuple[str, ...]  # block and coordinate of t(θ)
    means: np.ndarray  # of E[t]
    products: np.ndarray  # of E[t tᵀ]: variances, and errors of coupled blocks that are drawn at once

    @property
    def worst(self) -> float:
        """The largest difference; infinite if a chain diverged."""
        if np.isnan(self.means).any() or np.isnan(self.products).any():
            return float("inf")
        return float(max(np.abs(self.means).max(), np.abs(self.products).max()))


def gibbs_kernel(model: Model, key: Key[Array, ""], draws: Draws, data: Data, local: Draws) -> tuple[Draws, Draws]:
    return model.gibbs(key, draws, data, local=local)


def joint_test(
    key: Key[Array, ""],
    model: Model,
    data: Data,
    kernel: Kernel = gibbs_kernel,
    chains: int = 2000,
    steps: int = 10,
) -> JointTest:
    """Test `kernel` on `model` completed by `data`, of which only the shape and the places of missing values (NaN)
    matter.

    `simulate` of a model with local blocks must use the local blocks in the draws that it is given.
    """
    keys = jax.random.split(key, chains)
    return _compare(model, key, *map(np.asarray, _simulate(kernel, model, data, keys, steps)))


def calibration_test(
    key: Key[Array, ""],
    model: Model,
    data: Data,
    method: Method,
    chains: int = 1000,
    warmup: int = 64,
    steps: int = 8,
) -> JointTest:
    """Simulation-based calibration of a method that draws: data are simulated with draws of the prior, and the
    posteriors of many data sets must average to the prior.

    The chains start where the method starts them, so `warmup` steps are dropped.
    """
    keys = jax.random.split(key, chains)
    return _compare(model, key, *map(np.asarray, _posteriors(method, model, data, keys, warmup, steps)))


def _compare(model: Model, key: Key[Array, ""], first: np.ndarray, rest: np.ndarray) -> JointTest:
    """Compare statistics of the prior (chains, s) with those of the chains (chains, steps, s)."""
    centre, scale = first.mean(axis=0), first.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    start, later = (first - centre) / scale, (rest - centre) / scale
    names = tuple(
        f"{name}[{index}]"
        for name, width in zip(model.prior, _widths(model, key), strict=True)
        for index in range(width)
    )
    rows, columns = np.triu_indices(len(names))
    products = np.zeros((len(names), len(names)))
    products[rows, columns] = _scores(start[:, rows] * start[:, columns], later[..., rows] * later[..., columns])
    return JointTest(names, _scores(start, later), products + np.triu(products, 1).T)


def _scores(start: np.ndarray, later: np.ndarray) -> np.ndarray:
    """Differences, in standard errors, of (chains, statistics) and (chains, steps, statistics); each chain's start is
    paired with its later steps."""
    difference = later.mean(axis=1) - start
    error = difference.std(axis=0, ddof=1) / np.sqrt(len(difference))
    return np.where(error > 0, difference.mean(axis=0) / np.where(error > 0, error, 1.0), 0.0)


@eqx.filter_jit
def _simulate(
    kernel: Kernel, model: Model, data: Data, keys: Key[Array, " chains"], steps: int
) -> tuple[Float[Array, "chains s"], Float[Array, "chains steps s"]]:
    def step(carry: tuple[Draws, Draws], key: Key[Array, ""]) -> tuple[tuple[Draws, Draws], Array]:
        draws, local = carry
        key_data, key_kernel = jax.random.split(key)
        draws, local = kernel(model, key_kernel, draws, _observe(key_data, model, data, draws | local), local)
        return (draws, local), _features(model, draws)

    def chain(key: Key[Array, ""]) -> tuple[Array, Array]:
        key_prior, key_local, key_steps = jax.random.split(key, 3)
        draws = model.sample_prior(key_prior)
        local = model.sample_local_prior(key_local, data.values, draws) if model.local_groups else {}
        return _features(model, draws), jax.lax.scan(step, (draws, local), jax.random.split(key_steps, steps))[1]

    return jax.vmap(chain)(keys)


def _posteriors(
    method: Method, model: Model, data: Data, keys: Key[Array, " chains"], warmup: int, steps: int
) -> tuple[Float[Array, "chains s"], Float[Array, "chains steps s"]]:
    def chain(key: Key[Array, ""]) -> tuple[Array, Array]:
        key_prior, key_local, key_data, key_start, key_steps = jax.random.split(key, 5)
        draws = model.sample_prior(key_prior)
        local = model.sample_local_prior(key_local, data.values, draws) if model.local_groups else {}
        seen = _observe(key_data, model, data, draws | local)
        complete = method.complete(model, seen)

        def step(state: Any, key: Key[Array, ""]) -> tuple[Any, Array]:
            state, info = complete.step(key, model, state, seen)
            draws = info["draws"] if complete.sweeps == 1 else jax.tree.map(lambda leaf: leaf[-1], info["draws"])
            return state, _features(model, draws)

        start = complete.init(key_start, model, seen)
        later = jax.lax.scan(step, start, jax.random.split(key_steps, warmup + steps))[1]
        return _features(model, draws), later[warmup:]

    # The data stay outside the compiled function's arguments: a method looks at their weights before it starts.
    return jax.jit(jax.vmap(chain))(keys)


def _observe(key: Key[Array, ""], model: Model, data: Data, draws: Draws) -> Data:
    values = model.simulate(key, draws, data.weights.shape[0])
    return eqx.tree_at(lambda d: d.values, data, jax.tree.map(_hide, data.values, values))


def _hide(pattern: Array, values: Array) -> Array:
    """The values, with NaN where the pattern has NaN."""
    if not jnp.issubdtype(pattern.dtype, jnp.floating):
        return values
    return jnp.where(jnp.isnan(pattern), jnp.nan, values)


def _features(model: Model, draws: Draws) -> Float[Array, " s"]:
    statistics = model.statistics(draws)
    return jnp.concatenate([statistics[name].features().reshape(-1) for name in model.prior])


def _widths(model: Model, key: Key[Array, ""]) -> list[int]:
    statistics = jax.eval_shape(lambda key: model.statistics(model.sample_prior(key)), key)
    shapes = jax.eval_shape(lambda m: [m[name].features() for name in model.prior], statistics)
    return [int(np.prod(shape.shape)) for shape in shapes]
