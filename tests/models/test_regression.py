"""Linear regression against closed forms, quadrature, the lecture notes' updates, and its own simulations."""

import dataclasses
from fractions import Fraction
from math import log, pi, sqrt
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import gammaln, logsumexp, psi

import temperance as tp
from temperance.data.features import Rows, Standardised, condition_at_most
from temperance.errors import InvalidData, InvalidParameter, UnsupportedMethod
from temperance.models import Data
from temperance.models._model import means
from temperance.models.linear.regression import VAGUER
from tests.tiers import with_slow

N = 12  # one shape for most tests: a new one is a new compilation
EXACT = tp.VB(tol=1e-13, max_iter=3000)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N, 2)) * [1.0, 3.0] + [0.5, -2.0]
    return x, 1.5 + x @ [1.2, -0.4] + 0.5 * rng.normal(size=N)


def with_ones(x: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(x)), x])


# ---- known precisions: everything is exact -------------------------------------------------------------

COVARIANCE = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])
KNOWN = {
    "a number": (dict(prior=0.7), np.zeros(3), np.eye(3) / 0.7),
    "a Normal": (dict(prior=tp.Normal([3.0, -1.0, 0.2], COVARIANCE)), np.array([3.0, -1.0, 0.2]), COVARIANCE),
}


@pytest.mark.parametrize("kind", with_slow(KNOWN, "a number"))
def test_known_precisions_give_the_exact_evidence_posterior_and_predictive(kind, rows):
    x, y = rows
    arguments, mean, covariance = KNOWN[kind]
    beta = 4.0
    fit = tp.fit(tp.LinearRegression(noise=beta, **arguments), (x, y))
    phi = with_ones(x)
    joint = phi @ covariance @ phi.T + np.eye(N) / beta
    assert fit.log_evidence == pytest.approx(stats.multivariate_normal(phi @ mean, joint).logpdf(y), abs=1e-9)

    gain = np.linalg.solve(joint, phi @ covariance).T
    w, s = mean + gain @ (y - phi @ mean), covariance - gain @ phi @ covariance
    np.testing.assert_allclose(fit.posterior["weights"].location, w, rtol=1e-9)
    np.testing.assert_allclose(fit.posterior["weights"].covariance, s, rtol=1e-8, atol=1e-12)

    new = np.array([[0.0, 0.0], [4.0, -9.0], [-100.0, 50.0]])
    predicted = fit.predict(new)
    at = with_ones(new)
    np.testing.assert_allclose(predicted.mean, at @ w, rtol=1e-9)
    np.testing.assert_allclose(predicted.variance, np.sum(at @ s * at, axis=1) + 1 / beta, rtol=1e-8)
    density = stats.norm(predicted.mean, np.sqrt(predicted.variance)).logpdf([1.0, 2.0, 3.0])
    np.testing.assert_allclose(fit.log_predictive((new, [1.0, 2.0, 3.0])), density, rtol=1e-9)


def test_one_row_fewer_rows_than_weights_and_no_intercept():
    fit = tp.fit(tp.LinearRegression(intercept=False, prior=2.0, noise=5.0), ([[3.0, -1.0]], [0.4]))
    assert fit.log_evidence == pytest.approx(stats.norm(0, np.sqrt(10 / 2 + 1 / 5)).logpdf(0.4), abs=1e-12)
    np.testing.assert_allclose(fit.posterior["weights"].location, np.array([3, -1]) * 0.4 / 10.4, rtol=1e-12)
    assert any("fewer rows (1) than weights (2)" in note for note in fit.notes)


