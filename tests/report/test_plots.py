"""Plots show what they say: the values drawn are those of the fit."""

import sys

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from temperance.report._style import COLOURS, MARKERS

X = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1])[:, None]


@pytest.fixture(scope="module")
def hill():
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    return tp.compare([tp.GaussianMixture(k, prior=prior) for k in (1, 2, 3)], X, tp.VB(restarts=10, tol=1e-10))


def test_profiles_are_drawn_where_the_posterior_has_them():
    """Numbers in standard deviations, words as probabilities; the classes' shares are in the legend."""
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], [40, 20])
    data = {"age": rng.normal(30 + 20 * z, 3), "smokes": np.where(rng.uniform(size=60) < 0.1 + 0.8 * z, "yes", "no")}
    fit = tp.fit(tp.ClassMixture(2), data, tp.VB(restarts=3))
    figure, found = tp.plot.profiles(fit), fit.profiles()
    numbers, words = figure.axes
    assert [tick.get_text() for tick in numbers.get_yticklabels()] == ["age"]
    assert [tick.get_text() for tick in words.get_yticklabels()] == ["smokes = yes"]
    (age,), (smokes,) = ([item for item in found.items if item.column == name] for name in ("age", "smokes"))
    points = [container.lines[0].get_xdata()[0] for container in words.containers]
    np.testing.assert_allclose(points, smokes.estimate)
    scaled = (age.estimate - np.mean(data["age"])) / np.std(data["age"])
    points = [container.lines[0].get_xdata()[0] for container in numbers.containers]
    np.testing.assert_allclose(points, scaled, atol=0.1)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [f"A, {found.share[0]:.0%}", f"B, {found.share[1]:.0%}"]
    heat = tp.plot.responsibilities(fit)
    np.testing.assert_allclose(np.sort(heat.images[0].get_array().sum(axis=1))[::-1], [40, 20], atol=1.0)


def test_long_names_of_lines_leave_room_for_the_levels():
    long = "how much do you trust the parliament"
    words = ["strongly disagree", "strongly agree"] * 20
    fit = tp.fit(tp.ClassMixture(2), {long: [*words, "neutral"], "x": np.arange(41.0)}, tp.VB(max_iter=3))
    labels = [tick.get_text() for axes in tp.plot.profiles(fit).axes for tick in axes.get_yticklabels()]
    assert len(set(labels)) == len(labels) == 4 and max(map(len, labels)) <= 31
    assert any(label.endswith("… = strongly disagree") for label in labels)


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-3, 1, (20, 3)), rng.normal(3, 1, (30, 3))])
    return tp.fit(tp.GaussianMixture(2), x, tp.VB()), x


def drawn(axes, label):
    return next(line for line in axes.lines if line.get_label() == label).get_ydata()


def test_the_hill_has_every_method_and_restart(hill):
    axes = hill.plot()
    np.testing.assert_allclose(drawn(axes, "VB"), hill.total_log_evidence)
    np.testing.assert_allclose(drawn(tp.plot.hill(hill, labels=False), "VB"), hill.log_evidence)
    dots = [line for line in axes.lines if line.get_marker() == "."]
    assert [len(line.get_ydata()) for line in dots] == [10, 10, 10]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "3"]
    assert axes.get_xlabel() == "components"


def test_the_density_is_the_predictive_one(hill):
    axes = tp.plot.density({"average": hill, "best": hill.best_fit}, X)
    line = next(line for line in axes.lines if line.get_label() == "average")
    grid = line.get_xdata()[:, None]
    np.testing.assert_allclose(line.get_ydata(), np.exp(hill.log_predictive(grid)))
    with pytest.raises(InvalidParameter, match="use ellipses or pairs"):
        tp.plot.density(hill, np.ones((3, 2)))


@pytest.mark.slow
def test_the_data_are_known_to_the_fit(hill, plane):
    from temperance.report._facts import data_of

    np.testing.assert_allclose(data_of(hill.best_fit), X, rtol=1e-12)
    np.testing.assert_allclose(data_of(plane[0]), plane[1], rtol=1e-12)


