"""The report: one file, offline, the fit's own numbers; and what a browser makes of it."""

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter
from temperance.report._again import call_of
from temperance.report._pieces import html_table

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
X = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1])[:, None]
PRIOR = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
VOID = {"meta", "link", "br", "img", "input", "hr"}


@pytest.fixture(scope="module")
def hill():
    return tp.compare([tp.GaussianMixture(k, prior=PRIOR) for k in (1, 2, 3)], X, tp.VB(restarts=10, tol=1e-10))


@pytest.fixture(scope="module")
def page(hill, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "hill.html"
    return tp.report(hill, path, title="Seven numbers & <two> groups", code="hill = tp.compare(...)")


class Reader(HTMLParser):
    """Balanced tags, unique names, cells of the tables, and everything that points outside."""

    def __init__(self):
        super().__init__()
        self.open, self.names, self.outside, self.headings, self.rows = [], [], [], [], []
        self.labels = 0

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in found:
            self.names.append(found["id"])
        for key in ("src", "href", "xlink:href"):
            if not found.get(key, "#").startswith(("#", "data:")):
                self.outside.append(found[key])
        if tag in ("svg", "img"):
            self.labels += bool(found.get("aria-label") or found.get("alt"))
        if tag in ("h1", "h2", "h3"):
            self.headings.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.rows[-1].append(data)


@pytest.fixture(scope="module")
def read(page):
    reader = Reader()
    reader.feed(page.read_text("utf-8"))
    return reader


def test_one_file_that_needs_nothing_else(page, read):
    text = page.read_text("utf-8")
    assert page.stat().st_size < 5e6
    assert read.open == [] and read.outside == []
    assert "<script" not in text and "@import" not in text and "url(http" not in text
    assert len(read.names) == len(set(read.names))


def test_it_can_be_read_without_seeing_it(page, read):
    text = page.read_text("utf-8")
    assert 'lang="en"' in text and 'name="viewport"' in text and "prefers-color-scheme: dark" in text
    assert read.headings[0] == "h1" and read.headings.count("h1") == 1
    assert read.labels == text.count("<figure>") >= 4
    assert text.count('scope="col"') > 5 and "<caption>" in text and 'href="#main"' in text


def test_the_numbers_are_those_of_the_comparison(hill, page, read):
    rows = [row for row in read.rows if len(row) > 5 and row[1] == "VB"]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert [row[2] for row in rows] == [f"{value:.2f}".replace("-", "−") for value in hill.log_evidence]
    assert [row[3] for row in rows] == [f"{value:.2f}" for value in hill.label_correction]
    assert [row[5] for row in rows] == [f"{value:.4f}" for value in hill.probabilities]
    table = hill.best_fit.columns()
    found = [row for row in read.rows if len(row) == len(table) and row[1] != "VB"]
    assert [row[1] for row in found] == [f"{value:.4g}" for value in table["data"]]


def test_it_says_in_words_what_was_found(page):
    text = html.unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page.read_text("utf-8"), flags=re.DOTALL))
    words = " ".join(text.split())
    assert "Seven numbers & <two> groups" in words
    assert words.index("2 components are the most probable") < words.index("The Ockham hill")
    assert "hill = tp.compare(...)" in words and "Seed 0" in words and "VB(restarts=10" in words
    assert re.search(r"temperance \d.*jax \d.*numpy \d", words)


@pytest.mark.slow
def test_warnings_come_with_the_summary(hill, tmp_path):
    late = tp.compare([tp.GaussianMixture(k, prior=PRIOR) for k in (1, 2, 3)], X, tp.VB(restarts=10, max_iter=1))
    text = tp.report(late, tmp_path / "late.html").read_text("utf-8")
    assert text.index("Before you believe it") < text.index("The Ockham hill")
    assert "had not fully converged when the budget was spent" in text


def test_a_page_about_one_fit(hill, tmp_path):
    path = tp.report(hill.fit(3), tmp_path / "fit.html")
    text = path.read_text("utf-8")
    assert f"The log evidence is {hill.fit(3).log_evidence:,.2f}".replace("-", "−") in text
    assert "2 of the 3 components hold data" in text


def test_a_graph_is_drawn(tmp_path):
    g = tp.Graph()
    walk = g.gamma("walk", 1.0, 1.0)
    level = g.gaussian_chain("level", 0.0, 1.0, 1.0, walk, time="t", plates="series")
    g.normal("x", level, 1.0, observed=True)
    fit = tp.fit(g.model(), X.T, tp.VB(max_iter=2))
    text = tp.report(fit, tmp_path / "graph.html").read_text("utf-8")
    found = Reader()
    found.feed(text)
    assert 'class="tp-graph"' in text and "observed" in text and "g.model()" in text
    assert not found.outside and len(found.names) == len(set(found.names)) and not found.open
    style = text.split("<style>")[2].split("</style>")[0]
    assert all(
        rule.startswith(".tp-graph ") for rule in style.split("}") if rule
    )  # it leaves the rest of the page alone


def test_only_results_have_a_report(tmp_path):
    with pytest.raises(InvalidParameter, match="must be a fit or a comparison, got int"):
        tp.report(3, tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


MEASURE = """<script>addEventListener("load", () => {
  const box = e => { const r = e.getBoundingClientRect(); return [r.width, r.height, r.left, r.right]; };
  document.body.setAttribute("data-measured", JSON.stringify({
    inner: innerWidth, scroll: document.documentElement.scrollWidth,
    charts: [...document.querySelectorAll("figure svg, figure img")].map(box),
    drawn: [...document.querySelectorAll("figure svg")].map(s => s.querySelectorAll("path").length) }));
});</script></body>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine: apt-get install chromium")
@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desktop"])
def test_a_browser_shows_it(page, tmp_path, width):
    measured = tmp_path / "measured.html"
    measured.write_text(page.read_text("utf-8").replace("</body>", MEASURE), "utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom",
               f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", measured.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in done.stderr, done.stderr
    found = json.loads(html.unescape(re.search(r'data-measured="([^"]*)"', done.stdout).group(1)))
    assert found["scroll"] <= found["inner"]  # nothing sticks out sideways
    assert len(found["charts"]) >= 4
    for w, h, left, right in found["charts"]:
        assert w > 200 and h > 100 and left >= 0 and right <= found["inner"]
    assert min(found["drawn"]) > 5


@pytest.mark.parametrize(
    "method",
    [
        tp.VB(),
        tp.Annealed(tp.SVI(passes=3, batch_size=20), "linear", start=1.5),
        tp.VT((1.0, 2.0, 4.0), method=tp.VB(restarts=2), length=7),
    ],
)
def test_the_code_shown_makes_the_same_method(method: Any) -> None:
    assert eval(call_of(method), {"tp": tp}) == method


def test_a_column_has_one_side():
    """Words that begin with a digit stand on the side of the other words of their column."""
    columns = [[("column", "sex"), ("why", "two values")], [("column", "class"), ("why", "3 values in order")]]
    assert 'class="number"' not in html_table(["column", "why"], columns, "The columns")
    assert html_table(["size"], [[("size", "1")], [("size", "–")]], "Sizes").count('class="number"') == 3