def exact_log_evidence(phi: np.ndarray, y: np.ndarray, alpha: float, beta: float) -> float:
    """In rational arithmetic, by the LDLᵀ factors of the targets' covariance."""
    n = len(y)
    rows = [[Fraction(v) for v in row] for row in phi.tolist()]
    matrix = [[sum(a * b for a, b in zip(u, v, strict=True)) / Fraction(alpha) for v in rows] for u in rows]
    for i in range(n):
        matrix[i][i] += 1 / Fraction(beta)
    left = [Fraction(v) for v in y.tolist()]
    value = n * log(2 * pi)
    for k in range(n):
        pivot = matrix[k][k]
        value += log(pivot.numerator) - log(pivot.denominator) + float(left[k] ** 2 / pivot)
        for i in range(k + 1, n):
            factor = matrix[i][k] / pivot
            left[i] -= factor * left[k]
            for j in range(k + 1, n):
                matrix[i][j] -= factor * matrix[k][j]
    return -0.5 * value


def test_raw_powers_keep_their_digits():
    x = np.linspace(-5, 5, N)
    y = np.round(0.2 * x**3 - x + np.cos(7 * x), 3)
    powers = x[:, None] ** np.arange(10)
    fit = tp.fit(tp.LinearRegression(tp.Polynomial(9, "monomial"), prior=0.01, noise=1.0), (x, y))
    assert fit.log_evidence == pytest.approx(exact_log_evidence(powers, y, 0.01, 1.0), abs=1e-6)


# ---- unknown precisions: quadrature, and the notes' own updates ----------------------------------------

ALPHA, BETA = (2.0, 1.5), (1.5, 0.8)  # shapes and rates


@pytest.fixture(scope="module")
def hierarchical(rows) -> tp.Fit:
    model = tp.LinearRegression(intercept="shared", prior=tp.Gamma(*ALPHA), noise=tp.Gamma(*BETA))
    return tp.fit(model, rows, EXACT)


class Grid(NamedTuple):
    """The exact posterior over (α, β) on a fine grid, by the closed form of p(y | α, β)."""

    log_evidence: float
    weight: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray


def quadrature(x: np.ndarray, y: np.ndarray, size: int = 240) -> Grid:
    phi = with_ones(x)
    values, vectors = np.linalg.eigh(phi @ phi.T)
    rotated = vectors.T @ y
    log_a, log_b = np.linspace(-7, 5, size), np.linspace(-6, 6, size)
    a, b = (grid.ravel() for grid in np.meshgrid(np.exp(log_a), np.exp(log_b)))
    variance = np.maximum(values, 0)[None] / a[:, None] + 1 / b[:, None]
    log_p = -0.5 * np.sum(np.log(2 * np.pi * variance) + rotated**2 / variance, axis=1)
    log_p += stats.gamma(ALPHA[0], scale=1 / ALPHA[1]).logpdf(a) + np.log(a)
    log_p += stats.gamma(BETA[0], scale=1 / BETA[1]).logpdf(b) + np.log(b)
    log_p += np.log((log_a[1] - log_a[0]) * (log_b[1] - log_b[0]))
    total = logsumexp(log_p)
    return Grid(float(total), np.exp(log_p - total), a, b)


def test_the_bound_is_just_below_the_exact_evidence(hierarchical, rows):
    exact = quadrature(*rows).log_evidence
    assert exact == pytest.approx(quadrature(*rows, size=160).log_evidence, abs=1e-8)  # the grid is fine enough
    assert exact - 0.5 < hierarchical.log_evidence < exact


def notes_bound(phi, y, m, s, a, b, c, d) -> float:
    """The lecture notes' lower bound, with the entropy of q(β) and E ln p(t | w, β) as corrected."""
    (a0, b0), (c0, d0), n, k = ALPHA, BETA, *phi.shape
    log_alpha, log_beta, alpha, beta = psi(a) - np.log(b), psi(c) - np.log(d), a / b, c / d
    square = np.sum((y - phi @ m) ** 2) + np.trace(phi.T @ phi @ s)
    likelihood = n / 2 * (log_beta - np.log(2 * np.pi)) - beta / 2 * square
    weights = k / 2 * (log_alpha - np.log(2 * np.pi)) - alpha / 2 * (m @ m + np.trace(s))
    prior = a0 * np.log(b0) + (a0 - 1) * log_alpha - b0 * alpha - gammaln(a0)
    prior += c0 * np.log(d0) + (c0 - 1) * log_beta - d0 * beta - gammaln(c0)
    entropy = 0.5 * np.linalg.slogdet(s)[1] + k / 2 * (1 + np.log(2 * np.pi))
    entropy += gammaln(a) - (a - 1) * psi(a) - np.log(b) + a
    entropy += gammaln(c) - (c - 1) * psi(c) - np.log(d) + c
    return likelihood + weights + prior + entropy


