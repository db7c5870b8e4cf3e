"""The one table of models and methods that the command line knows. A new one is one more line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import temperance as tp

from ..errors import InvalidParameter
from ..inference._method import Method
from ..models import Model


class Options(NamedTuple):
    """What the flags say about a method."""

    restarts: int
    draws: int
    temperatures: tuple[float, ...] | None = None
    length: float | None = None
    minibatches: bool = False  # whether what is tempered is SVI, as is best for topics

    @property
    def plain(self) -> tp.VB | tp.SVI:
        """What is tempered."""
        return tp.SVI() if self.minibatches else tp.VB(restarts=self.restarts)


@dataclass(frozen=True)
class MethodEntry:
    about: str
    make: Callable[[Options], Method]
    evidence: str
    tempered: bool = False  # whether it takes --temperatures and --length, and says itself which models it is not for


@dataclass(frozen=True)
class ModelEntry:
    about: str
    data: str  # "table", "corpus" or "regression" (a table with a target)
    make: Callable[..., Model]  # from a size, the component prior, the concentration and further options
    methods: tuple[str, ...]
    priors: str = ""  # which flags of the prior it takes: "components" and "concentration"


def _annealed(given: Options) -> Method:
    schedule = "critical" if given.temperatures is None else given.temperatures
    return tp.Annealed(given.plain, schedule, length=given.length)


METHODS: dict[str, MethodEntry] = {
    "vb": MethodEntry("variational Bayes", lambda given: tp.VB(restarts=given.restarts), "a lower bound"),
    "annealed": MethodEntry("variational Bayes, cooled", _annealed, "a lower bound", tempered=True),
    "vt": MethodEntry(
        "variational tempering: finds its temperature",
        lambda given: tp.VT(given.temperatures, given.plain, given.length), "a lower bound", tempered=True,
    ),
    "lvt": MethodEntry(
        "a temperature for each datum, then variational Bayes",
        lambda given: tp.LVT(given.temperatures, given.plain, given.length), "a lower bound", tempered=True,
    ),
    "hellinger": MethodEntry(
        "message passing with α = ½", lambda given: tp.MessagePassing(0.5, restarts=given.restarts), "an approximation"
    ),
    "ep": MethodEntry("expectation propagation", lambda given: tp.EP(restarts=given.restarts), "an approximation"),
    "laplace": MethodEntry(
        "Laplace's approximation", lambda given: tp.Laplace(restarts=given.restarts), "an approximation"
    ),
    "svi": MethodEntry("stochastic variational inference", lambda given: tp.SVI(), "a noisy lower bound"),
    "em": MethodEntry("EM, a point estimate", lambda given: tp.EM(restarts=given.restarts), "none"),
    "pt": MethodEntry(
        "parallel tempering, Monte Carlo",
        lambda given: tp.ParallelTempering(draws=given.draws, warmup=given.draws // 2),
        "an estimate with a bracket",
    ),
    "ais": MethodEntry("annealed importance sampling", lambda given: tp.AIS(), "an estimate with a bracket"),
    "gibbs": MethodEntry(
        "Gibbs sampling", lambda given: tp.Gibbs(draws=given.draws, warmup=given.draws // 2), "none"
    ),
}  # fmt: skip

_ALL = ("vb", "annealed", "lvt", "hellinger", "ep", "pt", "ais", "gibbs", "laplace", "svi", "em")
_LINEAR = ("vb", "annealed", "pt", "ais", "gibbs", "svi", "em")
_CHAINS = ("vb", "annealed", "pt", "ais", "gibbs", "laplace", "svi", "em")
_COUNTS = ("vb", "annealed", "hellinger", "ep", "pt", "ais", "gibbs", "svi", "em")
_YES_OR_NO = ("vb", "annealed", "vt", "hellinger", "ep", "pt", "ais", "gibbs", "svi", "em")


def _gaussian(size: int, prior: Any, concentration: float, covariance: str, missing: str | None) -> Model:
    return tp.GaussianMixture(size, covariance=covariance, prior=prior, concentration=concentration, missing=missing)


def _mixture(likelihood: str) -> Callable[..., Model]:
    def make(size: int, prior: Any, concentration: float, covariance: str, missing: str | None) -> Model:
        return tp.Mixture(size, likelihood, concentration=concentration, missing=missing)

    return make


def _process(size: int, prior: Any, concentration: float, covariance: str, missing: str | None) -> Model:
    likelihood = {"full": "gaussian", "diag": "diagonal"}.get(covariance, covariance)
    return tp.DirichletProcessMixture(size, likelihood, prior=prior, concentration=concentration, missing=missing)


def _topics(size: int, prior: Any, concentration: float, covariance: str, missing: str | None) -> Model:
    return tp.LDA(size)


def _factors(size: int, prior: Any, concentration: float, covariance: str, missing: str | None) -> Model:
    return tp.FactorialMixture(size)


def _factor_analysis(size: int, prior: Any, concentration: float, covariance: str, missing: str | None) -> Model:
    noise = "isotropic" if covariance == "spherical" else "diagonal"
    return tp.FactorAnalysis(size, noise=noise, missing=missing)


def _state_space(size: int, prior: Any, concentration: float, covariance: str, missing: str | None) -> Model:
    return tp.StateSpace(size, missing=missing)


def _polynomial(size: int, prior: Any, concentration: float, covariance: str, missing: str | None) -> Model:
    return tp.LinearRegression(tp.Polynomial(size))


def _chain(size: int, prior: Any, concentration: float, covariance: str, missing: str | None) -> Model:
    emission = {"full": "gaussian", "diag": "diagonal"}.get(covariance, covariance)
    return tp.HMM(size, emission, prior=prior, concentration=concentration, missing=missing)


MODELS: dict[str, ModelEntry] = {
    "gaussian-mixture": ModelEntry(
        "groups of points; `--covariance` full, diag or spherical", "table", _gaussian, _ALL, "components concentration"
    ),
    "dirichlet-process": ModelEntry(
        "a mixture that finds its own number of groups, up to the one given", "table", _process,
        ("vb", "annealed", "lvt", "svi", "em"),
        "components concentration",
    ),
    "poisson-mixture": ModelEntry("groups of counts", "table", _mixture("poisson"), _COUNTS, "concentration"),
    "bernoulli-mixture": ModelEntry("groups of 0/1 rows", "table", _mixture("bernoulli"), _YES_OR_NO, "concentration"),
    "hidden-markov": ModelEntry(
        "states that follow each other; rows are steps; `--covariance` as for a mixture", "table", _chain, _CHAINS,
        "components concentration",
    ),
    "topics": ModelEntry(
        "latent Dirichlet allocation of documents", "corpus", _topics, ("vb", "annealed", "vt", "lvt", "svi")
    ),
    "factors": ModelEntry(
        "sums of factors that are on or off, in noise", "table", _factors, ("vb", "annealed", "lvt", "svi")
    ),
    "factor-analysis": ModelEntry(
        "hidden scores, mixed linearly, in noise; `--covariance spherical` is PPCA", "table", _factor_analysis, _LINEAR
    ),
    "state-space": ModelEntry("a series that follows hidden states; rows are steps", "table", _state_space, _LINEAR),
    "polynomial": ModelEntry("regression on powers; `--target` names y", "regression", _polynomial, ("vb",)),
}  # fmt: skip


def methods(
    names: str, restarts: int, draws: int, model: str, temperatures: str | None = None, length: float | None = None
) -> dict[str, Method]:
    """The methods of a list such as "vb,ep,pt", checked against the model."""
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if not chosen:
        raise InvalidParameter("--method must name at least one method")
    for name in chosen:
        if name not in METHODS:
            raise InvalidParameter(f"--method must be among {', '.join(METHODS)}, got {name!r}")
        if name not in MODELS[model].methods and not METHODS[name].tempered:
            works = ", ".join(MODELS[model].methods)
            raise InvalidParameter(f"--method {name} does not work for --model {model}; {works} do")
    for flag, value in (("temperatures", temperatures), ("length", length)):
        if value is not None and not any(METHODS[name].tempered for name in chosen):
            able = ", ".join(name for name, entry in METHODS.items() if entry.tempered)
            raise InvalidParameter(f"--{flag} is for --method {able}, got --method {names}")
    given = Options(restarts, draws, _numbers(temperatures), _whole(length), MODELS[model].data == "corpus")
    return {name: METHODS[name].make(given) for name in chosen}


def _numbers(text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(number) for number in text.split(","))
    except ValueError:
        raise InvalidParameter(f"--temperatures must be numbers with commas, such as 1,2,5, got {text!r}") from None


def _whole(length: float | None) -> float | None:
    """Sweeps are counted by whole numbers; passes over minibatches may have a part of one."""
    return int(length) if length is not None and length.is_integer() else length


def model_entry(name: str) -> ModelEntry:
    if name not in MODELS:
        raise InvalidParameter(f"--model must be one of {', '.join(MODELS)}, got {name!r}")
    return MODELS[name]
