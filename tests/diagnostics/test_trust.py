"""The verdict on a fit: right where something is claimed, and no claim where nothing can be told."""

import dataclasses

import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter
from tests.exact import enumeration, marginals
from tests.inference.monte_carlo import tiny
from tests.inference.monte_carlo.test_missed_modes import TEN, WIDE, model


def variational() -> tp.Fit:
    return tp.fit(tiny.MODEL, tiny.X, tp.VB(restarts=5), seed=0)


def test_no_time_means_no_verdict() -> None:
    found = variational().diagnose(seconds=1e-9)
    assert not found.trust and found.bracket is None and found.gap is None
    assert str(found).startswith("cannot tell within this budget (1e-09 s): ")
    with pytest.raises(InvalidParameter, match="seconds must be a positive number"):
        variational().diagnose(seconds=0)


def test_a_wrong_evidence_is_not_trusted_and_a_right_one_is() -> None:
    found = variational().diagnose()
    assert found.trust == (abs(found.gap) < 1.0)
    assert found.bracket[0] < tiny.LOG_EVIDENCE < found.bracket[1]
    for offset, word in ((-8.0, "below"), (8.0, "above")):
        wrong = dataclasses.replace(variational(), log_evidence=tiny.LOG_EVIDENCE + offset).diagnose()
        assert not wrong.trust
        assert str(wrong).startswith("do not trust it because ") and f" {word} the bracket" in str(wrong)


def test_a_missed_mode_is_not_trusted_away() -> None:
    """Ten points, two components: the verdict was "trust it" beside an estimate 0.3 below the truth."""
    exact = enumeration.log_evidence(TEN, lambda rows: marginals.gaussian(rows, **WIDE), np.ones(2))
    vb = tp.fit(model(), TEN, tp.VB(), seed=0)
    found = vb.diagnose()
    if found.bracket is not None:
        assert found.bracket[0] < exact < found.bracket[1]
    if found.trust:
        assert abs(vb.log_evidence + vb.label_correction - exact) < 1.2


def test_a_bracket_below_the_bound_is_never_used() -> None:
    """Two clear clusters, as on iris: AIS offered a bracket 31 nats below the variational bound."""
    from tests.inference.monte_carlo.test_refuted_brackets import iris

    vb = tp.fit(tp.GaussianMixture(2), iris(), tp.VB(restarts=5), seed=0)
    found = vb.diagnose(seconds=20)
    assert "above the bracket" not in str(found)
    assert found.bracket is None or found.bracket[1] > vb.log_evidence