@eqx.filter_jit
def start(model, key, data):
    return model.initial(key, data).blocks


def test_every_iteration_is_that_of_the_lecture_notes(hierarchical, rows):
    x, y = rows
    phi, model = with_ones(x), hierarchical.model
    q = start(model, jax.random.split(jax.random.key(0), 1)[0], hierarchical.data)
    a, b = float(q["alpha"].shape[0]), float(q["alpha"].rate[0])
    c, d = float(q["noise"].shape), float(q["noise"].rate)
    assert (a, c) == pytest.approx((ALPHA[0] + 1.5, BETA[0] + N / 2), rel=1e-12)
    bounds = []
    for _ in range(40):
        s = np.linalg.inv(a / b * np.eye(3) + c / d * phi.T @ phi)
        m = c / d * s @ phi.T @ y
        if not bounds:
            bounds.append(notes_bound(phi, y, m, s, a, b, c, d))
        b = ALPHA[1] + 0.5 * (m @ m + np.trace(s))
        d = BETA[1] + 0.5 * (np.sum((y - phi @ m) ** 2) + np.trace(phi.T @ phi @ s))
        bounds.append(notes_bound(phi, y, m, s, a, b, c, d))
    history = hierarchical.history["elbo"]
    # The model's step begins with the weights, which are already the best for the starting precisions.
    np.testing.assert_allclose(history[: len(bounds)], bounds[: len(history)], rtol=1e-10)
    q = hierarchical.posterior
    np.testing.assert_allclose(q["weights"].location, m, rtol=1e-6)
    np.testing.assert_allclose([q["alpha"].rate[0], q["noise"].rate], [b, d], rtol=1e-6)


def test_the_function_is_affine_in_each_block(hierarchical):
    model, data = hierarchical.model, hierarchical.data
    one, two = (eqx.filter_jit(means)(start(model, jax.random.key(seed), data)) for seed in (1, 2))

    total = jax.jit(lambda m: model.log_prior(m) + jnp.sum(model.log_evidence(m, data.values)))

    for name in model.prior:
        first, last = float(total(one)), float(total(one | {name: two[name]}))
        between = float(total(one | {name: one[name].mix(two[name], 0.3)}))
        assert between == pytest.approx(0.7 * first + 0.3 * last, rel=1e-12)
        assert abs(first - last) > 0.01


# ---- Gibbs ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_gibbs_keeps_the_joint_law_and_the_test_can_fail(rows):
    """A sweep from draws of the prior, and of data given them, leaves the joint law as it was."""
    size, n, rng = 20_000, 4, np.random.default_rng(5)
    alpha = rng.gamma(ALPHA[0], 1 / ALPHA[1], size=(size, 2))
    beta = rng.gamma(BETA[0], 1 / BETA[1], size=size)
    user = rng.normal(size=(size, 3)) / np.sqrt(alpha[:, [0, 1, 1]])  # intercept, and weights that share an α
    model, _ = tp.LinearRegression(prior=tp.Gamma(*ALPHA), noise=tp.Gamma(*BETA)).prepare(rows)
    at = model.coordinates
    weights = (user - np.asarray(at.offset)) @ np.asarray(at.inverse).T
    features = np.concatenate([np.ones((size, n, 1)), rng.normal(size=(size, n, 2))], axis=2)
    target = np.einsum("snp,sp->sn", features, weights) + rng.normal(size=(size, n)) / np.sqrt(beta)[:, None]

    def sweep(key, draws, values):
        return model.gibbs(key, draws, Data(values, jnp.ones(n), n))[0]

    old = {"weights": weights, "alpha": alpha, "noise": beta}
    values = Rows(features, target)
    new = jax.jit(jax.vmap(sweep))(jax.random.split(jax.random.key(5), size), old, values)
    new = {name: np.asarray(value) for name, value in new.items()}
    assert all(np.all(new[name] != old[name]) for name in old)
    assert smallest_p_value(model, new, values) > 1e-3
    # Wrong on purpose: the precision given the old weights beside the weights given the old precision.
    rate = ALPHA[1] + 0.5 * np.column_stack([user[:, 0] ** 2, user[:, 1] ** 2 + user[:, 2] ** 2])
    together = new | {"alpha": rng.gamma(ALPHA[0] + np.array([0.5, 1.0]), 1 / rate)}
    assert smallest_p_value(model, together, values) < 1e-8


