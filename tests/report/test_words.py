"""What a comparison says in words."""

import dataclasses
from functools import cache

import numpy as np
import pytest

import temperance as tp
from temperance.comparison.comparison import Comparison
from temperance.errors import InvalidParameter
from temperance.report.words import conclusion, warnings, with_article

ROWS = np.random.default_rng(0).normal(size=(12, 1))


@cache
def fitted() -> Comparison:
    methods = [tp.VB(restarts=2), tp.Laplace(restarts=2)]
    return tp.compare([tp.GaussianMixture(k) for k in (1, 2, 3)], ROWS, methods, seed=0)


def with_evidence(*values: float) -> Comparison:
    """The same comparison with these log evidences by both methods, all labellings counted."""
    rows = []
    for row in fitted().cells:
        rows.append(
            tuple(
                dataclasses.replace(cell, fit=dataclasses.replace(cell.fit, log_evidence=v), label_correction=0.0)
                for cell, v in zip(row, values, strict=True)
            )
        )
    return dataclasses.replace(fitted(), cells=tuple(rows))


@pytest.mark.slow
def test_the_runner_up_is_chosen_by_evidence_where_probabilities_underflow() -> None:
    found = with_evidence(-50_000.0, -40_000.0, -1_000.0)
    assert found.probabilities[:2].tolist() == [0.0, 0.0]
    assert conclusion(found)[2].startswith("2 components come next, 39000.0 nats behind")


def test_the_nearest_number_of_topics_comes_next() -> None:
    """ "4 topics come next, 31,564 nats behind", where eight were nearer: all probabilities but one were 0."""
    counts = np.random.default_rng(0).integers(0, 4, size=(6, 8))
    sizes = tp.compare([tp.LDA(k) for k in (4, 8, 16)], counts, tp.VB(restarts=1, max_iter=3), seed=0)
    values = (-131_564.0, -120_000.0, -100_000.0)
    row = tuple(
        dataclasses.replace(cell, fit=dataclasses.replace(cell.fit, log_evidence=value), label_correction=0.0)
        for cell, value in zip(sizes.cells[0], values, strict=True)
    )
    found = dataclasses.replace(sizes, cells=(row,))
    assert found.best == 16 and found.probabilities.tolist() == [0.0, 0.0, 1.0]
    assert conclusion(found)[2].startswith("8 topics come next, 20000.0 nats behind")


def test_a_torn_path_leaves_no_choice_of_one() -> None:
    """The command said "vb prefers 2 and pt prefers 1": for PT only one component had a result."""
    from tests.inference.monte_carlo.test_refuted_brackets import iris

    tempering = tp.ParallelTempering(draws=1000, warmup=200, replicas=16, reference="prior")
    methods = {"vb": tp.VB(restarts=5), "pt": tempering}
    found = tp.compare([tp.GaussianMixture(k) for k in (1, 2, 3)], iris(), methods, seed=0)
    assert found.set_aside("pt") == (2, 3)
    assert found.choices["pt"] is None
    assert found.decided_by == "vb" and found.best == found.choices["vb"] > 1
    said = " ".join(conclusion(found))
    assert "pt cannot choose: its results were set aside." in said and "prefer" not in said


def test_two_methods_that_agree_are_both() -> None:
    assert conclusion(with_evidence(-3.0, -2.0, -1.0))[1] == "Both methods agree on that: VB and Laplace."


@pytest.mark.slow
def test_stacking_weights_predict_at_least_as_well_as_every_model() -> None:
    weights = fitted().stacking()
    assert weights.sum() == pytest.approx(1.0) and (weights >= 0).all()
    each = np.stack([fitted().fit(k).loo().pointwise for k in (1, 2, 3)], axis=1)
    assert np.log(np.exp(each) @ weights).sum() >= each.sum(axis=0).max() - 1e-6


def without(comparison: Comparison, method: int, *sizes: int) -> Comparison:
    """The same with the fits of these sizes by one method without a log evidence."""
    rows = [list(row) for row in comparison.cells]
    for k in sizes:
        cell = rows[method][k - 1]
        rows[method][k - 1] = dataclasses.replace(cell, fit=dataclasses.replace(cell.fit, log_evidence=None))
    return dataclasses.replace(comparison, cells=tuple(map(tuple, rows)))


