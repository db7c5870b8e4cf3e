"""The sections of a page about groups: their profiles, and how certain the membership of the rows is."""

from __future__ import annotations

import numpy as np

from ..comparison.comparison import Comparison
from ..fit import Fit
from ..models._answers import Profiling
from ..models.mixture.columns import Profiles
from . import plots
from ._facts import is_gaussian, shares_of
from ._pieces import escaped, figure, grid, html_table, section
from .co_membership import CoMembership
from .words import near_border

_SURE, _WIDEST = 0.95, 12  # probability of a sure membership; most groups in a table of pairs


def profiles_of(fit: Fit) -> Profiles | None:
    """The profiles that a page shows: for tables, and for numbers in more columns than can be drawn as points; else
    None."""
    if not isinstance(fit.model, Profiling):
        return None
    if is_gaussian(fit) and fit.data.values.shape[1] < 3:
        return None
    names = tuple(column.name for column in fit.schema.used) if fit.schema is not None else ()
    return fit.model.profiles(fit._families(), fit.data, 0.95, names)


def members_sections(fit: Fit, found: Profiles, comparison: Comparison | None = None) -> list[str]:
    """The profiles of the groups (a picture and a table with intervals), and how certain the membership of the rows
    is."""
    part = found.part
    caption = (
        f"What is expected within each {part}, with intervals of {found.level:.0%}: numbers in standard deviations "
        "from the mean of all rows, words as probabilities. Where intervals do not overlap, the "
        f"{fit.model.words.parts} differ."
    )
    words = f"Dots with intervals for {len(found.labels)} {fit.model.words.parts}; the numbers are in the table."
    drawn = figure("Profiles", lambda: plots.profiles(fit), caption, words)
    return [section("Who they are", [drawn, profile_table(found)]), *_certainty(fit, found, comparison)]


def profile_table(found: Profiles) -> str:
    """A line for each column or level, a column for each group: the estimate and its interval."""
    head = ["", *(f"{found.part} {label}" for label in found.labels)]
    lines = [("share of the rows", "share", found.share, found.low, found.high)]
    lines += [(item.name, item.what, item.estimate, item.low, item.high) for item in found.items]
    rows = []
    for name, what, value, low, high in lines:
        said = name if what in ("share", "probability") else f"{name} ({what})"
        cells = [_between(*each, what in ("share", "probability")) for each in zip(value, low, high, strict=True)]
        rows.append([("", said), *(("", cell) for cell in cells)])
    return html_table(head, rows, f"What is expected within each {found.part}, with intervals of {found.level:.0%}")


def _certainty(fit: Fit, found: Profiles, comparison: Comparison | None) -> list[str]:
    if len(found.labels) < 2:
        return []
    shares = shares_of(fit)
    sure = shares.max(axis=1)
    text = near_border(sure, found.part, fit.model.words.parts)
    text += f" On average a row belongs to its {found.part} with probability {sure.mean():.0%}."
    which = shares.argmax(axis=1)
    each = "; ".join(f"{label}: {sure[which == k].mean():.0%}" for k, label in enumerate(found.labels)
                     if (which == k).any())  # fmt: skip
    caption = f"The probability of each {found.part} for every row. Bright blocks are rows that clearly belong to one."
    drawn = figure("Membership", lambda: plots.responsibilities(fit), caption, f"Heat map; mean certainty {each}.")
    pairs = (comparison or fit).co_membership()
    text += (
        f" {pairs.settled:.0%} of all pairs of rows are together or apart with a probability of at least {_SURE:.0%}."
    )
    shown = [f"<p>{escaped(text)}</p>", grid([drawn, _together(pairs, comparison or fit, comparison is not None)])]
    return [section("How sure", [*shown, *_between_groups(pairs, found.part)])]


def _together(pairs: CoMembership, results: Fit | Comparison, several: bool) -> str:
    averaged = ", averaged over the numbers that were compared" if several else ""
    caption = (
        f"The probability that two rows belong together{averaged}: each row against each other, in the same order. A "
        "bright square holds together; grey off the diagonal are rows that could change sides."
    )
    words = f"Heat map of {len(pairs.rows)} rows against themselves; the means are in the table."
    return figure("Together", lambda: plots.together(results), caption, words)


def _between_groups(pairs: CoMembership, part: str) -> list[str]:
    """A table of the probability that a row of one group belongs together with a row of another group."""
    if len(pairs.labels) > _WIDEST:
        return []
    rows = [[("", f"{part} {label}"), *(("", "–" if np.isnan(value) else f"{value:.0%}") for value in each)]
            for label, each in zip(pairs.labels, pairs.between, strict=True)]  # fmt: skip
    head = ["", *(f"{part} {label}" for label in pairs.labels)]
    said = f"How probably a row of one {part} and another row, of the same or another {part}, belong together"
    return [f"<p>{escaped(said)}, on average:</p>", html_table(head, rows, said)]


def _between(value: float, low: float, high: float, share: bool) -> str:
    shown = [f"{100 * number:.0f}" if share else _number(number) for number in (value, low, high)]
    unit = "%" if share else ""
    return shown[0] + unit if np.isnan(low) else f"{shown[0]}{unit} ({shown[1]} to {shown[2]})"


def _number(value: float) -> str:
    """Three digits, and no power of ten where a plain number is as short."""
    return (f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}").replace("-", "−")
