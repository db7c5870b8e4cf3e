"""The questions that only some models can answer, as abstract bases, by which a fit and a method know what to ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from .._module import Module
from ..data.tables import Table
from ..errors import UnsupportedMethod
from ..families import Pair
from ..programs import ready
from ._data import Data
from ._factors import Factor, Factored, Factors, SeenTerms, weight_terms
from ._model import Means, Model, Posterior, Powers


class Answer(ABC):
    """Base of all answers. Without fields, it need not be a module, whose class takes 0.3 ms to make."""

    lack: ClassVar[str]  # the sentence, after the model's name, for a user who asks for what it cannot answer


A = TypeVar("A", bound=Answer)


def require(model: Any, answer: type[A], name: str = "") -> A:
    """The model if it gives this answer, else an error that says what it lacks; `name` is the question."""
    ready()
    if not isinstance(model, answer):
        instead = "; see fit.smooth" if isinstance(model, Smoothing) and answer in (Labelled, Sequential) else ""
        raise UnsupportedMethod(f"{type(model).__name__} {answer.lack.format(name=name)}{instead}")
    return model


class Predicting(Answer):
    """Predicts new data."""

    lack = "has no predictive density for new data"

    @abstractmethod
    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        """log p(x_new | data) under the posterior, a normalised density."""

    @abstractmethod
    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        """n new data, in the user's coordinates, each with its own draw of the globals."""

    @abstractmethod
    def new_rows(self, data: Any) -> Any:
        """New data as arrays like `Data.values`."""


class Regressing(Predicting):
    """Predicts targets given inputs; the model does not describe the inputs."""

    lack = "has no targets to predict; see fit.log_predictive"

    @property
    def targets(self) -> tuple[str, ...]:
        """The target columns, if the data are one frame; frames of new inputs lack them."""
        return ()

    @abstractmethod
    def predict(self, q: Any, inputs: Any) -> Any:
        """Mean and variance of the target at each new input."""

    @abstractmethod
    def fitted(self, q: Any, data: Data) -> tuple[np.ndarray, np.ndarray]:
        """The fitted targets and their expected values, in the user's units."""


class Labelled(Answer):
    """Has discrete latents for each datum."""

    lack = "has no discrete latent for each datum"

    @abstractmethod
    def responsibilities(self, q: Posterior, x: Any) -> Float[Array, "n k"]:
        """The probability of each value of its latent (or of each of its latents) for each datum."""

    def responsibilities_of_few(self, q: Posterior, x: Any) -> np.ndarray | None:
        """`responsibilities` without a compilation, if the rows are few and there is such a way; else None."""
        return None


class Alignable(ABC):
    """Draws of this model can be aligned to one order of its parts (of one set, see `Symmetry`)."""

    @abstractmethod
    def traits(self, draws: dict[str, Any], x: Any) -> Float[Array, "r k"]:
        """A column for each part, by whose inner products the parts of two draws are matched. If parts are the values
        of a latent, a column holds the probability of its value for each datum."""


class Numbered(Answer):
    """Has parts that people call by numbers (or letters): see `Words.label`."""

    lack = "has no parts with numbers"

    @abstractmethod
    def order(self, q: Posterior, data: Data) -> np.ndarray:
        """The places of the parts in use, the largest first: the part of number 1 (or letter A), 2, …"""

    def occupied(self, q: Posterior, data: Data) -> int:
        """How many parts are in use."""
        return len(self.order(q, data))


class Holding(ABC):
    """Knows how many data each part holds."""

    @abstractmethod
    def held(self, q: Posterior, data: Data) -> tuple[np.ndarray, ...]:
        """For each set of parts (see `Symmetry`), the expected number of data (tokens, appearances) in each."""


class Tabular(ABC):
    """Takes data that are columns of a table."""

    @property
    @abstractmethod
    def takes_gaps(self) -> bool:
        """Whether data may have missing values, which are integrated out."""

    def as_table(self, data: Any) -> Table | None:
        """The data as a table with a schema, for models of mixed columns; None for other models."""
        return None


