"""Draws as ArviZ knows them, before its version 1.0 and since."""

import warnings
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from tests.graph import models as graphs
from tests.inference.monte_carlo import tiny


@cache
def fitted() -> tp.Fit:
    return tp.fit(tiny.MODEL, tiny.X, tp.Gibbs(draws=50, warmup=20, chains=4), seed=0)


@cache
def exported() -> Any:
    return fitted().to_arviz()


def groups_of(data: Any) -> set[str]:
    """An InferenceData lists its groups by a call, a DataTree by paths, the root among them."""
    return set(data.groups()) if callable(data.groups) else {path[1:] for path in data.groups} - {""}


def arviz() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces its successor
        import arviz

    return arviz


@pytest.mark.slow
def test_groups_and_shapes() -> None:
    data = exported()
    assert groups_of(data) == {"posterior", "sample_stats", "log_likelihood", "posterior_predictive"}
    assert data.posterior["weights"].shape == (4, 50, 2)
    assert data.posterior["components_mean"].shape == (4, 50, 2, 1)
    assert data.posterior["components_precision"].shape == (4, 50, 2, 1, 1)
    assert data.sample_stats["lp"].shape == (4, 50)
    assert data.log_likelihood["x"].shape == (4, 50, 6)
    assert data.posterior_predictive["x"].shape == (4, 50, 1)


@pytest.mark.slow
def test_values_are_in_the_users_coordinates() -> None:
    """The model centres its data; the log likelihood, recomputed from what is exported, must not notice."""
    data = exported()
    np.testing.assert_array_equal(data.sample_stats["lp"], fitted().history["log_joint"].T)
    weights = data.posterior["weights"].values[0, 0]
    mean = data.posterior["components_mean"].values[0, 0, :, 0]
    precision = data.posterior["components_precision"].values[0, 0, :, 0, 0]
    density = np.sqrt(precision / (2 * np.pi)) * np.exp(-0.5 * precision * np.square(tiny.X - mean))
    np.testing.assert_allclose(data.log_likelihood["x"].values[0, 0], np.log(density @ weights), rtol=1e-9)


ROWS = np.random.default_rng(0).normal(size=(30, 2))
COUNTS = np.random.default_rng(1).poisson(3.0, size=(12, 3))


@pytest.mark.parametrize(
    ("model", "data", "dims"),
    [
        (
            tp.GaussianMixture(2),
            ROWS,
            {"weights": ("component",), "components_mean": ("component", "feature"),
             "components_precision": ("component", "feature", "feature_2")},
        ),
        pytest.param(
            tp.Mixture(2, "categorical"), (ROWS > 0) * 1.0, {"components": ("component", "feature", "level")},
            marks=pytest.mark.slow,
        ),
        pytest.param(tp.DirichletProcessMixture(3), ROWS, {"sticks": ("stick",)}, marks=pytest.mark.slow),
        pytest.param(
            tp.StudentMixture(2, degrees=[1.0, 5.0]), ROWS, {"degrees": ("component", "degrees_of_freedom")},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            tp.HMM(2), ROWS, {"transitions": ("state", "next_state"), "emissions_mean": ("state", "feature")},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            tp.FactorAnalysis(1), ROWS, {"loadings": ("feature", "loading"), "relevance": ("factor",)},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            tp.StateSpace(1), ROWS, {"dynamics": ("state", "cause"), "observation": ("feature", "loading")},
            marks=pytest.mark.slow,
        ),
        (tp.LinearRegression(), (ROWS, ROWS[:, 0]), {"weights": ("weight",), "noise": ()}),
        pytest.param(
            tp.FactorialMixture(2), ROWS, {"factors_weights": ("factor", "feature"), "probability": ("factor",)},
            marks=pytest.mark.slow,
        ),
        (tp.LDA(2, vocabulary=["a", "b", "c"]), COUNTS, {"topics": ("topic", "word")}),
    ],
)  # fmt: skip
def test_dimensions_have_the_models_words(model: Any, data: Any, dims: dict[str, tuple[str, ...]]) -> None:
    """From a variational posterior, of which draws are made."""
    posterior = tp.fit(model, data, tp.VB(max_iter=5), seed=0).to_arviz(draws=20)["posterior"]
    for name, expected in dims.items():
        assert posterior[name].dims == ("chain", "draw", *expected)
        assert posterior[name].shape[:2] == (4, 5)
    labels = {"word": ["a", "b", "c"], "weight": ["intercept", "feature 0", "feature 1"]}
    for dim in set(posterior.dims) & set(labels):
        assert posterior.coords[dim].values.tolist() == labels[dim]


