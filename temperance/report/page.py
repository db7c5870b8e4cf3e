"""One self-contained HTML page about a fit or a comparison: it opens offline, on a phone or a desk, light or dark."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ..comparison.comparison import Comparison
from ..comparison.sensitivity import blocks
from ..errors import InvalidParameter
from ..fit import Fit
from ..models._about import counted
from ..models._answers import Decoding, Decomposing, Drawable, Loading, Regressing, Sequential, Topical
from ..models.topics.report import NAMING
from ..storage import replacing
from ..summary import cells, heading
from . import plots
from ._again import code_of
from ._facts import data_of, is_gaussian, topics_of
from ._page_style import STYLE
from ._pieces import escaped, figure, grid, html_table, section
from ._style import column_names
from .members_page import members_sections, profiles_of
from .topics_page import also_parts, map_section
from .words import about_labels, conclusion, fit_sentences, in_words, percent, shown, topic_sentences, warnings

_HEADINGS = {
    "method": "method",
    "log_evidence": "log evidence",
    "label_correction": "+ labels",
    "bracket": "bracket",
    "probability": "probability",
    "probability_error": "± of it",
    "in_use": "in use",
    "converged": "converged",
    "failure": "what went wrong",
}
_COLUMNS = 60  # most columns that are listed
_TOPICS = 9  # most topics that are drawn
DENSITY = "Predictive density"
_QUICK = 5.0  # seconds that a page may spend on fits under other priors
_PACKAGES = ("temperance", "jax", "numpy", "scipy", "equinox")


def write_page(
    result: Any,
    path: Path,
    *,
    title: str | None,
    code: str | None,
    names: Sequence[str] | None,
    also: Sequence[Any] = (),
    lead: Sequence[str] = (),
) -> Path:
    """Write the page; an existing file is replaced only when the new one is complete."""
    if not isinstance(result, Fit | Comparison):
        raise InvalidParameter(f"result must be a fit or a comparison, got {type(result).__name__}")
    opening, fit = list(lead), result.best_fit if isinstance(result, Comparison) else result
    x = data_of(fit) if names and is_gaussian(fit) else None
    if x is not None:
        names = column_names(names, x.shape[1])
    if not names and fit.schema is not None:
        names = [column.name for column in fit.schema.used]
    body = _comparison(result, names, opening) if isinstance(result, Comparison) else _fit(result, names, opening)
    named = title or (_title(result) if isinstance(result, Comparison) else f"A fit of {type(result.model).__name__}")
    again = _code(code if code else code_of(result))
    parts = [*body, *also_parts(also), *_columns(fit), _settings(result), again]
    text = _document(heading(named, 200), parts)
    with replacing(path) as file:
        file.write(text.encode(errors="replace"))
    return path


# ---- a comparison -------------------------------------------------------------------------------------------


def _title(comparison: Comparison) -> str:
    return f"How many {comparison.size_name}?" if comparison.size_name.endswith("s") else "Which model?"


def _comparison(comparison: Comparison, names: Sequence[str] | None, lead: list[str]) -> list[str]:
    best = comparison.best_fit
    notes = [*warnings(comparison), *_questions(best)]
    parts = [_summary(lead[1:] or conclusion(comparison), notes, _lead_answer(lead) or _answer(comparison))]
    figures = [
        figure(
            "The Ockham hill",
            lambda: plots.hill(comparison),
            f"Log evidence against {comparison.size_name}, all labellings counted. Small dots are restarts, a band is "
            "the bracket of a Monte Carlo method, an open marker a result that did not converge. Models that are too "
            "simple cannot explain the data; those that are too rich waste probability on data that were not seen.",
            _hill_words(comparison),
        )
    ]
    x = data_of(best)
    if x is not None and x.shape[1] == 1 and is_gaussian(best):
        chosen = {name: comparison.fit(c, name) for name, c in comparison.choices.items() if c is not None}
        figures.append(
            figure(
                "The data, and what is predicted",
                lambda: plots.density(chosen, x, xlabel=names[0] if names else "x"),
                "A histogram of the data with the predictive density of the size that each method chose.",
                f"Histogram of {len(x)} data between {x.min():.4g} and {x.max():.4g} with predictive densities.",
            )
        )
    why = [section("How many" if comparison.size_name.endswith("s") else "Which model", [grid(figures)])]
    found = _found(best, names, density=False, comparison=comparison)
    if profiles_of(best) is not None:  # the groups' profiles come before the choice of their number
        return [*parts, *found[:2], *why, _evidence_table(comparison), *found[2:]]
    return [*parts, *why, _evidence_table(comparison), *found]


def _lead_answer(lead: list[str]) -> tuple[str, str] | None:
    """The headline of a page: its first sentence, and the text in brackets from that sentence."""
    if not lead:
        return None
    big, _, small = lead[0].rstrip(".").partition(" (")
    return big, small.rstrip(")")


def _answer(comparison: Comparison) -> tuple[str, str]:
    if comparison.criterion == "loo":
        return in_words(comparison).rstrip(","), f"{comparison.loo[comparison.best].elpd:.2f} nats by leave-one-out"
    probability = f"probability {percent(float(comparison.probabilities.max()))}"
    return in_words(comparison).rstrip(","), probability


def _hill_words(comparison: Comparison) -> str:
    row = comparison.cells[comparison.methods.index(comparison.decided_by)]
    values = ", ".join(f"{cell.model}: {cell.total:.1f}" for cell in row if np.isfinite(cell.total))
    return f"Line chart of the log evidence by {comparison.decided_by}; {values}. The highest is {comparison.best}."


def _evidence_table(comparison: Comparison) -> str:
    rows = [_with_bracket(row) for row in comparison.rows()]
    optional = ("failure", "bracket", "in_use", "probability_error")
    names = [name for name in rows[0] if name != "seconds" and (name not in optional or any(row[name] for row in rows))]
    marked = [row[comparison.size_name] == comparison.best and row["method"] == comparison.decided_by for row in rows]
    numbers = ("log_evidence", "label_correction", "bracket")
    cells = [[(name, shown(name, row[name]).replace("-", "−" if name in numbers else "-")) for name in names]
             for row in rows]  # fmt: skip
    headings = [_HEADINGS.get(name, name) for name in names]
    note = about_labels(comparison)
    table = html_table(headings, cells, "The log evidence of every model by every method", marked)
    said = [line for line in (note, _about_priors(comparison)) if line]
    return section("The numbers", [table, *(f"<p>{escaped(line)}</p>" for line in said)])


def _about_priors(comparison: Comparison) -> str | None:
    """How the choice depends on the priors, if the fits under other priors are quick; else None."""
    row = comparison.cells[comparison.methods.index(comparison.decided_by)]
    fits = [cell.fit for cell in row if cell.fit is not None]
    seconds = 2 * len(blocks(row)) * sum(fit.seconds for fit in fits)
    if len(fits) < 2 or seconds > _QUICK or any(fit.method.arranges or fit.method.streams for fit in fits):
        return None
    return str(comparison.prior_sensitivity())


def _with_bracket(row: dict[str, Any]) -> dict[str, Any]:
    """A row with one column for the bracket in place of its two ends."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if name == "low":
            found["bracket"] = _bracket(value, row["high"])
        elif name != "high":
            found[name] = value
    return found


