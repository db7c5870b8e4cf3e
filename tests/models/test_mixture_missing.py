"""Missing values are integrated out: against conditional Gaussians, quadrature and a reference in NumPy."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import multigammaln
from scipy.stats import multivariate_normal

import temperance as tp
from temperance.models import Posterior, Powers
from tests.exact import marginals
from tests.tiers import with_slow

NAN = np.nan
ROWS = np.array([[0.4, -1.0, 0.3], [NAN, 0.5, 1.1], [0.2, NAN, NAN], [NAN, NAN, NAN], [1.5, 0.1, NAN]])
COVARIANCE = np.array([[1.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 0.8]])
MEANS = np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5]])
PRIORS = {
    "full": tp.NormalWishart(mean=MEANS, pseudo_count=[0.7, 2.0], dof=[4.0, 9.0], scatter=COVARIANCE),
    "diag": tp.NormalGamma(mean=MEANS, pseudo_count=0.7, dof=4.0, scatter=[[1.0, 2.0, 0.8]] * 2),
    "spherical": tp.IsotropicNormalGamma(mean=MEANS, pseudo_count=[0.7, 2.0], dof=[4.0, 9.0], scatter=1.3),
    "known": tp.Normal(MEANS, COVARIANCE),
}


def mixture(form: str, missing: str | None = "marginalise") -> tp.GaussianMixture:
    covariance = COVARIANCE if form == "known" else form
    return tp.GaussianMixture(2, covariance=covariance, prior=PRIORS[form], missing=missing)


# A draw of the parameters: both components' means, and their covariances in every form.
LOCATIONS = np.array([[0.3, -0.6, 0.1], [1.2, 0.4, -0.5]])
COVARIANCES = {
    "full": np.stack([COVARIANCE, 0.7 * COVARIANCE + 0.2]),
    "diag": np.stack([np.diag([1.0, 0.5, 2.0]), np.diag([0.3, 1.5, 0.7])]),
    "spherical": np.stack([1.4 * np.eye(3), 0.6 * np.eye(3)]),
    "known": np.stack([COVARIANCE] * 2),
}


def draw(form: str) -> dict[str, Any]:
    covariances = COVARIANCES[form]
    precision = {
        "full": np.linalg.inv(covariances),
        "diag": 1 / np.diagonal(covariances, axis1=1, axis2=2),
        "spherical": 1 / covariances[:, 0, 0],
        "known": None,
    }[form]
    locations = jnp.asarray(LOCATIONS)
    components = locations if form == "known" else tp.MeanAndPrecision(locations, jnp.asarray(precision))
    return {"weights": jnp.asarray([0.3, 0.7]), "components": components}


@eqx.filter_jit
def evaluate(model: tp.Mixture, rows: Any, draws: Any, observation: Any, latent: Any) -> Any:
    """log p(x | θ_k), the responsibilities, and the derivative of Σ log p(x | θ) in the statistics t(θ)."""
    m = model.statistics(draws)
    powers = Powers(observation, latent)

    def total(m: Any) -> Any:
        return jnp.sum(model.log_evidence(m, rows, powers))

    joint = model.log_joint_z(m, rows, powers)
    observed = joint - latent * model.log_weights(m)[None]
    return observed, jax.nn.softmax(joint, axis=-1), jax.grad(total)(m)


def run(form: str, observation: float = 1.0, latent: float = 1.0) -> Any:
    """In the user's coordinates: rows as they are, in place of the centred ones."""
    model, _ = mixture(form).prepare(ROWS)
    return model, *evaluate(model, jnp.asarray(ROWS), draw(form), jnp.asarray(observation), jnp.asarray(latent))


@pytest.mark.parametrize("form", PRIORS)
def test_density_given_parameters_is_that_of_the_seen_columns(form: str) -> None:
    _, observed, _, _ = run(form)
    for k, covariance in enumerate(COVARIANCES[form]):
        for n, row in enumerate(ROWS):
            seen = ~np.isnan(row)
            exact = 0.0
            if seen.any():
                normal = multivariate_normal(LOCATIONS[k, seen], covariance[np.ix_(seen, seen)])
                exact = normal.logpdf(row[seen])
            assert observed[n, k] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("form", ["full", "spherical"])
