"""Alternatives where a path from the prior is long or fails, as when a posterior that forms abruptly tears the path.

Small Gaussian mixtures need no path: bridge sampling compares the posterior with the conditionals of its chains, and
reports when the result is uncertain. Else variational posteriors are good proposals where components are far apart; if
not, a path from the best of them is shorter.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ...kernels import small_tempered
from ...models import Data, Model
from ...numerics.keys import make_key
from .._method import Method
from ..progress import Progress
from ..run import run as run_loop
from .bridge import Bridge
from .importance import ImportanceSampling
from .path import Path

LONG = 7.5  # communication barrier of a path that replicas rarely complete
STEEP = 0.75  # rejection between two temperatures on such a path
WARMUP, DRAWS = 64, 64  # sweeps of the pilot
BRIDGES = (Bridge(), Bridge(draws=180, warmup=180, proposal=2048), Bridge(chains=512, proposal=4096))


def elsewhere(method: Any, model: Model) -> tuple[Method, ...]:
    """The methods to try, in this order; none if the user chose the start of the path."""
    if method.reference is not None:
        return ()
    closer = dataclasses.replace(method, reference="auto", path=Path({}))
    return (closer,) if model.local_groups else (*BRIDGES, ImportanceSampling(fallback=False), closer)


def without_proposal() -> tuple[Method, ...]:
    """The methods that need no proposal from variational posteriors."""
    from .parallel_tempering import ParallelTempering

    return (*BRIDGES, ParallelTempering())


def foreseen(method: Any, model: Model, data: Data) -> tuple[Method, ...]:
    """The methods to try before a run, if a short pilot of parallel tempering finds the path long. For small Gaussian
    mixtures only, because for other models a pilot would have to be compiled."""
    from .parallel_tempering import ParallelTempering

    plain = method.reference is None and method.ladder is None and isinstance(data, Data)
    if not plain or not small_tempered.when(model, data):
        return ()
    pilot = run_loop(ParallelTempering(DRAWS, WARMUP), model, data, make_key(0), Progress(False))
    rejection = 1.0 - np.asarray(pilot.history["acceptance"])[WARMUP:].mean(axis=(0, 1))
    return BRIDGES if not (rejection.sum() <= LONG and rejection.max() <= STEEP) else ()