def test_a_method_left_with_one_size_makes_no_choice() -> None:
    """It was said to prefer 1, with probability 1, because 2 and 3 had been set aside."""
    found = without(with_evidence(-3.0, -2.0, -4.0), 1, 2, 3)
    assert found.set_aside("Laplace") == (2, 3)
    assert found.choices == {"VB": 2, "Laplace": None}
    assert "Laplace cannot choose" in conclusion(found)[1]
    assert [row["probability"] for row in found.rows() if row["method"] == "Laplace"] == [None] * 3
    alone = dataclasses.replace(found, methods=found.methods[1:], cells=found.cells[1:])
    assert conclusion(alone)[0] == (
        "1 component is the only one of 1 to 3 with a usable result by Laplace: that is no choice."
    )


def test_sizes_set_aside_are_named_beside_the_choice() -> None:
    found = without(with_evidence(-3.0, -2.0, -4.0), 1, 3)
    alone = dataclasses.replace(found, methods=found.methods[1:], cells=found.cells[1:])
    assert conclusion(alone)[0].endswith("among 1 to 3, by Laplace; 3 was set aside.")


def test_probabilities_carry_the_error_of_the_evidence() -> None:
    """Two models with equal evidence and errors of s: p = σ(√2 s z), whose spread is √2 s/4 for small s."""
    rows = with_evidence(-1.0, -1.0, -60.0).cells[0]
    noisy = tuple(
        dataclasses.replace(cell, fit=dataclasses.replace(cell.fit, details={"standard_error": 0.1})) for cell in rows
    )
    found = dataclasses.replace(fitted(), methods=("VB",), cells=(noisy,))
    errors = found.probability_errors_by("VB")
    assert errors is not None
    np.testing.assert_allclose(errors, [np.sqrt(2) * 0.1 / 4, np.sqrt(2) * 0.1 / 4, 0.0], rtol=0.05, atol=1e-6)
    assert found.rows()[0]["probability_error"] == errors[0]
    assert "probability 50.0% ± 3.6%" in conclusion(found)[0]
    assert fitted().probability_errors_by("VB") is None


def test_the_headline_counts_the_components_in_use() -> None:
    """Twelve points of one Normal: of three components VB leaves two empty, and they are not three groups."""
    found = with_evidence(-5.0, -4.0, -1.0)
    held = found.cells[0][2].in_use
    assert held == len(found.fit(3).table()["component"]) == 1
    assert conclusion(found)[0].startswith("1 component in use, of 3 allowed, is likely")
    assert [row["in_use"] for row in found.rows()][2] == held
    assert conclusion(found)[2].startswith("1 component in use, of 2 allowed, comes next")


def test_empty_components_that_raise_the_evidence_are_told() -> None:
    """The crabs: five components allowed, one in use, 39 nats above one alone, because the default prior is
    narrower."""
    (said,) = (one for one in warnings(with_evidence(-5.0, -4.0, -1.0)) if "priors" in one)
    assert said.startswith("With 3 components allowed and with 1 as many hold data, 1: ")
    assert not any("priors" in one for one in warnings(with_evidence(-1.0, -4.0, -5.0)))


@pytest.mark.slow
def test_leave_one_out_decides_where_it_is_asked_to() -> None:
    found = dataclasses.replace(fitted(), criterion="loo")
    each = {k: fitted().fit(k).loo().elpd for k in (1, 2, 3)}
    assert {k: one.elpd for k, one in found.loo.items()} == each
    assert found.best == max(each, key=lambda k: each[k])
    assert "each datum best from all others" in conclusion(found)[0]
    with pytest.raises(InvalidParameter, match="criterion must be 'evidence' or 'loo'"):
        tp.compare([tp.GaussianMixture(1)], ROWS, criterion="waic")


def test_the_article_goes_with_the_sound():
    names = (
        "HMM HDP LDA OrderedRegression FactorAnalysis SwitchingStateSpace StructuralTopics GaussianMixture GraphModel"
    )
    assert [with_article(name).split()[0] for name in names.split()] == ["An"] * 4 + ["A"] * 5
