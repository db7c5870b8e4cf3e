"""Every method on graphs, and what a fit of one answers."""

import xml.etree.ElementTree as ET
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy.stats import norm

import temperance as tp
from temperance.graph import Graph
from temperance.graph.exchangeable import exchangeable_latents
from temperance.models import Posterior
from tests.graph import models

TINY = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1])
EXACT = -11.082783  # ln p(TINY) of two components, by enumeration of all assignments


def tiny(k: int = 2) -> Graph:
    g = Graph()
    weights = g.dirichlet("weights", np.ones(k))
    both = g.normal_gamma("both", 0.0, 0.01, 2.0, 0.22, plates=g.plate("k", k))
    g.normal("x", both[g.categorical("z", weights, plates="n")], observed=True)
    return g


def test_tempering_brackets_the_exact_evidence(tmp_path: Path) -> None:
    fit = tp.fit(tiny().model(), TINY, tp.ParallelTempering(draws=1000, warmup=300, replicas=8))
    assert fit.bracket is not None and fit.standard_error is not None
    assert fit.standard_error < 0.2 and abs(fit.log_evidence - EXACT) < 4 * fit.standard_error
    fit.save(tmp_path / "fit")
    again = tp.load(tmp_path / "fit")
    assert again.log_evidence == fit.log_evidence
    np.testing.assert_array_equal(again.posterior["weights"], fit.posterior["weights"])


def test_vb_reaches_the_bound_of_the_thesis_and_answers() -> None:
    fit = tp.fit(tiny().model(), TINY, tp.VB(restarts=8, tol=1e-9))
    assert fit.log_evidence == pytest.approx(-11.777076, abs=1e-5)
    terms = fit.model.bound_terms(fit.state, fit.data)
    assert set(terms) == {"weights", "both", "z", "x"}
    assert sum(terms.values()) == pytest.approx(fit.log_evidence, abs=1e-6)
    # The predictive density is one.
    grid = np.linspace(-60, 60, 20001)
    assert np.trapezoid(np.exp(fit.log_predictive(grid)), grid) == pytest.approx(1.0, abs=2e-3)
    shares = fit.responsibilities(TINY)
    assert shares.shape == (7, 2) and np.allclose(shares.sum(axis=1), 1.0)
    assert (shares[:3].argmax(axis=1) != shares[3].argmax()).all()
    sample = fit.sample(0, 5)
    assert set(sample) == {"x"} and sample["x"].shape == (5,)


def test_both_lines_of_a_mixture_of_regressions_are_found_and_its_predictive_density_is_one() -> None:
    data = models.inputs_and_targets(np.random.default_rng(0), 100)
    fit = tp.fit(models.mixture_of_regressions().model(), data, tp.VB(restarts=5), seed=0)
    found = np.asarray(fit.posterior["weights"].location)
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], [[-1.0, -2.0], [1.0, 2.0]], atol=0.25)
    grid = np.sinh(np.linspace(-14, 14, 4001))  # a Student-t has wide tails
    for place in (-1.5, 0.0, 2.0):
        inputs = np.column_stack([np.ones(len(grid)), np.full(len(grid), place)])
        density = np.exp(fit.log_predictive({"inputs": inputs, "y": grid}))
        assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)


def test_a_gate_that_depends_on_the_input_makes_experts() -> None:
    """Two lines, each on its side of zero: a mixture whose components have a density of the input, too."""
    rng = np.random.default_rng(0)
    at = rng.normal(size=100) + np.where(np.arange(100) % 2, 2.0, -2.0)
    inputs = np.column_stack([np.ones(100), at])
    y = np.where(np.arange(100) % 2, 4.0 - at, 0.5 + 2.0 * at) + 0.3 * rng.normal(size=100)
    g = Graph()
    weights = g.normal("weights", 0.0, 0.1, dim=2, plates=g.plate("k", 2))
    gate = g.normal_gamma("gate", 0.0, 0.1, 2.0, 1.0, plates="k")
    noise = g.gamma("noise", 2.0, 0.5, plates="k")
    z = g.categorical("z", g.dirichlet("share", np.ones(2)), plates="n")
    g.normal("at", gate[z], observed=True)
    g.normal("y", g.dot(weights[z], g.input("inputs", 2, plates="n")), noise[z], observed=True)
    data = {"inputs": inputs, "at": at, "y": y}
    fit = tp.fit(g.model(), data, tp.VB(restarts=5), seed=0)
    found = np.asarray(fit.posterior["weights"].location)
    np.testing.assert_allclose(found[np.argsort(found[:, 1])], [[4.0, -1.0], [0.5, 2.0]], atol=0.3)
    second = fit.responsibilities(data)[:, np.argmin(found[:, 1])] > 0.5
    assert np.mean(second == (np.arange(100) % 2 == 1)) > 0.95


