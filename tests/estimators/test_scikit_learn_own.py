"""scikit-learn's own tests of the classes that ours stand in for, run on ours.

Their files are loaded from the installed scikit-learn, with our class in the place of theirs, and every test function
is collected here with its own parameters. What is left out is listed, with the reason.
"""

from __future__ import annotations

import importlib.util
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import sklearn.decomposition
import sklearn.linear_model
import sklearn.mixture

from temperance import estimators
from tests.estimators.versions import FOLLOWED

# Their own settings let a short run warn.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LEFT_OUT = {
    "test_log_dirichlet_norm": "a private function of theirs",
    "test_log_wishart_norm": "a private function of theirs",
    "test_compare_covar_type": "calls the private _check_parameters and _initialize_parameters",
    "test_lda_preplexity_mismatch": "calls the private _perplexity_precomp_distr",
    "test_dirichlet_expectation": "private functions of theirs",
    "test_update_sigma": "private functions of theirs",
    "test_update_of_sigma_in_ard": "a column of zeros is left out there by a rounding error of its inverse",
}
QUICK = {
    "test_bayesian_mixture_check_is_fitted",
    "test_mixture_n_components_greater_than_n_samples_error",
    "test_lda_no_component_error",
    "test_lda_negative_input",
    "test_bayesian_ridge_scores",
    "test_bayesian_ridge_score_values",
    "test_bayesian_ridge_parameter",
    "test_bayesian_covariance_matrix",
    "test_bayesian_sample_weights",
    "test_toy_bayesian_ridge_object",
    "test_ard_accuracy_on_easy_problem",
    "test_dtype_match",
}


def load(name: str) -> types.ModuleType | None:
    """A fresh copy of a module of theirs that has met our classes only; None if their tests are not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    with (
        mock.patch.object(sklearn.mixture, "BayesianGaussianMixture", estimators.BayesianGaussianMixture),
        mock.patch.object(sklearn.mixture, "GaussianMixture", estimators.GaussianMixture),
        mock.patch.object(sklearn.decomposition, "LatentDirichletAllocation", estimators.LatentDirichletAllocation),
        mock.patch.object(sklearn.linear_model, "BayesianRidge", estimators.BayesianRidge),
        mock.patch.object(sklearn.linear_model, "ARDRegression", estimators.ARDRegression),
    ):
        spec.loader.exec_module(module)
    return module


def found_in(name: str) -> dict[str, Callable[..., Any]]:
    module = load(name)
    return {} if module is None else {key: value for key, value in vars(module).items() if key.startswith("test_")}


FILES = (
    "mixture.tests.test_bayesian_mixture",
    "mixture.tests.test_mixture",
    "decomposition.tests.test_online_lda",
    "linear_model.tests.test_bayes",
)
THEIRS = {name: test for file in FILES for name, test in found_in(f"sklearn.{file}").items()}
globals().update(
    (name, test if name in QUICK else pytest.mark.slow(test)) for name, test in THEIRS.items() if name not in LEFT_OUT
)


@pytest.fixture(params=[np.float32, np.float64])
def global_dtype(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=[0, 1])
def global_random_seed(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_their_files_were_found_and_all_that_is_left_out_exists() -> None:
    if not THEIRS:
        pytest.skip("scikit-learn is installed without its tests")
    assert set(LEFT_OUT) | QUICK <= set(THEIRS) or not FOLLOWED
    assert len(THEIRS) > 30
