"""`temperance topics`: which topics are there in texts, what each is about, and which document has which."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

import temperance as tp

from ..errors import InvalidData
from ..models.topics.report import NAMING
from . import inputs
from .options import Output, Reading
from .output import as_json, person, show_fit_table
from .work import write_result

_WORDS = 30  # of a topic in topics.csv


def find_topics(source: str, reading: Reading, topics: int, seed: int, out: Path | None, format: str) -> None:
    """Topics of texts, on the screen and in a folder."""
    data = inputs.corpus(source, reading, tables=False)
    if data.values.n_words < 2:
        raise InvalidData(f"topics need at least two different words, but {source} has one")
    if person(format):
        typer.echo("\n".join(data.notes))
    result = tp.fit(tp.LDA(topics), data.values, tp.CVB0(), seed=seed)
    table = numbered(result.table())
    notes = list(dict.fromkeys([*data.notes, *result.notes]))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_topics(out / "topics.csv", result)
        write_documents(out / "documents.csv", result.transform(data.values), table)
        files = Output(out / "fit.tp", out / "report.html", format)
        notes += write_result(result, files, "fit", f"{Path(source).name}: topics", data)
    if person(format):
        show_fit_table(table, topics)
        typer.echo("\n".join(f"note: {note}" for note in notes if note not in data.notes))
    else:
        typer.echo(as_json({"topics": table, "log_evidence": result.log_evidence, "notes": notes}))


def numbered(table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """A table of topics with numbers from 1, as in every file and figure for people."""
    return table | {"topic": [int(topic) + 1 for topic in table["topic"]]}


def write_topics(path: Path, fit: tp.Fit) -> None:
    """A row for each topic and word: the most telling words first, with their probabilities."""
    found = enumerate(fit.topics(_WORDS, NAMING), 1)
    rows = [(k, rank, word, f"{share:.6g}") for k, topic in found for rank, (word, share) in enumerate(topic, 1)]
    write_csv(path, ("topic", "rank", "word", "probability"), rows)


def write_documents(path: Path, shares: np.ndarray, table: dict[str, list[Any]]) -> None:
    """A row for each document, in order: its main topic with its words, and the share of every topic."""
    words = dict(zip(table["topic"], table["words"], strict=True))
    names = ("document", "main topic", "its words", *(f"topic {k + 1}" for k in range(shares.shape[1])))
    best = shares.argmax(axis=1) + 1
    rows = [
        (number, int(main), words[int(main)], *(f"{share:.6g}" for share in row))
        for number, (main, row) in enumerate(zip(best, shares, strict=True), 1)
    ]
    write_csv(path, names, rows)


def shares_of_new(fit: Any, source: str, reading: Reading) -> np.ndarray:
    """The shares of topics in new documents; how many have no known word is said on standard error."""
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