def _bracket(low: float | None, high: float | None) -> str | None:
    if low is None:
        return None
    return f"at least {low:.2f}" if high is None else f"{low:.2f} to {high:.2f}"


# ---- a fit --------------------------------------------------------------------------------------------------


def _fit(fit: Fit, names: Sequence[str] | None, lead: list[str]) -> list[str]:
    notes = [note[:1].upper() + note[1:].removesuffix("…") + ("…" if note.endswith("…") else ".") for note in fit.notes]
    said = lead[1:] or [*topic_sentences(fit), *fit_sentences(fit)]
    return [
        _summary(said, [*notes, *_questions(fit)], _lead_answer(lead) or _fit_answer(fit)),
        *_found(fit, names),
    ]


def _fit_answer(fit: Fit) -> tuple[str, str] | None:
    """How many parts are in use, if the model has parts; else None."""
    if isinstance(fit.model, Regressing):
        return _effects_answer(fit)
    if isinstance(fit.model, Sequential) and not isinstance(fit.model, Decoding):
        table = fit.columns()
        noise = next(v for name, v in zip(table["noise of"], table["variance"], strict=True)
                     if not name.startswith("state "))  # fmt: skip
        seen = fit.model.fitted_steps(fit._with_labels(), fit._families(), fit.data.values)[0][:, 0]
        left = min(noise / max(float(np.nanvar(seen)), 1e-300), 1.0)
        name = fit.schema.used[0].name if fit.schema is not None else "the first column"
        return f"{1.0 - left:.0%} signal", f"of the variation of {name}; the rest is noise"
    words, size = fit.model.words, fit.model.words.size
    held = len(fit.columns().get(words.part, ()))
    if not words.parts or not held:
        return None
    return counted(held, words.parts), words.used if size in (None, held) else f"of {size} {words.used}"


