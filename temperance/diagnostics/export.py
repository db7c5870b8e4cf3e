"""Draws as ArviZ knows them: posterior, sample statistics, log likelihood and posterior predictive."""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..errors import UnsupportedMethod
from ..models import Data, Model, Posterior
from ..models._answers import Regressing

if TYPE_CHECKING:
    from ..fit import Fit

_MOST = 1000  # draws for which log likelihoods and new data are worked out


def to_arviz(fit: Fit, log_likelihood: bool = True, predictive: bool = True) -> Any:
    """See `Fit.to_arviz`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its successor when it is imported
        import arviz

    if isinstance(fit.state, Posterior):
        raise UnsupportedMethod(
            f"{fit.method.name} has families as its posterior and no draws to export; use a method that draws, "
            "such as tp.Gibbs"
        )
    draws = fit.state.equally_weighted()
    groups: dict[str, Any] = {"posterior": _named(fit.posterior)}
    statistics = {name: np.swapaxes(values, 0, 1) for name, values in fit.history.items() if _fits(values, draws.shape)}
    if statistics:
        # ArviZ calls the log of the joint density lp.
        groups["sample_stats"] = {{"log_joint": "lp"}.get(name, name): values for name, values in statistics.items()}
    few = draws.thinned(_MOST)
    if log_likelihood and not fit.model.local_groups:
        each = np.asarray(_log_likelihoods(fit.model, few.blocks, fit.data))
        groups["log_likelihood"] = {"x": each[..., : fit.data.size]}
    if predictive and not isinstance(fit.model, Regressing) and not fit.model.local_groups:
        groups["posterior_predictive"] = {"x": _replicates(fit, few)}
    return arviz.from_dict(**groups)


def _fits(values: Any, shape: tuple[int, int]) -> bool:
    return isinstance(values, np.ndarray) and values.ndim == 2 and values.shape == shape[::-1]


def _named(blocks: dict[str, Any]) -> dict[str, np.ndarray]:
    """Every array of the draws, by block and field."""
    named: dict[str, np.ndarray] = {}
    for block, value in blocks.items():
        if isinstance(value, dict):
            fields = value
        elif hasattr(value, "_asdict"):
            fields = value._asdict()
        elif dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        else:
            named[block] = np.asarray(value)
            continue
        # What a draw was before rounding is of no use to a reader.
        named |= {f"{block}_{name}": np.asarray(item) for name, item in fields.items() if name != "before"}
    return named


@eqx.filter_jit
def _log_likelihoods(model: Model, blocks: dict[str, Any], data: Data) -> Float[Array, "chain draw n"]:
    def one(draw: dict[str, Any]) -> Float[Array, " n"]:
        return model.log_evidence(model.statistics(draw), data.values)

    return jax.lax.map(lambda chain: jax.lax.map(one, chain, batch_size=16), blocks)


def _replicates(fit: Fit, draws: Any) -> np.ndarray:
    """One new datum for every draw, in the user's coordinates."""
    blocks = fit.model.draws_to_user(jax.tree.map(jnp.asarray, draws.blocks))
    keys = jax.random.split(jax.random.key(0), draws.shape)
    simulate = jax.vmap(jax.vmap(lambda key, draw: fit.model.simulate(key, draw, 1)))
    rows = eqx.filter_jit(simulate)(keys, blocks)
    return np.asarray(rows if fit.model.independent_rows else rows.x)[:, :, 0]
