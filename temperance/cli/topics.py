"""`temperance topics`: find the topics of texts, describe each, and give the topics of each document."""

from __future__ import annotations

import csv
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

import temperance as tp

from ..data.formula import parse_formula
from ..data.load import documents_of
from ..data.text import decode
from ..data.text_sources import open_texts, values_beside
from ..errors import InvalidData, InvalidParameter
from ..report._facts import topics_of
from ..report._pieces import slug
from ..report.topics_page import Typical
from . import inputs
from .options import Output, Reading
from .output import as_json, person, show_fit_table
from .work import write_result

_WORDS = 30  # of a topic in topics.csv
_LEVELS = 12  # categories of a column that is shown without being asked for
_PASSAGE, _LETTERS = 45, 360  # words that are shown of a document, and letters
_ROOM = 2**29  # bytes of responsibilities; with more, minibatches, which keep none
_TOKENS = 4e8  # tokens over all draws of effects, where that makes from 400 to 4,000 draws
_TABLES = 4  # columns that are shown without being asked for
_YEAR = re.compile("year|date|month|time")


class Asked(NamedTuple):
    """The requests of a user about topics."""

    sizes: list[int] | None = None
    by: str | None = None
    seeds: Path | None = None
    formula: str | None = None


def find_topics(source: str, reading: Reading, asked: Asked, seed: int, out: Path | None, format: str) -> None:
    """Topics of texts, on the screen and in a folder."""
    seeds, sizes = read_seeds(asked.seeds), asked.sizes
    if asked.formula is not None:
        parse_formula(asked.formula)  # an error in it must come early
    data = inputs.corpus(source, reading, tables=False)
    if data.values.n_words < 2:
        raise InvalidData(f"topics need at least two different words, but {source} has one")
    if person(format):
        typer.echo("\n".join(data.notes))
    tried = tp.topic_sizes(data.values, sizes, seed=seed) if sizes is None or len(sizes) > 1 else None
    topics = max(tried.best if tried is not None else (sizes or [1])[0], len(seeds))
    if asked.formula is None:
        result = _fit(data.values, topics, seeds, seed)
    else:
        corpus = data.values.with_covariates(beside(source, reading))
        model = tp.StructuralTopics(topics, asked.formula, seeds=seeds or None)
        result = tp.fit(model, corpus, tp.VB(restarts=2), seed=seed)
    table = result.columns()
    effects = None if asked.formula is None else _effects(result, float(data.values.counts.sum()), seed)
    groups = shares_by(result, source, reading, asked.by)
    if effects is not None:
        groups = [effects.shares(covariate.name) for covariate in effects.coding.covariates]
    notes = list(dict.fromkeys([*data.notes, *result.notes, *([tried.sentence] if tried is not None else [])]))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_topics(out / "topics.csv", result)
        documents = of_documents(result.transform(data.values), result)
        write_csv(out / "documents.csv", list(documents), list(zip(*documents.values(), strict=True)))
        for found in groups:
            rows = found.rows()
            write_csv(out / f"topics-by-{slug(found.name)}.csv", list(rows[0]), [list(row.values()) for row in rows])
        if effects is not None:
            rows = effects.rows()
            write_csv(out / "effects.csv", list(rows[0]), [list(row.values()) for row in rows])
        also = [*([tried] if tried is not None else []), *groups, *typical(result, source, reading)]
        files = Output(out / "fit.tp", out / "report.html", format)
        notes += write_result(result, files, "fit", f"{Path(source).name}: topics", data, also)
    if person(format):
        show_fit_table(table, topics)
        if effects is not None:
            typer.echo(str(effects))
        typer.echo("\n".join(f"note: {note}" for note in notes if note not in data.notes))
    else:
        shares = {found.name: found.rows() for found in groups}
        record = {"topics": table, "by": shares, "log_evidence": result.log_evidence, "notes": notes}
        typer.echo(as_json(record if effects is None else record | {"effects": effects.rows()}))


def _fit(corpus: tp.Corpus, topics: int, seeds: list[list[str]], seed: int) -> tp.Fit:
    """LDA by CVB0, with α learned; in minibatches (without learned priors) if responsibilities would not fit in
    memory."""
    large = len(corpus.words) * topics * 8 > _ROOM
    learn = () if large else ("document_prior",)
    model = tp.LDA(topics, document_prior=0.1, topic_prior=0.01, learn=learn, seeds=seeds or None)
    return tp.fit(model, corpus, tp.CVB0(batch_size=256) if large else tp.CVB0(), seed=seed)


