"""What EP is worth on 200 random small data sets whose exact answer is known, and what its correction adds."""

import numpy as np
import pytest

from tests.inference.messages.small_sets import PROBLEMS, Outcome, outcomes


@pytest.mark.slow
def test_closer_to_the_truth_than_variational_bayes() -> None:
    """The predictive density for two components only: with three, EP converges on few sets, and on most of those the
    predictive density of VB is the closer one."""
    tables = [outcomes(problem) for problem in PROBLEMS]
    both = [np.concatenate(tables), np.concatenate([t for t, p in zip(tables, PROBLEMS, strict=True) if p.j == 2])]
    assert len(both[0]) == 200
    every, two = (Outcome(*table[table[:, 0] == 1].T) for table in both)
    assert len(two.converged) >= 70
    assert np.mean(two.divergence_ep < two.divergence_vb) >= 0.8
    assert np.mean(every.evidence_ep < every.evidence_vb) >= 0.95
    exists = np.isfinite(every.evidence_corrected)
    assert exists.sum() >= 50
    assert every.evidence_corrected[exists].mean() < every.evidence_ep[exists].mean()
    assert np.mean(every.evidence_corrected[exists] < every.evidence_ep[exists]) >= 0.8