def smallest_p_value(model, draws, values) -> float:
    user = np.asarray(model.units.draws_to_user(draws)["weights"])
    residual = values.target - np.einsum("snp,sp->sn", values.features, draws["weights"])
    alpha, beta = draws["alpha"], draws["noise"][:, None]
    pivots = [
        (alpha, stats.gamma(ALPHA[0], scale=1 / ALPHA[1])),
        (beta, stats.gamma(BETA[0], scale=1 / BETA[1])),
        (user**2 * alpha[:, [0, 1, 1]], stats.chi2(1)),
        (residual**2 * beta, stats.chi2(1)),
    ]
    return min(stats.kstest(column, law.cdf).pvalue for value, law in pivots for column in value.T)


# ---- predictions ---------------------------------------------------------------------------------------

NEW = np.array([[0.3, -1.0], [5.0, 10.0], [-2.0, 0.0]])


def test_the_predictive_is_a_student_t_that_integrates_to_one(hierarchical):
    q, at = hierarchical.posterior, with_ones(NEW)
    noise, weights = q["noise"], q["weights"]
    scale = np.sqrt(float(noise.rate / noise.shape) + np.sum(at @ np.asarray(weights.covariance) * at, axis=1))
    law = stats.t(2 * float(noise.shape), at @ np.asarray(weights.location), scale)
    np.testing.assert_allclose(
        hierarchical.log_predictive((NEW, [0.0, 1.0, 40.0])), law.logpdf([0.0, 1.0, 40.0]), rtol=1e-8
    )
    predicted = hierarchical.predict(NEW)
    np.testing.assert_allclose(predicted.mean, law.mean(), rtol=1e-9)
    np.testing.assert_allclose(predicted.variance, law.var(), rtol=1e-9)
    # The whole line by y = centre + scale · tan(angle).
    angle = np.linspace(-np.pi / 2, np.pi / 2, 4003)[1:-1]
    y = predicted.mean[0] + scale[0] * np.tan(angle)
    density = np.exp(hierarchical.log_predictive((np.repeat(NEW[:1], len(y), axis=0), y)))
    assert np.sum(density * scale[0] / np.cos(angle) ** 2) * (angle[1] - angle[0]) == pytest.approx(1, abs=1e-8)


def test_the_student_t_is_closer_to_the_exact_predictive_than_the_notes_gaussian(hierarchical, rows):
    x, y = rows
    grid, phi = quadrature(x, y, size=120), with_ones(x)
    keep = grid.weight > 1e-9
    values, vectors = np.linalg.eigh(phi.T @ phi)
    moment = vectors.T @ phi.T @ y
    at = with_ones(NEW)
    line = np.linspace(-8, 8, 801)
    for row, new in zip(at, NEW, strict=True):
        turned = vectors.T @ row
        precision = grid.alpha[keep, None] + grid.beta[keep, None] * values
        mean = np.sum(turned * grid.beta[keep, None] * moment / precision, axis=1)
        sd = np.sqrt(np.sum(turned**2 / precision, axis=1) + 1 / grid.beta[keep])
        targets = np.average(mean, weights=grid.weight[keep]) + line
        each = stats.norm(mean[:, None], sd[:, None]).pdf(targets)
        exact = grid.weight[keep] @ each
        student = np.exp(hierarchical.log_predictive((np.repeat(new[None], len(line), axis=0), targets)))
        q = hierarchical.posterior
        gaussian = stats.norm(
            row @ q["weights"].location,
            np.sqrt(q["noise"].rate / q["noise"].shape + row @ q["weights"].covariance @ row),
        ).pdf(targets)

        def divergence(guess, exact=exact):
            return np.sum(exact * (np.log(exact) - np.log(guess))) * (line[1] - line[0])

        assert 0 < divergence(student) < 0.003
        assert divergence(gaussian) > 5 * divergence(student)


