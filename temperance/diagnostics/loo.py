"""Leave-one-out prediction from one fit by Pareto-smoothed importance sampling (PSIS-LOO; Vehtari et al., 2017).

    p(x_n | x_{−n}) = 1 / E[1/p(x_n | θ) | x],

an average over draws with weights 1/p(x_n | θ), whose largest are smoothed. The shape k̂ of the weights' tail says, for
each datum, whether the posterior without the datum is too far away for that.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float
from scipy.special import logsumexp

from ..errors import InvalidData, UnsupportedMethod
from ..models import Data, Model, Posterior
from ..numerics.keys import make_key
from ._arviz import smoothed_weights

if TYPE_CHECKING:
    from ..fit import Fit

TRUSTED = 0.7  # k̂ up to which a datum's estimate can be trusted
_MOST = 4000  # draws


@dataclasses.dataclass(frozen=True)
class LOO:
    """How well a model predicts each datum from all others."""

    elpd: float  # Σ_n log p(x_n | the others), in nats
    standard_error: float  # over data: how much elpd would vary between samples of this size
    pointwise: np.ndarray = dataclasses.field(repr=False)  # (n,)
    khat: np.ndarray = dataclasses.field(repr=False)  # (n,)
    effective_parameters: float  # how much better the data are predicted by a model that has seen them
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        bad = int(np.sum(self.khat > TRUSTED))
        value = f"the expected log predictive density is {self.elpd:.2f} ± {self.standard_error:.2f} nats"
        if not bad:
            return f"{value}, and the Pareto shape of every datum is at most {TRUSTED}" + (
                "" if self.notes else ": trust it"
            )
        verb, without = ("has", "it") if bad == 1 else ("have", "them")
        return (
            f"{value}, but {bad} of {len(self.khat)} data {verb} a Pareto shape above {TRUSTED}: the posterior changes "
            f"too much without {without} to be predicted from this fit"
        )

    def __str__(self) -> str:
        return "; ".join([self.sentence, *self.notes])


def loo(fit: Fit, seed: int = 0) -> LOO:
    """See `Fit.loo`."""
    model, data = fit.model, fit.data
    if model.local_groups or not model.rows.independent:
        why = "cannot be summed out" if model.local_groups else "depend on their neighbours"
        raise UnsupportedMethod(
            f"loo needs the likelihood of each datum given the parameters, but the latents of {type(model).__name__} "
            f"{why}; compare such models by their evidence, or by fit.log_predictive of held-out data"
        )
    weights = np.asarray(data.weights)
    if not np.isin(weights, (0.0, 1.0)).all():
        raise InvalidData("weights must all be 0 or 1 for loo, which leaves out one datum at a time; repeat the rows")
    blocks, log_weights, notes = _draws(fit, seed)
    each = np.asarray(_log_likelihoods(model, blocks, data))[:, weights > 0]  # (draw, datum)
    kept = np.isfinite(log_weights) & np.isfinite(each).all(axis=1)
    each, log_weights = each[kept], log_weights[kept]
    smoothed, khat = smoothed_weights(log_weights[:, None] - each)
    pointwise = logsumexp(smoothed + each, axis=0)
    seen = logsumexp(log_weights[:, None] + each, axis=0) - logsumexp(log_weights)
    n = len(pointwise)
    error = float(np.sqrt(n) * np.std(pointwise, ddof=1)) if n > 1 else float("nan")
    elpd = float(pointwise.sum())
    return LOO(elpd, error, pointwise, khat, float(seen.sum()) - elpd, notes)


def _draws(fit: Fit, seed: int) -> tuple[dict[str, Any], np.ndarray, tuple[str, ...]]:
    """Draws from the posterior (leading axis), their log weights, and notes for the reader."""
    if not isinstance(fit.state, Posterior):
        blocks, log_weights = fit.state.thinned(_MOST).flat()
        return blocks, np.asarray(log_weights), ()
    from ..inference.monte_carlo.importance import ImportanceSampling
    from ..inference.progress import Progress
    from ..inference.run import run

    method = ImportanceSampling(draws=_MOST, proposal=fit)
    model = method.prepare(fit.model)
    complete = method.complete(model, fit.data)
    found = complete.result(model, fit.data, run(complete, model, fit.data, make_key(seed), Progress(False)))
    blocks, log_weights = found.state.flat()
    if found.converged:
        return blocks, np.asarray(log_weights), ()
    note = (
        f"the posterior of {fit.method.name} could not be corrected by importance weights, so this predicts with draws "
        "of the approximation itself"
    )
    keys = jax.random.split(make_key(seed), _MOST)
    draws = {
        name: jax.vmap(family.sample)(jax.vmap(lambda key, index=index: jax.random.fold_in(key, index))(keys))
        for index, (name, family) in enumerate(fit.state.blocks.items())
    }
    return draws, np.full(_MOST, -np.log(_MOST)), (note,)


@eqx.filter_jit
def _log_likelihoods(model: Model, blocks: dict[str, Any], data: Data) -> Float[Array, "draw n"]:
    return jax.lax.map(lambda draw: model.log_evidence(model.statistics(draw), data.values), blocks, batch_size=16)
