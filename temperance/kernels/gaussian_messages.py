"""Passes for Gaussian mixtures on a CPU, through the kernel of `gaussian_messages_kernel.py`.

The scan of `sweep.py` serves every pair, but runs some three hundred small array operations per factor, and with
α < 1 all restarts wait for the slowest.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..families import Gaussian, NormalWishart
from ..families.dirichlet import DirichletVector
from ..families.normal_wishart import NormalWishartVector
from ..models._factors import Blocks, DirichletWeights, Factors, KnownWeights, Natural, Terms, weights_name
from ..numerics.threads import in_threads
from ._at_hand import at_hand

_WORTH = 1000  # fewest rows for which the kernel is compiled for a single fit


def when(model: Any, data: Any) -> bool:
    """Whether the kernel pays for these data: it saves some four milliseconds per datum in a fit, and takes several
    seconds to compile if no earlier run has compiled it."""
    return (
        type(model.pair) is Gaussian
        and data.engine != "plain"
        and not data.is_spread  # rows sharded over several devices stay there
        and (data.weights.shape[0] >= _WORTH or at_hand("gaussian_messages_kernel", "refresh"))
    )


def has_kernel(alpha: float, gaussian: bool, terms: Terms, blocks: Blocks) -> bool:
    """Whether the kernel can replace the scan for this model and machine."""
    return (
        0.0 < alpha <= 1.0
        and gaussian
        and isinstance(blocks["components"], NormalWishart)
        and isinstance(terms, DirichletWeights | KnownWeights)
        and jax.default_backend() == "cpu"
        and find_spec("numba") is not None
    )


def host_pass(
    alpha: float,
    damping: float,
    limits: tuple[float, float, float],
    factors: Factors,
    natural: Natural,
    sites: Natural,
    scales: Float[Array, " n"],
    order: Int[Array, " n"],
) -> tuple[Natural, Natural, Float[Array, " n"], Int[Array, ""]]:
    """(natural parameters of q, of the sites, log scales, factors skipped) after one pass.

    `limits` are for the fixed point of one factor: tolerance, most steps, least step length.
    """
    x, terms = factors.each.statistics.first, factors.terms
    name = weights_name(natural)
    q, messages = _pack(natural, name), _pack(sites, name)
    log_weights = terms.log if isinstance(terms, KnownWeights) else jnp.zeros(q.shape[0])

    def call(*given: Any) -> tuple[np.ndarray, ...]:
        return _call(alpha, damping, np.array(limits), name is not None, *given)

    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (q, messages, scales, jnp.zeros((), jnp.int64))]
    given = (x, factors.each.log_base, factors.live, order, log_weights, q, messages, scales)
    q, messages, scales, skipped = jax.pure_callback(call, shapes, *given, vmap_method="expand_dims")
    return _unpack(q, x.shape[1], name), _unpack(messages, x.shape[1], name), scales, skipped


_RANKS = (2, 1, 1, 1, 1, 2, 3, 1)  # of x, log_base, live, order, log_weights, q, sites, scales


def _call(alpha: float, damping: float, limits: np.ndarray, dirichlet: bool, *given: Any) -> tuple[np.ndarray, ...]:
    """Make one pass per batch element (restart or data set): every array has the batch axes, of length one where all
    elements share it."""
    from .gaussian_messages_kernel import refresh

    batch = np.broadcast_shapes(*(np.shape(a)[: np.ndim(a) - rank] for a, rank in zip(given, _RANKS, strict=True)))
    count = int(np.prod(batch))

    def rows(values: Any, rank: int) -> np.ndarray:
        values = np.asarray(values)
        event = values.shape[values.ndim - rank :]
        return np.array(np.broadcast_to(values, batch + event), order="C").reshape((count, *event))

    x, log_base, live, order, log_weights, q, sites, scales = map(rows, given, _RANKS)
    skipped = np.zeros(count, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            arrays = (x[i], log_base[i], live[i], order[i], log_weights[i], dirichlet, q[i], sites[i], scales[i])
            skipped[i] = refresh(alpha, damping, limits, *arrays)

    in_threads(work, count, 1)
    return tuple(a.reshape(batch + a.shape[1:]) for a in (q, sites, scales, skipped))


def _pack(natural: Natural, name: str | None) -> Float[Array, "*n k w"]:
    """A row for each component: first, count, second, dof and the weight's natural parameter (zero if known)."""
    c = natural["components"]
    weights = jnp.zeros_like(c.count) if name is None else natural[name].log
    second = c.second.reshape((*c.count.shape, -1))
    return jnp.concatenate([c.first, c.count[..., None], second, c.dof[..., None], weights[..., None]], axis=-1)


def _unpack(rows: Float[Array, "*n k w"], d: int, name: str | None) -> Natural:
    second = rows[..., d + 1 : d + 1 + d * d].reshape((*rows.shape[:-1], d, d))
    components = NormalWishartVector(rows[..., :d], rows[..., d], second, rows[..., d + 1 + d * d])
    return {"components": components} | ({} if name is None else {name: DirichletVector(rows[..., -1])})