@pytest.mark.slow
def test_predictive_density_is_that_of_the_ready_made_mixture() -> None:
    x = models.two_clusters(np.random.default_rng(0))
    graph, _ = models.mixture(2).model().prepare(x)
    prior = tp.NormalWishart(np.zeros(2), 0.01, 4.0, np.eye(2))
    hand = tp.fit(tp.GaussianMixture(2, prior=prior), x, tp.VB(max_iter=5))
    q = Posterior(hand.posterior, {})
    new = np.random.default_rng(1).normal(size=(6, 2))
    found = graph.log_predictive(q, graph.new_rows(new))
    np.testing.assert_allclose(found, hand.log_predictive(new), rtol=1e-10)
    # The general form, without the closed one of this family, is the same.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("temperance.graph.predictive.quick_block", lambda spec, v: None)
        np.testing.assert_allclose(graph.log_predictive(q, graph.new_rows(new)), found, rtol=1e-10)
    shares = graph.responsibilities(q, graph.new_rows(new))
    np.testing.assert_allclose(shares, hand.responsibilities(new), rtol=1e-8)


@pytest.mark.slow
def test_a_gap_is_filled_by_the_component_that_the_rest_names() -> None:
    rng = np.random.default_rng(0)
    side = np.repeat([2.0, -2.0], 12)
    x = side[:, None] + 0.1 * rng.normal(size=(24, 2))
    x[0, 1] = x[23, 0] = np.nan
    g = Graph()
    both = g.normal_gamma("both", 0.0, 0.01, 2.0, 0.2, plates=(g.plate("k", 2), "d"))
    z = g.categorical("z", g.dirichlet("weights", np.ones(2)), plates="n")
    g.normal("x", both.select(z, "k"), plates=("n", "d"), observed=True)
    fit = tp.fit(g.model(), x, tp.VB(restarts=4))
    filled = fit.model.impute(fit.state, x)["x"]
    assert filled[0, 1] == pytest.approx(2.0, abs=0.2) and filled[23, 0] == pytest.approx(-2.0, abs=0.2)
    np.testing.assert_array_equal(filled[1], x[1])


@pytest.mark.slow
def test_predictions_at_new_inputs_are_those_of_the_ready_made_model() -> None:
    data = models.inputs_and_targets(np.random.default_rng(1), 40)
    data["y"] = data["inputs"] @ [1.0, 2.0] + 0.3 * np.random.default_rng(2).normal(size=40)
    fit = tp.fit(models.regression().model(), data, tp.VB(tol=1e-10))
    hand = tp.LinearRegression(intercept="shared", prior=tp.Gamma(2.0, 1.0), noise=tp.Gamma(2.0, 0.5))
    other = tp.fit(hand, (data["inputs"][:, 1:], data["y"]), tp.VB(tol=1e-10))
    assert fit.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    new = np.array([[1.0, 0.5], [1.0, -2.0]])
    here, there = fit.predict(new), other.predict(new[:, 1:])
    np.testing.assert_allclose(here.mean, there.mean, atol=5 * np.sqrt(there.variance.max() / 40 / 200) + 0.02)
    np.testing.assert_allclose(here.variance, there.variance, rtol=0.15)


