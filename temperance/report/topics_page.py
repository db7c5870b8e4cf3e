"""The parts of a page that are about topics: a map to click and search in, groups, time, sizes, typical documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..comparison.publication import Publication
from ..comparison.topic_sizes import TopicSizes
from ..diagnostics.topic_map import laid_out
from ..errors import InvalidParameter
from ..fit import Fit
from ..models._answers import Topical, require
from ..models.topics.report import NAMING, TopicsBy
from . import plots_topics as plots
from ._facts import topics_of
from ._pieces import escaped, figure, html_table, section
from ._topic_script import SCRIPT

_WORDS = 30  # words of a topic at each end of the slider
_WIDTH, _HEIGHT, _EDGE = 560, 440, 60  # of the map


class Typical(NamedTuple):
    """The documents with the largest share of each topic: for each topic (number of the document, share, a passage
    of it)."""

    topics: list[list[tuple[int, float, str]]]
    words: list[str]


def also_parts(also: Sequence[Any]) -> list[str]:
    """A section for each further result."""
    found = []
    for result in also:
        if isinstance(result, TopicSizes):
            found.append(_sizes(result))
        elif isinstance(result, TopicsBy):
            found.append(_by(result))
        elif isinstance(result, Typical):
            found.append(_typical(result))
        elif isinstance(result, Publication):
            found.append(_criteria(result))
        else:
            known = "tp.topic_sizes, fit.topics_by or hill.publication()"
            raise InvalidParameter(f"also must hold results of {known}, got {type(result).__name__}")
    return found


def _criteria(found: Publication) -> str:
    head, *rows = found.cells()
    cells = [list(zip(found.columns, row, strict=True)) for row in rows]
    marked = [next(iter(row.values())) == found.best for row in found.rows]
    table = html_table(head, cells, f"What is published about each number of {found.columns[0]}", marked)
    return section("For a paper", [table, f"<p>{escaped(found.note)}</p>"])


def _sizes(found: TopicSizes) -> str:
    values = zip(found.sizes, found.held_out, found.coherence, strict=True)
    words = "; ".join(f"{size} topics: {score:.3f} nats per token, NPMI {npmi:.2f}" for size, score, npmi in values)
    caption = (
        f"Half of each of {found.documents:,} documents predicted from the other half, by fits without them in "
        f"{found.folds} folds (bars: standard errors of the difference from the best), and how often the ten leading "
        "words of a topic occur together (bars: over topics). The dotted line is the number that was chosen."
    )
    drawn = figure("How many topics", lambda: plots.topic_sizes(found), caption, words)
    return section("How many topics?", [f"<p>{escaped(found.sentence)}</p>", drawn])


def _by(found: TopicsBy) -> str:
    title = f"Topics by {found.name}"
    shown = found.share[:, found.order].argmax(axis=1)
    words = "; ".join(f"{label}: mostly topic {k + 1}" for label, k in zip(found.labels, shown, strict=True))
    caption = (
        "The share of a topic that the formula expects, other covariates at their usual values, with "
        f"{found.level:.0%} intervals that allow for the error of the coefficients and of the topics."
        if found.by_formula
        else f"The mean share of a topic in the documents of each group, with {found.level:.0%} intervals given the "
        "topics: they allow for how much documents differ and for how few words they have, not for the error of the "
        "topics."
    )
    shown_are = f"{caption} Shown are the topics that differ most."
    return section(title, [figure(title, lambda: plots.topics_by(found), shown_are, words)])


def _typical(found: Typical) -> str:
    parts = []
    for k, (documents, words) in enumerate(zip(found.topics, found.words, strict=True), 1):
        parts.append(f"<h3>{escaped(f'{k}: {words}')}</h3>")
        for number, share, text in documents:
            parts.append(f"<blockquote>{escaped(text)}<br>document {number}: {share:.0%} of its words</blockquote>")
    return section("Typical documents", parts)


def map_section(fit: Fit) -> str:
    """A map of topics as SVG, and the words of the chosen topic; the section needs no other file."""
    points, kept, shares = plots.map_of(fit)
    radius = 12 + 45 * np.sqrt(shares / max(float(shares.sum()), 1e-300))
    x, y = laid_out(points * (1.0, -1.0), radius, (_WIDTH, _HEIGHT), _EDGE).T  # in SVG y grows downwards
    names = [" ".join(word for word, _ in topic) for topic in topics_of(fit, 4)]
    marks = "".join(
        f'<g role="button" tabindex="0" aria-pressed="false" data-topic="{k}" aria-label="{escaped(label)}">'
        f'<circle cx="{x[k]:.0f}" cy="{y[k]:.0f}" r="{radius[k]:.1f}"><title>{escaped(label)}</title></circle>'
        f'<text x="{x[k]:.0f}" y="{y[k] + 5:.0f}">{k + 1}</text></g>'
        for k in np.argsort(-radius)
        for label in (f"topic {k + 1}, {shares[k]:.1%}: {names[k]}",)
    )
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="group" aria-label="Map of the topics">{marks}</svg>'
    data = json.dumps(_words(fit, shares), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    panel = (
        '<div><label>Find a word <input type="search" id="topic-search" autocomplete="off"></label>'
        "<label>Words: telling ones on the left, frequent ones on the right "
        f'<input type="range" id="topic-relevance" min="0" max="1" step="0.05" value="{NAMING}"></label>'
        '<div id="topic-words" aria-live="polite"></div></div>'
    )
    caption = (
        f"Topics whose words are similar are near each other (Jensen–Shannon distances; the plane shows {kept:.0%} of "
        "the squared distances); the larger a circle, the larger the share. Circles are "
        "moved apart where they would hide each other. Choose one to see its words: a bar is the "
        "probability of a word in the topic."
    )
    script = f'<script type="application/json" id="topic-data">{data}</script><script>{SCRIPT}</script>'
    return section("A map of the topics", [f'<div class="map">{svg}{panel}</div><p>{escaped(caption)}</p>{script}'])


def _words(fit: Fit, shares: np.ndarray) -> list[dict[str, Any]]:
    """For each topic its share and its words with their probabilities and lifts p(w | k) / p(w)."""
    beta = require(fit.model, Topical).distributions(fit._families())[fit.order]
    overall = shares @ beta
    found = []
    vocabulary = getattr(fit.model, "vocabulary", None)
    for row, share in zip(beta, shares, strict=True):
        lift = row / overall
        scores = (
            np.log(row),
            NAMING * np.log(row) + (1 - NAMING) * np.log(lift),
            0.2 * np.log(row) + 0.8 * np.log(lift),
        )
        chosen = np.unique(np.concatenate([np.argsort(-score, kind="stable")[:_WORDS] for score in scores]))
        words = [
            [str(v) if vocabulary is None else vocabulary.words[v], float(f"{row[v]:.4g}"), float(f"{lift[v]:.4g}")]
            for v in chosen
        ]
        found.append({"share": float(f"{share:.4g}"), "words": words})
    return found