@pytest.mark.slow
def test_predictions_from_draws(hierarchical):
    """Draws of the fitted posterior, in which noise and weights are independent, must give its moments."""

    class Draws(NamedTuple):
        blocks: dict[str, np.ndarray]

        def flat(self):
            n = self.blocks["noise"].shape[0]
            return self.blocks, jnp.full(n, -np.log(n))

    rng = np.random.default_rng(0)
    inside, q = hierarchical.state.blocks["weights"], hierarchical.posterior
    weights = rng.multivariate_normal(inside.location, np.linalg.inv(inside.precision), size=100_000)
    noise = rng.gamma(q["noise"].shape, 1 / q["noise"].rate, size=100_000)
    draws = Draws({"weights": weights, "noise": noise})
    found = hierarchical.model.predict(draws, NEW)
    at = with_ones(NEW)
    variance = np.sum(at @ np.asarray(q["weights"].covariance) * at, axis=1)
    variance += float(q["noise"].rate / (q["noise"].shape - 1))
    np.testing.assert_allclose(found.mean, hierarchical.predict(NEW).mean, atol=0.02)
    np.testing.assert_allclose(found.variance, variance, rtol=0.02)
    ours = hierarchical.model.units.draws_to_user(draws.blocks)["weights"]
    np.testing.assert_allclose(np.mean(ours, axis=0), q["weights"].location, atol=0.01)


# ---- units, places and weights -------------------------------------------------------------------------


@pytest.mark.parametrize("ard", with_slow([False, True], True))
def test_default_priors_do_not_depend_on_units_or_origins(ard, rows):
    x, y = rows
    model = tp.LinearRegression(ard=ard)
    plain = tp.fit(model, (x, y), EXACT)
    moved = tp.fit(model, (x * [1e3, 0.02] + [4e6, -7.0], 50 * y - 2e5), EXACT)
    assert moved.log_evidence == pytest.approx(plain.log_evidence - N * np.log(50), abs=1e-6)
    before, after = plain.predict(NEW), moved.predict(NEW * [1e3, 0.02] + [4e6, -7.0])
    np.testing.assert_allclose(after.mean, 50 * before.mean - 2e5, rtol=1e-9)
    np.testing.assert_allclose(after.variance, 2500 * before.variance, rtol=1e-6)


def test_far_away_targets_lose_nothing(rows):
    x, y = rows
    fits = [
        tp.fit(tp.LinearRegression(prior=tp.Normal([place, 0.0, 0.0], COVARIANCE), noise=4.0), (x, y + place))
        for place in (0.0, 2.0**30)
    ]
    assert fits[1].log_evidence == pytest.approx(fits[0].log_evidence, abs=1e-6)


