"""Draws in the form of ArviZ: posterior, sample statistics, log likelihood and posterior predictive."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import whole
from ..errors import InvalidParameter, UnsupportedMethod
from ..families import Point
from ..inference.monte_carlo.draws import Draws
from ..models import Data, Model, Posterior
from ..models._answers import Regressing
from ..models._blocks import draw_posterior
from ._arviz import gathered

if TYPE_CHECKING:
    from ..fit import Fit

_MOST = 1000  # draws for which log likelihoods and new data are computed
_CHAINS = 4  # chains into which independent draws are cut, because diagnostics compare chains


def to_arviz(fit: Fit, log_likelihood: bool = True, predictive: bool = True, draws: int = 1000) -> Any:
    """See `Fit.to_arviz`."""
    drawn = fit.state.equally_weighted() if isinstance(fit.state, Draws) else _independent(fit, draws)
    groups: dict[str, dict[str, np.ndarray]] = {"posterior": _named(fit.model.units.draws_to_user(drawn.blocks))}
    statistics = {name: np.swapaxes(values, 0, 1) for name, values in fit.history.items() if _fits(values, drawn.shape)}
    if statistics and isinstance(fit.state, Draws):
        # ArviZ calls the log of the joint density lp.
        groups["sample_stats"] = {{"log_joint": "lp"}.get(name, name): values for name, values in statistics.items()}
    few = drawn.thinned(_MOST)
    if log_likelihood and not fit.model.local_groups:
        each = np.asarray(_log_likelihoods(fit.model, few.blocks, fit.data))
        groups["log_likelihood"] = {"x": each[..., : fit.data.size]}
    if predictive and not isinstance(fit.model, Regressing) and not fit.model.local_groups:
        with contextlib.suppress(InvalidParameter):  # multinomial counts whose totals are not given
            groups["posterior_predictive"] = _replicates(fit, few)
    return gathered({name: _dataset(fit.model, name, arrays) for name, arrays in groups.items()})


def _independent(fit: Fit, draws: int) -> Draws:
    """Independent draws from a posterior that consists of families."""
    if not isinstance(fit.state, Posterior) or any(isinstance(block, Point) for block in fit.state.blocks.values()):
        raise UnsupportedMethod(f"{fit.method.name} gives points, of which there are no draws; use tp.VB or tp.Gibbs")
    whole(_CHAINS)("draws", draws)
    keys = jax.random.split(jax.random.key(0), (_CHAINS, int(draws) // _CHAINS))
    return Draws(_drawn(keys, fit.state))


@eqx.filter_jit
def _drawn(keys: Any, q: Posterior) -> dict[str, Any]:
    return jax.vmap(jax.vmap(lambda key: draw_posterior(key, q)))(keys)


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
        # The values before rounding are of no use to a reader.
        named |= {f"{block}_{name}": np.asarray(item) for name, item in fields.items() if name != "before"}
    return named


# ---- names of dimensions ------------------------------------------------------------------------------------


def _dataset(model: Model, group: str, arrays: Mapping[str, np.ndarray]) -> Any:
    """An `xarray.Dataset` whose dimensions have the model's words for them."""
    import xarray

    sizes: dict[str, int] = {}
    variables = {}
    for name, values in arrays.items():
        dims = _dimensions(_words(model, group, name), values.shape[2:], name, sizes)
        variables[name] = (("chain", "draw", *dims), values)
    coords: dict[str, Any] = {"chain": np.arange(values.shape[0]), "draw": np.arange(values.shape[1])}
    for dim, size in sizes.items():
        labels = model.words.labels.get(dim.split("__")[0].removesuffix("_2"), ())
        coords[dim] = list(labels) if len(labels) == size else np.arange(size)
    return xarray.Dataset(variables, coords, {"inference_library": "temperance"})


def _words(model: Model, group: str, name: str) -> tuple[str, ...]:
    """The words for the axes of an array of this group."""
    axes = model.words.axes
    if group == "sample_stats":
        return ()
    if group == "log_likelihood":
        return axes.get("x", ("datum",))[:1]
    if group == "posterior_predictive":
        return axes.get(name, ("datum", "feature"))[1:]  # of one datum
    block = next((block for block in sorted(axes, key=len, reverse=True) if name.startswith(block)), "")
    return axes.get(block, ())


def _dimensions(words: tuple[str, ...], shape: tuple[int, ...], name: str, sizes: dict[str, int]) -> list[str]:
    """A name for each axis: distinct in one array, and of one size in all of them (which are added to `sizes`)."""
    found: list[str] = []
    for place, size in enumerate(shape):
        word = words[place] if place < len(words) else (words[-1] if words else f"{name}_axis")
        options = [word, *(f"{word}_{number}" for number in range(2, 9))]
        options += [f"{option}__{name}" for option in options]
        dim = next(option for option in options if option not in found and sizes.get(option, size) == size)
        sizes[dim] = size
        found.append(dim)
    return found


# ---- log likelihoods and new data -----------------------------------------------------------------------------


@eqx.filter_jit
def _log_likelihoods(model: Model, blocks: dict[str, Any], data: Data) -> Float[Array, "chain draw n"]:
    def one(draw: dict[str, Any]) -> Float[Array, " n"]:
        return model.log_evidence(model.statistics(draw), data.values)

    return jax.lax.map(lambda chain: jax.lax.map(one, chain, batch_size=16), blocks)


def _replicates(fit: Fit, draws: Draws) -> dict[str, np.ndarray]:
    """One new datum for every draw, in the user's coordinates; for a graph, one of each observed variable."""
    blocks = fit.model.units.draws_to_user(jax.tree.map(jnp.asarray, draws.blocks))
    keys = jax.random.split(jax.random.key(0), draws.shape)
    rows = _simulated(fit.model, keys, blocks)
    if not fit.model.rows.independent:
        return {"x": np.asarray(rows.x)[:, :, 0]}
    found = fit.model.units.values_to_user(jax.tree.map(lambda leaf: np.asarray(leaf)[:, :, 0], rows))
    return found if isinstance(found, dict) else {"x": found}


@eqx.filter_jit
def _simulated(model: Model, keys: Any, blocks: dict[str, Any]) -> Any:
    return jax.vmap(jax.vmap(lambda key, draw: model.simulate(key, draw, 1)))(keys, blocks)
