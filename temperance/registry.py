"""The one table of models and methods: a new one is one file of code and one entry here.

The lazy exports of `temperance`, the names of the command line, the estimators' `inference=` names and the tables of
the documentation all come from these entries. They name modules and classes by strings, which are imported when they
are used: importing this module imports neither JAX nor NumPy.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from ._uncollected import uncollected
from .errors import InvalidParameter

_NONE: Mapping[str, Any] = MappingProxyType({})


class Flag(NamedTuple):
    """How a flag of the command line reaches a model: the argument, and its values where the words differ."""

    argument: str
    values: Mapping[str, str] = _NONE


@dataclass(frozen=True)
class ModelEntry:
    """A model as a user names it; a class with several likelihoods has one entry for each."""

    name: str  # tp.NAME
    command: str  # `--model COMMAND`; empty if the command line cannot make it
    module: str
    about: str
    data: str  # "table", "counts", "sequences", "corpus" or "inputs and targets"
    part: str  # what one of its parts is called
    methods: tuple[str, ...] = ()  # the commands of the methods that the command line offers for it
    size: int = 3  # default number of parts of `temperance fit`
    made_of: str = ""  # the class of the model's first argument, if that is not the size itself
    arguments: Mapping[str, Any] = field(default_factory=dict)  # that make this entry of its class
    flags: Mapping[str, Flag] = field(default_factory=dict)  # flags of the command line that the model takes
    estimator: str = ""  # temperance.estimators.NAME
    aliases: tuple[str, ...] = ()  # further names on the command line

    def make(self, size: int, given: Mapping[str, Any] = _NONE, **flags: Any) -> Any:
        """The model with this many parts and the arguments `given`; flags that are None or that it does not take are
        left out."""
        arguments = dict(self.arguments)
        for name, value in flags.items():
            if name in self.flags and value is not None:
                flag = self.flags[name]
                arguments[flag.argument] = flag.values.get(value, value) if flag.values else value
        return resolve(self.name)(resolve(self.made_of)(size) if self.made_of else size, **arguments | dict(given))


@dataclass(frozen=True)
class MethodEntry:
    """A method of inference."""

    name: str  # tp.NAME
    command: str  # `--method COMMAND` and `inference="COMMAND"`
    module: str
    kind: str  # "variational", "messages", "Monte Carlo" or "point"
    about: str
    evidence: str  # what its log evidence is
    options: Mapping[str, str] = field(default_factory=dict)  # option → argument
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of these options, on the command line
    arguments: Mapping[str, Any] = field(default_factory=dict)  # that make this entry of its class

    @property
    def tempered(self) -> bool:
        """Whether the entry heats another method; its class then knows which models it does not support."""
        return "length" in self.options

    def make(self, given: Mapping[str, Any] = _NONE, **options: Any) -> Any:
        """The method with the arguments `given`; options that are None or that it does not take are left out.

        `method` is the method to be tempered, by default `tp.VB` with the same options.
        """
        named = {self.options[key]: value for key, value in options.items() if key in self.options}
        arguments = dict(self.arguments) | {name: value for name, value in named.items() if value is not None}
        if self.tempered and arguments.get("method") is None:
            arguments["method"] = method("vb").make(**options)
        return resolve(self.name)(**arguments | dict(given))


_COVARIANCE = Flag("likelihood", {"full": "gaussian", "diag": "diagonal"})
_PRIOR = {"prior": Flag("prior"), "concentration": Flag("concentration"), "missing": Flag("missing")}
_COUNTED = {"concentration": Flag("concentration"), "missing": Flag("missing")}
_NOISE = Flag("noise", {"full": "diagonal", "diag": "diagonal", "spherical": "isotropic"})

_MESSAGES = ("hellinger", "ep")
# Where latents are summed out.
_SUMMED = ("laplace", "svi", "em", "pt", "ais", "smc", "importance", "gibbs", "kernel")
_MIXTURE = ("vb", "annealed", "lvt", *_MESSAGES, *_SUMMED, "collapsed")
_COUNTS = ("vb", "annealed", *_MESSAGES, *_SUMMED, "collapsed")
_CATEGORIES = ("vb", "annealed", "vt", *_MESSAGES, *_SUMMED, "collapsed")
_LINEAR = ("vb", "annealed", *_SUMMED)
_CHAINED = ("vb", "annealed", *_MESSAGES, *_SUMMED)  # chains of states, and likelihoods of one number
_LATENT = ("svi", "pt", "ais", "smc", "gibbs")  # where they cannot be

_MODELS = (
    ModelEntry(
        "GaussianMixture", "mixture", "models.mixture.variants",
        "groups of points; `--covariance` full, diag or spherical", "table", "component", _MIXTURE,
        flags=_PRIOR | {"covariance": Flag("covariance")},
        estimator="BayesianGaussianMixture", aliases=("groups", "gaussian-mixture"),
    ),
    ModelEntry(
        "ClassMixture", "classes", "models.mixture.variants",
        "groups (latent classes) of the rows of a table with columns of any kind", "columns", "group", _COUNTS,
        flags={"concentration": Flag("concentration"), "covariance": Flag("covariance")},
        estimator="ClassMixture", aliases=("latent-classes",),
    ),
    ModelEntry(
        "MixtureOfExperts", "experts", "models.mixture.experts",
        "lines, each for a region of the inputs; `--target` names y", "inputs and targets", "component", _MIXTURE,
        flags={"prior": Flag("prior"), "concentration": Flag("concentration")},
    ),
    ModelEntry(
        "DirichletProcessMixture", "dirichlet-process", "models.mixture.variants",
        "a mixture that chooses its number of groups, up to the one given", "table", "component",
        ("vb", "annealed", "lvt", *_MESSAGES, *_SUMMED),
        flags=_PRIOR | {"covariance": _COVARIANCE}, estimator="DirichletProcessMixture",
    ),
    ModelEntry(
        "StudentMixture", "student-mixture", "models.mixture.student",
        "groups of points with outliers, each a Student-t", "table", "component",
        ("vb", "annealed", "svi", "em", "pt", "ais", "smc", "importance", "gibbs"),
        flags={"prior": Flag("prior"), "concentration": Flag("concentration")},
    ),
    *(
        ModelEntry(
            "Mixture", f"{likelihood}-mixture", "models.mixture", about, data, "component", methods,
            arguments={"likelihood": likelihood}, flags=_COUNTED, estimator="BayesianMixture",
        )
        for likelihood, about, data, methods in (
            ("poisson", "groups of counts", "counts", _COUNTS),
            ("bernoulli", "groups of 0/1 rows", "table", _CATEGORIES),
            ("categorical", "groups of rows of codes 0, 1, 2, …", "table", _CATEGORIES),
            ("multinomial", "groups of rows of counts with totals", "counts", _COUNTS),
        )
    ),
    ModelEntry(
        "HMM", "hmm", "models.hidden_markov",
        "hidden states that follow each other; rows are steps; `--covariance` as for a mixture", "sequences", "state",
        _CHAINED, flags=_PRIOR | {"covariance": _COVARIANCE._replace(argument="emission")}, estimator="GaussianHMM",
        aliases=("hidden-markov",),
    ),
    ModelEntry(
        "LDA", "topics", "models.topics", "latent Dirichlet allocation of documents", "corpus", "topic",
        ("vb", "annealed", "vt", "lvt", "cvb0", *_LATENT), estimator="LatentDirichletAllocation", aliases=("lda",),
    ),
    ModelEntry(
        "HDP", "hdp", "models.topics.variants", "as many topics as the documents need, up to the number given",
        "corpus", "topic", ("vb", "annealed", "svi"), size=50,
    ),
    ModelEntry(
        "StructuralTopics", "", "models.topics.variants", "topics whose shares depend on covariates by a formula",
        "corpus", "topic",
    ),
    ModelEntry(
        "FactorialMixture", "factorial-mixture", "models.factorial",
        "sums of factors that are on or off, plus noise", "table", "factor", ("vb", "annealed", "lvt", "em", *_LATENT),
        estimator="FactorialMixture", aliases=("factors",),
    ),
    ModelEntry(
        "FactorAnalysis", "factor-analysis", "models.linear.factor_analysis",
        "hidden scores, mixed linearly, plus noise; `--covariance spherical` is PPCA", "table", "factor", _LINEAR,
        flags={"covariance": _NOISE, "missing": Flag("missing")}, estimator="FactorAnalysis",
    ),
    ModelEntry(
        "StateSpace", "state-space", "models.linear.state_space",
        "a series driven by hidden states; rows are steps", "sequences", "state", _LINEAR,
        flags={"missing": Flag("missing")}, estimator="StateSpace",
    ),
    ModelEntry(
        "SwitchingStateSpace", "switching-state-space", "models.linear.switching",
        "a series whose hidden states follow one of several linear laws in turn", "sequences", "regime",
        ("vb", "annealed", "em", *_LATENT), size=2, arguments={"n_states": 1},
        flags={"concentration": Flag("concentration"), "missing": Flag("missing")},
    ),
    *(
        ModelEntry(
            "LinearRegression", command, "models.linear.regression", about, "inputs and targets", "weight", _LINEAR,
            size=size, made_of="Polynomial", estimator="BayesianLinearRegression",
        )
        for command, size, about in (
            ("regression", 1, "a line, or with `-k` powers of each column; `--target` names y"),
            ("polynomial", 3, "regression on powers; `--target` names y"),
        )
    ),
    *(
        ModelEntry(
            name, command, "models.linear.generalised", about, "inputs and targets", "weight", _CHAINED,
            size=1, made_of="Polynomial",
        )
        for name, command, about in (
            ("LogisticRegression", "logistic", "yes or no (1 or 0) by a logistic curve; `--target` names y"),
            ("ProbitRegression", "probit", "yes or no (1 or 0) by a normal curve; `--target` names y"),
            ("PoissonRegression", "poisson", "counts, by a log link; `--target` names y"),
            ("CensoredRegression", "censored", "targets cut off at a limit (tobit): `--set upper=10`"),
            ("TruncatedRegression", "truncated", "targets recorded below a limit only: `--set upper=10`"),
        )
    ),
    ModelEntry(
        "OrderedRegression", "", "models.linear.generalised", "categories in an order, by a normal number and its cuts",
        "inputs and targets", "weight",
    ),
    ModelEntry("Graph", "", "graph.language", "a model written down node by node", "table", "component"),
)  # fmt: skip

_STARTS: dict[str, Any] = {"restarts": 10}
_SWEEPS: dict[str, Any] = {"draws": 2000, "warmup": 1000}
_STEPS = {"restarts": "restarts", "steps": "max_iter", "tol": "tol"}
_HEATED = {"temperatures": "temperatures", "length": "length", "method": "method"}
_CHAIN = {"draws": "draws", "warmup": "warmup"}
_PATH = {"reference": "reference"}
_BOUND, _APPROXIMATE, _BRACKET, _NO_EVIDENCE = "a lower bound", "an approximation", "an estimate with a bracket", "none"

_METHODS = (
    MethodEntry(
        "VB", "vb", "inference.variational.coordinate", "variational", "variational Bayes", _BOUND, _STEPS, _STARTS
    ),
    MethodEntry(
        "Annealed", "annealed", "inference.variational.annealed", "variational", "variational Bayes, cooled", _BOUND,
        _HEATED | {"temperatures": "schedule"}, _STARTS,
    ),
    MethodEntry(
        "VT", "vt", "inference.variational.tempered", "variational", "variational tempering: finds its temperature",
        _BOUND, _HEATED, _STARTS,
    ),
    MethodEntry(
        "LVT", "lvt", "inference.variational.local_tempered", "variational",
        "a temperature for each datum, then variational Bayes", _BOUND, _HEATED, _STARTS,
    ),
    MethodEntry(
        "MessagePassing", "hellinger", "inference.messages.alpha_divergence", "messages", "message passing with α = ½",
        _APPROXIMATE, {"restarts": "restarts"}, _STARTS, {"alpha": 0.5},
    ),
    MethodEntry(
        "EP", "ep", "inference.messages.ep", "messages", "expectation propagation", _APPROXIMATE,
        {"restarts": "restarts"}, _STARTS,
    ),
    MethodEntry(
        "Laplace", "laplace", "inference.point.laplace", "point", "Laplace's approximation", _APPROXIMATE,
        {"restarts": "restarts"}, _STARTS,
    ),
    MethodEntry(
        "SVI", "svi", "inference.variational.stochastic", "variational", "stochastic variational inference",
        "a noisy lower bound", {"restarts": "restarts"},
    ),
    MethodEntry(
        "CVB0", "cvb0", "inference.variational.cvb0", "variational", "collapsed variational Bayes, for topics",
        _BOUND, {"steps": "passes"},
    ),
    MethodEntry(
        "EM", "em", "inference.point.em", "point", "EM, a point estimate", _NO_EVIDENCE, _STEPS, _STARTS
    ),
    MethodEntry(
        "ParallelTempering", "pt", "inference.monte_carlo.parallel_tempering", "Monte Carlo",
        "parallel tempering, Monte Carlo", _BRACKET, _CHAIN | _PATH, _SWEEPS,
    ),
    MethodEntry(
        "AIS", "ais", "inference.monte_carlo.annealed_importance", "Monte Carlo", "annealed importance sampling",
        _BRACKET, _PATH,
    ),
    MethodEntry(
        "SMC", "smc", "inference.monte_carlo.sequential", "Monte Carlo",
        "sequential Monte Carlo: AIS that resamples and finds its temperatures", _BRACKET, _PATH,
    ),
    MethodEntry(
        "ImportanceSampling", "importance", "inference.monte_carlo.importance", "Monte Carlo",
        "importance sampling from variational Bayes", "an estimate with its error", {"draws": "draws"},
    ),
    MethodEntry(
        "Gibbs", "gibbs", "inference.monte_carlo.gibbs", "Monte Carlo", "Gibbs sampling", _NO_EVIDENCE, _CHAIN, _SWEEPS
    ),
    MethodEntry(
        "CollapsedGibbs", "collapsed", "inference.monte_carlo.collapsed", "Monte Carlo",
        "Gibbs sampling of labels, with the parameters integrated out", _NO_EVIDENCE, _CHAIN, _SWEEPS,
    ),
    MethodEntry(
        "VariationalKernel", "kernel", "inference.monte_carlo.variational_kernel", "Monte Carlo",
        "Metropolis–Hastings with proposals from variational Bayes", _NO_EVIDENCE, _CHAIN, _SWEEPS,
    ),
)  # fmt: skip

# Everything else that is public: module → names.
_OTHERS = {
    "compare": ("compare",),
    "comparison.agreement": ("bracket",),
    "comparison.comparison": ("Comparison",),
    "comparison.topic_sizes": ("TopicSizes", "topic_sizes"),
    "data": ("Corpus", "Schema", "Table", "read_table", "read_texts"),
    "data.stream": ("Stream",),
    "diagnostics.coherence": ("coherence",),
    "diagnostics.completion": ("Completion", "document_completion", "perplexity"),
    "diagnostics.left_to_right": ("left_to_right",),
    "families": (
        "Bernoulli", "BernoulliDistribution", "BernoulliVector", "Beta", "BetaVector", "Categorical",
        "CategoricalDistribution", "CategoricalVector", "Dirichlet", "DirichletVector", "Family", "Gamma",
        "GammaVector", "Gaussian", "GaussianWithMissing", "Independent", "IndependentPair", "IndependentVector",
        "IsotropicNormalGamma", "IsotropicNormalGammaVector", "KnownCovarianceGaussian", "LinearGaussian",
        "MatrixNormal", "MatrixNormalGamma", "MatrixNormalGammaVector", "MatrixNormalVector", "MatrixNormalWishart",
        "MatrixNormalWishartVector", "MeanAndPrecision", "Multinomial", "Normal", "NormalGamma", "NormalGammaVector",
        "NormalVector", "NormalWishart", "NormalWishartVector", "Pair", "Point", "Poisson", "Product", "ProductPair",
        "ProductVector", "ScalarGaussian", "SphericalGaussian", "SphericalWithMissing", "Vector",
        "WeightsAndPrecision", "WeightsAndScale", "Wishart", "WishartVector",
    ),
    "fit": ("Fit", "fit", "load"),
    "data.features": ("Polynomial",),
    "models.linear": ("Prediction",),
    "inference.monte_carlo.effects": ("Effects",),
    "models.topics.report": ("TopicsBy",),
    "report": ("report",),
}  # fmt: skip

EXPORTS: Mapping[str, str] = {
    **{name: module for module, names in _OTHERS.items() for name in names},
    **{entry.name: entry.module for entry in _MODELS},
    **{entry.name: entry.module for entry in _METHODS},
}  # the public names, and the module in which each is defined


def models() -> tuple[ModelEntry, ...]:
    """Every model, in the order of the documentation."""
    return _MODELS


def methods() -> tuple[MethodEntry, ...]:
    """Every method, in the order of the documentation."""
    return _METHODS


def model(command: str) -> ModelEntry:
    """The model with this name on the command line."""
    offered = [entry for entry in _MODELS if entry.command]
    for entry in offered:
        if command in (entry.command, *entry.aliases):
            return entry
    raise InvalidParameter(f"--model must be one of {', '.join(entry.command for entry in offered)}, got {command!r}")


def method(command: str) -> MethodEntry:
    """The method with this name on the command line."""
    for entry in _METHODS:
        if command == entry.command:
            return entry
    raise InvalidParameter(f"--method must be among {', '.join(entry.command for entry in _METHODS)}, got {command!r}")


def entry_of(instance: Any) -> ModelEntry | None:
    """The first entry of a model's class or of the nearest class it derives from."""
    for kind in type(instance).__mro__:
        for entry in _MODELS:
            if (kind.__module__, kind.__name__) == (f"{__package__}.{entry.module}", entry.name):
                return entry
    return None


def resolve(name: str) -> Any:
    """Import the object with this public name."""
    with uncollected():
        return getattr(importlib.import_module(f"{__package__}.{EXPORTS[name]}"), name)


def tables() -> str:
    """The models and the methods of the command line as two tables in Markdown."""
    rows = [("`--model`", "what it is", "data", "`--method`")]
    rows += [
        (", ".join(f"`{name}`" for name in (model.command, *model.aliases)), model.about, model.data,
         ", ".join(model.methods))
        for model in _MODELS if model.command
    ]  # fmt: skip
    others = [("`--method`", "in Python", "what it is", "its log evidence")]
    for entry in _METHODS:
        arguments = ", ".join(f"{name}={value!r}" for name, value in entry.arguments.items())
        python = f"tp.{entry.name}({arguments})" if arguments else f"tp.{entry.name}"
        others.append((f"`{entry.command}`", f"`{python}`", entry.about, entry.evidence))
    return f"{_markdown(rows)}\n{_markdown(others)}"


def _markdown(rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(row)} |\n" for row in rows]
    return lines[0] + "|---" * len(rows[0]) + "|\n" + "".join(lines[1:])
