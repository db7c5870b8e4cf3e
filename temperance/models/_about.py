"""What a model declares about itself: words for its parts, the user's coordinates, and its symmetry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from .._module import Module
from ..cards import card
from ..families._family import Family, family_line

if TYPE_CHECKING:
    from ._data import Data


class Words(NamedTuple):
    """The words for the parts of a model, and how many parts there are.

    `part` and `parts` are the words for one part and for several, and `used` is the phrase for parts that are in use.
    `size` is their number (or the degree of the model), where models differ in it. `axes` names what the axes of each
    block and of the data, "x", count (an array with more axes repeats the last name), and `labels` the members of these
    axes, unless they are 0, 1, 2, …
    """

    part: str = ""
    parts: str = ""
    used: str = "hold data"
    lettered: bool = False  # whether parts are called by letters instead of numbers
    size: int | None = None
    axes: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    labels: Mapping[str, Sequence[Any]] = MappingProxyType({})

    def of(
        self, size: int | None, axes: Mapping[str, tuple[str, ...]], labels: Mapping[str, Sequence[Any]] | None = None
    ) -> Words:
        """These words for a model of this size."""
        return self._replace(size=size, axes=axes, labels=labels or {})

    def label(self, place: int) -> int | str:
        """The label of a part, given its place among the parts in use, the largest first: 1, 2, … or A to Z, A2, …"""
        again, letter = divmod(place, len(ascii_uppercase))
        return f"{ascii_uppercase[letter]}{again + 1 if again else ''}" if self.lettered else place + 1


COMPONENT = Words("component", "components")
GROUP = Words("group", "groups", lettered=True)
TOPIC = Words("topic", "topics", used="are used")
STATE = Words("state", "states", used="are used")
FACTOR = Words("factor", "factors", used="are used")
DEGREE = Words("degree")  # no plural, because a model has one degree

_SINGULAR = {words.parts: words.part for words in (COMPONENT, GROUP, TOPIC, STATE, FACTOR)}


def counted(number: int | str, parts: str) -> str:
    """A number with its noun: 3 components, 1 component; a noun without a plural comes first: degree 2."""
    if parts not in _SINGULAR:
        return f"{parts} {number}"
    return f"{number} {_SINGULAR[parts] if number == 1 else parts}"


def model_card(model: Any) -> str:
    """A description of a model: block by block once data have completed it, and as a graph if it was written as one."""
    draw, words = getattr(model, "_repr_svg_", None), model.words
    prior: Mapping[str, Any] = getattr(model, "prior", {})
    rows = [("block", "prior"), *((name, family_line(block)) for name, block in prior.items())]
    about = [] if prior else ["its priors follow from the data"]
    size = f" of {counted(words.size, words.parts)}" if words.size and words.parts else ""
    steps = ("fit = tp.fit(model, data)", "tp.compare([model, …], data)")
    return card(f"{type(model).__name__}{size}", about, draw() if draw else "", rows if prior else (), steps)


class Units(Module):
    """The coordinates in which a model works, and the maps to the user's and back. In this base both are equal;
    subclasses centre the data or change their units."""

    def to_user(self, blocks: dict[str, Family]) -> dict[str, Family]:
        """The posterior in the user's coordinates."""
        return blocks

    def draws_to_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        return draws

    def draws_from_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        """One draw of all blocks in the model's coordinates."""
        return draws

    def block_from_user(self, name: str, family: Family) -> Family:
        """A family for one block, given as a user gives a prior, in the model's coordinates and with the batch shape of
        the block."""
        return family

    def values_to_user(self, values: Any) -> Any:
        """Simulated data in the user's coordinates."""
        return values

    def log_unit(self, data: Data) -> Float[Array, ""] | float:
        """Σ log of the unit of each number: the gain in log evidence if real data are measured in units of their
        spread.

        Stopping rules compare changes of the bound with its size in these units.
        """
        return 0.0

    @property
    def log_stretch(self) -> Float[Array, ""] | float:
        """log |∂(parameters in the user's coordinates)/∂(in the model's)|, by which their log densities differ."""
        return 0.0


# The symmetry of a model: parts that can change places without any change of the likelihood. It depends on numbers, so
# a model is asked for it only outside compiled functions.


Axes = tuple[tuple[str, tuple[int, ...]], ...]


