"""A graph in plate notation, as an SVG picture: circles are variables (grey: observed), squares are inputs.

Variables on the same plates share a band of columns, and the bands are ordered so that every plate is one rectangle
around its own variables, where that is possible.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from html import escape
from pathlib import Path

from .spec import Quantity, Spec

_STEP_X, _STEP_Y, _RADIUS, _MARGIN = 118.0, 104.0, 25.0, 34.0
# A style sheet inside an SVG applies to the whole page that shows it, so every rule names the class of this picture. It
# sets no colours of its own, so the theme of the page applies, light or dark.
_STYLE = (
    ".tp-graph text{font-family:sans-serif;font-size:13px;fill:currentColor;text-anchor:middle}"
    ".tp-graph .plate{fill:none;stroke:currentColor;stroke-opacity:0.55;stroke-width:1.2}"
    ".tp-graph .label{font-size:11px;fill-opacity:0.7;text-anchor:end}"
    ".tp-graph .below{font-size:11.5px}"
    ".tp-graph .latent{fill:none;stroke:currentColor;stroke-width:1.4}"
    ".tp-graph .seen{fill:currentColor;fill-opacity:0.2;stroke:currentColor;stroke-width:1.4}"
    ".tp-graph .edge{stroke:currentColor;stroke-width:1.2;fill:none}.tp-graph .choice{stroke-dasharray:5 3}"
)


@dataclasses.dataclass(frozen=True)
class Drawing:
    """An SVG picture; notebooks show it, `str` gives its text."""

    svg: str

    def __str__(self) -> str:
        return self.svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        Path(path).write_text(self.svg, "utf-8")


def draw(spec: Spec) -> Drawing:
    shown = [q for q in spec if q.random or q.kind == "input"]
    edges = [(parent, q.name, choice) for q in shown for parent, choice in _parents(spec, q).items()]
    place = _positions(shown, edges)
    boxes = _plates(spec, shown, place)
    right = max([x for x, _ in place.values()] + [b[2] for b in boxes.values()], default=0.0) + _MARGIN
    bottom = max([y for _, y in place.values()] + [b[3] for b in boxes.values()], default=0.0) + _MARGIN
    left = min([x for x, _ in place.values()] + [b[0] for b in boxes.values()], default=0.0) - _MARGIN
    top = min([y for _, y in place.values()] + [b[1] for b in boxes.values()], default=0.0) - _MARGIN
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" class="tp-graph" role="img" '
        f'width="{right - left:.0f}" height="{bottom - top:.0f}" '
        f'viewBox="{left:.0f} {top:.0f} {right - left:.0f} {bottom - top:.0f}">',
        f"<title>{escape(', '.join(q.name for q in shown))}</title><style>{_STYLE}</style>",
        '<defs><marker id="tp-graph-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="currentColor"/></marker></defs>',
    ]
    sizes = dict(spec.sizes)
    for plate, (x0, y0, x1, y1) in boxes.items():
        label = f"{plate} = {sizes[plate]}" if plate in sizes else plate
        parts.append(
            f'<rect class="plate" x="{x0:.0f}" y="{y0:.0f}" width="{x1 - x0:.0f}" height="{y1 - y0:.0f}" rx="7"/>'
        )
        parts.append(f'<text class="label" x="{x1 - 6:.0f}" y="{y1 - 6:.0f}">{escape(label)}</text>')
    for parent, child, choice in edges:
        parts.append(_edge(place[parent], place[child], choice))
    parts += [_node(q, *place[q.name]) for q in shown]
    return Drawing("\n".join([*parts, "</svg>"]))


def _parents(spec: Spec, q: Quantity) -> dict[str, bool]:
    """The parents to draw for a variable (not functions), and whether each parent only chooses between other
    parents."""
    found: dict[str, bool] = {}

    def visit(name: str, choice: bool) -> None:
        here = spec[name]
        if here.random or here.kind == "input":
            found[name] = found.get(name, True) and choice
            return
        for argument, parent in here.parents:
            visit(parent, here.kind == "gate" and argument == "index")

    for _, parent in q.parents:
        visit(parent, False)
    return found


def _positions(shown: list[Quantity], edges: list[tuple[str, str, bool]]) -> dict[str, tuple[float, float]]:
    depth: dict[str, int] = {}
    for q in shown:
        above = [depth[parent] for parent, child, _ in edges if child == q.name]
        depth[q.name] = 1 + max(above, default=-1)
    below = {q.name: [depth[child] for parent, child, _ in edges if parent == q.name] for q in shown}
    for q in reversed(shown):
        # A variable stands close to its first child, rather than at the top.
        if below[q.name]:
            depth[q.name] = max(depth[q.name], min(below[q.name]) - 1)
    bands = _ordered_bands(list(dict.fromkeys(frozenset(q.plates) for q in shown)))
    place: dict[str, tuple[float, float]] = {}
    left = 0.0
    for band in bands:
        members = [q for q in shown if frozenset(q.plates) == band]
        rows = {level: [q for q in members if depth[q.name] == level] for level in {depth[q.name] for q in members}}
        width = max(len(row) for row in rows.values())
        for level, row in rows.items():
            for number, q in enumerate(row):
                x = left + (width - len(row)) * 0.5 * _STEP_X + number * _STEP_X
                place[q.name] = (x, level * _STEP_Y)
        left += width * _STEP_X
    return place


def _ordered_bands(bands: list[frozenset[str]]) -> list[frozenset[str]]:
    """The order of the bands in which as few as possible lie inside a plate to which they do not belong."""
    if len(bands) > 7:
        return sorted(bands, key=lambda band: (len(band), sorted(band)))

    def gaps(given: Iterable[frozenset[str]]) -> int:
        order, total = tuple(given), 0
        for plate in frozenset().union(*order):
            inside = [i for i, band in enumerate(order) if plate in band]
            total += inside[-1] - inside[0] + 1 - len(inside)
        return total

    return list(min(itertools.permutations(bands), key=gaps))


def _plates(
    spec: Spec, shown: list[Quantity], place: dict[str, tuple[float, float]]
) -> dict[str, tuple[float, float, float, float]]:
    members = {plate: [q for q in shown if plate in q.plates] for plate in spec.plates}
    members = {plate: found for plate, found in members.items() if found}
    boxes = {}
    for plate, found in members.items():
        # A plate around another one has a wider margin.
        names = {q.name for q in found}
        inside = sum({q.name for q in other} < names for other in members.values())
        twins = [p for p, other in members.items() if {q.name for q in other} == names]
        pad = _RADIUS + 13.0 + 13.0 * (inside + twins.index(plate))
        xs, ys = [place[q.name][0] for q in found], [place[q.name][1] for q in found]
        boxes[plate] = (min(xs) - pad, min(ys) - pad, max(xs) + pad, max(ys) + pad + 20.0)
    return boxes


def _edge(start: tuple[float, float], end: tuple[float, float], choice: bool) -> str:
    length = math.dist(start, end) or 1.0
    dx, dy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    x0, y0 = start[0] + dx * _RADIUS, start[1] + dy * _RADIUS
    x1, y1 = end[0] - dx * (_RADIUS + 1.5), end[1] - dy * (_RADIUS + 1.5)
    kind = "edge choice" if choice else "edge"
    ends = f'x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"'
    return f'<line class="{kind}" {ends} marker-end="url(#tp-graph-tip)"/>'


def _loop(x: float, y: float) -> str:
    """The arrow from one step of a chain to the next: out of the circle at its top, and back in at its side."""
    r, far = _RADIUS, 1.75 * _RADIUS
    start, end = (x + 0.35 * r, y - 0.94 * r), (x + 0.98 * r, y - 0.3 * r)
    return (
        f'<path class="edge" d="M{start[0]:.1f},{start[1]:.1f} C{start[0] + 4:.1f},{y - far:.1f} '
        f'{x + far:.1f},{y - 0.95 * r:.1f} {end[0]:.1f},{end[1]:.1f}" marker-end="url(#tp-graph-tip)"/>'
    )


def _node(q: Quantity, x: float, y: float) -> str:
    kind = "seen" if q.observed else "latent"
    if q.kind == "input":
        r = _RADIUS * 0.85
        shape = f'<rect class="seen" x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r:.1f}" height="{2 * r:.1f}"/>'
    else:
        shape = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}"/>'
        if q.kind.endswith("chain"):
            shape += _loop(x, y)
    words = q.family if q.kind == "fixed" else q.kind.replace("_", " ")
    if len(q.name) <= 6:
        text = f'<text x="{x:.1f}" y="{y + 4:.1f}">{escape(q.name)}</text>'
    else:
        text = f'<text class="below" x="{x:.1f}" y="{y + _RADIUS + 13:.1f}">{escape(q.name)}</text>'
    return f"<g><title>{escape(q.name)}: {escape(words)}</title>{shape}{text}</g>"