def as_table(model: Any, data: Any) -> Table | None:
    """The data as a table with a schema, if the model is one of mixed columns; else None."""
    return model.as_table(data) if isinstance(model, Tabular) else None


class Clustering(Labelled, Alignable, Holding, Numbered):
    """Every datum (or step) belongs to one of the parts."""

    lack = "has no parts to which each datum belongs"

    @abstractmethod
    def occupancy(self, q: Posterior, data: Data) -> Float[Array, " k"]:
        """The expected number of data in each part."""

    def held(self, q: Posterior, data: Data) -> tuple[np.ndarray, ...]:
        return (np.asarray(compiled_occupancy(self, q, data)),)

    def order(self, q: Posterior, data: Data) -> np.ndarray:
        (counts,) = self.held(q, data)
        order = np.argsort(-counts, kind="stable")
        return order[counts[order] >= 0.5]  # at least half a datum is expected in each


class Profiling(Clustering):
    """Has parts that differ in the expected values of the columns."""

    lack = "has no columns whose means differ between its parts"

    @abstractmethod
    def profiles(self, q: Posterior, data: Data, level: float, names: Sequence[str] = ()) -> Any:
        """The shares of the parts that hold data and the expected columns within each, with intervals."""

    @abstractmethod
    def contributions(self, q: Posterior) -> dict[str, float] | None:
        """By how many nats the parts describe each column of a table better than one part; None for a matrix."""


@eqx.filter_jit
def compiled_occupancy(model: Clustering, q: Posterior, data: Data) -> Float[Array, " k"]:
    return model.occupancy(q, data)


class Smoothing(Answer):
    """Infers the states behind a sequence."""

    lack = "has no `{name}`: it is not a model of sequences"

    @abstractmethod
    def new_rows(self, data: Any) -> Any:
        """New sequences as arrays like `Data.values`."""

    @abstractmethod
    def smooth(self, q: Any, x: Any) -> Any:
        """The posterior of the state at each step given its whole sequence."""


