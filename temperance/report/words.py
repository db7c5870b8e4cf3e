"""Results in plain sentences, shared by the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..comparison.comparison import NOT_REACHED, Cell, Comparison
from ..comparison.names import size_of, sized
from ..models._answers import Topical
from ..summary import layout
from ._facts import topics_of

if TYPE_CHECKING:
    from ..fit import Fit

_SURE, _CLEAR = 0.99, 0.9


def conclusion(comparison: Comparison) -> list[str]:
    """Three sentences: what is best and how certain that is, whether the methods agree, and what comes next."""
    if comparison.criterion == "loo":
        return [*_by_prediction(comparison), _agreement(comparison)]
    return [_choice(comparison), _agreement(comparison), _second(comparison)]


def _by_prediction(comparison: Comparison) -> list[str]:
    """Which model predicts best, by how much, and whether the evidence prefers that model too."""
    found, best = comparison.loo, comparison.best
    verb = "predicts" if best == 1 or not comparison.size_name.endswith("s") else "predict"
    value = f"{found[best].elpd:.2f} ± {found[best].standard_error:.2f} nats"
    who = _capital(sized(best, comparison.size_name))
    lines = [f"{who} {verb} each datum best from all others: {value}, by {comparison.decided_by}."]
    for label in sorted(set(found) - {best}, key=lambda label: -found[label].elpd)[:1]:
        apart = found[best].pointwise - found[label].pointwise
        error = float(np.sqrt(len(apart)) * apart.std(ddof=1))
        behind = f"{apart.sum():.2f} ± {error:.2f} nats behind"
        lines.append(f"Next is the model with {sized(label, comparison.size_name)}, {behind}.")
    choice = comparison.choice(comparison.decided_by)
    if choice is not None and choice != best:
        lines.append(
            f"The evidence prefers {sized(choice, comparison.size_name)} instead: it asks how probable the data are "
            "under the prior, not how well they predict each other."
        )
    return lines


def in_words(comparison: Comparison, size: Any = None) -> str:
    """A model, by default the best, with the number of parts in use if it allows more: "2 of 3 components in use"."""
    size = comparison.best if size is None else size
    held = _deciding(comparison)[comparison.models.index(size)].in_use
    if comparison.size_name == "model" or held is None or not isinstance(size, int) or held >= size:
        return sized(size, comparison.size_name)
    return f"{sized(held, comparison.size_name)} in use, of {size} allowed,"


def _deciding(comparison: Comparison) -> tuple[Cell, ...]:
    return comparison.cells[comparison.methods.index(comparison.decided_by)]


def _priors_alone(comparison: Comparison) -> list[str]:
    """A warning where the best model has as many parts in use as a smaller one, which holds as many."""
    best, row = comparison.best, _deciding(comparison)
    held = row[comparison.models.index(best)].in_use
    if held == best or held not in comparison.models or row[comparison.models.index(held)].in_use != held:
        return []
    return [
        f"With {best} {comparison.size_name} allowed and with {held} as many hold data, {held}: the evidence of the "
        "two differs by their priors, and a default prior may follow the number allowed; state one of your own."
    ]


def _choice(comparison: Comparison) -> str:
    probability = float(comparison.probabilities.max())
    best = _capital(in_words(comparison))
    aside = comparison.set_aside(comparison.decided_by)
    if len(comparison.models) - len(aside) == 1 < len(comparison.models):
        return (
            f"{best} is the only one of {_range(comparison)} with a usable result by {comparison.decided_by}: that is "
            "no choice."
        )
    verb = "is" if best.startswith("1 ") or not comparison.size_name.endswith("s") else "are"
    if len(comparison.models) == 1:
        return f"{best} {verb} all that was fitted."
    sure = (
        "almost certain"
        if probability > _SURE
        else "likely"
        if probability > _CLEAR
        else "the most probable, but not certain"
    )
    among = f"among {_range(comparison)}, by {comparison.decided_by}"
    errors = comparison.probability_errors_by(comparison.decided_by)
    place = int(np.argmax(comparison.probabilities))
    error = "" if errors is None or probability > 0.9995 else f" ± {errors[place]:.1%}"
    names = join([str(label) for label in aside]) if aside else ""
    left = f"; {names} {'was' if len(aside) == 1 else 'were'} set aside" if aside else ""
    return f"{best} {verb} {sure}: probability {percent(probability)}{error} {among}{left}."


def _agreement(comparison: Comparison) -> str:
    choices = {name: choice for name, choice in comparison.choices.items() if choice is not None}
    if not choices:
        return "No method has usable results for two models."
    if len(choices) == 1 and len(comparison.methods) > 1:
        others = join([name for name in comparison.methods if name not in choices])
        return f"{others} cannot choose: {'its' if len(comparison.methods) == 2 else 'their'} results were set aside."
    if len(choices) == 1:
        return f"Only one method was asked ({next(iter(choices))}): another would show whether it can be trusted."
    if len(set(choices.values())) == 1:
        every = "Both" if len(choices) == 2 else f"All {len(choices)}"
        return f"{every} methods agree on that: {join(list(choices))}."
    by_choice: dict[Any, list[str]] = {}
    for name, choice in choices.items():
        by_choice.setdefault(choice, []).append(name)
    said = [f"{join(names)} prefer{'s' if len(names) == 1 else ''} {choice}" for choice, names in by_choice.items()]
    return f"The methods do not agree: {join(said)}."


def _second(comparison: Comparison) -> str:
    if len(comparison.models) == 1:
        return "Compare it with other models to learn whether it is a good one."
    row = _deciding(comparison)
    # By the log evidence: the probabilities of all but the best may have underflowed to 0.
    scores = np.array([cell.total if cell.usable else -np.inf for cell in row]) + comparison.log_prior
    best, second = (int(place) for place in np.argsort(-scores)[:2])
    behind = scores[best] - scores[second]
    name = _capital(in_words(comparison, comparison.models[second]))
    verb = "comes" if name.startswith("1 ") or not comparison.size_name.endswith("s") else "come"
    if not np.isfinite(behind):
        return "No other model has a usable result."
    return f"{name} {verb} next, {behind:.1f} nats behind (odds of {odds(behind)} to one)."


def warnings(comparison: Comparison) -> list[str]:
    """Warnings that a reader should know before trusting the table."""
    cells = [cell for row in comparison.cells for cell in row]
    sentences = []
    reached = [cell for cell in cells if cell.failure != NOT_REACHED]
    if len(reached) < len(cells):
        sentences.append(f"The comparison was interrupted: {len(reached)} of {len(cells)} fits were made.")
    failed = [cell for cell in reached if cell.fit is None]
    sentences += [f"{_who(comparison, cell)} failed: {cell.failure}." for cell in failed]
    left_out = [cell for cell in reached if cell.fit is not None and not cell.usable]
    if left_out:
        sentences.append(
            f"{join([_who(comparison, cell) for cell in left_out])} did not converge, so what "
            f"{'they say' if len(left_out) > 1 else 'it says'} about the evidence was left out."
        )
    slow = [cell for cell in reached if cell.fit is not None and cell.usable and not cell.fit.converged]
    if slow:
        sentences.append(
            f"{join([_who(comparison, cell) for cell in slow])} had not fully converged when the budget was spent."
        )
    ends = (comparison.models[0], comparison.models[-1])
    counted = len(comparison.models) > 2 and comparison.size_name.endswith("s")
    if (
        counted
        and comparison.best == max(ends, key=_number)
        and in_words(comparison) == sized(comparison.best, comparison.size_name)
    ):
        sentences.append(f"The best number of {comparison.size_name} is the largest that was tried: try more of them.")
    sentences += _priors_alone(comparison)
    notes = {note: None for cell in cells if cell.fit is not None for note in cell.fit.notes}
    return [_capital(sentence) for sentence in sentences] + [
        _sentence(note) for note in notes if "no restart converged" not in note
    ]


def about_labels(comparison: Comparison) -> str | None:
    """What the label correction does in this comparison; None without a correction."""
    if not np.any(comparison.label_correction):
        return None
    corrected = [
        name
        for name, row in zip(comparison.methods, comparison.cells, strict=True)
        if any(cell.label_correction for cell in row)
    ]
    by_raw = {name: _raw_choice(comparison, name) for name in corrected}
    same = all(by_raw[name] == comparison.choice(name) for name in corrected)
    verb = "see" if len(corrected) > 1 else "sees"
    parts = comparison.size_name if comparison.size_name.endswith("s") else "components"
    return (
        f"{join(corrected)} {verb} one of the equivalent ways to number the {parts}, so the log of "
        "their number is added before models are compared: log K! when all K hold data, less when some are empty. "
        + (
            "Without it the choice would be the same."
            if same
            else "Without it the choice would be "
            + join([f"{by_raw[name]} by {name}" for name in corrected if by_raw[name] != comparison.choice(name)])
            + "."
        )
    )


def _raw_choice(comparison: Comparison, method: str) -> Any:
    row = comparison.cells[comparison.methods.index(method)]
    values = [cell.log_evidence if cell.usable else -np.inf for cell in row]
    return comparison.models[int(np.argmax(values))]


def comparison_text(comparison: Comparison) -> str:
    """The table, the conclusion and the warnings."""
    rows = comparison.rows()
    table = {name: [shown(name, row[name]) for row in rows] for name in columns(rows)}
    lines = [*layout(table, len(rows)), "", *conclusion(comparison)]
    labels = about_labels(comparison)
    return "\n".join([*lines, *([labels] if labels else []), *(f"note: {line}" for line in warnings(comparison))])


def columns(rows: list[dict[str, Any]]) -> list[str]:
    """The columns worth printing: those without a value in any row are left out."""
    optional = ["in_use", "probability_error", "failure"]
    if all(row["high"] is None for row in rows):  # then "low" is a lower bound, which is the log evidence itself
        optional += ["low", "high"]
        rows = [row | {"low": None} for row in rows]
    return [name for name in rows[0] if name not in ("seconds", "failure")
            and (name not in optional or any(row[name] is not None for row in rows))]  # fmt: skip


_UNITS = {"time": "step", "series": "sequence", "document": "document"}  # by the first axis of the data


def fit_sentences(fit: Fit) -> list[str]:
    """Sentences on what was fitted, how well, and how far to trust it."""
    size = size_of(fit.model)
    what = f" with {sized(size[1], size[0])}" if size else ""
    name = with_article(type(fit.model).__name__)
    several = _UNITS.get(fit.model.words.axes.get("x", ("",))[0], "row" if fit.schema is not None else "datum")
    data = f"{fit.data.size:,} {several if fit.data.size == 1 else {'datum': 'data'}.get(several, several + 's')}"
    lines = [f"{name}{what} was fitted to {data} by {fit.method.name}."]
    if fit.log_evidence is not None:
        between = "" if fit.bracket is None else f", between {fit.bracket[0]:,.2f} and {fit.bracket[1]:,.2f}"
        lines.append(f"The log evidence is {fit.log_evidence:,.2f}{between}.")
    table = fit.columns()
    held = len(table.get(fit.model.words.part, ()))
    if size and 0 < held < size[1]:
        lines.append(f"{held} of the {size[1]} {size[0]} {fit.model.words.used}; the others stayed empty.")
    lines.append("The run converged." if fit.converged else "The run did not converge: do not trust the numbers yet.")
    return lines


def topic_sentences(fit: Fit, most: int = 5) -> list[str]:
    """The largest topics, by their shares and their most telling words."""
    table = fit.columns()
    if not isinstance(fit.model, Topical) or "share" not in table:
        return []
    words, rows = topics_of(fit, 6), list(zip(table["topic"], table["share"], strict=True))
    left = len(rows) - most if len(rows) > most + 1 else 0  # one more is rather named
    largest = sorted(rows, key=lambda row: -row[1])[: len(rows) - left]
    lines = [f"Topic {k}, {share:.0%}: {', '.join(word for word, _ in words[k - 1])}" for k, share in largest]
    smaller = [f"The other {left} topics are smaller."] if left else []
    return lines + smaller


BORDER = 0.8  # a row whose most probable group is less probable than this is near a border


def near_border(certainty: np.ndarray, part: str, parts: str) -> str:
    """How many rows are not surely in their part (or group), given the probability of each row's part."""
    near, rows = int((certainty < BORDER).sum()), len(certainty)
    if near == 0:
        return f"No row is near a border: the {part} of each has a probability of at least {BORDER:.0%}."
    if near == 1:
        return f"1 of {rows:,} rows is near a border: its {part} has a probability below {BORDER:.0%}."
    return f"{near:,} of {rows:,} rows are near a border: their {parts} have probabilities below {BORDER:.0%}."


