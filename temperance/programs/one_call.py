"""`one_call`: a function of a few numbers that XLA on a CPU compiles, and runs, as one piece."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

NAME = "one_call"  # of the function in a jaxpr; `compilation.work` counts every number inside


def one_call(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun` for the inside of a long loop; the first array that it returns must be computed, not passed through.

    XLA hands the operations of a loop to a pool of threads, which take longer to wake up than to add a few numbers. As
    one piece they run one after the other in the calling thread, and take less time to compile.
    """

    def inside(*args: Any) -> Any:
        return fun(*args)

    inside.__name__ = NAME
    compiled = jax.jit(inside)

    @functools.wraps(fun)
    def call(*args: Any) -> Any:
        if jax.default_backend() != "cpu":
            return fun(*args)
        leaves, tree = jax.tree.flatten(compiled(*args))
        return jax.tree.unflatten(tree, [_mark(leaves[0]), *leaves[1:]])

    return call


def _mark(result: Any) -> Any:
    """Mark the call that made `result`; in a version of JAX without marks the call is like any other."""
    try:
        from jax.experimental.xla_metadata import set_xla_metadata

        return set_xla_metadata(result, xla_cpu_small_call="true", inlineable="false")
    except (ImportError, TypeError):
        return result
