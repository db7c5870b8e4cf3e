"""Models by the names that people use."""

from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance.comparison.names import size_of, sized
from temperance.models._about import counted
from temperance.report.words import fit_sentences

ROWS = np.random.default_rng(0).normal(size=(12, 2))


def normal() -> Any:
    graph = tp.Graph()
    graph.normal("x", graph.normal("mu", 0.0, 1.0), 1.0, plates="n", observed=True)
    return graph.model()


def test_numbers_go_with_the_singular_or_the_plural() -> None:
    assert [counted(1, "groups"), counted(3, "groups")] == ["1 group", "3 groups"]
    assert sized(1, "topics") == "1 topic" and sized(2, "states") == "2 states"
    assert sized(2, "degree") == "degree 2" and sized("mine", "model") == "mine"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (tp.GaussianMixture(3), ("components", 3)),
        (tp.DirichletProcessMixture(4), ("components", 4)),
        (tp.HMM(2), ("states", 2)),
        (tp.StateSpace(2), ("states", 2)),
        (tp.LDA(5), ("topics", 5)),
        (tp.FactorAnalysis(2), ("factors", 2)),
        (tp.FactorialMixture(3), ("factors", 3)),
        (tp.LinearRegression(tp.Polynomial(2)), ("degree", 2)),
        (tp.LinearRegression(), None),
    ],
)
def test_what_the_size_of_a_model_counts(model: Any, expected: Any) -> None:
    assert size_of(model) == expected


def test_articles() -> None:
    documents = tp.fit(tp.LDA(2, engine="device"), [[0, 1, 1], [2, 3], [0, 3]], tp.VB(max_iter=2))
    assert fit_sentences(documents)[0].startswith("An LDA with 2 topics was fitted to 3 documents")
    mixture = tp.fit(tp.GaussianMixture(1), ROWS, tp.VB(max_iter=2))
    assert fit_sentences(mixture)[0].startswith("A GaussianMixture with 1 component was fitted")


@pytest.mark.parametrize(
    "model, data, counted",
    [(tp.HMM(1), ROWS, "12 steps"), (tp.StateSpace(1), ROWS, "1 sequence"), (normal(), ROWS[:, 0], "12 data")],
)
def test_data_are_counted_in_their_own_word(model: Any, data: Any, counted: str) -> None:
    said = fit_sentences(tp.fit(model, data, tp.VB(max_iter=2)))[0]
    assert f"was fitted to {counted} by VB" in said
