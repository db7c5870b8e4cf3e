"""Does a proposal cover the posterior? Its weights cannot tell, because a mode that it misses has no draw.

Gibbs chains from random starts are independent of the proposal. Where the posterior's density is many times the
proposal's, chains should be as often as the weights say, but not more often. Chains do not spend the right share of
time in each mode, so this test can refute a proposal but never correct it.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Key

from ...models import Data, Model
from ...numerics.host import softmax
from .proposal import Proposal
from .visited import chains, draws_of

TIMES = np.log(20.0)  # log ratio of the posterior's to the proposal's density from which a place is not covered
SHARE = 0.05  # excess share of the chains' draws in such places over that expected from the weights


def uncovered(
    key: Key[Array, ""],
    model: Model,
    data: Data,
    proposal: Proposal,
    log_weights: np.ndarray,
    log_evidence: float,
) -> str:
    """A sentence on what the chains have found, empty if the proposal covers it."""
    run = chains(key, model, data)
    if run is None:
        return "no Gibbs chains could look for what the proposal misses"
    found = np.asarray(_log_weights(proposal, model, draws_of(run), data))
    share = float(np.mean(found > log_evidence + TIMES))
    expected = float(softmax(log_weights, 0) @ (log_weights > log_evidence + TIMES))
    if not share > expected + SHARE:
        return ""
    return (
        f"Gibbs chains from random starts are {share:.0%} of their time where the proposal has less than a twentieth "
        "of the posterior's density: it misses a part of the posterior"
    )


@eqx.filter_jit
def _log_weights(proposal: Proposal, model: Model, draws: Any, data: Data) -> Float[Array, " n"]:
    return jax.vmap(lambda one: model.log_joint(one, data) - proposal.log_prob(model, one))(draws)