def _effects(fit: tp.Fit, tokens: float, seed: int) -> tp.Effects:
    """The effects of a formula by as many draws as take some seconds: successive ones are much alike."""
    draws = int(np.clip(_TOKENS / tokens, 400, 4000))
    return fit.effects(draws=draws, warmup=draws // 2, seed=seed)


def read_seeds(path: Path | None) -> list[list[str]]:
    """The words of each topic: one line per topic, with spaces or commas between words."""
    if path is None:
        return []
    if not path.is_file():
        raise InvalidParameter(f"--seeds: there is no file {str(path)!r}")
    lines = [line.replace(",", " ").split() for line in decode(path.read_bytes(), path.name).splitlines()]
    if not any(lines):
        raise InvalidData(f"--seeds: {path.name} has no words")
    return [line for line in lines if line]


def beside(source: str, reading: Reading) -> dict[str, list[Any]]:
    """The columns beside the texts."""
    known = Path(source).exists() and Path(source).suffix != ".npz"
    return values_beside(Path(source), reading.text) if known else {}


def shares_by(fit: tp.Fit, source: str, reading: Reading, by: str | None) -> list[tp.TopicsBy]:
    """Topics by the columns that were asked for, or by dates, years and categories that are beside the texts."""
    if by == "none" or not Path(source).exists():
        return []
    values = beside(source, reading)
    if by is None:
        return [fit.topics_by(_Named(name, cells)) for name, cells in values.items() if _groups(name, cells)][:_TABLES]
    asked = [name.strip() for name in by.split(",")]
    for name in asked:
        if name not in values:
            raise InvalidParameter(f"--by: {source} has no column {name!r} beside its texts, only {', '.join(values)}")
    return [fit.topics_by(_Named(name, values[name])) for name in asked]


class _Named(list[Any]):
    """Values with the name of their column."""

    def __init__(self, name: str, values: Sequence[Any]):
        super().__init__(values)
        self.name = name


def _groups(name: str, cells: Sequence[Any]) -> bool:
    """Whether a column is shown without being asked for: dates, years, or up to twelve categories."""
    column = tp.read_table({name: cells}).schema[name]
    if column.levels:
        return 2 <= len(column.levels) <= _LEVELS
    return column.kind == "date" or (column.kind not in ("text", "constant") and bool(_YEAR.search(name.lower())))


def typical(fit: tp.Fit, source: str, reading: Reading) -> list[Typical]:
    """The documents with the largest share of each topic, if they are texts: the passage with most of its words."""
    with documents_of(source, reading.text) as path:
        if path is None:
            return []
        rows = [fit.typical(k, min(3, fit.data.size)) for k in fit.order]
        wanted = {row for topic in rows for row, _ in topic}
        texts = {row: text for row, text in enumerate(open_texts(path, reading.text).texts) if row in wanted}
    named = [[word for word, _ in topic] for topic in topics_of(fit, _WORDS)]
    shown = [
        [(row + 1, share, passage(str(texts[row]), words)) for row, share in topic]
        for topic, words in zip(rows, named, strict=True)
    ]
    return [Typical(shown, [" ".join(words[:6]) for words in named])]


def passage(text: str, words: Sequence[str]) -> str:
    """The part of a text in which most of these words occur, the first of several."""
    every, known = text.split(), set(words)
    if len(every) <= _PASSAGE:
        return _shortened(text)
    here = np.cumsum([0, *(re.sub(r"\W+", "", word.lower()) in known for word in every)])
    first = int(np.argmax(here[_PASSAGE:] - here[:-_PASSAGE]))
    found = _shortened(" ".join(every[first : first + _PASSAGE]))
    more = first + _PASSAGE < len(every) and not found.endswith("…")
    return ("… " if first else "") + found + (" …" if more else "")


def _shortened(text: str) -> str:
    """The text cut after at most `_LETTERS` letters, at the end of a word if there are spaces."""
    found = textwrap.shorten(text, _LETTERS, placeholder=" …")
    return found if found.strip(" …") or not text.strip() else text.strip()[:_LETTERS] + " …"


def write_topics(path: Path, fit: tp.Fit) -> None:
    """A row for each topic and word: the most telling words first, with their probabilities."""
    found = enumerate(topics_of(fit, _WORDS), 1)
    rows = [(k, rank, word, f"{share:.6g}") for k, topic in found for rank, (word, share) in enumerate(topic, 1)]
    write_csv(path, ("topic", "rank", "word", "probability"), rows)


def of_documents(shares: np.ndarray, fit: tp.Fit) -> dict[str, list[Any]]:
    """A value for each document, in order: its main topic with its words, and the share of every topic in use."""
    words = [" ".join(word for word, _ in topic) for topic in topics_of(fit, 6)]
    shares = shares[:, fit.order]
    shares = shares / shares.sum(axis=1, keepdims=True)
    main = shares.argmax(axis=1)
    columns: dict[str, list[Any]] = {"document": list(range(1, len(shares) + 1)), "main topic": (main + 1).tolist()}
    columns["its words"] = [words[k] for k in main]
    return columns | {f"topic {k}": [float(f"{share:.6g}") for share in each] for k, each in enumerate(shares.T, 1)}


def shares_of_new(fit: Any, source: str, reading: Reading) -> np.ndarray:
    """The shares of topics in new documents; standard error says how many documents have no known word."""
    vocabulary = getattr(fit.model, "vocabulary", None)
    texts = vocabulary is not None and vocabulary.tokeniser is not None
    corpus = fit.model.new_corpus(inputs.new_documents(source, reading, texts))
    if corpus.n_empty:
        verb = "has" if corpus.n_empty == 1 else "have"
        which = f"{corpus.n_empty:,} of {len(corpus):,} documents {verb} none of the words of the fit"
        typer.echo(f"note: {which}: the shares of topics are those of the prior", err=True)
    return fit.transform(corpus)


def write_csv(path: Path, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *rows])
