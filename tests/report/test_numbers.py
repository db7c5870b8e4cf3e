"""Topics, states and factors are numbered by size, from 1, in tables, pictures, pages, files and predictions alike."""

import csv
import json
import re

import numpy as np
import pytest

import temperance as tp
from temperance.cli import main
from tests.tiers import with_slow

SUBJECTS = [words.split() for words in (
    "sail boat deck wave oar net", "cook salt oven dish fork pan", "star moon orbit comet sky sun"
)]  # fmt: skip
SHARES = (0.15, 0.6, 0.25)  # of the subjects: by size they are 2, 3, 1
BY_SIZE = [SUBJECTS[1], SUBJECTS[2], SUBJECTS[0]]


@pytest.fixture(scope="module")
def texts() -> list[list[str]]:
    """Mostly of one subject each."""
    rng, found = np.random.default_rng(0), []
    for _ in range(120):
        main = rng.choice(3, p=SHARES)
        found.append([str(rng.choice(SUBJECTS[main if rng.random() < 0.9 else rng.choice(3)])) for _ in range(12)])
    return found


def subject(words: str | list[str]) -> int:
    """The place, by size, of the subject to which most of these words belong."""
    listed = re.findall(r"[a-z]+", str(words))
    return int(np.argmax([sum(word in known for word in listed) for known in BY_SIZE]))


def titles(figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]


def test_a_command_numbers_topics_by_size_wherever_it_shows_them(texts, tmp_path, capsys):
    table, out = tmp_path / "texts.csv", tmp_path / "out"
    table.write_text("id,text\n" + "".join(f"{i},{' '.join(words)}\n" for i, words in enumerate(texts)))
    found = set()
    for seed in range(2):  # whose posteriors have the topics in different orders
        assert main(["topics", str(table), "--topics", "3", "--seed", str(seed), "--out", str(out)]) == 0
        record = json.loads(capsys.readouterr().out)["topics"]
        assert record["topic"] == [1, 2, 3] and record["share"] == sorted(record["share"], reverse=True)
        assert [subject(words) for words in record["words"]] == [0, 1, 2]
        with (out / "topics.csv").open() as file:
            rows = [row for row in csv.DictReader(file) if int(row["rank"]) <= 4]
        assert {(int(row["topic"]) - 1, subject(row["word"])) for row in rows} == {(0, 0), (1, 1), (2, 2)}
        with (out / "documents.csv").open() as file:
            for row, words in zip(csv.DictReader(file), texts, strict=True):
                assert row["main topic"] == str(subject(words) + 1) and subject(row["its words"]) == subject(words)
                assert float(row[f"topic {subject(words) + 1}"]) > 0.5
        new = tmp_path / "new.csv"
        new.write_text("text\n" + "".join(" ".join(words) + "\n" for words in BY_SIZE))
        assert main(["predict", str(out / "fit.tp"), str(new), "--text", "text"]) == 0
        assert [row["main topic"] for row in json.loads(capsys.readouterr().out)] == [1, 2, 3]
        page = (out / "report.html").read_text("utf-8")
        headline = re.findall(r"<strong>Topic (\d), \d+%</strong>: ([^<]*)</p>", page)
        assert [(number, subject(words)) for number, words in headline] == [("1", 0), ("2", 1), ("3", 2)]
        chart = json.loads(re.search(r'id="topic-data">(.*?)</script>', page, re.DOTALL)[1])
        most = [max(topic["words"], key=lambda word: word[1])[0] for topic in chart]
        assert [subject(word) for word in most] == [0, 1, 2]
        typical = re.findall(r"<h3>(\d): ([^<]*)</h3>\s*<blockquote>([^<]*)<", page)
        assert [(n, subject(words), subject(text)) for n, words, text in typical] == [
            ("1", 0, 0), ("2", 1, 1), ("3", 2, 2)
        ]  # fmt: skip
        fit = tp.load(out / "fit.tp")
        found.add(tuple(fit.order.tolist()))
        assert [subject([word for word, _ in fit.topics(4)[k]]) for k in fit.order] == [0, 1, 2]
        assert [subject(texts[fit.typical(int(k), 1)[0][0]]) for k in fit.order] == [0, 1, 2]
    assert found - {(0, 1, 2)}