@pytest.mark.slow
def test_ellipses_are_where_the_components_are(plane):
    fit, _ = plane
    axes = tp.plot.ellipses(fit, columns=(0, 2))
    closed = [line for line in axes.lines if len(line.get_xdata()) == 120]
    assert len(closed) == 4  # two components, one and two standard deviations
    centre = [np.mean(closed[0].get_xdata()[:-1]), np.mean(closed[0].get_ydata()[:-1])]
    np.testing.assert_allclose(centre, np.asarray(fit.table()["mean"][0])[[0, 2]], atol=1e-6)
    assert isinstance(tp.plot.pairs(fit), Figure) and len(tp.plot.pairs(fit).axes) == 9


@pytest.mark.slow
def test_weights_responsibilities_and_the_run(hill, plane):
    bars = tp.plot.weights(hill.fit(3)).patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], hill.fit(3).table()["weight"])
    image = tp.plot.responsibilities(plane[0]).images[0].get_array()
    assert image.shape == (2, 50) and (np.argmax(image, axis=0) == [0] * 30 + [1] * 20).all()
    np.testing.assert_allclose(tp.plot.trace(hill.best_fit).lines[0].get_ydata(), hill.best_fit.history["elbo"])


def test_plots_draw_on_axes_that_are_given(hill):
    axes = Figure().subplots()
    assert tp.plot.hill(hill, axes) is axes and isinstance(axes, Axes)
    assert isinstance(tp.plot.overview(hill, X), Figure)


@pytest.mark.slow
def test_what_a_fit_cannot_show_is_said(hill):
    for attempt, message in (
        (lambda: tp.plot.thermodynamic(hill.best_fit), "VB has no ladder of temperatures"),
        (lambda: tp.plot.topics(hill.best_fit), "has no topics"),
        (lambda: tp.plot.factors(hill.best_fit), "has no factors"),
    ):
        with pytest.raises(UnsupportedMethod, match=message):
            attempt()


def test_the_ladder_is_drawn_from_its_averages(hill):
    """Without running a sampler: a history as parallel tempering leaves it."""
    import dataclasses

    rng = np.random.default_rng(1)
    betas = np.linspace(0, 1, 5) ** 2
    slopes = rng.normal(size=(100, 1, 5)) + np.array([-90.0, -20.0, -12.0, -10.0, -9.0])
    fit = dataclasses.replace(
        hill.best_fit,
        history={"slopes": slopes, "log_joint": slopes[..., 0]},
        details={"ladder": betas, "rejection": np.array([0.5, 0.4, 0.3, 0.2])},
        bracket=(-12.0, -11.0),
    )
    axes = tp.plot.thermodynamic(fit)
    np.testing.assert_allclose(drawn(axes, "average"), slopes.mean(axis=(0, 1)))
    assert "-12.00 and -11.00" in axes.get_title(loc="left")
    np.testing.assert_allclose([bar.get_height() for bar in tp.plot.swaps(fit).patches], [0.5, 0.6, 0.7, 0.8])
    assert tp.plot.energies(fit).get_xlabel() == "energy dU/dβ"
    assert len(tp.plot.trace(fit).lines) == 1


@pytest.mark.slow
def test_topics_and_factors():
    counts = np.array([[5, 4, 0, 0], [0, 0, 3, 6]] * 3)
    fit = tp.fit(tp.LDA(2, vocabulary=["cat", "dog", "sun", "sky"]), counts, tp.VB(max_iter=20))
    figure = tp.plot.topics(fit, n_words=2)
    words = {text.get_text() for axes in figure.axes for text in axes.get_yticklabels()}
    assert words == {str(word) for topic in fit.topics(2) for word, _ in topic}
    images = np.random.default_rng(0).normal(size=(12, 3, 3))
    fit = tp.fit(tp.FactorialMixture(2), images, tp.VB(max_iter=3))
    shown = [axes.images[0].get_array() for axes in tp.plot.factors(fit).axes]
    np.testing.assert_allclose(shown, fit.components)


def test_colours_differ_also_in_print():
    """Every two methods differ in marker, and neighbouring colours in lightness or hue."""
    assert len(set(MARKERS)) == len(MARKERS) == len(COLOURS) == len(set(COLOURS))


@pytest.mark.slow
def test_no_window_is_opened(hill):
    hill.plot()
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
