"""Observed variables of a graph that are not conjugate, against sums over grids of the coefficients."""

from __future__ import annotations

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, log_ndtr, log_softmax, logsumexp, ndtr
from scipy.stats import norm

import temperance as tp
from temperance.errors import InvalidParameter
from temperance.graph import NotConjugate, PlateMismatch

RNG = np.random.default_rng(0)
PHI = np.column_stack([np.ones(12), RNG.normal(size=12)])
A = PHI @ [0.3, 1.0]
YES = (RNG.uniform(size=12) < 1 / (1 + np.exp(-A))).astype(float)
COUNTS = RNG.poisson(np.exp(0.5 * A)).astype(float)
Z = A + RNG.normal(size=12)
GRADES = np.digitize(Z, [-0.5, 1.0]).astype(float)
INSIDE = np.clip(Z, -1.5, 2.5)

GRID = np.linspace(-11.0, 11.0, 441)
PLACES = np.stack(np.meshgrid(GRID, GRID, indexing="ij"), axis=-1) @ PHI.T
ENDS = np.array([-np.inf, -0.5, 1.0, np.inf])


def ordered(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.log(ndtr(ENDS[y.astype(int) + 1] - a) - ndtr(ENDS[y.astype(int)] - a) + 1e-300)


def censored(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y <= 0.0, log_ndtr(-a), norm(a).logpdf(y))


def truncated(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    return norm(a).logpdf(y) - log_ndtr(a + 1.6)


# (arguments, data, log p(y | a), how far VB's bound may be below)
KINDS: dict[str, tuple[tuple[Any, ...], np.ndarray, Any, float]] = {
    "logistic": ((), YES, lambda a, y: -np.logaddexp(0, (1 - 2 * y) * a), 0.2),
    "probit": ((), YES, lambda a, y: log_ndtr((2 * y - 1) * a), 0.8),
    "log_poisson": ((), COUNTS, lambda a, y: y * a - np.exp(a) - gammaln(y + 1), 0.1),
    "ordered": ((ENDS[1:-1],), GRADES, ordered, 0.8),
    "censored": ((1.0, 0.0), np.maximum(Z, 0.0), censored, 0.8),
    "truncated": ((1.0, -1.6), INSIDE, truncated, 0.8),
}


def exact(kind: str) -> float:
    """The evidence, with weights of precision ½."""
    _, y, log_p, _ = KINDS[kind]
    prior = np.add.outer(*[norm(0.0, 2**0.5).logpdf(GRID)] * 2)
    return float(logsumexp(log_p(PLACES, y).sum(-1) + prior) + 2 * np.log(GRID[1] - GRID[0]))


def graph(kind: str) -> Any:
    g = tp.Graph()
    w = g.normal("w", 0.0, 0.5, dim=2)
    getattr(g, kind)("y", g.dot(w, g.input("phi", 2, plates="n")), *KINDS[kind][0], observed=True)
    return g.model()


def fitted(kind: str, method: Any) -> tp.Fit:
    return tp.fit(graph(kind), {"phi": PHI, "y": KINDS[kind][1]}, method, seed=1, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_rises_and_stays_below(kind: str) -> None:
    fit = fitted(kind, tp.VB(tol=1e-10, max_iter=1000))
    assert (np.diff(fit.history["elbo"], axis=0) > -1e-9).all()
    assert exact(kind) - KINDS[kind][3] < fit.log_evidence < exact(kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_annealed_importance_sampling_has_the_exact_likelihood(kind: str) -> None:
    fit = fitted(kind, tp.AIS(particles=200, temperatures=60))
    assert abs(fit.log_evidence - exact(kind)) < 4 * fit.standard_error < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_expectation_propagation_by_one_dimensional_quadrature(kind: str) -> None:
    """Closer than the bound, and for single data exact."""
    fit = fitted(kind, tp.EP(tol=1e-10))
    assert fit.converged and abs(fit.log_evidence - exact(kind)) < 0.05
    assert exact(kind) - fitted(kind, tp.MessagePassing(0.5, tol=1e-10)).log_evidence > -1e-3
    one = {"phi": PHI[:1], "y": KINDS[kind][1][:1]}
    alone = tp.fit(graph(kind), one, tp.EP(tol=1e-12), progress=False).log_evidence
    a = np.linspace(-40.0, 40.0, 80001)
    log_p = KINDS[kind][2](a, one["y"]) + norm(0.0, np.sqrt(2.0 * PHI[0] @ PHI[0])).logpdf(a)
    assert alone == pytest.approx(logsumexp(log_p) + np.log(1e-3), abs=1e-6)


@pytest.mark.slow
def test_gibbs_draws_the_weights_of_a_logistic_regression() -> None:
    fit = fitted("logistic", tp.Gibbs(draws=4000, warmup=200))
    log_p = KINDS["logistic"][2](PLACES, YES).sum(-1) + np.add.outer(*[norm(0.0, 2**0.5).logpdf(GRID)] * 2)
    share = np.exp(log_p - logsumexp(log_p))
    drawn = np.asarray(fit.posterior["w"]).reshape((-1, 2))
    for axis in range(2):
        along = share.sum(axis=1 - axis)
        mean = along @ GRID
        assert drawn[:, axis].mean() == pytest.approx(mean, abs=0.1)
        assert drawn[:, axis].std() == pytest.approx(np.sqrt(along @ np.square(GRID - mean)), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["logistic", "ordered", "log_poisson", "censored", "truncated"])
def test_predictive_densities_sum_to_one(kind: str) -> None:
    fit = fitted(kind, tp.VB())
    line = {"logistic": np.arange(2.0), "ordered": np.arange(3.0), "log_poisson": np.arange(60.0)}.get(
        kind, np.linspace(-1.6 if kind == "truncated" else 1e-9, 9.0, 1601)
    )
    row = np.broadcast_to([1.0, 0.4], (len(line), 2))
    p = np.exp(fit.log_predictive({"phi": row, "y": line}))
    if kind in ("censored", "truncated"):
        p = (p - 0.5 * p * np.isin(np.arange(len(p)), (0, len(p) - 1))) * (line[1] - line[0])  # trapezoids
    if kind == "censored":
        p = np.append(p, np.exp(fit.log_predictive({"phi": row[:1], "y": np.zeros(1)})))
        line = np.append(line, 0.0)
    assert p.sum() == pytest.approx(1.0, abs=1e-5)
    if kind != "censored":  # its prediction is that of the number before it is cut off
        assert fit.predict({"phi": row[:1]}).mean[0] == pytest.approx(p @ line, abs=1e-5)


# ---- classes --------------------------------------------------------------------------------------------------

CLASSES = np.array([0.0, 0.0, 1.0, 2.0, 0.0, 1.0, 0.0])


def levels() -> Any:
    """Three levels without inputs."""
    g = tp.Graph()
    a = g.normal("a", 0.0, 0.5, plates=g.plate("class", 3))
    g.softmax("y", a, "class", plates="n", observed=True)
    return g.model()


def three_levels() -> tuple[float, np.ndarray]:
    """The evidence, and the posterior mean of the probabilities, by a sum over all levels on a grid."""
    grid = np.linspace(-9.0, 9.0, 121)
    a = np.stack(np.meshgrid(grid, grid, grid, indexing="ij"), axis=-1).reshape((-1, 3))
    log_p = log_softmax(a, axis=1)
    log_joint = log_p[:, CLASSES.astype(int)].sum(1) + norm(0.0, 2**0.5).logpdf(a).sum(1)
    evidence = float(logsumexp(log_joint))
    return evidence + 3 * np.log(grid[1] - grid[0]), np.exp(log_joint - evidence) @ np.exp(log_p)


@pytest.mark.slow
def test_softmax_against_a_sum_over_all_levels() -> None:
    evidence, p = three_levels()
    bound = tp.fit(levels(), CLASSES, tp.VB(tol=1e-10, max_iter=2000), progress=False)
    assert (np.diff(bound.history["elbo"], axis=0) > -1e-9).all()
    assert evidence - 1.1 < bound.log_evidence < evidence  # 1.04
    path = tp.fit(levels(), CLASSES, tp.AIS(particles=150, temperatures=60), seed=1, progress=False)
    assert abs(path.log_evidence - evidence) < 4 * path.standard_error < 0.3
    draws = tp.fit(levels(), CLASSES, tp.Gibbs(draws=6000, warmup=300), seed=1, progress=False)
    found = np.exp(draws.log_predictive(np.arange(3.0)))
    assert found.sum() == pytest.approx(1.0, abs=1e-8)
    np.testing.assert_allclose(found, p, atol=0.02)
    tempered = tp.fit(
        levels(), CLASSES, tp.ParallelTempering(draws=1500, warmup=300, replicas=4), seed=1, progress=False
    )
    assert abs(tempered.log_evidence - evidence) < 4 * tempered.standard_error + 0.02


@pytest.mark.slow
def test_a_softmax_regression_tells_classes_apart() -> None:
    rng = np.random.default_rng(1)
    label = rng.integers(3, size=150)
    x = rng.normal(size=(150, 2)) + 3.0 * np.eye(3)[:, :2][label]
    phi = np.column_stack([np.ones(150), x])
    g = tp.Graph()
    spread = g.gamma("spread", 1.0, 1.0)
    w = g.normal("w", 0.0, spread, dim=3, plates=g.plate("class", 3))
    g.softmax("y", g.dot(w, g.input("phi", 3, plates="n")), "class", observed=True)
    fit = tp.fit(g.model(), {"phi": phi, "y": label.astype(float)}, tp.VB(tol=1e-8, max_iter=500), progress=False)
    assert (np.diff(fit.history["elbo"], axis=0) > -1e-7).all()
    p = fit.predict({"phi": phi}).mean
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-8)
    assert np.mean(p.argmax(axis=1) == label) > 0.85
    each = [fit.log_predictive({"phi": phi[:5], "y": np.full(5, float(k))}) for k in range(3)]
    np.testing.assert_allclose(np.exp(each).sum(axis=0), 1.0, atol=1e-8)
    np.testing.assert_allclose(np.exp(each).T, p[:5], atol=0.01)  # both average over draws


# ---- beside discrete latents ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_mixture_of_two_levels_against_all_assignments() -> None:
    """Tables of 0/1 answers: each row has one of two levels, and which is not known."""
    y = np.array([[1, 1, 1], [0, 0, 1], [1, 1, 0], [0, 0, 0]], dtype=float)
    g = tp.Graph()
    level = g.normal("level", [-1.0, 1.0], 0.5, plates=g.plate("k", 2))
    z = g.categorical("z", [0.4, 0.6], plates="n")
    g.logistic("y", level[z], plates=("n", "item"), observed=True)
    grid = np.linspace(-12.0, 12.0, 401)
    log_p = y.sum(1) * grid[:, None] - 3 * np.logaddexp(0, grid)[:, None]
    prior = norm(np.array([[-1.0], [1.0]]), 2**0.5).logpdf(grid)
    every = []
    for path in itertools.product((0, 1), repeat=4):
        z_is = np.array(path)
        parts = [logsumexp(log_p[:, z_is == k].sum(1) + prior[k]) + np.log(grid[1] - grid[0]) for k in (0, 1)]
        every.append(sum(parts) + np.log([0.4, 0.6])[z_is].sum())
    evidence = float(logsumexp(every))
    bound = tp.fit(g.model(), y, tp.VB(restarts=3, tol=1e-10, max_iter=500), progress=False)
    assert (np.diff(bound.history["elbo"], axis=0) > -1e-9).all() and evidence - 2.0 < bound.log_evidence < evidence
    path = tp.fit(g.model(), y, tp.AIS(particles=200, temperatures=60), seed=1, progress=False)
    assert abs(path.log_evidence - evidence) < 4 * path.standard_error < 0.3


def test_a_missing_answer_says_nothing() -> None:
    phi, y = np.vstack([PHI, [[1.0, 9.0]]]), np.append(YES, np.nan)
    method = tp.VB(tol=1e-10)
    with_gap = tp.fit(graph("logistic"), {"phi": phi, "y": y}, method, progress=False)
    assert with_gap.log_evidence == pytest.approx(fitted("logistic", method).log_evidence, abs=1e-8)


def test_draws_have_the_probabilities_that_the_densities_say() -> None:
    model = graph("ordered")
    prepared, _ = model.prepare({"phi": PHI, "y": GRADES})
    import jax

    rows = prepared.simulate(jax.random.key(0), {"w": jnp.asarray([0.2, 0.0])}, 4000)
    share = np.bincount(np.asarray(rows["y"]).astype(int), minlength=3) / 4000
    a = 0.2 * np.asarray(rows["phi"])[:, 0]
    expected = [np.exp(ordered(a, np.full(4000, float(k)))).mean() for k in range(3)]
    np.testing.assert_allclose(share, expected, atol=0.04)


# ---- what is refused ------------------------------------------------------------------------------------------


def test_refusals_are_sentences() -> None:
    g = tp.Graph()
    w = g.normal("w", 0.0, 1.0, dim=2)
    rate = g.gamma("rate", 1.0, 1.0)
    number = g.normal("number", 0.0, 1.0)
    with pytest.raises(PlateMismatch, match="needs a number"):
        g.logistic("y", w, plates="n", observed=True)
    with pytest.raises(NotConjugate, match="can be observed but not latent"):
        g.probit("y", number, plates="n")
    with pytest.raises(NotConjugate, match="must be known"):
        g.truncated("y", number, rate, 0.0, plates="n", observed=True)
    with pytest.raises(InvalidParameter, match="lower must be below upper"):
        g.censored("y", number, 1.0, 2.0, 1.0, plates="n", observed=True)
    with pytest.raises(PlateMismatch, match="a number for each category"):
        g.softmax("y", number, "class", plates="n", observed=True)
    with pytest.raises(InvalidParameter, match="cuts must be a row of increasing"):
        g.ordered("y", number, [1.0, 0.0], plates="n", observed=True)
    g.normal("child", number, 1.0)
    g.logistic("y", number, plates="n", observed=True)
    with pytest.raises(NotConjugate, match="latent child of 'number'"):
        g.model()
