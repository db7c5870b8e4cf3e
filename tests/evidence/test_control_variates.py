"""Densities of a proposal's parts as control variates, on mixtures of normals with known integrals."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from temperance.evidence.tempered import Estimate
from temperance.evidence.weights import controlled, upwards

PARTS = [stats.norm(0.0, 1.0), stats.norm(0.0, 2.0), stats.norm(3.0, 1.5)]
SHARES = np.array([0.5, 0.2, 0.3])
LOG_EVIDENCE = -7.0


def drawn(target: Any, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a target with this log normaliser, and the parts' densities beside the proposal's."""
    rng = np.random.default_rng(seed)
    part = rng.choice(len(PARTS), size=size, p=SHARES)
    x = np.choose(part, [one.rvs(size, random_state=rng) for one in PARTS])
    logs = np.stack([one.logpdf(x) for one in PARTS], axis=1)
    together = logsumexp(logs + np.log(SHARES), axis=1)
    return LOG_EVIDENCE + target.logpdf(x) - together, logs - together[:, None]


def test_a_target_that_is_a_part_leaves_no_error_but_rounding() -> None:
    log_weights, log_ratios = drawn(PARTS[0], 1000, 0)
    assert abs(upwards(log_weights).log_evidence - LOG_EVIDENCE) > 1e-3
    found = controlled(log_weights, log_ratios)
    assert found.log_evidence == pytest.approx(LOG_EVIDENCE, abs=1e-10)
    assert abs(found.log_evidence - LOG_EVIDENCE) < found.standard_error < 1e-8


def test_parts_that_are_nearly_the_same_do_no_harm() -> None:
    """Sixty parts a hair apart: coefficients of their differences would be noise, and the error too small."""
    centres, found = np.linspace(0.0, 1e-3, 60), []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = rng.choice(centres, 500) + rng.normal(size=500)
        logs = stats.norm(centres).logpdf(x[:, None])
        together = logsumexp(logs, axis=1) - np.log(len(centres))
        found.append(controlled(stats.norm(0.2, 1.1).logpdf(x) - together, logs - together[:, None]))
    held = np.mean([abs(one.log_evidence) < 1.96 * one.standard_error for one in found])
    assert 0.93 <= held <= 0.985
    assert np.mean([one.standard_error for one in found]) < 0.02


def errors(estimate: Any, target: Any, runs: int) -> np.ndarray:
    """Error and stated error of each run."""
    found: list[Estimate] = [estimate(*drawn(target, 500, seed)) for seed in range(runs)]
    return np.array([(one.log_evidence - LOG_EVIDENCE, one.standard_error) for one in found])


@pytest.mark.parametrize("target", [stats.norm(0.3, 1.1), stats.t(4), stats.norm(3.5, 1.9)])
def test_errors_are_calibrated_and_smaller_than_those_of_the_average(target: Any) -> None:
    """The last target is wider than the part beneath it: its weights have a Pareto shape of 0.4, and 500 of them do
    not tell their own spread well."""
    ours, plain = errors(controlled, target, 400), errors(lambda weights, _: upwards(weights), target, 400)
    assert np.mean(ours[:, 0] ** 2) < np.mean(plain[:, 0] ** 2)
    held = np.mean(np.abs(ours[:, 0]) < 1.96 * ours[:, 1])
    assert held > (0.9 if target.std() > 1.5 else 0.93)
    if target.dist.name == "norm" and target.std() < 1.5:
        assert held < 0.985


def test_weights_without_a_finite_part_fall_back_to_their_average() -> None:
    log_weights, log_ratios = np.full(50, -np.inf), np.zeros((50, 3))
    with np.errstate(all="ignore"):
        assert not np.isfinite(controlled(log_weights, log_ratios).log_evidence)
