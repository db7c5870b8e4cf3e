"""Brackets around the evidence of fifty problems simulated from each prior: how many hold the exact value, how wide."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.special import logsumexp
from scipy.stats import gamma, norm

import temperance as tp
from tests.exact import marginals
from tests.exact.paths import log_evidence

pytestmark = pytest.mark.slow

PROBLEMS = 50
METHOD = tp.ParallelTempering(draws=2000, warmup=200, replicas=8)
CHAIN, ROWS, SERIES = 6, 3, 8  # their sizes

# ---- hidden Markov: all paths -------------------------------------------------------------------------------

BETA = {"a": 1.3, "b": 0.8}


def hidden_markov() -> tp.HMM:
    return tp.HMM(2, "bernoulli", prior=tp.Beta(**BETA), concentration=0.9, sticky=0.7)


def all_paths(x: np.ndarray) -> float:
    return log_evidence([x], lambda rows: marginals.bernoulli(rows, **BETA), np.ones(2), 0.9 + 0.7 * np.eye(2))


# ---- factor analysis: a grid over the loadings, means integrated analytically --------------------------------

NOISE, RELEVANCE = [0.5, 0.8], 2.0
LOADINGS = np.linspace(-5.0, 5.0, 81)


def factors() -> tp.FactorAnalysis:
    return tp.FactorAnalysis(1, noise=NOISE, relevance=RELEVANCE, centre=0.0, scale=1.0)


@cache
def rows_together() -> tuple[np.ndarray, np.ndarray]:
    """The log density's constant, and the precision of all rows, at every pair of loadings."""
    w = np.stack(np.meshgrid(LOADINGS, LOADINGS, indexing="ij"), axis=-1)
    each = w[..., :, None] * w[..., None, :] + np.diag(NOISE)
    # The column means, standard Normal, are the same in every row.
    total = np.einsum("nm,abij->abnimj", np.eye(ROWS), each)
    total = total + np.einsum("nm,ij->nimj", np.ones((ROWS, ROWS)), np.eye(2))
    total = total.reshape(len(LOADINGS), len(LOADINGS), 2 * ROWS, 2 * ROWS)
    constant = norm(0.0, np.sqrt(1 / RELEVANCE)).logpdf(w).sum(axis=-1) - 0.5 * np.linalg.slogdet(2 * np.pi * total)[1]
    return constant, np.linalg.inv(total)


def all_loadings(x: np.ndarray) -> float:
    constant, precision = rows_together()
    log = constant - 0.5 * np.einsum("i,abij,j->ab", x.ravel(), precision, x.ravel())
    top = log.max()
    return float(top + np.log(simpson(simpson(np.exp(log - top), x=LOADINGS), x=LOADINGS)))


# ---- a local level: a grid over the logarithms of both precisions ---------------------------------------------

PRECISIONS = np.linspace(-6.0, 5.0, 89)


def level() -> tp.StateSpace:
    return tp.StateSpace.local_level(
        noise=tp.Gamma(3.0, 2.0), state_noise=tp.Gamma(3.0, 1.0), start=9.0, centre=0.0, scale=1.0
    )


@cache
def steps_together() -> tuple[np.ndarray, np.ndarray]:
    """The same of a whole series, at every pair of precisions."""
    t = np.arange(SERIES)
    walk, white = np.minimum(t[:, None], t[None]), np.eye(SERIES)
    variance = np.exp(-PRECISIONS)
    total = 9.0 + variance[:, None, None, None] * walk + variance[None, :, None, None] * white
    state = gamma(3.0, scale=1.0).logpdf(np.exp(PRECISIONS)) + PRECISIONS
    noise = gamma(3.0, scale=0.5).logpdf(np.exp(PRECISIONS)) + PRECISIONS
    constant = state[:, None] + noise[None] - 0.5 * np.linalg.slogdet(2 * np.pi * total)[1]
    return constant, np.linalg.inv(total)


def all_precisions(x: np.ndarray) -> float:
    constant, precision = steps_together()
    log = constant - 0.5 * np.einsum("i,abij,j->ab", x[:, 0], precision, x[:, 0])
    return float(logsumexp(log) + 2 * np.log(PRECISIONS[1] - PRECISIONS[0]))


# ---- brackets -----------------------------------------------------------------------------------------------


def first_chain(values: Any) -> np.ndarray:
    return np.asarray(values.x)


def first_series(values: Any) -> np.ndarray:
    return np.asarray(values.x)[0]


@pytest.mark.parametrize(
    ("make", "size", "draws", "as_data", "exact"),
    [
        pytest.param(hidden_markov, (CHAIN, 2), CHAIN, first_chain, all_paths, id="hidden Markov"),
        pytest.param(factors, (ROWS, 2), ROWS, np.asarray, all_loadings, id="factor analysis"),
        pytest.param(level, (SERIES, 1), 1, first_series, all_precisions, id="state space"),
    ],
)
def test_brackets_hold_the_exact_evidence(
    make: Callable[[], Any],
    size: tuple[int, int],
    draws: int,
    as_data: Callable[[Any], np.ndarray],
    exact: Callable[[np.ndarray], float],
) -> None:
    """At least 97% of fifty, with a median width below half a nat."""
    any_data = np.random.default_rng(0).integers(2, size=size).astype(float)
    model = make().prepare(any_data)[0]
    simulate = jax.jit(lambda key: model.simulate(key, model.sample_prior(key), draws))
    held, width = [], []
    for number in range(PROBLEMS):
        x = as_data(simulate(jax.random.key(number)))
        low, high = tp.fit(make(), x, METHOD, seed=number).bracket  # type: ignore[misc]
        held.append(low <= exact(x) <= high)
        width.append(high - low)
    assert np.mean(held) >= 0.97
    assert np.median(width) < 0.5
