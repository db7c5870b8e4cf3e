"""`fit`: a model, data and a method in; a posterior with its evidence out."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Key

from . import storage
from ._arguments import given, whole
from ._saved import check_fit
from .cards import Card
from .data.arrays import is_lazy
from .data.grouping import group_values
from .data.memory import require_memory
from .data.schema import Schema
from .data.tables import in_order, schema_of
from .errors import DamagedFile, InvalidParameter, UnsupportedMethod
from .evidence.multiplicity import log_multiplicity
from .fitting import as_key, fit_arrays, prepare
from .inference._method import Method
from .inference.checkpoint import checkpoint_of
from .inference.progress import Progress, as_progress
from .members import Members
from .models import Data, Model, Posterior
from .models._answers import (
    Decoding,
    Decomposing,
    Explaining,
    Imputing,
    Labelled,
    Predicting,
    Reconstructing,
    Regressing,
    Sequential,
    Smoothing,
    Topical,
    Transforming,
    as_table,
    require,
)
from .numerics.keys import fold_in
from .programs import ready
from .rowwise import rowwise
from .summary import Summary, fit_card, in_one_line, summarise, with_names

if TYPE_CHECKING:
    from pandas import DataFrame

    from .diagnostics.loo import LOO
    from .inference.monte_carlo.effects import Effects
    from .models.topics.report import TopicsBy

_ENGINES = ("auto", "plain")


@dataclasses.dataclass(frozen=True)
class Fit(Members, Card):
    """The result of a method on a model: posterior, evidence, history, and what follows from them.

    `x_new` is new data in the form of the fitted data, and `inputs` are new rows X of a regression. `documents` are by
    default the fitted ones. `n` is the number of results wanted, `level` the probability that an interval holds. The
    same `seed` (a whole number) or `key` (of JAX) gives the same draws.
    """

    model: Model  # with the prior that was used
    method: Method  # as given
    log_evidence: float | None  # in nats, every constant kept; None where the method estimates none
    history: dict[str, np.ndarray]  # an array for each quantity, with one entry per step of the best run
    converged: bool  # whether the best run reached its tolerance
    seconds: float  # that the runs took
    seed: Any  # as given
    state: Any = dataclasses.field(repr=False)  # of the best run, in the model's coordinates
    data: Data = dataclasses.field(repr=False)  # as the model prepared them
    bracket: tuple[float, float] | None = None  # two ends that enclose the log evidence; None if it was withheld
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)  # what only this method reports
    notes: tuple[str, ...] = ()  # sentences to read before the numbers
    interrupted: bool = False  # by Ctrl-C: a result, but of a run cut short
    schema: Schema | None = None  # of the columns, where the data were a table or a frame

    @property
    def posterior(self) -> dict[str, Any]:
        """The posterior of the global blocks (families, or draws), in the user's coordinates."""
        ready()
        if not isinstance(self.state, Posterior):
            return self.model.units.draws_to_user(self.state.equally_weighted().blocks)
        return self.model.units.to_user(self.state.blocks)

    @property
    def corrected_log_evidence(self) -> float:
        """The log evidence with a second-order correction, after message passing (`tp.EP()`); computed on
        demand, in time that grows with the square of the number of data."""
        return self.corrected(2)

    def corrected(self, order: int = 2) -> float:
        """The log evidence with a correction of this `order`, 2 or 3. The third takes time that grows with the cube of
        the number of data, is exact with three data, and is for small problems without chains."""
        if order not in (2, 3):
            raise InvalidParameter(f"order must be 2 or 3, got {order!r}")
        return self.method.corrected_log_evidence(self.model, self.data, self.state, self.details, order)

    @property
    def label_correction(self) -> float:
        """The log of the number of ways to number the parts of the solution, which a method that sees one of them
        leaves out of its evidence; 0 where the method visits all of them."""
        if "log_labellings" in self.details:
            return float(self.details["log_labellings"])
        return log_multiplicity(self.model, self._families(), self.data) if self.method.one_mode else 0.0

    @property
    def standard_error(self) -> float | None:
        """The Monte Carlo error of `log_evidence`, for methods that draw."""
        return self.details.get("standard_error")

    def log_predictive(self, x_new: Any) -> np.ndarray:
        """The log density of each new datum, averaged over the posterior; a lazy array for Dask data."""
        require(self.model, Predicting)
        return self._rowwise("log_predictive", x_new)

    def responsibilities(self, x_new: Any) -> np.ndarray:
        """The probability of each component for each datum, in the order of `posterior` (`membership` has the largest
        first); a lazy array for Dask data."""
        require(self.model, Labelled)
        return self._rowwise("responsibilities", x_new, self._with_labels())

    @property
    def components(self) -> np.ndarray:
        """The expected factors in the shape of a datum, for models such as a factorial mixture."""
        return np.asarray(require(self.model, Decomposing).components(self._families()))

    def topics(self, n_words: int = 10, relevance: float = 1.0) -> list[list[tuple[str | int, float]]]:
        """`n_words` words of each topic with their probabilities, for models such as LDA: the most probable ones, or
        with a `relevance` below 1 (0.6 is usual) those that distinguish it from other topics. Topics are in the order
        of `posterior`, as are the columns of `transform`; topic 1 of tables, pictures and files is `fit.order[0]`."""
        return require(self.model, Topical).topics(self._families(), n_words, relevance)

    def typical(self, topic: int, n: int = 5, documents: Any = None) -> list[tuple[int, float]]:
        """The `n` documents with the largest share of a `topic` (its place in `topics()`: `fit.order[0]` for topic 1),
        as (row, share)."""
        model = require(self.model, Topical)
        documents = model.fitted_documents(self.data) if documents is None else documents
        shares = self.transform(documents)
        for name, value, most in (("topic", topic, shares.shape[1] - 1), ("n", n, len(shares))):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value <= most:
                raise InvalidParameter(f"{name} must be a whole number from 0 to {most}, got {value!r}")
        rows = np.argsort(-shares[:, topic], kind="stable")[:n]
        return [(int(row), float(shares[row, topic])) for row in rows]

    def coherence(self, documents: Any = None, *, n_words: int = 10, measure: str = "npmi") -> np.ndarray:
        """How often the leading `n_words` of each topic occur together, one number per topic: see `tp.coherence` for
        the `measure` ("npmi", "umass" or "c_v"). For "c_v" the `documents` must be texts."""
        from .diagnostics.coherence import coherence

        model = require(self.model, Topical)
        if measure == "c_v":
            words, vocabulary = model.topics(self._families(), n_words), getattr(model, "vocabulary", None)
            return coherence(words, documents, measure=measure, vocabulary=vocabulary)
        corpus = model.new_corpus(documents) if documents is not None else model.fitted_documents(self.data)
        best = np.argsort(-model.distributions(self._families()), axis=1, kind="stable")[:, :n_words]
        return coherence(best.tolist(), corpus, measure=measure)

    def topics_by(self, values: Any, documents: Any = None, *, level: float = 0.95) -> TopicsBy:
        """The mean share of each topic, with intervals, among the documents with each of these `values`: one per
        document, categories, or numbers or dates, which are put into intervals if they are many."""
        model = require(self.model, Topical)
        corpus = model.new_corpus(documents) if documents is not None else model.fitted_documents(self.data)
        return model.shares_by(self._families(), corpus, group_values(values, len(corpus)), level)

    def effects(self, **options: Any) -> Effects:
        """The effects of covariates on the shares of topics, for tp.StructuralTopics. `options` are the `level` (0.95)
        of the intervals, and `draws` (400) of a sampler that starts at the fit, after `warmup` (200), on at most
        `documents` (20,000)."""
        return require(self.model, Explaining).effects(self._families(), self.data, **options)

    def transform(self, x_new: Any) -> np.ndarray:
        """The expected local variables of each datum, such as the topic proportions of a document."""
        return require(self.model, Transforming).transform(self._families(), self._named(x_new))

    def inverse_transform(self, scores: Any) -> np.ndarray:
        """The expected data with these `scores` (local variables), for models such as factor analysis."""
        return require(self.model, Reconstructing).inverse_transform(self._families(), scores)

    def impute(self, x_new: Any) -> Any:
        """Mean and variance of every entry, those that are missing (NaN) filled in, for models such as factor
        analysis."""
        return require(self.model, Imputing).impute(self.state, self._named(x_new))

    def smooth(self, x_new: Any = None) -> Any:
        """The posterior of the state at each step given its whole sequence, for models of sequences; for the fitted
        data unless others are given."""
        return require(self.model, Smoothing, "smooth").smooth(self._with_labels(), self._steps(x_new))

    def filter(self, x_new: Any = None) -> Any:
        """The posterior of the state at each step given the steps up to it; otherwise as `smooth`."""
        return require(self.model, Sequential, "filter").filter(self._with_labels(), self._steps(x_new))

    def decode(self, x_new: Any = None) -> Any:
        """The most probable path of states, for models of sequences with discrete states."""
        return require(self.model, Decoding, "decode").decode(self._families(), self._steps(x_new))

    def forecast(self, n: int, x_new: Any = None, *, seed: Any = 0, draws: int = 1000, **options: Any) -> Any:
        """The next `n` steps of a sequence (the one that was fitted, unless another is given): mean, variance, and the
        `draws` that these summarise. `options` are those of the model, such as `controls` of a state space."""
        for name, value in (("n", n), ("draws", draws)):
            whole(1)(name, value)
        model = require(self.model, Sequential, "forecast")
        return model.forecast(self.state, as_key(seed), self._steps(x_new), int(n), int(draws), **options)

    def _steps(self, x_new: Any) -> Any:
        """New sequences as arrays; by default the fitted ones."""
        return self.data.values if x_new is None else require(self.model, Smoothing).new_rows(self._named(x_new))

    def predict(self, inputs: Any) -> Any:
        """Mean and variance of the target at each new input, for models such as a regression."""
        model = require(self.model, Regressing)
        return model.predict(self.state, self._named(inputs, model.targets))

    def sample(self, key: Any, n: int) -> Any:
        """`n` new data from the posterior predictive."""
        whole(1)("n", n)
        n = int(n)
        require_memory(16 * n, f"{n:,} new data")  # of a key and a number each
        if not isinstance(self.state, Posterior):
            return self.state.sample(as_key(key), self.model, n)
        rows = require(self.model, Predicting).sample_predictive(as_key(key), self.state, n)
        if isinstance(rows, dict):  # data of several columns, in their order
            return {name: np.asarray(values) for name, values in rows.items()}
        return jax.tree.map(np.asarray, rows)

    def table(self) -> DataFrame:
        """The fitted parts as a pandas frame: a row per component, topic, state, factor or weight."""
        from pandas import DataFrame

        return DataFrame(self.columns())

    def columns(self) -> dict[str, list[Any]]:
        """The columns of `table` as lists, by the names of the data's columns where they have names."""
        found = self.model.table(self._families(), self.data)
        return found if self.schema is None else with_names(found, [column.name for column in self.schema.used])

    @property
    def khat(self) -> float | None:
        """The Pareto shape of the largest importance weights: below 0.7 averages over them can be trusted."""
        return self.details.get("khat")

    def diagnose(self, seed: Any = 0, seconds: float = 60.0) -> Any:
        """Can this approximation be trusted? A sentence that begins with "trust it", "do not trust it because" or
        "cannot tell within this budget", from importance weights and, within about `seconds`, bridge sampling (small
        Gaussian mixtures) or AIS."""
        from .diagnostics.trust import diagnose

        return diagnose(self, seed, seconds)

    def loo(self, seed: int = 0) -> LOO:
        """How well each datum is predicted from all others, by smoothed importance weights (PSIS-LOO), with the Pareto
        shape of each datum; draws of a variational posterior are weighted to the true one where that is possible."""
        from .diagnostics.loo import loo

        return loo(self, seed)

    def to_arviz(self, log_likelihood: bool = True, predictive: bool = True, draws: int = 1000) -> Any:
        """The draws, with named dimensions, as ArviZ takes them: an `arviz.InferenceData` before ArviZ 1.0, an
        `xarray.DataTree` since. Its groups are the posterior, sample statistics, with `log_likelihood` that of each
        datum, and with `predictive` new data. From a posterior of families about `draws` independent draws are made."""
        from .diagnostics.export import to_arviz

        return to_arviz(self, log_likelihood, predictive, draws)

    def summary(self) -> Summary:
        """The summary in sentences, and the table of the parts: print it, or let a notebook show it."""
        return summarise(self)

    def __repr__(self) -> str:
        return in_one_line(self)

    def _card(self) -> str:
        return fit_card(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything, the data included, to one file at `path`, which `tp.load` reads."""
        storage.save(self, path)

    def _families(self) -> Posterior:
        """The posterior as families; draws are replaced by the families with their moments."""
        ready()
        return self.state if isinstance(self.state, Posterior) else self.state.matched(self.model, self.data)

    def _with_labels(self) -> Any:
        """The posterior itself, or draws with aligned components."""
        if isinstance(self.state, Posterior):
            return self.state
        return self._families() if self.model.local_groups else self.state.aligned(self.model, self.data)

    def _named(self, x_new: Any, without: tuple[str, ...] = ()) -> Any:
        """New data with the fitted columns, found by their names if they have names."""
        table = as_table(self.model, x_new)
        return in_order(x_new, self.schema, without) if table is None else table

    def _rowwise(self, name: str, x_new: Any, state: Any = None) -> Any:
        state = self.state if state is None else state
        x_new = self._named(x_new)
        if is_lazy(x_new):
            from .cluster.lazy import blockwise

            return blockwise(name, self.model, state, x_new)
        return rowwise(name, self.model, state, x_new)


def fit(
    model: Model,
    data: Any,
    method: Method | None = None,
    *,
    seed: int | Key[Array, ""] = 0,
    weights: Any = None,
    progress: bool | Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 10.0,
    engine: Any = None,
) -> Fit:
    """Fit `model` to `data` by `method` (default `tp.VB()`); see `Fit` for what comes back.

    `model` is any of `temperance`'s models, or one of your own. `data` are an array, a frame, a table, texts, a path or
    whatever else the model takes. `method` says how: `tp.VB()`, `tp.ParallelTempering()` and so on. `seed` is a whole
    number or a JAX key: the same seed on the same machine gives the same bits. `weights` is one non-negative number
    per datum. `progress` shows a bar; by default only on a terminal. Data larger than memory are a
    `tp.Stream`. The state is saved in the file `checkpoint` about every `every` seconds, and the same call then
    continues from there. `engine` is "plain" (no compiled kernels, every sum derived by autodiff), or a Dask client
    whose workers hold the data: Dask collections, delayed parts, or a folder of shards.
    """
    from .inference.variational.coordinate import VB

    ready()
    method = VB() if method is None else method
    if not isinstance(method, Method):
        raise UnsupportedMethod(f"method must be a method such as tp.VB(), got {given(method)}")
    if not isinstance(model, Model):
        raise InvalidParameter(f"model must be a model such as tp.GaussianMixture(3), got {given(model)}")
    if isinstance(engine, str) and engine not in _ENGINES:
        raise InvalidParameter(f"engine must be a dask.distributed.Client, 'auto' or 'plain', got {engine!r}")
    if not isinstance(engine, str | None) or is_lazy(data):
        from .cluster.checkpoint import ClusterCheckpoint
        from .cluster.restarts import runner, spreads_restarts
        from .cluster.start import attended, begin, brought_home, refusal
        from .numerics.devices import one_device

        if spreads_restarts(engine, data, method, checkpoint, refusal(method, model, weights)):
            if checkpoint is not None:
                raise InvalidParameter(f"checkpoint cannot be kept of {method.name} on a cluster: leave out checkpoint")
            apart = runner(engine, model, data, weights, method, seed)
            with one_device():
                prepared, arrays = prepare(model, data, method, weights, seed)
                return fit_arrays(prepared, arrays, method, seed, progress, run=apart)
        shown = as_progress(progress)
        remote, parts = begin(model, data, method, weights, engine, fold_in(as_key(seed), 2))
        with attended(remote, shown):
            kept = None if checkpoint is None else functools.partial(ClusterCheckpoint, checkpoint, every)
            return brought_home(remote, fit_arrays(remote, parts, method, seed, shown, kept))
    table = as_table(model, data)
    schema = schema_of(data) if table is None else table.schema
    prepared, arrays = prepare(model, data if table is None else table, method, weights, seed)
    if isinstance(engine, str) and isinstance(arrays, Data):
        arrays = dataclasses.replace(arrays, engine=engine)
    keep = None if checkpoint is None else functools.partial(checkpoint_of, checkpoint, every)
    fit = fit_arrays(prepared, arrays, method, seed, progress, keep)
    notes = (schema.codes, *fit.notes) if table is not None and schema is not None and schema.codes else fit.notes
    return dataclasses.replace(fit, schema=schema, notes=notes)


def load(path: str | os.PathLike[str]) -> Any:
    """The fit or comparison that `save` wrote at `path`. Loading never runs code from the file."""
    from .comparison.comparison import Comparison

    value = storage.load(path)
    if not isinstance(value, Fit | Comparison):
        raise DamagedFile(f"{path} holds a {type(value).__name__}, not a fit or a comparison")
    cells = [cell.fit for row in value.cells for cell in row] if isinstance(value, Comparison) else [value]
    for found in filter(None, cells):
        check_fit(found)
        if found.log_evidence is not None and not np.isfinite(found.log_evidence):  # in files of version 0.1
            object.__setattr__(found, "log_evidence", None)
    return value
