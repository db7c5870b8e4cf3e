"""CVB0 for mixtures, chains and graphs with discrete latents: the shares of each label in turn, given all other labels.

With parameters integrated out, r_n ∝ exp of the log probability of datum n under each value of its label, given the
expected statistics of all other data (`inference/collapsed.py`; Asuncion et al., 2009, for topics). The result is a
posterior of the parameters, and its variational bound is the log evidence.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...errors import NumericalFailure
from ...families._family import Family
from ...models import Data, Model, Posterior
from ...models._factors import Factored
from ...models._model import means
from .._method import Info, Method, Result, Run, state_of
from ..collapsed import Shares, begin, one_pass


class Standing(NamedTuple):
    shares: Shares
    blocks: dict[str, Family]
    score: Float[Array, ""]  # log probability of a datum given all others, on average


@dataclasses.dataclass(frozen=True)
class CollapsedShares(Method):
    """The form of `tp.CVB0` for models other than topic models."""

    restarts: int = 1
    max_iter: int = 200
    tol: float = 1e-4

    budget: ClassVar[tuple[str, ...]] = ("restarts", "max_iter")
    row_by_row: ClassVar[bool] = True
    name: ClassVar[str] = "CVB0"

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Standing:
        assert isinstance(model, Factored)
        blocks = model.initial(key, data).blocks
        shares = begin(model, means(blocks), data, soften, key)
        return Standing(shares, _with_shares(model, blocks, shares), jnp.full((), -jnp.inf, dtype=jnp.float64))

    def step(self, key: Key[Array, ""], model: Model, state: Standing, data: Data) -> tuple[Standing, Info]:
        assert isinstance(model, Factored)
        shares, total = one_pass(model, means(state.blocks), data, state.shares, soften, key)
        score = total / jnp.sum(data.weights > 0)
        moved = jnp.max(jnp.abs(shares.labels - state.shares.labels))
        done = (jnp.abs(score - state.score) < self.tol) & (moved < jnp.sqrt(self.tol))
        fresh = Standing(shares, _with_shares(model, state.blocks, shares), score)
        return fresh, {"log_predictive": score, "done": done}

    def result(self, model: Model, data: Data, run: Run) -> Result:
        scores = np.asarray(run.states.score)
        if np.isnan(scores).all():
            raise NumericalFailure(
                "the shares of every restart are NaN, as they are where the data are far from zero beside their "
                "spread; subtract the columns' means, or use tp.VB"
            )
        best = int(np.nanargmax(scores))
        posterior = Posterior(state_of(run.states, best).blocks, {})
        return Result(
            state=posterior,
            log_evidence=float(_bound(model, posterior, data)),
            history={"log_predictive": run.history["log_predictive"][:, best], "restarts": scores},
            converged=bool(run.converged[best]) and not run.interrupted,
        )


def soften(logits: Float[Array, " k"], key: Key[Array, ""]) -> Float[Array, " k"]:
    return jax.nn.softmax(logits)


def _with_shares(model: Factored, blocks: dict[str, Family], shares: Shares) -> dict[str, Family]:
    """The posterior given the shares, then the hyperparameters given that posterior."""
    blocks = dict(blocks)
    blocks |= {name: blocks[name].with_natural(natural) for name, natural in shares.natural.items()}
    for name in (name for name in model.apart if name in model.prior):
        natural: Any = jax.grad(model.log_prior)(means(blocks))[name]
        blocks[name] = blocks[name].with_natural(natural)
    return blocks


@eqx.filter_jit
def _bound(model: Model, posterior: Posterior, data: Data) -> Float[Array, ""]:
    return model.bound(posterior, data)