class Sequential(Smoothing):
    """Filters and forecasts sequences."""

    lack = "has no `{name}`: it does not say how a sequence goes on"

    @abstractmethod
    def filter(self, q: Any, x: Any) -> Any:
        """The posterior of the state at each step given the steps up to it."""

    @abstractmethod
    def forecast(self, q: Any, key: Key[Array, ""], x: Any, n: int, draws: int) -> Any:
        """The next n steps of one sequence."""

    @abstractmethod
    def fitted_steps(self, state: Any, q: Posterior, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """The steps of the first sequence and their expected values, in the user's coordinates. `state` may be draws
        with aligned parts; `q` then holds the families with their moments."""


class Decoding(Answer):
    """Finds paths of discrete states."""

    lack = "has no `{name}`: it is not a model of sequences with discrete states"

    @abstractmethod
    def decode(self, q: Posterior, x: Any) -> Any:
        """The most probable path of states."""

    @abstractmethod
    def steps_to_user(self, x: Any, sequence: int) -> np.ndarray:
        """The steps of one of the sequences, in the user's coordinates."""


class Decomposing(Answer):
    """Has factors in the shape of a datum."""

    lack = "has no factors; see fit.posterior"

    @abstractmethod
    def components(self, q: Posterior) -> Float[Array, "k *shape"]:
        """The expected factors."""


class Transforming(Answer):
    """Has continuous latents for each datum."""

    lack = "has no transform; see fit.responsibilities"

    @abstractmethod
    def transform(self, q: Posterior, data: Any) -> np.ndarray:
        """The expected local variables of each datum."""


class Reconstructing(Transforming):
    """Reconstructs data from their latents."""

    lack = "has no inverse_transform; see fit.posterior"

    @abstractmethod
    def inverse_transform(self, q: Posterior, scores: Any) -> np.ndarray:
        """The expected data with these local variables."""


class Imputing(Answer):
    """Fills in entries that were not seen."""

    lack = "cannot fill in what is missing; see fit.sample"

    @abstractmethod
    def impute(self, q: Any, data: Any) -> Any:
        """Every entry, with missing ones replaced by their expectations."""


class Topical(Numbered):
    """Has topics with words."""

    lack = "has no topics; see fit.posterior"

    @abstractmethod
    def topics(self, q: Posterior, n_words: int = 10, relevance: float = 1.0) -> list[list[tuple[str | int, float]]]:
        """The most telling words of each topic with their probabilities, in the order of the posterior."""

    @abstractmethod
    def distributions(self, q: Posterior) -> np.ndarray:
        """The expected probability of each word in each topic, (topics, words)."""

    @abstractmethod
    def shares_by(self, q: Posterior, documents: Any, groups: Any, level: float) -> Any:
        """The mean share of each topic in each group of documents, with intervals."""

    @abstractmethod
    def new_corpus(self, data: Any) -> Any:
        """Documents over the words of the model."""

    @abstractmethod
    def fitted_documents(self, data: Any) -> Any:
        """The fitted documents, in the form that `transform` takes."""


class Explaining(Answer):
    """Explains the latents of each datum by covariates."""

    lack = "has no covariates; tp.StructuralTopics has"

    @abstractmethod
    def effects(self, q: Posterior, data: Data, **options: Any) -> Any:
        """The coefficients of the covariates, with intervals."""


class Drawable(Answer):
    """A model that was written as a graph."""

    lack = "was not written as a graph"

    @abstractmethod
    def drawing(self) -> str:
        """The graph in plate notation, as SVG."""

    @abstractmethod
    def variables(self) -> list[str]:
        """The names of its random variables."""


class Loading(Decomposing, Numbered):
    """Has factors with a loading of each column."""

    lack = "has no loadings to draw; tp.FactorAnalysis has"

    @abstractmethod
    def relative_loadings(self, q: Posterior) -> np.ndarray:
        """The expected loadings (factors, columns), each column in units of its spread."""


class Start(Module):
    """The start of a mixture; `values` are means (k, d) in the user's coordinates, or responsibilities (n, k)."""

    kind: str = eqx.field(static=True)
    values: Float[Array, "_ _"] | None = None


class Restarting(ABC):
    """Restarts of this model differ in kind."""

    @abstractmethod
    def kind_of_restart(self, number: int, data: Data) -> str | None:
        """The kind of start of the restart with this number; None if all restarts begin alike."""

    @abstractmethod
    def starting(self, kind: str) -> Self:
        """The model with `initial` set to this kind of start."""


class Creeping:
    """Sweeps creep along a ridge of this model's bound, so variational Bayes extrapolates them
    (`inference/variational/leap.py`)."""


class Mergeable(ABC):
    """Has parts that can be merged if they are alike."""

    @abstractmethod
    def merged(self, q: Posterior, data: Data, share: float) -> Posterior | None:
        """The posterior after merging this share of all pairs of parts, the most alike first; None if no pair is left.
        Variational Bayes tries it after convergence, and keeps it if the bound rises."""


class Movable(Model):
    """A mixture, whose components can be emptied, merged and split."""

    @property
    def moves(self) -> bool:
        return True

    @property
    @abstractmethod
    def parts(self) -> int:
        """How many components there are."""

    @abstractmethod
    def log_joint_z(self, m: Means, x: Any) -> Float[Array, "n k"]:
        """E log p(x, z = k | θ) for every component."""

    @abstractmethod
    def coordinates(self, x: Any) -> Float[Array, "n c"]:
        """The data as rows of numbers, in which a component can be cut in two."""


class Summable(ABC):
    """Has discrete latents as local blocks, which can be summed out if they are few."""

    @abstractmethod
    def summed(self) -> Model:
        """The model with these latents summed out, or this model if they are too many."""


def summed(model: Model) -> Model:
    """The model with the discrete latents of each datum summed out, if it is `Summable`; else the model itself."""
    return model.summed() if isinstance(model, Summable) else model


class Enumerable(Movable, Factored):
    """Each datum has one discrete latent that can be summed over term by term,

        log p(x, z = k | θ) = ⟨W_k, t(weights)⟩ + c_k + ⟨T(x), t(θ_k)⟩ + log h(x),

    linear in the statistics of each block: what message passing needs. The global blocks are "components", with a
    leading axis over z, and "weights" (absent when known).
    """

    pair: eqx.AbstractVar[Pair]  # T and log h
    n_components: eqx.AbstractVar[int]
    shift: eqx.AbstractVar[Float[Array, " d"] | None]  # subtracted from the user's rows, if these are numbers
    start: eqx.AbstractVar[Start]

    @abstractmethod
    def log_weights(self, m: Means) -> Float[Array, " k"]:
        """log p(z = k | weights): affine in the statistics of the weights' block."""

    @property
    def parts(self) -> int:
        return self.n_components

    def coordinates(self, x: Any) -> Float[Array, "n c"]:
        return self.pair.coordinates(x)

    @property
    def plain_weights(self) -> bool:
        """Whether `log_weights` is the statistic of a Dirichlet block itself."""
        return False

    @abstractmethod
    def mean_log_weights(self, q: Posterior) -> Float[Array, " k"]:
        """log E[π] under q."""

    @abstractmethod
    def log_joint_z(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, "n k"]:
        """E log p(x, z = k | θ) for every component."""

    @property
    def one_by_one(self) -> bool:
        """Whether a datum adds T(x) to whichever component it belongs to; factors can then be refreshed one by one."""
        return not self.pair.has_latents

    @property
    def linear_factors(self) -> bool:
        return not self.pair.has_latents

    def factors(self, data: Data) -> Factors:
        # Always float64, because messages are differences of large sums.
        values = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), data.values)
        if self.pair.has_latents:
            return Factors(values, data.weights > 0, SeenTerms(weight_terms(self), self.pair))
        each = Factor(self.pair.statistics(values), self.pair.log_base(values))
        return Factors(each, data.weights > 0, weight_terms(self))

    @abstractmethod
    def starting_labels(self, key: Key[Array, ""], data: Data) -> Any:
        """The component of each datum (n,), or its share in each component (n, k), at the start."""