@pytest.mark.slow
def test_weights_of_rows_count_rows(rows):
    x, y = rows
    count = np.array([2.0, 0.0] * (N // 2))  # as many rows as before
    twice = np.repeat(np.arange(N), count.astype(int))
    model = tp.LinearRegression()
    weighted = tp.fit(model, (x, y), EXACT, weights=count)
    repeated = tp.fit(model, (x[twice], y[twice]), EXACT)
    assert weighted.log_evidence == pytest.approx(repeated.log_evidence, rel=1e-9)
    np.testing.assert_allclose(weighted.predict(NEW).mean, repeated.predict(NEW).mean, rtol=1e-6)


# ---- features ------------------------------------------------------------------------------------------


def test_orthonormal_polynomials_are_orthonormal_over_the_data_and_polynomials_everywhere():
    rng = np.random.default_rng(0)
    x = rng.uniform(100, 110, size=(20, 1))
    weights = rng.integers(0, 3, size=20).astype(float)
    features = tp.Polynomial(8).complete(x, weights)
    phi = with_ones(features(x))
    np.testing.assert_allclose((phi * weights[:, None] / weights.sum()).T @ phi, np.eye(9), atol=1e-9)
    new = np.linspace(95, 115, 60)[:, None]
    for degree in range(1, 9):
        powers = np.vander((new[:, 0] - 105) / 10, degree + 1)
        column = features(new)[:, degree - 1]
        fitted = powers @ np.linalg.lstsq(powers, column, rcond=None)[0]
        np.testing.assert_allclose(fitted, column, rtol=1e-7, atol=1e-7 * np.abs(column).max())


def test_powers_as_they_are_and_scaled():
    x = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    raw = tp.Polynomial(2, "monomial").complete(x, np.ones(3))
    np.testing.assert_array_equal(raw(x), np.column_stack([x[:, 0], x[:, 0] ** 2, x[:, 1], x[:, 1] ** 2]))
    scaled = tp.Polynomial(2, "scaled").complete(x, np.ones(3))
    np.testing.assert_allclose(scaled(x), [[-1, 1, -1, 1], [0, 0, 0, 0], [1, 1, 1, 1]])


@pytest.mark.slow
def test_a_function_as_features_is_the_same_as_its_columns(rows):
    x, y = rows
    given = tp.fit(tp.LinearRegression(lambda x: np.column_stack([x[:, 0], np.sin(x[:, 1])])), (x, y))
    columns = tp.fit(tp.LinearRegression(), (np.column_stack([x[:, 0], np.sin(x[:, 1])]), y))
    assert given.log_evidence == columns.log_evidence
    with pytest.raises(InvalidParameter, match="cannot be saved"):
        given.save("never-written")


@pytest.mark.slow
def test_relevance_determination_prunes_below_a_z_score_of_one():
    """Uncorrelated features and known noise: one scalar equation each, ŵ (1 − 1/z²) for a vague prior."""
    x = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] * 3)
    noise = np.array([1.0, -1.0, -1.0, 1.0] * 3)  # uncorrelated with both
    beta, slopes = 4.0, np.array([0.5, 0.1])
    y = 2.0 + x @ slopes + noise
    fit = tp.fit(tp.LinearRegression(ard=True, noise=beta), (x, y), EXACT)
    weights, z = np.asarray(fit.posterior["weights"].location)[1:], np.sqrt(beta * N) * slopes
    for weight, slope in zip(weights, slopes, strict=True):
        data = beta * N

        def excess(log_alpha, slope=slope, data=data):
            precision = np.exp(log_alpha) / np.var(y)  # the default α is relative to the spread of y
            second = (slope * data / (data + precision)) ** 2 + 1 / (data + precision)
            return np.exp(log_alpha) * (VAGUER + 0.5 * second / np.var(y)) - (VAGUER + 0.5)

        precision = np.exp(optimize.brentq(excess, -10, 20)) / np.var(y)
        assert weight == pytest.approx(slope * data / (data + precision), rel=1e-4)
    assert weights[0] == pytest.approx(slopes[0] * (1 - 1 / z[0] ** 2), rel=1e-4)
    assert z[1] < 1 and weights[1] < 0.02 * slopes[1]