def percent(probability: float) -> str:
    if probability > 0.9995:
        return "above 99.9%"
    return f"{probability:.1%}" if probability >= 0.001 else "below 0.1%"


def odds(nats: float) -> str:
    ratio = np.exp(min(nats, 50.0))
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}" if ratio < 1e6 else "more than a million"


def join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _who(comparison: Comparison, cell: Cell) -> str:
    return f"{cell.method} with {sized(cell.model, comparison.size_name)}"


def _range(comparison: Comparison) -> str:
    if not comparison.size_name.endswith("s"):
        return f"{len(comparison.models)} models"
    low, high = min(comparison.models, key=_number), max(comparison.models, key=_number)
    return f"{low} to {high}"


def _number(label: Any) -> float:
    return label if isinstance(label, int) else 0.0


def with_article(name: str) -> str:
    """A Mixture, an HMM: the article goes with the sound, and the first letter of an abbreviation is spoken alone."""
    vowels = "AEFHILMNORSX" if name[:2].isupper() else "AEIOU"
    return f"{'An' if name[0] in vowels else 'A'} {name}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(note: str) -> str:
    return _capital(note) + ("" if note.endswith(".") else ".")


def shown(name: str, value: Any) -> str:
    """A cell of the table, as text."""
    if value is None:
        return "set aside" if name == "probability" else "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if name.startswith("probability") else f"{value:.2f}"
