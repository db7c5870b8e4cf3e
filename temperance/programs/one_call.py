"""`one_call`: a function of a few numbers that XLA on a CPU compiles, and runs, as one piece."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from .jax_versions import MARKS_CALLS

NAME = "one_call"  # of the function in a jaxpr; `compilation.work` counts every number inside


def one_call(fun: Callable[..., Any], wanted: bool = True) -> Callable[..., Any]:
    """`fun` marked to be compiled as one piece, for use inside a long loop; `fun` itself unless `wanted`.

    XLA hands the operations of a loop to a pool of threads, which take longer to wake up than to add a few numbers. As
    one piece, operations run one after another in the calling thread, and compile faster. `fun` must not sort or call
    LAPACK (matrices of up to three rows need no LAPACK), and the first array that it returns must be computed, not
    passed through.
    """

    def inside(*args: Any) -> Any:
        return fun(*args)

    inside.__name__ = NAME
    compiled = jax.jit(inside)

    @functools.wraps(fun)
    def call(*args: Any) -> Any:
        if not wanted or jax.default_backend() != "cpu" or not MARKS_CALLS:
            return fun(*args)
        from jax.experimental.xla_metadata import set_xla_metadata

        leaves, tree = jax.tree.flatten(compiled(*args))
        marked = set_xla_metadata(leaves[0], xla_cpu_small_call="true", inlineable="false")
        return jax.tree.unflatten(tree, [marked, *leaves[1:]])

    return call