@pytest.mark.slow
def test_relevance_determination_finds_the_relevant_inputs():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 8))
    y = 2.0 + 1.5 * x[:, 2] - x[:, 5] + 0.3 * rng.normal(size=60)
    fit = tp.fit(tp.LinearRegression(ard=True), (x, y), tp.VB(tol=1e-8))
    alpha = np.asarray(fit.posterior["alpha"].mean().value)[1:]
    weights = np.asarray(fit.posterior["weights"].location)[1:]
    least = np.linalg.lstsq(with_ones(x), y, rcond=None)[0][1:]
    relevant = np.isin(np.arange(8), [2, 5])
    np.testing.assert_allclose(weights[relevant], [1.5, -1.0], atol=0.15)
    assert alpha[~relevant].min() > 30 * alpha[relevant].max()
    assert np.sum(weights[~relevant] ** 2) < 0.5 * np.sum(least[~relevant] ** 2)


# ---- what a user meets ---------------------------------------------------------------------------------


def test_constant_columns_and_targets_have_finite_answers(rows):
    x, y = rows
    flat = np.column_stack([x[:, 0], np.full(N, 7.0)])
    fit = tp.fit(tp.LinearRegression(), (flat, y), EXACT)
    assert any("constant features (1)" in note for note in fit.notes)
    assert float(fit.posterior["weights"].location[2]) == pytest.approx(0.0, abs=1e-6)
    for targets in (np.full(N, 3.25), np.zeros(N)):
        fit = tp.fit(tp.LinearRegression(), (x, targets))
        assert any("y is constant" in note for note in fit.notes)
        np.testing.assert_allclose(fit.predict(NEW).mean, targets[0], atol=1e-6)
        assert np.isfinite(fit.log_evidence) and np.all(np.isfinite(fit.predict(NEW).variance))


def test_a_constant_column_of_many_rows_is_constant():
    """The mean of many equal numbers differs from them by rounding errors, which are not a width."""
    x = np.full((200_000, 2), 0.1)
    x[:, 0] = np.random.default_rng(0).normal(size=len(x))
    at = Standardised.of(x, np.full(len(x), 1 / 3), np.ones(len(x)), True)
    np.testing.assert_array_equal(np.asarray(at.width)[2], 0.1)
    np.testing.assert_array_equal(np.asarray(at.target_width), 1 / 3)
    np.testing.assert_allclose(np.asarray(at.width)[1], x[:, 0].std(), rtol=1e-12)
    np.testing.assert_array_equal(at.design(x)[:, [0, 2]], np.tile([1.0, 0.0], (len(x), 1)))


def test_the_width_of_a_column_does_not_depend_on_how_far_its_first_row_is():
    x = np.random.default_rng(0).normal(np.array([1e6, 0.0]), size=(5_000, 2))
    x[0] = [0.0, 1e9]
    at = Standardised.of(x, np.zeros(len(x)), np.ones(len(x)), True)
    exact = np.array([[Fraction(value) for value in column] for column in x.T])
    centre = exact.sum(axis=1) / len(x)
    width = [sqrt(sum((column - mean) ** 2) / len(x)) for column, mean in zip(exact, centre, strict=True)]
    assert (np.abs(np.asarray(at.centre)[1:] - centre.astype(float)) < 1e-12 * np.array(width)).all()
    np.testing.assert_allclose(np.asarray(at.width)[1:], width, rtol=1e-12)


@pytest.mark.parametrize("size", [2, 5])
def test_the_condition_number_is_below_its_bound(size):
    rng = np.random.default_rng(size)
    for exponent in range(-9, 1):
        x = rng.normal(size=(200, size))
        x[:, 0] = x[:, 1] + 10.0**exponent * x[:, 0]
        exact = np.linalg.cond(x)
        assert condition_at_most(x) >= exact * (1 - 1e-6)
        assert exact > 1e4 or condition_at_most(x) < 100 * exact
    assert condition_at_most(np.ones((3, size))) == np.inf


def test_collinear_features_are_noted(rows):
    x, y = rows
    fit = tp.fit(tp.LinearRegression(), (np.column_stack([x[:, 0], x[:, 0]]), y))
    assert any("nearly collinear" in note for note in fit.notes)
    weights = np.asarray(fit.posterior["weights"].location)
    assert weights[1] == pytest.approx(weights[2], rel=1e-6)  # the prior shares the slope between them