def _effects_answer(fit: Fit) -> tuple[str, str] | None:
    """How many inputs matter: those whose 95% intervals exclude 0."""
    table = fit.columns()
    each = [(name, mean, sd) for name, mean, sd in zip(table["weight"], table["mean"], table["sd"], strict=True)
            if name != "intercept"]  # fmt: skip
    if not each or not all(np.isfinite(sd) for _, _, sd in each):
        return None
    sure = [f"{name} ({'+' if mean > 0 else '−'})" for name, mean, sd in each if abs(mean) > 1.96 * sd]
    shown = ", ".join(sure[:6]) + (", …" if len(sure) > 6 else "")
    count = f"{len(sure)} of {len(each)} inputs {'has' if len(sure) == 1 else 'have'} a clear effect"
    return count, shown if sure else "no weight has a 95% interval that leaves 0 out"


def _found(
    fit: Fit, names: Sequence[str] | None, density: bool = True, comparison: Comparison | None = None
) -> list[str]:
    """The parts of one fit: figures, then the table."""
    table, profiles = fit.columns(), profiles_of(fit)
    said = [] if density else [DENSITY]
    said += [] if profiles is None else ["Weights"]  # the profiles show these already
    figures = [figure(*entry) for entry in _fit_figures(fit, names) if entry[0] not in said]
    parts = [] if profiles is None else members_sections(fit, profiles, comparison)
    parts += [section("The model", [_graph(fit.model)])] if isinstance(fit.model, Drawable) else []
    parts += [map_section(fit)] if isinstance(fit.model, Topical) else []
    parts += [section(f"The fit by {fit.method.name}", [grid(figures)])] if figures else []
    if table and profiles is None:
        size = len(next(iter(table.values())))
        shown = cells({name: values[:50] for name, values in table.items()}, 200)
        rows = [list(zip(shown, row, strict=True)) for row in zip(*shown.values(), strict=True)]
        more = [f"<p>and {size - 50} more rows.</p>"] if size > 50 else []
        parts.append(section("What was found", [html_table(list(table), rows, "The parts of the fitted model"), *more]))
    return parts


def _graph(model: Drawable) -> str:
    svg = model.drawing()
    width = svg.split('width="', 1)[1].split('"', 1)[0]
    words = "The graph in plate notation: " + ", ".join(model.variables())
    svg = svg.replace("<svg ", f'<svg aria-label="{escaped(words)}" style="max-width: {width}px" ', 1)
    caption = (
        "Circles are variables, grey ones were observed; squares are inputs; a dashed arrow chooses between the "
        "members of a plate; a loop leads from each step of a chain to the next."
    )
    return (
        f'<figure><div class="paper">{svg}</div>'
        f"<figcaption><strong>The graph.</strong> {escaped(caption)}</figcaption></figure>"
    )