def test_enumeration_of_two_latents_that_meet() -> None:
    """Two discrete latents in one factor are summed out together: the log likelihood of a draw is that of all pairs."""
    g = Graph()
    a = g.normal("a", 0.0, 1.0, plates=g.plate("i", 2))
    b = g.normal("b", 0.0, 1.0, plates=g.plate("j", 3))
    y = g.categorical("y", [0.3, 0.7], plates="n")
    z = g.categorical("z", [0.2, 0.5, 0.3], plates="n")
    g.normal("x", a[y] + b[z], 2.0, observed=True)
    model, data = g.model().prepare([0.3, -1.0])
    draws = {"a": np.array([[0.5], [-1.0]]), "b": np.array([[0.1], [2.0], [-0.4]])}
    found = jax.jit(lambda d: model.log_likelihood(d, data))(draws)
    expected = 0.0
    for x in (0.3, -1.0):
        density = sum(
            p * q * np.sqrt(2.0 / (2 * np.pi)) * np.exp(-((x - draws["a"][i, 0] - draws["b"][j, 0]) ** 2))
            for i, p in enumerate([0.3, 0.7])
            for j, q in enumerate([0.2, 0.5, 0.3])
        )
        expected += np.log(density)
    assert float(found) == pytest.approx(expected, abs=1e-12)