@cache
def fitted_graph() -> tp.Fit:
    return tp.fit(graphs.mixture(2, 2).model(), ROWS, tp.Gibbs(draws=100, warmup=10, chains=2), seed=0)


@cache
def graph() -> Any:
    return fitted_graph().to_arviz()


def test_draws_of_a_graph_have_its_plates() -> None:
    data = graph()
    assert data["posterior"]["components_mean"].dims == ("chain", "draw", "k", "components_dimension")
    assert data["log_likelihood"]["x"].dims == ("chain", "draw", "n")
    assert data["posterior_predictive"]["x"].shape == (2, 100, 2)


def test_a_second_export_compiles_nothing() -> None:
    """What is compiled inside a function is compiled at each call; in JAX 0.7.0 it also crashed the process at exit."""
    graph()
    programs = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: programs.append(event))
    fitted_graph().to_arviz()
    jax.jit(lambda x: x + 1.0)(1.0)
    compiled = [event for event in programs if event.endswith("backend_compile_duration")]
    assert len(compiled) == 1  # this test's own: the listener hears


def test_arviz_takes_what_is_exported() -> None:
    az, data = arviz(), graph()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = az.summary(data, var_names=["weights"])
        assert list(table.index) == ["weights[0]", "weights[1]"]
        assert np.isfinite(az.loo(data).elpd if int(az.__version__[0]) else az.loo(data).elpd_loo)
        import matplotlib

        matplotlib.use("agg")
        for plot in ("plot_forest", "plot_trace", "plot_autocorr"):
            getattr(az, plot)(data, var_names=["weights"])
        matplotlib.pyplot.close("all")


def test_moments_of_draws_are_those_of_the_families() -> None:
    fit = tp.fit(tiny.MODEL, tiny.X, tp.VB(), seed=0)
    found = fit.to_arviz(log_likelihood=False, predictive=False, draws=4000)["posterior"]["weights"].values
    share = fit.posterior["weights"].concentration / fit.posterior["weights"].concentration.sum()
    error = found.std(axis=(0, 1)) / np.sqrt(4000)
    assert (np.abs(found.mean(axis=(0, 1)) - share) < 4 * error).all()


def test_a_tree_since_arviz_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """ArviZ 1.x has no InferenceData of its own: xarray's DataTree takes its place."""
    xarray = pytest.importorskip("xarray")
    monkeypatch.setattr(arviz(), "__version__", "1.3.0")
    tree = tp.fit(tiny.MODEL, tiny.X, tp.VB(), seed=0).to_arviz(draws=8)
    assert isinstance(tree, xarray.DataTree)
    assert tree["posterior"]["weights"].dims == ("chain", "draw", "component")


def test_what_cannot_be_exported_says_so() -> None:
    with pytest.raises(UnsupportedMethod, match="EM gives points, of which there are no draws"):
        tp.fit(tiny.MODEL, tiny.X, tp.EM(), seed=0).to_arviz()
    with pytest.raises(InvalidParameter, match="draws must be a whole number of at least 4, got 0"):
        tp.fit(tiny.MODEL, tiny.X, tp.VB(), seed=0).to_arviz(draws=0)
