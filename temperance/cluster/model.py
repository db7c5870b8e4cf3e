"""A model whose data are on a cluster: the model as it is, except that walks over the data run on the workers.

The loop and all arithmetic on globals stay in the client's process. A *row* of its `Data` is a partition: its value
is the partition's number, its weight the number of data in it. So minibatches of rows are minibatches of partitions,
and the local blocks of a row are those of a partition. They stay on the cluster; the loop carries only their version.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ..errors import UnsupportedMethod
from ..kernels import engine
from ..models import Data, Each, Model, Posterior, Way
from ..models._about import Units
from ..models._answers import Predicting, Restarting
from ..models._blocks import is_cold
from ..models._data import RowAccess, Stochastic, make_data
from ..models._derive import OwnLocals
from ..models._model import Means, Walked, Wrapped
from .worker import answer

FRESH = -1  # the version of local blocks that do not exist yet

sessions: dict[int, Any] = {}  # sessions by number, so that another run with the same shapes needs no compilation


class Numbers(eqx.Module):
    """The numbers of partitions, and of the partitions that the next walk will use."""

    here: Int[Array, " p"]
    ahead: Int[Array, " a"] | None = None


class Versions(eqx.Module):
    """Stands for local blocks: the version, among those kept on the cluster, that belongs to each partition."""

    version: Int[Array, " p"]

    def __getitem__(self, index: Any) -> Self:
        return type(self)(self.version[index])


class Question(NamedTuple):
    """The arguments of a callback that are not arrays."""

    energy: bool
    steps: int
    cold: bool
    keep: bool
    structure: Any  # of the statistics
    shapes: tuple[tuple[tuple[int, ...], Any], ...]  # of the sums


class Distributed(Wrapped, Predicting, Restarting, OwnLocals):
    """`inner` with its data on the cluster; `sample` holds some rows, weighted so that they represent all rows."""

    inner: Model
    sample: Data
    counts: Float[Array, " p"]  # the number of rows of each partition that is not empty
    places: Int[Array, " p"]  # the numbers of these partitions
    session: Int[Array, ""]

    def __init__(self, inner: Model, sample: Data, counts: Any, places: Any, session: int):
        self.inner, self.sample = inner, sample
        self.counts, self.places, self.session = jnp.asarray(counts), jnp.asarray(places), jnp.asarray(session)

    def _rows_of(self, numbers: Int[Array, " p"]) -> Float[Array, " p"]:
        return self.counts[jnp.searchsorted(self.places, numbers)]

    def kind_of_restart(self, number: int, data: Data) -> str | None:
        """The kind of start, decided as in one process by the rows of the sample, not by the number of partitions."""
        return self.inner.kind_of_restart(number, self.sample) if isinstance(self.inner, Restarting) else None

    def starting(self, kind: str) -> Self:
        return eqx.tree_at(lambda model: model.inner, self, self.inner.starting(kind))  # type: ignore[attr-defined]

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        return self.inner.log_predictive(q, x)  # type: ignore[attr-defined]

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        return self.inner.sample_predictive(key, q, n)  # type: ignore[attr-defined]

    def new_rows(self, data: Any) -> Any:
        return self.inner.new_rows(data)  # type: ignore[attr-defined]

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """The model's start from the sample, which holds all data if they are few."""
        blocks = self.inner.initial(key, self.sample).blocks
        fresh: dict[str, Any] = {"cluster": Versions(jnp.full(data.weights.shape, FRESH))}
        return Posterior(blocks, fresh if self.inner.local_groups else {})

    def start_local(self, m: Means, x: Any) -> dict[str, Any]:
        """Local blocks of a minibatch start afresh, and are kept only if the sweep walks over it again."""
        if not self.inner.local_groups or self.walks == 1:
            return {}
        return {"cluster": Versions(jnp.full(x.here.shape, FRESH))}

    @property
    def walks(self) -> int:
        """The number of walks over the data in a sweep."""
        count = 0
        for number, group in enumerate(self.groups):
            if isinstance(group, Each):
                count += int(np.prod(self.prior[group.block].batch_shape[group.axis]))  # type: ignore[union-attr]
            elif number == 0 or not set(group) <= set(self.apart):
                count += 1
        return max(1, count)

    @property
    def units(self) -> Units:
        return OfSample(self)

    @property
    def rows(self) -> RowAccess:
        return Partitions(self)