def test_save_load_and_summary(hierarchical, tmp_path, capsys):
    hierarchical.save(tmp_path / "fit")
    again = tp.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.predict(NEW).variance, hierarchical.predict(NEW).variance)
    print(again.summary())
    printed = capsys.readouterr().out
    assert "intercept" in printed and "feature 1" in printed


def test_what_a_model_cannot_do_is_said(hierarchical):
    with pytest.raises(UnsupportedMethod, match="does not describe its inputs"):
        hierarchical.sample(0, 3)
    with pytest.raises(UnsupportedMethod, match="GaussianMixture has no targets"):
        dataclasses.replace(hierarchical, model=tp.GaussianMixture(2)).predict(NEW)


BAD_DATA = {
    "not a pair": (np.ones((4, 2)), "pair"),
    "three things": (([1.0], [1.0], [1.0]), "3 things"),
    "lengths": ((np.ones((4, 2)), np.ones(3)), "4 and 3"),
    "wide y": ((np.ones((4, 2)), np.ones((4, 2))), "one number for each row"),
    "NaN in X": (([[1.0], [np.nan]], [1.0, 2.0]), "row 1, column 0"),
    "NaN in y": (([[1.0], [2.0]], [np.nan, 2.0]), "y has a missing value"),
    "inf": (([[1.0], [np.inf]], [1.0, 2.0]), "infinite"),
    "huge": (([[1.0], [1e200]], [1.0, 2.0]), "rescale"),
    "text": (([["a"], ["b"]], [1.0, 2.0]), "X must be .*text"),
    "empty": ((np.ones((0, 2)), np.ones(0)), "at least one row"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_are_refused_in_one_sentence(case):
    data, message = BAD_DATA[case]
    with pytest.raises(InvalidData, match=message):
        tp.fit(tp.LinearRegression(), data)


@pytest.mark.parametrize(
    "features, message",
    [
        (tp.Polynomial(3), "at least 4 different values in column 0 of X, found 3"),
        (lambda x: np.log(-x), "finite"),
        (lambda x: x[:1], "a row for each of the 3 rows"),
        (lambda x: np.array([["a"]] * 3), "failed"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_bad_features_are_refused(features, message):
    with pytest.raises(InvalidData, match=message):
        tp.fit(tp.LinearRegression(features), ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(noise=-1.0), "noise must be positive"),
        (dict(noise=np.nan), "noise must be positive"),
        (dict(noise="loud"), "noise must be a"),
        (dict(noise=[1.0, 2.0]), "noise must be a positive number"),
        (dict(noise=tp.Gamma([1.0, 2.0], 1.0)), "a single one"),
        (dict(prior=0.0), "prior must be positive"),
        (dict(prior=tp.Dirichlet([1.0, 1.0])), "prior must be a positive number, a tp.Gamma or a tp.Normal"),
        (dict(prior=1.0, ard=True), "with ard=True prior"),
        (dict(intercept="yes"), "intercept"),
        (dict(features=3), "features must be"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        tp.LinearRegression(**arguments)


@pytest.mark.parametrize("arguments", [(-1,), (1.5,), (True,), (2, "chebyshev")])
def test_bad_polynomials_are_refused(arguments):
    with pytest.raises(InvalidParameter):
        tp.Polynomial(*arguments)


def test_arguments_that_do_not_fit_the_data(rows, hierarchical):
    for attempt, error, message in (
        (
            lambda: tp.fit(tp.LinearRegression(prior=tp.Normal(np.zeros(2), np.eye(2))), rows),
            InvalidParameter,
            r"over 3 weights \(the intercept is the first\), got one over 2",
        ),
        (
            lambda: tp.fit(tp.LinearRegression(tp.Polynomial(0), intercept=False), rows),
            InvalidParameter,
            "nothing to fit",
        ),
        (lambda: hierarchical.predict([1.0, 2.0]), InvalidData, "1 columns, but the model was fitted to 2"),
    ):
        with pytest.raises(error, match=message):
            attempt()
