"""The verdict on a fit: right where something is claimed, and no claim where nothing can be told."""

import dataclasses
import time

import numpy as np
import pytest

import temperance as tp
from temperance.diagnostics import trust
from temperance.errors import InvalidParameter
from temperance.inference.interruption import OutOfTime, until
from tests.exact import enumeration, marginals
from tests.inference.monte_carlo import tiny
from tests.inference.monte_carlo.test_missed_modes import TEN, WIDE, model


def variational() -> tp.Fit:
    return tp.fit(tiny.MODEL, tiny.X, tp.VB(restarts=5), seed=0)


def test_no_time_means_no_verdict() -> None:
    found = variational().diagnose(seconds=1e-9)
    assert not found.trust and found.bracket is None and found.gap is None
    assert str(found) == "cannot tell within this budget (1e-09 s): no estimate came to its end; give it more seconds"
    with pytest.raises(InvalidParameter, match="seconds must be a positive number"):
        variational().diagnose(seconds=0)


def test_a_run_ends_when_its_time_is_over() -> None:
    """Importance sampling of 40,000 rows went on for minutes."""
    with until(time.perf_counter() - 1.0), pytest.raises(OutOfTime):
        variational()
    assert variational().converged


def test_a_wrong_evidence_is_not_trusted_and_a_right_one_is() -> None:
    found = variational().diagnose(seconds=600)
    assert found.trust == (abs(found.gap) < 1.0)
    assert found.bracket[0] < tiny.LOG_EVIDENCE < found.bracket[1]
    for offset, word in ((-8.0, "below"), (8.0, "above")):
        wrong = dataclasses.replace(variational(), log_evidence=tiny.LOG_EVIDENCE + offset).diagnose(seconds=600)
        assert not wrong.trust
        assert str(wrong).startswith("do not trust it because ") and f" {word} the bracket" in str(wrong)


@pytest.mark.usefixtures("engines")
def test_a_missed_mode_is_not_trusted_away() -> None:
    """Ten points, two components: the verdict was "trust it" beside −32.98 ± 0.005, 0.3 below the truth."""
    exact = enumeration.log_evidence(TEN, lambda rows: marginals.gaussian(rows, **WIDE), np.ones(2))
    assert exact == pytest.approx(-32.690347, abs=1e-6)
    found = tp.fit(model(), TEN, tp.VB(), seed=0).diagnose(seconds=600)
    assert str(found).startswith("do not trust it because ") and not found.trust
    assert "importance weights and bridge sampling" in str(found)
    assert -32.98 < found.bracket[0] < exact < found.bracket[1]


def test_a_right_evidence_of_two_modes_is_trusted() -> None:
    exact = enumeration.log_evidence(TEN, lambda rows: marginals.gaussian(rows, **WIDE), np.ones(2))
    right = dataclasses.replace(tp.fit(model(), TEN, tp.VB(), seed=0), log_evidence=exact - np.log(2))
    found = right.diagnose(seconds=600)
    assert found.trust and str(found).startswith("trust it: ")
    assert found.bracket[0] < exact < found.bracket[1]


@pytest.mark.usefixtures("engines")
def test_bridge_sampling_sees_the_mode_that_importance_weights_have_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of one optimum alone, as they were: sure, and wrong."""
    vb = tp.fit(model(), TEN, tp.VB(), seed=0)
    monkeypatch.setattr(trust, "_interval", lambda weighed: (-32.995, -32.965))
    believed = dataclasses.replace(vb, log_evidence=-32.98 - np.log(2))
    for seed in range(4):
        found = believed.diagnose(seed=seed, seconds=600)
        if found.bracket is None:
            assert str(found).startswith(
                "cannot tell within this budget (600 s): of the log evidence importance weights"
            )
            assert "and bridge sampling places it in" in str(found)
            return
    raise AssertionError("bridge sampling never told")


def test_a_bracket_below_the_bound_is_never_used() -> None:
    """Two clear clusters, as on iris: AIS offered a bracket 31 nats below the variational bound."""
    from tests.inference.monte_carlo.test_refuted_brackets import iris

    vb = tp.fit(tp.GaussianMixture(2), iris(), tp.VB(restarts=5), seed=0)
    found = vb.diagnose(seconds=20)
    assert "above the bracket" not in str(found)
    assert found.bracket is None or found.bracket[1] > vb.log_evidence