class Sited(Model):
    """The likelihood of each datum depends on one Normal block, w, through one number, a = φ_n · w + o_n, and is
    log-concave in a: message passing needs only one-dimensional integrals.
    """

    @property
    def sited(self) -> str:
        """The name of the block."""
        return "weights"

    @property
    def noise_block(self) -> str | None:
        """The name of the block of the precision, where the targets have Gaussian noise."""
        return "noise" if "noise" in self.prior else None

    def sites(self, x: Any) -> Any:
        """The `features` φ, `target` and `offset` o of each datum."""
        return x

    @abstractmethod
    def log_factor(self, a: Float[Array, "*m n"], target: Float[Array, " n"]) -> Float[Array, "*m n"]:
        """log p(y_n | a) of each datum, at any number of places a."""


class Collapsible(Model):
    """A topic model as collapsed updates (CVB0) need it.

    Topics β_k ~ Dirichlet(η) are the block "topics", proportions θ_d ~ Dirichlet(α) the local one.
    """

    alpha: eqx.AbstractVar[Float[Array, " k"]]
    eta: eqx.AbstractVar[Float[Array, "..."]]  # a number, one for each word, or (topics, words)
    n_topics: eqx.AbstractVar[int]
    n_words: eqx.AbstractVar[int | None]
    learn: eqx.AbstractVar[tuple[str, ...]]  # of "document_prior" and "topic_prior"
    single: eqx.AbstractVar[bool]  # precision
    local_tol: eqx.AbstractVar[float]

    @abstractmethod
    def as_collapsed(self) -> Self:
        """The model in the form that CVB0 uses."""

    @abstractmethod
    def new_corpus(self, data: Any) -> Any:
        """New documents over the words of the fitted model."""