def _fit_figures(fit: Fit, names: Sequence[str] | None) -> list[tuple[str, Callable[[], Any], str, str]]:
    """Title, drawing, caption and words for those who cannot see it."""
    found: list[tuple[str, Callable[[], Any], str, str]] = []
    x = data_of(fit)
    if x is not None and is_gaussian(fit):
        if x.shape[1] == 1:
            label = names[0] if names else "x"
            words = f"Histogram of {len(x)} data with the predictive density."
            found.append(
                (DENSITY, lambda: plots.density(fit, x, xlabel=label), "The data and what is predicted.", words)
            )
        elif x.shape[1] == 2:
            caption = "Ellipses of one and two standard deviations; grey lines are contours of the predictive density."
            found.append(
                ("Components", lambda: plots.ellipses(fit, x, names=names), caption, "Scatter plot with ellipses.")
            )
        else:
            caption = "The first columns in pairs, with ellipses of one and two standard deviations."
            found.append(
                ("Components", lambda: plots.pairs(fit, x, names=names), caption, "Scatter plots of pairs of columns.")
            )
    if isinstance(fit.model, Topical):
        topics = topics_of(fit, 5)
        caption = "The probabilities of the most telling words of each topic: those that other topics have less."
        if len(topics) > _TOPICS:
            caption = caption.replace("each topic", f"the first {_TOPICS} of {len(topics)} topics")
        found.append(("Topics", lambda: plots.topics(fit, most=_TOPICS, relevance=NAMING), caption,
                      "; ".join(f"topic {k + 1}: {', '.join(word for word, _ in words)}"
                                for k, words in enumerate(topics))))  # fmt: skip
    found += _linear_figures(fit, names)
    if isinstance(fit.model, Decomposing) and not isinstance(fit.model, Loading | Sequential):
        found.append(("Factors", lambda: plots.factors(fit), "The expected factors.", "Images of the factors."))
    if isinstance(fit.model, Decoding):
        caption = "The first column of the (first) sequence; the ribbon shows the probability of each state."
        found.append(("States", lambda: plots.states(fit), caption, "Line with a ribbon of states beneath it."))
    if not isinstance(fit.model, Regressing) and "weight" in fit.columns():
        found.append(("Weights", lambda: plots.weights(fit), "The share of each component; × marks those without data.",
                      "Bar chart of the weights; the numbers are in the table."))  # fmt: skip
    if any(key in fit.history for key in ("elbo", "log_evidence", "log_joint")):
        end = "" if fit.log_evidence is None else f", ending at {fit.log_evidence:.2f}"
        found.append(("The run", lambda: plots.trace(fit), "What the method reported at each step.",
                      f"Line chart over the steps{end}."))  # fmt: skip
    if "slopes" in fit.history and "ladder" in fit.details:
        found += [
            ("Thermodynamic curve", lambda: plots.thermodynamic(fit), "The area under the curve is the log evidence; "
             "the two staircases enclose it.", "Rising curve from β = 0 to 1 between two staircases."),
            ("Swaps", lambda: plots.swaps(fit), "Swaps accepted between neighbouring temperatures.",
             "Bar chart of acceptance rates."),
            ("Energies", lambda: plots.energies(fit), "Energies at some of the temperatures: neighbours overlap.",
             "Overlapping histograms."),
        ]  # fmt: skip
    return found


