"""From a user's call to a run on a cluster: look at all partitions once, complete the model, find a start.

Up to 65,536 rows are brought to the client, where the model is completed and started exactly as in one process. With
more rows, the means and variances of all columns (or the words of all documents) complete the model as in one process,
and the start comes from a sample of that many rows.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from ..data.arrays import is_lazy
from ..data.features import Columns
from ..errors import InvalidData, InvalidParameter, TemperanceError, UnsupportedMethod
from ..inference.progress import Progress
from ..models import Data, Model, Posterior
from ..models._answers import Predicting, require
from ..models._data import make_data
from ..models.factorial import FactorialMixture
from ..models.linear.factor_analysis import FactorAnalysis
from ..models.linear.regression import LinearRegression
from ..models.mixture import Mixture
from ..models.topics import LDA, Vocabulary
from .engine import Session
from .model import Distributed, Numbers, block_rows, sessions
from .partitions import as_partitions, join_rows
from .waiting import connected, require_client, require_dask, threads_of
from .worker import About, join_abouts

if TYPE_CHECKING:
    from ..fit import Fit

_SAMPLE = 2**16  # rows


def begin(
    model: Model, data: Any, method: Any, weights: Any, engine: Any, key: Key[Array, ""]
) -> tuple[Distributed, Data]:
    """The model that the method sees, with its data on the cluster."""
    client, keep = _client(engine, data)
    refused = refusal(method, model, weights)
    if refused is not None:
        raise refused
    documents = isinstance(model, LDA)
    session = Session(client, as_partitions(data, threads_of(client)), documents, keep)
    try:
        with connected(client):
            return _begin(model, method, session, key)
    except BaseException:
        session.close()
        raise


def _begin(model: Model, method: Any, session: Session, key: Key[Array, ""]) -> tuple[Distributed, Data]:
    options = _options(model)
    abouts = session.look(options)
    about = join_abouts(abouts)
    _require_alike(session, abouts, about)
    if isinstance(model, LDA):
        model = _with_words(model, about)
        options = _options(model)
    counts = {number: part.rows for number, part in enumerate(abouts) if part.rows}
    model, sample = _complete(model, session, options, counts, about, key)
    model = method.prepare(model)
    places = np.asarray(sorted(counts), dtype=np.int64)
    rows = np.asarray([counts[place] for place in sorted(counts)], dtype=np.float64)
    wrapped = Distributed(model, sample, rows, places, session.number)
    session.begin(model, counts, about.size, block_rows(sample), wrapped.walks)
    return wrapped, Data(Numbers(jnp.asarray(places)), jnp.asarray(rows), about.rows)


def _complete(
    model: Model, session: Session, options: dict[str, Any], counts: dict[int, int], about: About, key: Key[Array, ""]
) -> tuple[Model, Data]:
    """The model with its scales and sizes, and the sample it starts from."""
    total = about.rows
    if total <= _SAMPLE:
        rows = session.some(options, dict.fromkeys(counts))
        return model.prepare(_as_given(model, join_rows(rows)))
    rng = np.random.default_rng(int(jax.random.bits(key, dtype="uint32")))
    chosen = np.sort(rng.choice(total, size=_SAMPLE, replace=False))
    ends = np.cumsum(list(counts.values()))
    which: dict[int, np.ndarray | None] = {}
    for place, end in zip(counts, ends, strict=True):
        here = chosen[(chosen >= end - counts[place]) & (chosen < end)]
        if len(here):
            which[place] = here - (end - counts[place])
    drawn = _as_given(model, join_rows(session.some(options, which)))
    complete, sample = model.prepare(drawn)
    exact = _from_moments(model, about)
    if exact is not None:
        complete = exact
        sample = make_data(require(complete, Predicting).new_rows(drawn), None, block_rows(sample))
    if isinstance(complete, LDA):
        complete = complete._with(length=max(1, round(about.tokens / total)))
    scaled = sample.weights * (total / sample.size)
    return complete, eqx.tree_at(lambda data: data.weights, sample, scaled)


def _from_moments(model: Model, about: About) -> Model | None:
    """The model completed by two rows with the means and variances of all, if it needs no more than these."""
    deviation = np.sqrt(about.spread / np.maximum(about.count, 1.0))
    two = np.stack([about.mean - deviation, about.mean + deviation])
    if isinstance(model, LinearRegression):
        if not isinstance(model.features, Columns):
            return None
        return model.prepare((two[:, : about.inputs], two[:, about.inputs :]))[0]
    if isinstance(model, FactorAnalysis):
        return model.prepare(two)[0]
    if isinstance(model, FactorialMixture):
        return model.prepare(two.reshape((2, *about.shape)))[0]
    if isinstance(model, Mixture) and model.start.kind != "responsibilities":
        try:
            complete = model.prepare(two)[0]
        except InvalidData:  # whole numbers
            return None
        return complete if complete.shift is not None else None
    return None


def _as_given(model: Model, rows: Any) -> Any:
    return (rows[0], rows[1][:, 0]) if isinstance(rows, tuple) and rows[1].ndim == 2 else rows


def _options(model: Model) -> dict[str, Any]:
    """The options for reading documents."""
    return model.reading if isinstance(model, LDA) else {}


def _with_words(model: LDA, about: About) -> LDA:
    """The model with the vocabulary of all partitions."""
    if about.tokens == 0:
        raise InvalidData(f"all {about.rows} documents are empty")
    if model.vocabulary is not None:
        return model
    if about.words is not None:
        words = tuple(sorted(about.words))
        return model._with(vocabulary=Vocabulary(words), n_words=len(words))
    return model._with(n_words=model.n_words or about.n_words)


def _require_alike(session: Session, abouts: list[About], about: About) -> None:
    if about.rows == 0:
        raise InvalidData(f"all {len(abouts)} partitions are empty")
    shapes = {(part.shape, part.inputs): number for number, part in reversed(list(enumerate(abouts))) if part.rows}
    if len(shapes) > 1:
        (one, first), (other, second) = list(shapes.items())[:2]
        names = [session.partitions[number].name for number in (first, second)]
        raise InvalidData(
            f"all partitions must have rows of one shape, but those of {names[0]} have {one[0]} and those of "
            f"{names[1]} have {other[0]}"
        )


def _client(engine: Any, data: Any) -> tuple[Any, bool | None]:
    if isinstance(engine, Cluster):
        return require_client(engine.client), engine.keep
    if engine is not None:
        return require_client(engine), None
    assert is_lazy(data)
    distributed = require_dask()
    try:
        return distributed.get_client(), None
    except ValueError:
        raise InvalidParameter(
            "data are Dask's, and there is no cluster to fit them on: make a dask.distributed.Client() first, or give "
            "engine="
        ) from None


class Cluster:
    """A client and how to use it: `keep` says whether partitions stay in the workers' memory (None: if there is
    room)."""

    def __init__(self, client: Any, keep: bool | None = None):
        self.client, self.keep = client, keep


def refusal(method: Any, model: Model, weights: Any) -> TemperanceError | None:
    """The error that says why the workers cannot share the rows, or None if they can."""
    from ..inference.variational.annealed import Annealed
    from ..inference.variational.coordinate import VB
    from ..inference.variational.stochastic import SVI
    from ..inference.variational.tempered import VT

    inside = method.method if isinstance(method, Annealed | VT) else method
    if not isinstance(inside, VB | SVI):
        return UnsupportedMethod(
            f"{method.name} needs all rows in one place; on partitions there are tp.VB, tp.SVI, tp.Annealed and tp.VT "
            "(of data in memory the workers share the restarts or chains)"
        )
    if isinstance(method, VT) and (isinstance(model, LDA) or not isinstance(inside, VB)):
        return UnsupportedMethod("on partitions tp.VT is for coordinate ascent, and not for topics; use tp.Annealed")
    if isinstance(inside, VB) and inside.moves:
        return UnsupportedMethod("moves look at single rows: leave out moves or engine")
    if isinstance(inside, SVI) and isinstance(inside.held_out, int | float | np.number):
        return InvalidParameter("with engine held_out must be data, not a share of them")
    if weights is not None:
        return InvalidData("weights cannot be given with partitions: repeat rows, or leave out engine")
    if not model.rows.independent:
        return UnsupportedMethod(f"{type(model).__name__} needs its data in one place: leave out engine")
    return None


@contextlib.contextmanager
def attended(model: Distributed, progress: Progress) -> Iterator[None]:
    """During a run, raises the original exception of a walk; at the end the cluster forgets the run."""
    session = sessions[int(model.session)]
    progress.watch = session.status
    try:
        with connected(session.client):
            yield
    except Exception:
        if session.failure is not None:
            raise session.failure from None
        raise
    finally:
        session.close()


def brought_home(model: Distributed, fit: Fit) -> Fit:
    """The fit of the inner model, with the sample as its data; local blocks stay with their partitions."""
    state = Posterior(fit.state.blocks, {})
    notes = (*model.inner.notes(model.sample), *fit.notes)
    return dataclasses.replace(fit, model=model.inner, data=model.sample, state=state, notes=notes)