class OfSample(Units):
    """The units of the inner model. The weights of the sample represent all data."""

    model: Distributed

    def log_unit(self, data: Data) -> Float[Array, ""] | float:
        return self.model.inner.units.log_unit(self.model.sample)

    @property
    def log_stretch(self) -> Float[Array, ""] | float:
        return self.model.inner.units.log_stretch


class Partitions(RowAccess):
    """Access to rows that are partitions: a minibatch is a partition."""

    independent: ClassVar[bool] = False

    @property
    def stochastic(self) -> Stochastic:  # type: ignore[override]
        return self.model.inner.rows.stochastic._replace(batch_size=1)

    def parts(self, data: Data) -> int:
        return data.weights.shape[0]

    def minibatch(
        self, data: Data, chosen: Int[Array, " b"], stands_for: Float[Array, ""], ahead: Int[Array, " b"]
    ) -> Data:
        """The chosen partitions, weighted so that they represent all; the partitions `ahead` are read meanwhile."""
        weights = data.weights[chosen]
        numbers = Numbers(data.values.here[chosen], data.values.here[ahead])
        return Data(numbers, weights * (stands_for / jnp.sum(weights)), chosen.shape[0])

    def at_hand(self, data: Data) -> tuple[Model, Data]:
        return self.model.inner, self.model.sample

    def piece(self, data: Any, run: int | None = None, size: int | None = None) -> Data:
        """Held-out data, in the client's memory."""
        return make_data(self.model.new_rows(data), None, block_rows(self.model.sample))


def block_rows(data: Data) -> int:
    return max(1, data.weights.shape[0] // data.blocks)


@engine("Distributed", name="cluster", when=lambda *_: True, by_euler=False, always=True)
def walk(model: Distributed, m: Means, data: Data, way: Way = Way(), local: Any = None) -> Walked:
    """The worker that holds a partition walks over it, for all restarts in one round."""
    if any(jnp.ndim(power) for power in way.powers):
        raise UnsupportedMethod("a temperature for each datum needs the data in one place; leave out engine")
    cold = not way.energy and is_cold(way.powers)
    both = jnp.stack([jnp.asarray(power, jnp.float64) for power in way.powers])

    def sums(m: Means, sample: Data, powers: Any) -> Any:
        return answer(way.energy, model.inner, m, sample, None if cold else powers, {}, way.local_steps)[0]

    like = jax.eval_shape(sums, m, model.sample, both)
    leaves, structure = jax.tree.flatten(m)
    kept = local["cluster"].version if local else jnp.full(data.weights.shape, FRESH)
    shapes = tuple((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(like))
    question = Question(way.energy, int(way.local_steps), cold, bool(local), structure, shapes)
    values = data.values
    ahead = values.here[:0] if values.ahead is None else values.ahead
    results = (
        tuple(jax.ShapeDtypeStruct(shape, kind) for shape, kind in shapes),
        jax.ShapeDtypeStruct(kept.shape, jnp.int64),
    )
    given = (model.session, values.here, data.weights / model._rows_of(values.here), ahead, kept, both, leaves)
    found, version = jax.pure_callback(functools.partial(_answer, question), results, *given, vmap_method="expand_dims")
    value, messages, *energy = jax.tree.unflatten(jax.tree.structure(like), found)
    fresh: Any = {"cluster": Versions(version)} if local else {}
    return Walked(value, messages, energy[0] if energy else None, fresh)


def _answer(question: Question, *given: Any) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The callback of a walk. It must not use JAX: JAX may need the thread that is waiting for this callback."""
    session, *rest, leaves = given
    lead = np.asarray(session).ndim
    arrays = [np.asarray(array) for array in (session, *rest, *leaves)]
    restarts = np.broadcast_shapes(*(array.shape[:lead] for array in arrays))
    count = int(np.prod(restarts))
    flat = [np.broadcast_to(a, (*restarts, *a.shape[lead:])).reshape((count, *a.shape[lead:])) for a in arrays]
    numbers, scales, ahead, versions, powers = flat[1:6]
    m = jax.tree.unflatten(question.structure, flat[6:])
    sums, fresh = sessions[int(flat[0][0])].walk(question, numbers, scales, ahead, versions, powers, m)
    shaped = tuple(
        np.asarray(total, kind).reshape((*restarts, *shape))
        for total, (shape, kind) in zip(sums, question.shapes, strict=True)
    )
    return shaped, fresh.reshape((*restarts, *fresh.shape[1:]))