def test_message_is_the_expected_statistics(form: str) -> None:
    """Σ_n r_nk E[(x, 1, x xᵀ, 1) | seen], the missing columns Gaussian given the seen."""
    _, _, shares, messages = run(form)
    message = messages["components"]
    for k, (mean, covariance) in enumerate(zip(LOCATIONS, COVARIANCES[form], strict=True)):
        first, second = np.zeros(3), np.zeros((3, 3))
        for row, share in zip(ROWS, shares[:, k], strict=True):
            s, h = ~np.isnan(row), np.isnan(row)
            gain = covariance[np.ix_(h, s)] @ np.linalg.inv(covariance[np.ix_(s, s)])
            filled, rest = row.copy(), np.zeros((3, 3))
            filled[h] = mean[h] + gain @ (row[s] - mean[s])
            rest[np.ix_(h, h)] = covariance[np.ix_(h, h)] - gain @ covariance[np.ix_(s, h)]
            first += share * filled
            second += share * (np.outer(filled, filled) + rest)
        count = shares[:, k].sum()
        expected = second if form == "full" else np.trace(second)
        np.testing.assert_allclose(message.first[k], first, atol=1e-9)
        np.testing.assert_allclose(message.second[k], expected, atol=1e-9)
        np.testing.assert_allclose(message.count[k], count, atol=1e-9)
        np.testing.assert_allclose(message.dof[k], count * (1 if form == "full" else 3), atol=1e-9)


@pytest.mark.parametrize("form", ["full", "spherical"])
@pytest.mark.parametrize(("observation", "latent"), [(0.5, 1.0), (0.5, 0.5)])
def test_powers(form: str, observation: float, latent: float) -> None:
    """∫ p(seen, missing)^β r(missing)^(latent − β) d(missing), r the reference density; by quadrature."""
    model, observed, _, _ = run(form, observation, latent)
    row = ROWS[4]
    reference = multivariate_normal(0, np.asarray(model.pair.reference)[2])
    for k, (mean, covariance) in enumerate(zip(LOCATIONS, COVARIANCES[form], strict=True)):
        normal = multivariate_normal(mean, covariance)

        def integrand(value: float, normal: Any = normal) -> float:
            log = observation * normal.logpdf([row[0], row[1], value])
            return np.exp(log + (latent - observation) * reference.logpdf(value))

        exact = quad(integrand, -60, 60, points=[-3, 0, 3], limit=200)[0]
        assert observed[4, k] == pytest.approx(np.log(exact), abs=1e-7)


@pytest.mark.parametrize("form", ["full", "spherical"])
def test_prior_end_of_the_path(form: str) -> None:
    _, observed, _, _ = run(form, 0.0, 1.0)
    np.testing.assert_allclose(observed, 0.0, atol=1e-12)


@eqx.filter_jit
def predict(model: tp.Mixture, blocks: Any, rows: Any) -> Any:
    return model.log_predictive(Posterior(blocks, {}), rows)


@pytest.mark.parametrize("form", PRIORS)
def test_predictive_is_the_marginal_density(form: str) -> None:
    """With a column missing it is the integral of the predictive with that column present."""
    model, _ = mixture(form).prepare(ROWS)
    steps = np.linspace(-11, 11, 1201)
    values = 2 * np.sinh(steps)
    full = np.tile([0.3, -0.4, 0.0], (len(values) + 2, 1))
    full[:-2, 2] = values
    full[-2] = [0.3, -0.4, NAN]
    full[-1] = [NAN, NAN, NAN]
    log = np.asarray(predict(model, dict(model.prior), jnp.asarray(full)))
    integral = np.trapezoid(np.exp(log[:-2]) * 2 * np.cosh(steps), steps)
    assert log[-2] == pytest.approx(np.log(integral), abs=1e-6)
    assert log[-1] == pytest.approx(0.0, abs=1e-12)


@eqx.filter_jit
def sweeps(model: tp.Mixture, data: Any, start: Posterior) -> Any:
    return jax.lax.scan(lambda q, _: model.sweep(q, data), start, None, length=200)


