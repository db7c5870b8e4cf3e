"""Names that nobody should give: in columns, words, categories, titles and paths."""

import os
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import temperance as tp
from temperance.errors import InvalidParameter
from temperance.inference.checkpoint import Checkpoint
from temperance.summary import heading, printable
from tests.tiers import with_slow

NAMES = {
    "formula": "cost $a_b$ of $\\frac{$",
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "attribute": "\" onload='alert(1)' x=\"",
    "end of a comment": "]]>--></style></svg><!--",
    "emoji": "😀 👩‍🔬",
    "NUL": "nul\0nul",
    "right to left": "\u202egnp.exe אב",
    "long": "x" * 10_000,
    "lines": "a\nb\tc\r",
    "terminal": "\x1b[31mred\x07",
    "half": "\ud800 alone",
    "empty": "",
}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2)) + 6.0 * RNG.integers(0, 2, (30, 1))
SCRIPTED = re.compile(r"alert|onerror|onload", re.ASCII)


class Page(HTMLParser):
    """What a browser would run, and the text that it would show."""

    def __init__(self, page):
        super().__init__()
        self.runs, self.text, self.inside = [], "", ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.inside = tag
        self.runs += [name for name, _ in attributes if SCRIPTED.search(name)]

    def handle_data(self, data):
        if self.inside == "script":
            self.runs += SCRIPTED.findall(data)
        self.text += data


def shown(fit, path, **arguments):
    page = tp.report(fit, path, **arguments).read_text("utf-8")
    for text in (str(fit.summary()), fit._repr_html_(), page):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\ud800-\udfff]", text)
        assert max(map(len, str(fit.summary()).splitlines())) < 1000
    found = Page(page)
    assert found.runs == []
    fit.save(path.with_suffix(".tp"))
    assert str(tp.load(path.with_suffix(".tp")).summary()) == str(fit.summary())
    return found.text


@pytest.mark.parametrize("name", with_slow(NAMES, "attribute", "end of a comment", "emoji", "lines", "empty", "half"))
def test_a_column(name, tmp_path):
    frame = pd.DataFrame(X, columns=[NAMES[name], "b"])
    fit = tp.fit(tp.GaussianMixture(2), frame, tp.VB(max_iter=20), seed=0)
    text = shown(fit, tmp_path / "page.html", title=NAMES[name] or None)
    if name in ("formula", "script", "attribute"):
        assert NAMES[name] in text


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_word_and_a_category(name, tmp_path):
    counts = RNG.poisson(2.0, size=(12, 4)) + 1
    words = [NAMES[name] or "e", "b", "c", "d"]
    shown(tp.fit(tp.LDA(2, vocabulary=words), counts, tp.VB(max_iter=10), seed=0), tmp_path / "topics.html")
    frame = pd.DataFrame({NAMES[name]: RNG.choice([NAMES[name] or "v", "no"], 30), "z": X[:, 0]})
    shown(tp.fit(tp.ClassMixture(2), frame, tp.VB(max_iter=10), seed=0), tmp_path / "classes.html")


def test_plots_write_a_formula_as_it_stands():
    axes = tp.plot.ellipses(tp.fit(tp.GaussianMixture(2), X, seed=0), names=["$\\frac{$ $x$", "b" * 500])
    axes.figure.canvas.draw() if hasattr(axes.figure.canvas, "draw") else axes.figure.draw_without_rendering()
    assert axes.get_xlabel() == r"\$\frac{\$ \$x\$" and len(axes.get_ylabel()) == 40


def test_what_can_be_shown():
    assert printable("a\x1b[0m\u202eb\ud800") == "a�[0m�b�"
    assert heading(" a\n b ") == "a b" and heading("x" * 99, 5) == "xxxx…"


REFUSED = {
    "names": (lambda fit, path: tp.report(fit, path, names=["a"]), "names must be 2, one for each column"),
    "no names": (lambda fit, path: tp.report(fit, path, names=3), "names must be 2, one for each column"),
    "title": (lambda fit, path: tp.report(fit, path, title=3), "title must be text, got 3"),
    "code": (lambda fit, path: tp.report(fit, path, code=b"x"), "code must be text"),
    "page": (lambda fit, path: tp.report(fit, "a\0b"), r"path must be the path of a file, got 'a\\x00b'"),
    "save": (lambda fit, path: fit.save("a\0b"), "path must be the path of a file"),
    "save to nothing": (lambda fit, path: fit.save(None), "path must be the path of a file, got None"),
    "load": (lambda fit, path: tp.load("a\0b"), "path must be the path of a file"),
    "load a number": (lambda fit, path: tp.load(5), "path must be the path of a file, got 5"),
    "checkpoint": (
        lambda fit, path: tp.fit(tp.GaussianMixture(2), X, checkpoint=5),
        "checkpoint must be the path of a file, got 5",
    ),
    "checkpoint, NUL": (
        lambda fit, path: tp.fit(tp.GaussianMixture(2), X, checkpoint="a\0"),
        "checkpoint must be the path",
    ),
    "checkpoint, long": (
        lambda fit, path: tp.fit(tp.GaussianMixture(2), X, checkpoint=path / ("x" * 10_000)),
        "cannot be .*name too long",
    ),
    "components": (lambda fit, path: tp.GaussianMixture(10**20), "n_components must be at most 10,000,000"),
}


@pytest.fixture(scope="module")
def fitted():
    return tp.fit(tp.GaussianMixture(2), X, tp.VB(max_iter=20), seed=0)


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_one_sentence(name, fitted, tmp_path):
    attempt, message = REFUSED[name]
    with pytest.raises(InvalidParameter, match=message) as caught:
        attempt(fitted, tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_disk_names_the_file_that_was_asked_for(fitted, tmp_path):
    for write in (fitted.save, lambda path: tp.report(fitted, path)):
        with pytest.raises(FileNotFoundError) as caught:
            write(tmp_path / "nowhere" / "fit.tp")
        assert caught.value.filename == str(tmp_path / "nowhere" / "fit.tp")


def test_a_checkpoint_stays_where_it_was_when_the_folder_changes(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    kept = Checkpoint("kept", 0.0, "a call")
    os.chdir("elsewhere")
    kept.begin({})
    assert (tmp_path / "kept").exists() and list((tmp_path / "elsewhere").iterdir()) == []