class Parts(NamedTuple):
    """Parts that can change places.

    `axes` names blocks, global and local, each with the axes of its arrays (of draws and of natural parameters) that
    run over the parts; "block.field" is for a field with other axes than its block. Entries beyond `size` keep their
    places, and an array without the axis is shared by all parts. Along the axes in `signs` the sign of a part is free.
    `complements` are blocks that hold the probability of the second of two parts.
    """

    size: int
    axes: Axes
    alike: bool = True  # whether the prior is equal for every order of the parts, and each order a separate mode
    compared: tuple[str, ...] = ()  # the blocks in which equal parts agree; if empty, all parts that hold data differ
    signs: Axes = ()
    complements: tuple[str, ...] = ()

    def features(self, blocks: dict[str, Any]) -> np.ndarray | None:
        """A row of numbers for each part, which is equal for equal parts; None if parts are not compared."""
        rows = []
        for name in self.compared:
            for path, leaf in jax.tree_util.tree_leaves_with_path(blocks[name]):
                axes = _found(self.axes, name, path)
                if len(axes) == 1 and np.ndim(leaf) > axes[0]:
                    rows.append(np.moveaxis(np.asarray(leaf), axes[0], 0)[: self.size].reshape((self.size, -1)))
        return np.concatenate(rows, axis=1) if rows else None

    def treated_alike(self, blocks: dict[str, Any], rtol: float = 0.0) -> bool:
        """Whether these families (or arrays), such as those of a prior, do not depend on the order of the parts."""
        for name, block in blocks.items():
            for path, leaf in jax.tree_util.tree_leaves_with_path(block):
                axes, array = _found(self.axes, name, path), np.asarray(leaf)
                if axes and array.ndim > max(axes) and not _constant(array, axes, rtol):
                    return False
        return True

    def rearranged(
        self, draws: dict[str, Any], order: Int[Array, " k"], signs: Float[Array, " k"] | None = None
    ) -> dict[str, Any]:
        """A draw with its parts in another order, and then with other signs."""

        def move(name: str, path: Any, leaf: Any) -> Any:
            for axis in _found(self.axes, name, path):
                if leaf.ndim > axis:
                    whole = jnp.concatenate([order, jnp.arange(self.size, leaf.shape[axis])])
                    leaf = jnp.take(leaf, whole, axis=axis)
            for axis in _found(self.signs, name, path) if signs is not None else ():
                assert signs is not None
                whole = jnp.concatenate([signs, jnp.ones(leaf.shape[axis] - self.size)])
                leaf = leaf * jnp.expand_dims(whole, tuple(i for i in range(leaf.ndim) if i != axis))
            if name in self.complements:
                leaf = jnp.where(order[0] == 0, leaf, 1.0 - leaf)
            return leaf

        return {
            name: jax.tree_util.tree_map_with_path(lambda path, leaf, name=name: move(name, path, leaf), block)
            for name, block in draws.items()
        }


class Symmetry(NamedTuple):
    """One or more sets of parts, each of which can be put in any order by itself."""

    parts: tuple[Parts, ...]

    @property
    def alike(self) -> Symmetry | None:
        """The sets of parts that the prior treats alike, or None."""
        found = tuple(part for part in self.parts if part.alike)
        return Symmetry(found) if found else None

    def random_orders(self, key: Key[Array, ""]) -> list[Int[Array, " k"]]:
        """An order of each set of parts, all orders with the same probability."""
        keys = [key, *(jax.random.fold_in(key, number) for number in range(1, len(self.parts)))]
        return [jax.random.permutation(one, parts.size) for one, parts in zip(keys, self.parts, strict=True)]

    def rearranged(self, draws: dict[str, Any], orders: Sequence[Int[Array, " k"]]) -> dict[str, Any]:
        """A draw with the parts of each set in another order."""
        for part, order in zip(self.parts, orders, strict=True):
            draws = part.rearranged(draws, order)
        return draws


def one_set(size: int, axes: Mapping[str, tuple[int, ...]], known: Mapping[str, Any], **fields: Any) -> Symmetry:
    """The symmetry of a model with one set of parts; `known` holds its priors and known numbers over parts, by block.

    A prior that depends on other blocks treats parts alike if those blocks do."""
    parts = Parts(size, tuple(axes.items()), **fields)
    families = {name: block for name, block in known.items() if isinstance(block, Family | jax.Array | np.ndarray)}
    return Symmetry((parts._replace(alike=parts.alike and parts.treated_alike(families)),))


def _found(axes: Axes, name: str, path: Any) -> tuple[int, ...]:
    """The axes of a field, or else of its block."""
    table = dict(axes)
    fields = [key.name for key in path if isinstance(key, jax.tree_util.GetAttrKey)]
    return next((table[f"{name}.{field}"] for field in fields if f"{name}.{field}" in table), table.get(name, ()))


def _constant(array: np.ndarray, axes: tuple[int, ...], rtol: float) -> bool:
    """Whether permuting the entries along an axis, or along two axes together, leaves an array unchanged."""
    if len(axes) == 1:
        return np.allclose(array, array.take([0], axis=axes[0]), rtol=rtol, atol=0.0)
    square = np.moveaxis(array, axes, (0, 1))
    own = np.eye(*square.shape[:2]) > 0.0
    return all(np.allclose(part, part[:1], rtol=rtol, atol=0.0) for part in (square[own], square[~own]))