def reference_sweeps(x: np.ndarray, m0: np.ndarray, v0: float, dof0: float, s0: np.ndarray) -> Any:
    """Coordinate ascent over q(missing) q(μ, Λ) for one Gaussian, in ordinary parameters.

    The bound is log ∫ p(θ) exp{E log p(x | θ)} dθ, a ratio of normalisers, plus the entropy of q(missing).
    """
    n, d = x.shape
    m, scatter = m0, s0
    for _ in range(200):
        precision = (dof0 + n) * np.linalg.inv(scatter)
        filled, rest = x.copy(), np.zeros((d, d))
        for row in filled:
            h = np.isnan(row)
            inverse = np.linalg.inv(precision[np.ix_(h, h)])
            row[h] = m[h] - inverse @ precision[np.ix_(h, ~h)] @ (row[~h] - m[~h])
            rest[np.ix_(h, h)] += inverse
        m = (v0 * m0 + filled.sum(axis=0)) / (v0 + n)
        centred = filled - m
        scatter = s0 + centred.T @ centred + v0 * np.outer(m - m0, m - m0) + rest
        # One value is missing, so `rest` has its variance as the only entry.
        bound = (
            -0.5 * n * d * np.log(np.pi)
            + multigammaln((dof0 + n) / 2, d)
            - multigammaln(dof0 / 2, d)
            + 0.5 * dof0 * np.linalg.slogdet(s0)[1]
            - 0.5 * (dof0 + n) * np.linalg.slogdet(scatter)[1]
            + 0.5 * d * np.log(v0 / (v0 + n))
            + 0.5 * np.log(2 * np.pi * np.e * rest.sum())
        )
    return m, scatter, bound


def test_one_component_with_holes() -> None:
    """The fixed point and its bound are those of the textbook updates, below the evidence by quadrature."""
    x = np.array([[0.4, -1.0], [NAN, 0.5], [0.2, 0.3], [1.5, 0.1], [-0.3, -0.8]])
    hyper = {"mean": np.zeros(2), "pseudo_count": 0.5, "dof": 3.0, "scatter": np.array([[1.0, 0.3], [0.3, 1.0]])}
    model, data = tp.GaussianMixture(1, prior=tp.NormalWishart(**hyper), missing="marginalise").prepare(x)
    posterior, bounds = sweeps(model, data, Posterior(dict(model.prior), {}))
    found = model.units.to_user(posterior.blocks)["components"]
    mean, scatter, bound = reference_sweeps(x, *hyper.values())
    np.testing.assert_allclose(found.location[0], mean, atol=1e-10)
    np.testing.assert_allclose(found.scatter[0], scatter, atol=1e-10)
    assert bounds[-1] == pytest.approx(bound, abs=1e-9)

    def density(value: float) -> float:
        complete = np.where(np.isnan(x), value, x)
        return np.exp(marginals.gaussian(complete, **hyper))

    assert bound < np.log(quad(density, -np.inf, np.inf)[0])


@pytest.mark.parametrize("form", with_slow(["full", "spherical", "known"], "known"))
def test_complete_data_need_no_special_treatment(form: str) -> None:
    """The pairs that take missing values give the same values, messages and predictions on data that have none."""
    rows, one = np.random.default_rng(0).normal(size=(5, 3)), jnp.asarray(1.0)
    found = []
    for missing in (None, "marginalise"):
        model, data = mixture(form, missing).prepare(rows)
        density = predict(model, dict(model.prior), data.values)
        found.append([density, *jax.tree.leaves(evaluate(model, data.values, draw(form), one, one))])
    for plain, marginalised in zip(*found, strict=True):
        np.testing.assert_allclose(plain, marginalised, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_responsibilities_and_predictions_of_rows_with_holes() -> None:
    rng = np.random.default_rng(2)
    x = np.repeat([[-4.0, -4.0], [4.0, 4.0]], 6, axis=0) + rng.normal(size=(12, 2))
    x[1, 0] = x[7, 1] = NAN
    fit = tp.fit(tp.GaussianMixture(2, missing="marginalise"), x, tp.VB(restarts=3))
    shares = fit.responsibilities(np.array([[-4.0, NAN], [NAN, -4.0], [NAN, 4.0], [NAN, NAN]]))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-12)
    first = int(shares[0].argmax())
    assert shares[0, first] > 0.99 and shares[1, first] > 0.99 and shares[2, first] < 0.01
    weights = fit.posterior["weights"].concentration
    np.testing.assert_allclose(shares[3], weights / weights.sum(), atol=0.05)
    assert np.isfinite(fit.log_predictive([[NAN, 0.0]])).all()
