"""Forward–backward of a hidden Markov model on an accelerator: a scan of T steps beside products of matrices in a tree.

    python -m benchmarks.hmm_gpu [--steps T] [--states K]

Prints one line of JSON: milliseconds for the expected statistics of one sequence (T = 100,000, K = 10) by each, and
how far they differ.
"""

from __future__ import annotations

import argparse
import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from temperance.numerics.chains import FIRST, ON, Chain, Expected, expected_statistics

from ._timing import seconds

ENGINES = ("device", "parallel")


def problem(steps: int, states: int) -> Chain:
    rng = np.random.default_rng(0)
    transition = np.log(rng.dirichlet(np.full(states, 0.5), states) * 0.2 + 0.8 * np.eye(states))
    starts = np.full(steps, ON, dtype=np.int8)
    starts[0] = FIRST
    initial, likelihood = np.full(states, -np.log(states)), 3.0 * rng.normal(size=(steps, states))
    return Chain(*map(jnp.asarray, (initial, transition, likelihood, starts)))


def main(arguments: tuple[str, ...] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    on_cpu = jax.default_backend() == "cpu"
    parser.add_argument("--steps", type=int, default=10_000 if on_cpu else 100_000)
    parser.add_argument("--states", type=int, default=10)
    given = parser.parse_args([] if arguments is None else list(arguments))
    chain = problem(given.steps, given.states)
    weights = jnp.ones(given.steps)
    found: dict[str, Expected] = {}
    result: dict[str, object] = {"device": jax.devices()[0].device_kind, "steps": given.steps, "states": given.states}
    for engine in ENGINES:
        run = jax.jit(partial(expected_statistics, engine=engine))

        def once(run=run) -> Expected:  # type: ignore[no-untyped-def]
            return jax.block_until_ready(run(chain, weights))

        result[f"{engine} first call, s"] = round(seconds(once), 2)
        result[f"{engine}, ms"] = round(1000 * min(seconds(once) for _ in range(3)), 2)
        found[engine] = once()
    scan, tree = (found[engine] for engine in ENGINES)
    result["largest difference of a state's probability"] = float(jnp.max(jnp.abs(scan.states - tree.states)))
    result["difference of the log likelihood"] = float(jnp.sum(scan.increments) - jnp.sum(tree.increments))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
