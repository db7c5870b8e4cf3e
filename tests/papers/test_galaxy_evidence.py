"""The galaxy data of the thesis: tempered evidence, and the averages of the log likelihood near β = 0."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.evidence.thermodynamic import integrate


def galaxy(k: int, width: float = 0.01) -> tuple[tp.GaussianMixture, np.ndarray]:
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=width, dof=2.0, scatter=[[0.22]])
    return tp.GaussianMixture(k, prior=prior), tp.datasets.load("galaxy")


def average(beta: np.ndarray, width: float = 0.01) -> np.ndarray:
    """E_β[log p(x | θ)] with one component, in closed form: the derivative of A(η + βT) − A(η) + β log h."""
    model, data = galaxy(1, width)
    model, arrays = model.prepare(data)
    prior = model.prior["components"]
    rows = arrays.values[: arrays.size]  # without the padding
    total = model.pair.statistics(rows).sum()
    base = float(model.pair.log_base(rows).sum())
    slope = jax.jit(jax.vmap(lambda b: total.dot((prior + total.expand(0) * b).mean()[0])))
    return base + np.asarray(slope(jnp.asarray(beta)))


@pytest.mark.parametrize(("width", "error"), [(1e-2, 0.570), (1e-6, -5.438)])
def test_the_tail_of_the_thesis_is_biased_even_on_exact_averages(width: float, error: float) -> None:
    """One component, whose evidence is known: too high with the narrow prior, too low with the broad one."""
    truth = tp.fit(*galaxy(1, width)).log_evidence
    betas = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 30)])
    assert integrate(betas, average(betas, width)) - truth == pytest.approx(error, abs=0.01)
    fine = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 400)])
    assert integrate(fine, average(fine, width)) == pytest.approx(truth, abs=0.02)


@pytest.mark.slow
def test_evidence_of_one_component_is_exact() -> None:
    fit = tp.fit(*galaxy(1), tp.ParallelTempering(draws=9000, warmup=1000), seed=0)
    assert fit.log_evidence == pytest.approx(-251.205, abs=0.15)
    assert fit.log_evidence == pytest.approx(-251.205, abs=4 * fit.standard_error)


@pytest.mark.slow
def test_evidence_of_two_components_from_two_starts() -> None:
    """The bound of VB misses ln 2 for the labels, and other modes; from the prior the path is long but unprejudiced."""
    model, x = galaxy(2)
    vb = tp.fit(model, x, tp.VB(restarts=20), seed=0)
    close = tp.fit(model, x, tp.ParallelTempering(draws=4000, warmup=1000, chains=4, reference=vb), seed=7)
    far = tp.fit(model, x, tp.ParallelTempering(draws=4000, warmup=1000, chains=4, reference="prior"), seed=7)
    assert close.log_evidence > vb.log_evidence + np.log(2)
    assert close.standard_error < 0.06
    error = np.hypot(close.standard_error, far.standard_error)
    assert close.log_evidence == pytest.approx(far.log_evidence, abs=4 * error)


@pytest.mark.slow
def test_averages_near_zero() -> None:
    ladder = np.concatenate([[0.0], np.geomspace(1e-3, 0.45, 14), np.linspace(0.5, 1.0, 11)])
    fit = tp.fit(*galaxy(3), tp.ParallelTempering(draws=9000, warmup=1000, ladder=ladder), seed=0)
    slopes = fit.history["slopes"].mean(axis=(0, 1))
    assert slopes[0] == pytest.approx(-1.735e5, rel=0.05)
    assert slopes[1] == pytest.approx(-1.94e3, rel=0.02)
