"""Requirements of Monte Carlo methods on a model and its data."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ...errors import InvalidData, InvalidParameter, NumericalFailure, UnsupportedMethod
from ...families import Point
from ...families._family import Family
from ...models import Data, Model
from ..schedules import as_ladder


def require_distributions(model: Model, method: str) -> Model:
    """Refuse a model with a block at a point (weights="point", EM), which has no distribution to draw from."""
    points = [name for name, prior in model.prior.items() if isinstance(prior, Point)]
    if points:
        raise UnsupportedMethod(
            f"{method} draws every block, but {points[0]!r} of this {type(model).__name__} is a point estimate; "
            "give it a prior distribution, or use tp.VB or tp.EM"
        )
    if model.unconjugate and model.local_groups:  # proposals are accepted by the likelihood, without local blocks
        name = next(iter(model.unconjugate))
        raise UnsupportedMethod(
            f"{method} cannot draw {name!r} of {type(model).__name__}, whose conditional is no known distribution; "
            "use tp.VB()"
        )
    return model


def require_statistics(model: Model) -> None:
    """Refuse a model whose draws have no statistics (the sticks of tp.HDP), before anything is fitted."""
    for prior in model.prior.values():
        if isinstance(prior, Family):
            jax.eval_shape(lambda key, prior=prior: prior.statistics(prior.sample(key)), jax.random.key(0))


def require_unweighted(data: Data, method: str) -> None:
    """Refuse weights other than 0 and 1: a datum of weight 2 stands for two data with two latents, and one draw of a
    latent cannot give both."""
    weights = np.asarray(data.weights)
    if not np.isin(weights, (0.0, 1.0)).all():
        wrong = weights[~np.isin(weights, (0.0, 1.0))][0]
        raise InvalidData(
            f"weights must all be 0 or 1 for {method}, found {wrong:g}; repeat the rows instead, or use tp.VB"
        )


def check_counts(**counts: tuple[Any, int]) -> None:
    """Refuse arguments that are not whole numbers of at least the given size."""
    for name, (value, least) in counts.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InvalidParameter(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_path(method: Any) -> None:
    """Check `widen` and `ladder` of a frozen method; a ladder also says how many `temperatures` there are."""
    if not method.widen >= 1:
        raise InvalidParameter(f"widen must be at least 1, got {method.widen!r}")
    if method.ladder is not None:
        object.__setattr__(method, "ladder", as_ladder(method.ladder))
        object.__setattr__(method, "temperatures", len(method.ladder))


def finite(log_weights: np.ndarray, method: str, way: str) -> np.ndarray:
    """The log weights, unless one of them overflowed."""
    if not np.isfinite(log_weights).all():
        raise NumericalFailure(
            f"{method} met a weight that is not finite on the way {way}: the prior may be so wide that its draws "
            "overflow; give a narrower one, or reference='auto'"
        )
    return log_weights