def test_a_chain_is_summed_over_all_paths() -> None:
    model, data = models.hidden_markov().model().prepare(np.array([[0.3, -1.0, 0.2], [1.0, np.nan, np.nan]]))
    initial, transition = np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.4, 0.6]])
    mean, precision = np.array([0.5, -1.0]), np.array([2.0, 0.7])
    draws = {
        "initial": initial,
        "transition": transition,
        "emission": tp.families.MeanAndPrecision(mean, precision),
    }

    def density(row: Any, path: Any) -> float:
        steps = initial[path[0]] * np.prod([transition[a, b] for a, b in pairwise(path)])
        seen = [
            np.sqrt(precision[s] / (2 * np.pi)) * np.exp(-0.5 * precision[s] * (x - mean[s]) ** 2)
            for x, s in zip(row, path, strict=True)
            if not np.isnan(x)
        ]
        return float(steps * np.prod(seen))

    rows = np.asarray(data.values["x"])
    expected = sum(np.log(sum(density(row, path) for path in product(range(2), repeat=3))) for row in rows)
    assert float(jax.jit(lambda d: model.log_likelihood(d, data))(draws)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
def test_missing_steps_at_the_end_cost_nothing() -> None:
    """A short sequence padded with NaN has the bound of the short sequence."""
    graph = models.hidden_markov().model()
    bounds = []
    for row in ([0.3, -1.0], [0.3, -1.0, np.nan, np.nan]):
        model, data = graph.prepare(np.array([row]))
        bounds.append(
            float(jax.jit(lambda q, model=model, data=data: model.bound(q, data))(Posterior(model.prior, {})))
        )
    assert bounds[1] == pytest.approx(bounds[0], abs=1e-10)


def test_drawing_has_a_plate_around_its_variables() -> None:
    root = ET.fromstring(str(models.mixture().draw()))
    ns = "{http://www.w3.org/2000/svg}"
    circles = {g.find(f"{ns}text").text: g.find(f"{ns}circle") for g in root.iter(f"{ns}g")}  # type: ignore[union-attr]
    assert set(circles) == {"weights", "components", "z", "x"}
    assert circles["x"].get("class") == "seen" and circles["z"].get("class") == "latent"  # type: ignore[union-attr]
    boxes = [r for r in root.iter(f"{ns}rect") if r.get("class") == "plate"]
    labels = [t.text for t in root.iter(f"{ns}text") if t.get("class") == "label"]
    members = {"n": {"z", "x"}, "k = 3": {"components"}}
    assert set(labels) == set(members)
    for box, label in zip(boxes, labels, strict=True):
        x0, y0, w, h = (float(box.get(key) or 0) for key in ("x", "y", "width", "height"))
        inside = {
            name
            for name, c in circles.items()
            if x0 < float(c.get("cx")) < x0 + w and y0 < float(c.get("cy")) < y0 + h  # type: ignore[union-attr, arg-type]
        }
        assert inside == members[label or ""]
    assert len(list(root.iter(f"{ns}line"))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("method", [tp.SVI(batch_size=8, passes=20), tp.Annealed(length=20), tp.AIS(), tp.EM()])
def test_other_methods_run(method: Any) -> None:
    x = models.two_clusters(np.random.default_rng(0))
    fit = tp.fit(models.mixture(2).model(), x, method)
    assert np.isfinite(fit.log_evidence)
    if isinstance(method, tp.AIS):
        exact = tp.fit(models.mixture(2).model(), x, tp.ParallelTempering(draws=2000))
        assert abs(fit.log_evidence - exact.log_evidence) < 5 * (fit.standard_error + exact.standard_error) + 0.3


def test_which_latents_have_values_in_any_order() -> None:
    """Same priors for all members and the same probabilities: else the labels are told apart by the model itself."""
    assert exchangeable_latents(tiny().model().prepare(TINY)[0]) == {"z": "k"}
    assert exchangeable_latents(models.hidden_markov().model().prepare(TINY[None])[0]) == {"z": "k"}

    def named(weights: Any, centres: Any, transition: Any = None) -> set[str]:
        g = Graph()
        mean = g.normal("mean", centres, 1.0, plates=g.plate("k", 2))
        if transition is None:
            z = g.categorical("z", weights, plates="n")
            g.normal("x", mean[z], 1.0, observed=True)
            return set(exchangeable_latents(g.model().prepare(TINY)[0]))
        z = g.markov_chain("z", weights, transition, time="t", plates="n")
        g.normal("x", mean[z], 1.0, observed=True)
        return set(exchangeable_latents(g.model().prepare(TINY[None])[0]))

    assert named([0.5, 0.5], 0.0) == {"z"}
    assert named([0.4, 0.6], 0.0) == set() and named([0.5, 0.5], [0.0, 1.0]) == set()
    assert named([0.5, 0.5], 0.0, [[0.8, 0.2], [0.2, 0.8]]) == {"z"}
    assert named([0.5, 0.5], 0.0, [[0.8, 0.2], [0.3, 0.7]]) == set()


@pytest.mark.slow
def test_models_are_compared_with_all_orders_of_their_labels() -> None:
    prior = tp.NormalWishart([0.0], 0.01, 2.0, [[0.22]])
    hill = tp.compare([tiny(k).model() for k in (1, 2, 4)], TINY, tp.VB(restarts=5))
    hand = tp.compare([tp.GaussianMixture(k, prior=prior) for k in (1, 2, 4)], TINY[:, None], tp.VB(restarts=5))
    np.testing.assert_allclose(hill.label_correction[..., :2].ravel(), [0.0, np.log(2.0)])
    np.testing.assert_allclose(hill.label_correction, hand.label_correction)


SLOW = {
    "mixture of regressions": lambda rng: (models.mixture_of_regressions(), models.inputs_and_targets(rng, 14)),
    "random effects": lambda rng: (models.random_effects(), rng.normal(size=(5, 1)) + 0.5 * rng.normal(size=(5, 3))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_what_no_ready_made_model_covers_has_agreeing_evidence(name: str) -> None:
    graph, data = SLOW[name](np.random.default_rng(0))
    bound = tp.fit(graph.model(), data, tp.VB(restarts=5, tol=1e-9)).log_evidence
    tempered = tp.fit(graph.model(), data, tp.ParallelTempering(draws=4000, replicas=12))
    annealed = tp.fit(graph.model(), data, tp.AIS())
    error = tempered.standard_error + annealed.standard_error
    assert abs(tempered.log_evidence - annealed.log_evidence) < 5 * error + 0.05
    assert bound < tempered.log_evidence + 5 * tempered.standard_error
    gibbs = tp.fit(graph.model(), data, tp.Gibbs(draws=1000))
    assert gibbs.converged


def test_a_graph_of_known_parameters_has_its_exact_evidence_or_a_sentence() -> None:
    g = Graph()
    z = g.normal("z", 0.0, 1.0, plates="n")
    g.normal("y", z, 2.0, plates="n", observed=True)
    exact = norm.logpdf(TINY, 0.0, np.sqrt(1.5)).sum()
    for method in (tp.VB(), tp.AIS(particles=4, temperatures=4)):
        assert tp.fit(g.model(), TINY, method, seed=0).log_evidence == pytest.approx(exact, abs=1e-9)
    for method in (tp.EP(), tp.SVI(), tp.ImportanceSampling(), tp.ParallelTempering(), tp.EM(), tp.Laplace()):
        with pytest.raises(tp.errors.UnsupportedMethod, match=r"are known; use tp\.VB"):
            tp.fit(g.model(), TINY, method, seed=0)
