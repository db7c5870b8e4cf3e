"""What EP is worth on 200 random small data sets whose exact answer is known, and what its correction adds."""

import numpy as np
import pytest

from tests.inference.messages.small_sets import PROBLEMS, Outcome, outcomes


@pytest.mark.slow
def test_closer_to_the_truth_than_variational_bayes() -> None:
    tables = [outcomes(problem) for problem in PROBLEMS]
    table = np.concatenate(tables)
    assert len(table) == 200
    converged = table[:, 0] == 1
    assert converged.sum() >= 80
    ours = Outcome(*table[converged].T)
    assert np.mean(ours.divergence_ep < ours.divergence_vb) >= 0.8
    assert np.mean(ours.evidence_ep < ours.evidence_vb) >= 0.95
    exists = np.isfinite(ours.evidence_corrected)
    assert exists.sum() >= 50
    assert ours.evidence_corrected[exists].mean() < ours.evidence_ep[exists].mean()
    assert np.mean(ours.evidence_corrected[exists] < ours.evidence_ep[exists]) >= 0.8
