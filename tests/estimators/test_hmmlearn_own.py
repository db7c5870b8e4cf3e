"""hmmlearn's own tests of the classes that ours stand in for, run on ours; what is left out is listed, with reasons."""

from __future__ import annotations

import importlib.util
import types
from typing import Any

import numpy as np
import pytest

from temperance import estimators

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]

_PRIVATE, _LOG = "calls a private function of theirs", "waits for a line of their log"
LEFT_OUT: dict[tuple[str, str], str] = {
    ("", "test_score_samples_and_decode"): _PRIVATE,
    ("", "test_covar_is_writeable"): _PRIVATE,
    ("", "test_attributes"): _PRIVATE,
    ("", "test_fit_with_init"): _PRIVATE,
    ("", "test__check_and_set_categorical_n_features"): _PRIVATE,
    ("", "test__check_and_set_multinomial_n_features_n_trials"): _PRIVATE,
    ("", "test_fit_with_priors"): "begins with no iteration, and reads the private _covars_",
    ("", "test_fit_ignored_init_warns"): _LOG,
    ("", "test_fit_too_little_data"): _LOG,
    ("", "test_underflow_from_scaling"): "there is one set of recursions, in logarithms, which cannot underflow",
    **{
        ("TestGaussianHMMWithTiedCovars", f"test_{name}"): 'covariance_type="tied" can be set, not fitted'
        for name in ("fit", "criterion", "fit_sequences_of_different_length", "fit_with_length_one_signal",
                     "fit_zero_variance")
    },
}  # fmt: skip


def found_in(name: str) -> dict[str, Any]:
    """Their classes of tests, with our models in the place of theirs; none if their tests are not installed."""
    with np.errstate():  # importing them sets NumPy's warnings for the whole process
        spec = importlib.util.find_spec("hmmlearn.tests")
        spec = None if spec is None else importlib.util.find_spec(f"hmmlearn.tests.{name}")
        if spec is None or spec.loader is None:
            return {}
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    ours = {key: getattr(estimators, key) for key in estimators.__all__ if key.endswith("HMM")}
    module.hmm = types.SimpleNamespace(**ours)  # type: ignore[attr-defined]
    return {key: value for key, value in vars(module).items() if key.startswith("Test")}


def kept(theirs: dict[str, Any]) -> dict[str, Any]:
    """Their classes without what is left out."""
    return {
        name: type(name, (kind,), {test: None for of, test in LEFT_OUT if of in ("", name) and hasattr(kind, test)})
        for name, kind in theirs.items()
    }


FILES = ("test_gaussian_hmm", "test_categorical_hmm", "test_multinomial_hmm", "test_poisson_hmm")
THEIRS = {name: kind for file in FILES for name, kind in found_in(file).items()}
globals().update(kept(THEIRS))


def test_their_files_were_found_and_all_that_is_left_out_exists() -> None:
    if not THEIRS:
        pytest.skip("hmmlearn is installed without its tests")
    names = {test for kind in THEIRS.values() for test in dir(kind)}
    assert {test for _, test in LEFT_OUT} <= names and len(THEIRS) >= 7
