"""The start of the path to the posterior: the prior, narrowed or not, a fitted posterior (given, or found by restarts
of VB: "auto"), or a few data points.

The evidence is the same from every start, but the wider the prior, the longer the path: a wide prior puts almost all
of its mass where the data are impossible (thesis 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ...errors import InvalidParameter, NumericalFailure, UnsupportedMethod
from ...families._family import Family
from ...families.normal_wishart import as_drawn
from ...models import Data, Model
from ...models._about import Symmetry
from .._method import state_of
from .draws import Draws
from .path import Path
from .pinned import pin
from .witness import STARTS, search

Reference = Any  # None, "auto", "narrowed", "prior", {block: Family}, a fit, or a list of row numbers


def as_path(reference: Reference, widen: float, model: Model, data: Data) -> Path:
    """The path that `reference` stands for, in the model's own coordinates."""
    if reference is None or (isinstance(reference, str) and reference == "prior"):
        return Path({})
    if isinstance(reference, str) and reference == "narrowed":
        return Path(_narrowed(model, data))
    if isinstance(reference, str) and reference == "auto":
        return _found(widen, model, data)
    posterior = getattr(reference, "posterior", reference)
    if isinstance(posterior, dict):
        blocks = {name: _member(model, name, family) for name, family in posterior.items()}
        if posterior is not reference:  # the reference is a fit, which is widened towards the prior
            blocks = widened(model, blocks, widen)
        return Path(blocks, move_labels=_told_apart(model, blocks))
    if isinstance(reference, Sequence | np.ndarray) and not isinstance(reference, str):
        return Path({}, pin(model, data, tuple(reference)))
    raise InvalidParameter(
        'reference must be "auto", "narrowed", "prior", a dict of families by block, a fit of tp.VB or tp.EP, or a '
        f"list of rows, got {reference!r}"
    )


def _found(widen: float, model: Model, data: Data) -> Path:
    """The path from the widened posterior of the restart of VB with the highest bound, or from the prior if VB finds
    none.

    A block whose prior depends on another block keeps that prior, given the other block's surrogate.
    """
    try:
        done = search(model, data, STARTS)
    except (NumericalFailure, UnsupportedMethod):
        return Path({})
    bounds = np.where(np.isfinite(done.bounds), done.bounds, -np.inf)
    best = state_of(done.states, int(np.argmax(bounds))).blocks
    if not np.isfinite(bounds).any():
        return Path({})
    blocks = {name: best[name] for name, p in model.prior.items() if isinstance(p, Family)}
    blocks = widened(model, blocks, widen)
    return Path(blocks, move_labels=_told_apart(model, blocks))


def widened(model: Model, blocks: dict[str, Family], widen: float) -> dict[str, Family]:
    """The blocks with natural parameters moved towards the prior's; a block whose prior depends on another block stays
    unchanged."""
    return {
        name: p.mix(q, 1.0 / widen) if isinstance(p := model.prior[name], Family) else q for name, q in blocks.items()
    }


def _told_apart(model: Model, blocks: dict[str, Family]) -> Symmetry | Literal[False]:
    """The symmetry of a model whose prior treats its parts alike while these blocks do not; else False."""
    symmetry = model.symmetry and model.symmetry.alike
    if symmetry is None or all(parts.treated_alike(blocks) for parts in symmetry.parts):
        return False
    return symmetry


def inside(model: Model, posterior: Any, data: Data) -> dict[str, Any]:
    """Draws of the posterior (leading axis) in the model's own coordinates."""
    state = getattr(posterior, "state", None)
    if isinstance(state, Draws):
        if not eqx.tree_equal(posterior.data.values, data.values):
            raise InvalidParameter("posterior must be a fit of the same data")
        return state.equally_weighted().flat()[0]
    if isinstance(posterior, dict) and set(posterior) == set(model.prior):
        drawn = {name: as_drawn(draw) for name, draw in model.units.draws_from_user(posterior).items()}
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], drawn)
    raise InvalidParameter(
        "posterior must be a fit by a method that draws, such as tp.ParallelTempering, or the draw that the data were "
        f"simulated with (a dict of {', '.join(map(repr, model.prior))}), got {posterior!r}"
    )


@eqx.filter_jit
def _narrowed(model: Model, data: Data) -> dict[str, Family]:
    """The prior plus the average statistics of one datum: centred on the data, and as wide as the data are.

    The path from here to broad components is short. To a tight cluster far from the centre it is long: this start makes
    such a cluster very improbable, so it appears abruptly, close to β = 1 (galaxy, two components).
    """
    prior = {name: p for name, p in model.prior.items() if isinstance(p, Family)}
    if len(prior) < len(model.prior):
        # A hierarchical prior stays unchanged, because its expectation depends on draws of its parents.
        return {}
    messages = model.walk({name: p.mean() for name, p in prior.items()}, data).messages
    return {name: p + messages[name] / data.total_weight for name, p in prior.items()}


def _member(model: Model, name: str, family: Any) -> Family:
    """A surrogate for one block, checked against the prior it replaces."""
    prior = model.prior.get(name)
    if not isinstance(prior, Family):
        accepted = ", ".join(repr(block) for block, p in model.prior.items() if isinstance(p, Family))
        raise InvalidParameter(f"reference has a block {name!r}; the blocks that can be replaced are {accepted}")
    if not isinstance(family, Family):
        raise UnsupportedMethod(
            f"reference[{name!r}] must be a family such as {type(prior).__name__}, got {type(family).__name__}"
        )
    family = model.units.block_from_user(name, family)
    structures: set[Any] = {jax.tree.structure(family), jax.tree.structure(prior)}
    if len(structures) > 1 or not eqx.tree_equal(*(jax.tree.map(np.shape, tree) for tree in (family, prior))):
        raise InvalidParameter(
            f"reference[{name!r}] must be of the prior's form, {type(prior).__name__} with batch shape "
            f"{prior.batch_shape}, got {type(family).__name__} with {family.batch_shape}"
        )
    return family
