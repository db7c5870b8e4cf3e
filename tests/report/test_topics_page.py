"""The page about topics: a map that works offline, with the fit's own numbers, and further results beside it."""

import html
import json
import re
import shutil
import subprocess
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter
from temperance.report.words import topic_sentences

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SUBJECTS = [["cat", "purr", "paw", "tail"], ["star", "moon", "orbit", "<comet>"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    rng = np.random.default_rng(0)
    texts = [list(rng.choice(SUBJECTS[d % 2], 12)) for d in range(60)]
    fit = tp.fit(tp.LDA(2), texts, tp.CVB0(), seed=0)
    years = 1990 + np.arange(60) // 3
    also = [tp.topic_sizes(texts, (1, 2), seed=0), fit.topics_by(np.array(["dog", "cat"])[np.arange(60) % 2]),
            fit.topics_by(years)]  # fmt: skip
    return fit, tp.report(fit, tmp_path_factory.mktemp("page") / "topics.html", also=also)


def test_the_map_holds_the_topics(made):
    fit, path = made
    page = path.read_text("utf-8")
    data = json.loads(re.search(r'id="topic-data">(.*?)</script>', page, re.DOTALL)[1])
    beta = fit.model.distributions(fit._families())[fit.order]
    for k, topic in enumerate(data):
        found = {word: p for word, p, _ in topic["words"]}
        truth = {word: beta[k, v] for v, word in enumerate(fit.model.vocabulary.words)}
        assert found == pytest.approx(truth, rel=1e-3)
    assert sum(topic["share"] for topic in data) == pytest.approx(1.0, abs=1e-3)
    assert "<comet>" not in page and not re.search(r'(src|href)="(?!#|data:)', page)
    for heading in ("A map of the topics", "How many topics?", "Topics by value"):
        assert heading in page


def test_the_page_begins_with_the_topics_in_words(made):
    fit, path = made
    page = path.read_text("utf-8")
    shares = fit.transform([["cat"] * 9, ["star"] * 9])[:, fit.order]
    for subject, share in zip(SUBJECTS, shares, strict=True):
        (words,) = re.findall(rf"<p><strong>Topic {share.argmax() + 1}, 50%</strong>: ([^<]*)</p>", page)
        assert {html.unescape(word) for word in words.split(", ")} >= set(subject)
    assert page.index("<strong>Topic 1") < page.index("An LDA with 2 topics") < page.index("A map of the topics")


@pytest.mark.parametrize("size, named, left", [(5, 5, 0), (6, 6, 0), (7, 5, 2)])
def test_topics_are_all_named_or_counted(size, named, left):
    words = [f"{subject}{place}" for subject in "abcdefg"[:size] for place in range(5)]
    texts = [list(np.random.default_rng(d).choice(words[5 * (d % size) :][:5], 12)) for d in range(20 * size)]
    fit = tp.fit(tp.LDA(size), texts, tp.CVB0(), seed=0)
    said = topic_sentences(fit)
    assert len(fit.order) == size and sum(line.startswith("Topic ") for line in said) == named
    assert [line for line in said if "smaller" in line] == [f"The other {left} topics are smaller."] * (left > 0)


@pytest.mark.skipif(BROWSER is None, reason="no browser")
def test_the_map_can_be_searched(made, tmp_path):
    fit, path = made
    act = """<script>const s = document.getElementById("topic-search"); s.value = "orb";
s.dispatchEvent(new Event("input"));
document.title = document.querySelectorAll(".map g.found").length + document.querySelector(".map li span").textContent
 + "|" + document.querySelector("#topic-words strong").textContent;</script></body>"""
    copy = tmp_path / "page.html"
    copy.write_text(path.read_text("utf-8").replace("</body>", act), "utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", copy.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    stars = int(np.argmax([dict(fit.topics(8)[k]).get("orbit", 0.0) for k in fit.order]))
    assert f"|Topic {stars + 1}, " in re.search(r"<title>(.*?)</title>", dom)[1]


def test_the_figures_show_what_was_found(made):
    fit, _ = made
    axes = tp.plot.topic_map(fit)
    assert {text.get_text()[:2] for text in axes.texts} == {"1", "2", "1:", "2:"}
    found = fit.topics_by(np.array(["dog", "cat"])[np.arange(60) % 2])
    drawn = tp.plot.topics_by(found).axes
    assert [tick.get_text() for tick in drawn[0].get_xticklabels()] == ["cat", "dog"]
    days = [date(2020, 1, 1) + timedelta(days=3 * row) for row in range(60)]
    drawn = tp.plot.topics_by(fit.topics_by(days)).axes
    assert [tick.get_text() for tick in drawn[0].get_xticklabels()] == ["2020-01", "2020-03", "2020-06"]
    with pytest.raises(InvalidParameter, match=r"must come from fit\.topics_by"):
        tp.plot.topics_by(fit)
    with pytest.raises(InvalidParameter, match="also must hold results"):
        tp.report(fit, "never.html", also=[fit])


def test_figures_of_topics_have_room_and_show_the_largest(made):
    fit, _ = made
    (axes,) = tp.plot.topics(fit, n_words=3, most=1).axes
    assert axes.get_title(loc="left") == "topic 1"
    largest = int(np.asarray(fit.posterior["topics"].concentration).sum(axis=1).argmax())
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [word for word, _ in fit.topics(3, 0.6)[largest]][:3]
    rng = np.random.default_rng(0)
    texts = [list(rng.choice([f"{word}{'x' * 15}" for word in SUBJECTS[d % 2]], 12)) for d in range(40)]
    long = tp.fit(tp.LDA(2), texts, tp.CVB0(), seed=0).topics_by(np.arange(40) % 2)
    titles = [axes.get_title(loc="left") for axes in tp.plot.topics_by(long).axes]
    assert titles[0].startswith("1: ") or titles[0].startswith("2: ")
    assert all(len(line) <= 24 for title in titles for line in title.split("\n"))


def test_scripts_that_the_figures_have_no_font_for_are_text_in_the_page(tmp_path: Path) -> None:
    texts = ["猫在沙发上睡觉,狗在花园里叫", "议会通过了企业税法", "政府提高税收,议会同意", "狗在花园里追猫"] * 6
    fit = tp.fit(tp.LDA(2), texts, tp.CVB0(passes=5), seed=0)
    tp.report(fit, tmp_path / "report.html")  # a warning would be an error
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "花园" in page and "data:image/png" not in page
