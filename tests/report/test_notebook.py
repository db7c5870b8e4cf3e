"""Fits and comparisons as a notebook shows them."""

import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import temperance as tp

WORDS = ["<script>alert(1)</script>", "cat & dog", "bird"]


class Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.styles = ""
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.styles += "".join(value or "" for name, value in attrs if name == "style")

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_fit_is_a_small_card_with_its_words_escaped() -> None:
    texts = 5 * [[WORDS[0], WORDS[1]], [WORDS[2], WORDS[2], WORDS[0]]]
    fit = tp.fit(tp.LDA(2), texts, tp.VB(max_iter=20), seed=0)
    page = Reader(fit._repr_html_())
    assert page.tags[:3] == ["div", "strong", "div"] and "script" not in page.tags  # no tag of the data
    assert {"svg", "polyline", "table", "code"} <= set(page.tags)  # a picture, the answer, and what to do next
    assert "LDA fitted to" in page.text and f"log evidence {fit.log_evidence:.4f}" in page.text
    assert "next: fit.diagnose()" in page.text
    assert fit._repr_mimebundle_() == {"text/plain": repr(fit), "text/html": fit._repr_html_()}
    assert WORDS[0] in page.text and WORDS[1] in page.text
    assert len(fit._repr_html_()) < 5000
    assert "#" not in page.styles and "rgb" not in page.styles  # the theme's colours, light or dark


def test_a_comparison_shows_its_table_and_conclusion() -> None:
    x = np.random.default_rng(0).normal(size=(40, 1)) + 8.0 * np.repeat([0, 1], 20)[:, None]
    found = tp.compare([tp.GaussianMixture(k) for k in (1, 2)], x, tp.VB(), seed=0)
    page = Reader(found._repr_html_())
    assert page.tags.count("rect") == 2 and {"svg", "table", "code"} <= set(page.tags)
    assert page.text.startswith("Comparison of 2 models")
    assert all(f"{value:.2f}" in page.text for value in found.log_evidence)
    assert "2 components are almost certain" in page.text


def test_models_graphs_and_posteriors_have_cards() -> None:
    model = tp.GaussianMixture(2)
    page = Reader(model._repr_html_())
    assert page.text.startswith("GaussianMixture of 2 components") and "tp.fit(model, data)" in page.text
    fit = tp.fit(model, np.random.default_rng(0).normal(size=(20, 1)), tp.VB(max_iter=3), seed=0)
    assert "NormalWishart" in Reader(fit.model._repr_html_()).text
    shown = Reader(fit.posterior["components"]._repr_html_())
    assert shown.text.startswith("NormalWishart (2)meansd0[") and shown.tags.count("tr") == 3
    graph = tp.Graph()
    mu = graph.normal("mu", 0.0, 1.0)
    graph.normal("<x>", mu, 1.0, plates="n", observed=True)
    page = Reader(graph._repr_html_())
    assert page.text.startswith("Graph of mu, <x> [n] observed") and {"svg", "circle", "code"} <= set(page.tags)
    assert Reader(tp.Graph()._repr_html_()).text == "Graph of nothing yet"
    page = Reader(graph.model()._repr_html_())
    assert page.text.startswith("GraphModel") and {"svg", "circle"} <= set(page.tags) and "<x>" in page.text
    assert "currentColor" in page.text and "#" not in page.text + page.styles  # its picture sets no colours either


def test_consoles_show_one_line() -> None:
    graph = tp.Graph()
    assert repr(graph) == "<Graph of nothing yet>"
    mu = graph.normal("mu", 0.0, 1.0)
    graph.normal("x", mu, 1.0, plates="n", observed=True)
    assert repr(graph) == "<Graph of mu, x [n] observed>"
    assert repr(graph.model()) == "<GraphModel of mu, x [n] observed>"
    fit = tp.fit(graph.model(), [1.0, 2.0], tp.VB(), seed=0)
    assert repr(fit) == f"<GraphModel by VB: log evidence {fit.log_evidence:.4f}, converged; see .summary()>"


def test_a_model_of_texts_does_not_list_its_words() -> None:
    shown = repr(tp.LDA(2, vocabulary=[f"word{place}" for place in range(3000)]))
    assert "word" not in shown.replace("n_words=3000", "") and len(shown.splitlines()) < 25


def test_a_summary_leaves_out_columns_instead_of_breaking_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=["income", "commute minutes", "age"])
    fit = tp.fit(tp.GaussianMixture(2), x, tp.VB(max_iter=3), seed=0)
    whole = str(fit.summary())
    assert all(f"sd of {name}" in whole for name in x) and "too wide" not in whole
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    *lines, said = fit.summary().split("\n\n")[1].splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)
    assert lines[0].split()[:3] == ["component", "data", "weight"] and "mean of income" in lines[0]
    left_out = sum(heading not in lines[0] for heading in fit.columns())
    assert said == f"too wide for the terminal: {left_out} more columns in .table()"
