"""Discrete latents whose values are exchangeable: every permutation of them is a mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..families import Beta, Dirichlet
from ..models._about import Parts, Symmetry
from ..models._data import Data
from ..models._model import Posterior
from .answers import state_shares
from .spec import Quantity, Spec

if TYPE_CHECKING:
    from .compiled import GraphModel


def graph_symmetry(model: GraphModel) -> Symmetry | None:
    """The symmetry of a graph: permutations of the values of each exchangeable latent. Symmetries between whole parts
    of a graph are not recognised."""
    found = tuple(_parts(model, model.spec[name], plate) for name, plate in exchangeable_latents(model).items())
    return Symmetry(found) if found else None


def _parts(model: GraphModel, q: Quantity, plate: str) -> Parts:
    """The places where the values of a latent occur: along the plate from which it chooses, and in its
    probabilities."""
    spec = model.spec
    axes: dict[str, tuple[int, ...]] = {}
    for other in spec:
        if other.latent and plate in other.plates:
            axes[other.name] = (sorted(other.plates, key=spec.axis).index(plate),)
    compared = tuple(name for name in axes if name in model.prior)
    complements: tuple[str, ...] = ()
    if q.kind == "markov_chain":
        first, then = spec[q.parent("initial")], spec[q.parent("transition")]
        axes[first.name] = (len(first.plates),)
        axes[then.name] = (0, 1) if then.plates else (0,)
    elif q.kind == "bernoulli":
        complements = (q.parent("probability"),)
    else:
        own = spec[q.parent("probabilities")]
        axes[own.name] = (len(own.plates),)
    axes[q.name] = (len(q.plates),)
    return Parts(q.size, tuple(axes.items()), compared=compared, complements=complements)


def exchangeable_latents(model: GraphModel) -> dict[str, str]:
    """The discrete latents of the data whose values are exchangeable, each with the plate that it chooses from."""
    spec, found = model.spec, {}
    plates: dict[str, set[str]] = {}  # the latents that choose from each plate
    for gate in (q for q in spec if q.kind == "gate"):
        plates.setdefault(spec.plate_beyond(gate, "of"), set()).add(gate.parent("index"))
    for plate, latents in plates.items():
        (name, *others) = latents
        if others or not spec[name].latent or not spec.local(spec[name]):
            continue
        if sum(name in chosen for chosen in plates.values()) > 1:
            continue  # it chooses from two plates at once
        if not _own_probabilities(spec, spec[name]):
            continue
        if _alike_before(model, spec[name], plate) and _alike_after(model, spec[name], plate):
            found[name] = plate
    return found


def _own_probabilities(spec: Spec, q: Quantity) -> bool:
    """Whether the probabilities of the latent's values are known numbers, or no other quantity depends on them."""
    own = {name for _, name in q.parents if spec[name].random}
    return not any(name in own for other in spec if other.name != q.name for _, name in other.parents)


def _alike_before(model: GraphModel, q: Quantity, plate: str) -> bool:
    """Whether the latent's prior is the same for every order of its values."""
    spec = model.spec
    if q.kind == "markov_chain":
        initial, transition = (spec[q.parent(argument)] for argument in ("initial", "transition"))
        rows = _probabilities(model, transition)
        if rows is None or not _symmetric(_probabilities(model, initial)):
            return False
        rows = np.broadcast_to(rows, (q.size, q.size))
        diagonal, others = np.diagonal(rows), rows[~np.eye(q.size, dtype=bool)]
        here = set(transition.plates) <= {plate} or len(_users(spec, *transition.plates)) <= 1
        return here and _constant(diagonal) and _constant(others)
    argument = "probability" if q.kind == "bernoulli" else "probabilities"
    return _symmetric(_probabilities(model, spec[q.parent(argument)]))


def _probabilities(model: GraphModel, q: Quantity) -> np.ndarray | None:
    """Numbers that are equal if the values are exchangeable: concentrations, or the probabilities themselves."""
    value = model.constants.get(q.name)
    if isinstance(value, Dirichlet):
        return np.asarray(value.concentration)
    if isinstance(value, Beta):
        return np.stack([np.asarray(value.a), np.asarray(value.b)], axis=-1)
    if q.kind != "constant":
        return None
    array = np.asarray(value)
    return np.stack([array, 1.0 - array], axis=-1) if q.value == "probability" else array


def _symmetric(numbers: np.ndarray | None) -> bool:
    """Whether all entries along the last axis, that of the values, are equal."""
    return numbers is not None and bool(np.allclose(numbers, numbers[..., :1], rtol=1e-12, atol=0.0))


def _constant(numbers: np.ndarray) -> bool:
    return bool(np.allclose(numbers, numbers.flat[0], rtol=1e-12, atol=0.0)) if numbers.size else True


def _alike_after(model: GraphModel, q: Quantity, plate: str) -> bool:
    """Whether all members of the plate are alike in everything on it, and only this latent chooses from the plate."""
    spec = model.spec
    for other in spec:
        if plate not in other.plates:
            continue
        if other.observed or other.kind in ("input", "markov_chain", "gaussian_chain"):
            return False
        if q.kind == "markov_chain" and q.parent("transition") == other.name:
            continue  # handled above
        value = model.constants.get(other.name)
        if value is None:
            continue
        natural = getattr(value, "natural", None)
        batch = len(value.batch_shape) if natural is not None else min(len(other.plates), np.ndim(value))
        plates = sorted(other.plates, key=spec.axis)[len(other.plates) - batch :]
        if plate not in plates:
            continue
        axis = plates.index(plate)
        for leaf in map(np.asarray, jax.tree.leaves(value if natural is None else natural)):
            if not np.allclose(leaf, np.take(leaf, [0], axis=axis), rtol=1e-12, atol=0.0):
                return False
    return True


def _users(spec: Spec, *plates: str) -> list[str]:
    """The random variables on any of these plates."""
    return [q.name for q in spec if q.random and set(plates) & set(q.plates)]


def held(model: GraphModel, q: Posterior, data: Data) -> tuple[np.ndarray, ...]:
    """The expected number of times that each exchangeable latent takes each of its values."""
    names = tuple(exchangeable_latents(model))
    found = _held(model, q, data, names)
    return tuple(np.asarray(found[name]) for name in names)


@eqx.filter_jit
def _held(model: GraphModel, q: Posterior, data: Data, names: tuple[str, ...]) -> dict[str, Array]:
    shares = state_shares(model, q, data.values)
    found = {}
    for name in names:
        each = shares[name].reshape((shares[name].shape[0], -1, shares[name].shape[-1]))
        found[name] = jnp.einsum("n,npk->k", data.weights, each)
    return found