def _linear_figures(fit: Fit, names: Sequence[str] | None) -> list[tuple[str, Callable[[], Any], str, str]]:
    """The figures of factors, series and regressions, as in `_fit_figures`."""
    found: list[tuple[str, Callable[[], Any], str, str]] = []
    if isinstance(fit.model, Loading):
        caption = "What one standard deviation of a factor adds to each column, in standard deviations of the column."
        found.append(("Loadings", lambda: plots.loadings(fit, names), caption, "Coloured squares; see the table."))
    if isinstance(fit.model, Sequential) and not isinstance(fit.model, Decoding):
        steps = max(5, min(30, fit.data.values.x.shape[1] // 10))
        caption = f"The first column with what the model makes of it, and the next {steps} steps with their intervals."
        found.append(("The series", lambda: plots.forecast(fit, steps), caption, "Line with a fan of forecasts."))
    if isinstance(fit.model, Regressing):
        caption = "Each weight with its 95% interval; the intercept is in the table."
        found.append(("Weights", lambda: plots.coefficients(fit), caption, "Dots with intervals; see the table."))
        target, mean = fit.model.fitted(fit.state, fit.data)
        left = 1.0 - np.square(target - mean).mean() / max(target.var(), 1e-300)
        caption = f"Points on the dotted line are predicted exactly; {percent(left)} of the variance is explained."
        found.append(("Predicted and observed", lambda: plots.predicted(fit), caption, "Dots along a diagonal."))
    return found


# ---- pieces -------------------------------------------------------------------------------------------------


def _questions(fit: Fit) -> list[str]:
    """Questions that only the owner of the table can answer, as sentences."""
    return [f"{question[:1].upper()}{question[1:]}." for question in (fit.schema.questions if fit.schema else ())]


def _columns(fit: Fit) -> list[str]:
    """The recognised kinds of a table's columns, those left out first."""
    if fit.schema is None or not any(column.reason for column in fit.schema):
        return []
    each = [*fit.schema.left_out, *fit.schema.used]
    rows = [[("", column.name), ("", column.kind if column.used else f"left out: {column.kind}"),
             ("", str(column.gaps or "–")), ("", column.reason)] for column in each[:_COLUMNS]]  # fmt: skip
    more = [f"<p>and {len(each) - _COLUMNS} more columns.</p>"] if len(each) > _COLUMNS else []
    return [section("The columns", [html_table(["column", "kind", "missing", "why"], rows, "The columns"), *more])]


def _settings(result: Fit | Comparison) -> str:
    fits: list[tuple[str, Fit]] = []
    if isinstance(result, Comparison):
        for name, row in zip(result.methods, result.cells, strict=True):
            fits += [(name, cell.fit) for cell in row if cell.fit is not None][:1]
    else:
        fits = [("", result)]
    rows = [("Model", type(fits[0][1].model).__name__), ("Data", f"{fits[0][1].data.size:,}")]
    rows += [(f"Method {name}".strip(), repr(fit.method)) for name, fit in fits]
    seconds = (
        sum(cell.fit.seconds for row in result.cells for cell in row if cell.fit is not None)
        if isinstance(result, Comparison)
        else result.seconds
    )
    rows += [("Seed", str(result.seed)), ("Time of the fits", f"{seconds:.1f} s")]
    rows += [("Versions", ", ".join(f"{name} {_version(name)}" for name in _PACKAGES))]
    rows += [("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")]
    rows += [("Written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))]
    items = "".join(f"<dt>{escaped(key)}</dt><dd>{escaped(value)}</dd>" for key, value in rows)
    return section("Settings", [f"<dl>{items}</dl>"])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


def _code(code: str) -> str:
    return section("Do it again", [f'<pre tabindex="0"><code>{escaped(code)}</code></pre>'])


def _summary(sentences: list[str], notes: list[str], answer: tuple[str, str] | None) -> str:
    big = (
        f'<p class="answer"><strong>{escaped(answer[0])}</strong> <span>{escaped(answer[1])}</span></p>'
        if answer
        else ""
    )
    said = "".join(f"<p>{_with_head(sentence)}</p>" for sentence in sentences)
    warned = "".join(f"<li>{escaped(note)}</li>" for note in notes)
    box = f'<div class="notes" role="note"><h3>Before you believe it</h3><ul>{warned}</ul></div>' if notes else ""
    return f'<section class="summary" aria-label="Summary">{big}{said}{box}</section>'


def _with_head(sentence: str) -> str:
    """The sentence as HTML; the name of a group or a topic at its beginning is bold."""
    head, colon, rest = re.sub(r"(?<!\w)-(?=\d)", "−", sentence).partition(": ")
    if not colon or not head.startswith(("Group ", "Topic ")):
        return escaped(head + colon + rest)
    return f"<strong>{escaped(head)}</strong>: {escaped(rest)}"


def _document(title: str, parts: list[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<link rel="icon" href="data:,">\n<title>{escaped(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n'
        f'<a class="skip" href="#main">Skip to the summary</a>\n<main id="main">\n<h1>{escaped(title)}</h1>\n'
        + "\n".join(parts)
        + "\n</main>\n<footer>Written by Temperance. The log evidence is in nats, with every constant kept.</footer>\n"
        "</body>\n</html>\n"
    )
