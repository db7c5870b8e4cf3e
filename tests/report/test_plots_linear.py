"""Loadings and forecasts as they were found; the fits are those of the models' own tests."""

import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from tests.models import test_factor_analysis, test_state_space


@pytest.mark.slow
def test_loadings_are_drawn_in_units_of_their_columns_strongest_first() -> None:
    fit = test_factor_analysis.fitted()[0]
    axes = tp.plot.loadings(fit, names="abcdef")
    shown = np.asarray(axes.collections[0].get_array().reshape(6, -1)).T
    order = np.asarray(fit.table()["factor"]) - 1
    np.testing.assert_allclose(shown, fit.components[order] / np.asarray(fit.model.scale))
    assert np.abs(shown).max() < 1.2 and np.square(shown[0]).sum() > 10 * np.square(shown[-1]).sum()
    assert [tick.get_text() for tick in axes.get_yticklabels()] == list("abcdef")
    with pytest.raises(InvalidParameter, match="names must be 6"):
        tp.plot.loadings(fit, names="abc")


@pytest.mark.slow
def test_the_fan_is_that_of_the_forecast() -> None:
    fit, x = test_state_space.fitted()
    axes = tp.plot.forecast(fit, 3, recent=10)
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_allclose(lines["data"].get_ydata(), x[-10:, 0])
    np.testing.assert_allclose(lines["smoothed"].get_ydata(), fit.smooth().mean[-10:, 0])
    future = fit.forecast(3)
    np.testing.assert_allclose(lines["forecast"].get_ydata()[1:], future.mean[:, 0])
    low, high = future.interval(0.9)
    corners = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert corners.max() == pytest.approx(high.max()) and corners.min() == pytest.approx(low.min())
    with pytest.raises(InvalidParameter, match="column must be one of 0 to 0"):
        tp.plot.forecast(fit, 3, column=1)


@pytest.mark.slow
def test_other_models_have_neither() -> None:
    with pytest.raises(UnsupportedMethod, match="has no loadings"):
        tp.plot.loadings(test_state_space.fitted()[0])
    with pytest.raises(UnsupportedMethod, match="no fan"):
        tp.plot.forecast(test_factor_analysis.fitted()[0], 3)
