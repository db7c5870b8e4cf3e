"""The pieces of a page: sections, figures, tables."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

from ..cards import printable
from ..summary import heading
from ._picture import picture


def section(heading: str, parts: list[str]) -> str:
    name = f"section-{slug(heading)}"
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escaped(heading)}</h2>{"".join(parts)}</section>'


def grid(figures: list[str]) -> str:
    return f'<div class="figures">{"".join(figures)}</div>'


def figure(title: str, draw: Callable[[], Any], caption: str, words: str) -> str:
    return (
        f'<figure><div class="paper">{picture(draw(), words, slug(title))}</div>'
        f"<figcaption><strong>{escaped(title)}.</strong> {escaped(caption)}</figcaption></figure>"
    )


def html_table(
    headings: list[str], rows: list[list[tuple[str, str]]], caption: str, marked: list[bool] | None = None
) -> str:
    columns = zip(*rows, strict=True) if rows else [()] * len(headings)
    sides = [' class="number"' if column and all(_number(value) for _, value in column) else "" for column in columns]
    head = "".join(
        f'<th scope="col"{side}>{escaped(heading(name))}</th>' for name, side in zip(headings, sides, strict=True)
    )
    body = ""
    for number, row in enumerate(rows):
        mark = ' class="best"' if marked and marked[number] else ""
        cells = "".join(f"<td{side}>{escaped(value)}</td>" for (_, value), side in zip(row, sides, strict=True))
        body += f"<tr{mark}>{cells}</tr>"
    said = escaped(caption)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{said}"><table><caption>{said}'
        f"</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _number(value: str) -> bool:
    return value in ("yes", "no") or value.startswith("at least") or value[:1] in "-−–0123456789["


def slug(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())


def escaped(value: str) -> str:
    return html.escape(printable(value))
