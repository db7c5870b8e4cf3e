"""The one table of models and methods that the command line knows. A new one is one more line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import temperance as tp

from ..errors import InvalidParameter
from ..inference._method import Method
from ..models import Model


@dataclass(frozen=True)
class MethodEntry:
    about: str
    make: Callable[[int, int], Method]  # from the number of restarts and of draws
    evidence: str


@dataclass(frozen=True)
class ModelEntry:
    about: str
    data: str  # "table", "corpus" or "regression" (a table with a target)
    make: Callable[..., Model]  # from a size, the component prior, the concentration and further options
    methods: tuple[str, ...]
    priors: str = ""  # which flags of the prior it takes: "components" and "concentration"


METHODS: dict[str, MethodEntry] = {
    "vb": MethodEntry("variational Bayes", lambda n, draws: tp.VB(restarts=n), "a lower bound"),
    "annealed": MethodEntry(
        "variational Bayes, cooled", lambda n, draws: tp.Annealed(tp.VB(restarts=n)), "a lower bound"
    ),
    "hellinger": MethodEntry(
        "message passing with α = ½", lambda n, draws: tp.MessagePassing(0.5, restarts=n), "an approximation"
    ),
    "ep": MethodEntry("expectation propagation", lambda n, draws: tp.EP(restarts=n), "an approximation"),
    "laplace": MethodEntry("Laplace's approximation", lambda n, draws: tp.Laplace(restarts=n), "an approximation"),
    "svi": MethodEntry("stochastic variational inference", lambda n, draws: tp.SVI(), "a noisy lower bound"),
    "em": MethodEntry("EM, a point estimate", lambda n, draws: tp.EM(restarts=n), "none"),
    "pt": MethodEntry(
        "parallel tempering, Monte Carlo",
        lambda n, draws: tp.ParallelTempering(draws=draws, warmup=draws // 2),
        "an estimate with a bracket",
    ),
    "ais": MethodEntry("annealed importance sampling", lambda n, draws: tp.AIS(), "an estimate with a bracket"),
    "gibbs": MethodEntry("Gibbs sampling", lambda n, draws: tp.Gibbs(draws=draws, warmup=draws // 2), "none"),
}

_ALL = ("vb", "annealed", "hellinger", "ep", "pt", "ais", "gibbs", "laplace", "svi", "em")
_LINEAR = ("vb", "annealed", "pt", "ais", "gibbs", "svi", "em")
_CHAINS = ("vb", "annealed", "pt", "ais", "gibbs", "laplace", "svi", "em")
_COUNTS = ("vb", "hellinger", "ep", "pt", "ais", "gibbs", "svi", "em")


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
        "a mixture that finds its own number of groups, up to the one given", "table", _process, ("vb", "svi", "em"),
        "components concentration",
    ),
    "poisson-mixture": ModelEntry("groups of counts", "table", _mixture("poisson"), _COUNTS, "concentration"),
    "bernoulli-mixture": ModelEntry("groups of 0/1 rows", "table", _mixture("bernoulli"), _COUNTS, "concentration"),
    "hidden-markov": ModelEntry(
        "states that follow each other; rows are steps; `--covariance` as for a mixture", "table", _chain, _CHAINS,
        "components concentration",
    ),
    "topics": ModelEntry("latent Dirichlet allocation of documents", "corpus", _topics, ("vb", "svi")),
    "factors": ModelEntry("sums of factors that are on or off, in noise", "table", _factors, ("vb", "svi")),
    "factor-analysis": ModelEntry(
        "hidden scores, mixed linearly, in noise; `--covariance spherical` is PPCA", "table", _factor_analysis, _LINEAR
    ),
    "state-space": ModelEntry("a series that follows hidden states; rows are steps", "table", _state_space, _LINEAR),
    "polynomial": ModelEntry("regression on powers; `--target` names y", "regression", _polynomial, ("vb",)),
}  # fmt: skip


def methods(names: str, restarts: int, draws: int, model: str) -> dict[str, Method]:
    """The methods of a list such as "vb,ep,pt", checked against the model."""
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if not chosen:
        raise InvalidParameter("--method must name at least one method")
    for name in chosen:
        if name not in METHODS:
            raise InvalidParameter(f"--method must be among {', '.join(METHODS)}, got {name!r}")
        if name not in MODELS[model].methods:
            works = ", ".join(MODELS[model].methods)
            raise InvalidParameter(f"--method {name} does not work for --model {model}; {works} do")
    return {name: METHODS[name].make(restarts, draws) for name in chosen}


def model_entry(name: str) -> ModelEntry:
    if name not in MODELS:
        raise InvalidParameter(f"--model must be one of {', '.join(MODELS)}, got {name!r}")
    return MODELS[name]