@pytest.mark.parametrize("kind", with_slow(["LDA", "HDP", "StructuralTopics"], "HDP", "StructuralTopics"))
def test_pictures_and_tables_of_topics_agree(texts, kind):
    many = ["yes" if subject(words) == 0 else "no" for words in texts]
    model, data = {
        "LDA": (tp.LDA(3), texts),
        "HDP": (tp.HDP(8), texts),
        "StructuralTopics": (tp.StructuralTopics(3, "~ many"), (texts, {"many": many})),
    }[kind]
    fit = tp.fit(model, data, tp.VB(restarts=3 if kind == "LDA" else 1), seed=0)
    table, size = fit.columns(), len(fit.order)
    assert table["topic"] == list(range(1, size + 1)) and size >= 3
    assert table["share"] == sorted(table["share"], reverse=True)
    names = [[word for word, _ in fit.topics(6, 0.6)[k]] for k in fit.order]
    assert table["words"] == [" ".join(words) for words in names]
    figure = tp.plot.topics(fit, n_words=3, relevance=0.6)
    assert titles(figure) == [f"topic {number}" for number in table["topic"]]
    drawn = [[tick.get_text() for tick in axes.get_yticklabels()] for axes in figure.axes if axes.get_title(loc="left")]
    assert drawn == [words[:3] for words in names]
    labels = [text.get_text() for text in tp.plot.topic_map(fit).texts]
    numbers = [str(number) for number in table["topic"]]
    assert labels == [*numbers, *(f"{number}: {' '.join(words[:3])}" for number, words in enumerate(names, 1))]
    by = fit.topics_by(many)
    number = {" ".join(words[:4]): k for k, words in enumerate(names, 1)}
    assert all(row["topic"] == number[row["words"]] for row in by.rows()) and len(by.rows()) == 2 * size
    shares = fit.transform(data)[:, fit.order]
    rows = {(row["value"], row["topic"]): row["share"] for row in by.rows()}
    assert rows["yes", 1] > 0.7 > 0.3 > rows["no", 1] and shares[np.array(many) == "yes"][:, 0].min() > 0.5
    for title in titles(tp.plot.topics_by(by)):
        shown, words = title.replace("\n", " ").removesuffix(" …").split(": ")
        assert " ".join(names[int(shown) - 1]).startswith(words)
    if kind == "StructuralTopics":
        effects = fit.effects(draws=60, warmup=30)
        assert all(row["topic"] == number[row["words"]] for row in effects.rows())
        most = max((row for row in effects.rows() if row["coefficient"] != "intercept"), key=lambda r: r["estimate"])
        assert most["topic"] == 1


def test_topics_with_seeds_keep_the_numbers_of_these(texts):
    """The smallest subject is the first, because its seeds are; the others follow by size."""
    fit = tp.fit(tp.LDA(3, seeds={1: ["sail", "boat"]}), texts, tp.VB(), seed=1)
    assert fit.order[0] == 1
    assert [subject(words) for words in fit.columns()["words"]] == [2, 0, 1]


def test_factors_are_numbered_by_size():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)) @ [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 3.0, 3.0]] + 0.3 * rng.normal(size=(200, 4))
    fit = tp.fit(tp.FactorAnalysis(2), x, tp.VB(), seed=0)
    table = fit.columns()
    assert table["factor"] == [1, 2] and table["explained"] == sorted(table["explained"], reverse=True)
    axes = tp.plot.loadings(fit)
    written = np.array([float(text.get_text().replace("−", "-")) for text in axes.texts]).reshape(4, 2)
    truth = fit.model.relative_loadings(fit._families())[fit.order].T
    assert np.allclose(written, truth, atol=0.006)
    assert [tick.get_text()[0] for tick in axes.get_xticklabels()] == ["1", "2"]
    images = np.zeros((80, 2, 9))
    on = rng.random((80, 2)) < 0.5
    images[:, 0, :4], images[:, 1, 4:] = 1.0, 4.0
    pictures = (on[:, :, None] * images).sum(axis=1) + 0.1 * rng.normal(size=(80, 9))
    fit = tp.fit(tp.FactorialMixture(2), pictures.reshape(80, 3, 3), tp.VB(restarts=3), seed=0)
    first, second = (axes.images[0].get_array() for axes in tp.plot.factors(fit).axes)
    assert np.square(first).sum() > np.square(second).sum()
    assert np.allclose(first, fit.components[fit.order[0]])
