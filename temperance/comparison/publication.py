"""The table that people publish about groups: evidence, likelihood, criteria, entropy, sizes and stability."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..errors import NumericalFailure, UnsupportedMethod
from ..evidence.optima import CLOSE, LOOSE
from ..families import Beta, Dirichlet, Gamma, Independent, IsotropicNormalGamma, NormalGamma, NormalWishart, Product
from ..fit import Fit
from ..fitting import fit_arrays
from ..inference.point.em import EM
from ..models._answers import Profiling, require

if TYPE_CHECKING:
    from .comparison import Comparison

_HEADS = {
    "log_evidence": "log evidence", "error": "±", "log_likelihood": "log likelihood", "in_use": "in use",
    "smallest": "smallest group", "stability": "starts that agree",
}  # fmt: skip
_WHOLE = ("AIC", "BIC", "aBIC", "ICL")
NOTE = (
    "Log likelihood: at its maximum, by EM. AIC, BIC, sample-size adjusted BIC (aBIC) and ICL are −2 log likelihood "
    "plus a penalty: less is better. Entropy is 1 where every row belongs to one group for certain, 0 where nothing is "
    "known. Sizes are shares of the rows. Starts that agree: restarts of the Bayesian fit that found the same optimum."
)


@dataclasses.dataclass(frozen=True)
class Publication:
    """One row for each number of groups. Export with `to_csv`, `to_markdown`, `to_latex`, `to_html` or `to_frame`."""

    rows: tuple[dict[str, Any], ...]
    best: Any  # the size that the evidence prefers
    note: str = NOTE

    @property
    def columns(self) -> list[str]:
        """Names of the columns that have a value in any row."""
        return [name for name in self.rows[0] if any(row[name] is not None for row in self.rows)]

    def to_frame(self) -> Any:
        """The numbers as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=self.columns)

    def to_csv(self) -> str:
        """The numbers in full; several sizes in one cell are separated by spaces."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            cells = (row[name] for name in self.columns)
            writer.writerow([" ".join(map(str, cell)) if isinstance(cell, tuple) else cell for cell in cells])
        return file.getvalue()

    def to_markdown(self) -> str:
        """A table in Markdown, rounded for print."""
        head, *body = self.cells()
        rule = ["---" if name == "sizes" else "---:" for name in self.columns]
        return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *body))

    def to_latex(self) -> str:
        """A `tabular` with the rules of booktabs."""
        head, *body = ([_latex(cell) for cell in line] for line in self.cells())
        form = "".join("l" if name == "sizes" else "r" for name in self.columns)
        lines = [f"\\begin{{tabular}}{{{form}}}", "\\toprule", " & ".join(head) + " \\\\", "\\midrule"]
        lines += [" & ".join(line) + " \\\\" for line in body]
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"

    def to_html(self) -> str:
        """A plain table that can be pasted into word processors."""
        head, *body = self.cells()
        cell = 'style="padding:2px 8px;text-align:{};border-{}:1px solid"'
        sides = ["left" if name == "sizes" else "right" for name in self.columns]
        top = "".join(f"<th {cell.format(s, 'bottom')}>{html.escape(c)}</th>" for s, c in zip(sides, head, strict=True))
        lines = ""
        for line, row in zip(body, self.rows, strict=True):
            bold = ";font-weight:bold" if next(iter(row.values())) == self.best else ""
            cells = zip(sides, line, strict=True)
            lines += "<tr>" + "".join(
                f'<td style="padding:2px 8px;text-align:{s}{bold}">{html.escape(c)}</td>' for s, c in cells
            ) + "</tr>\n"  # fmt: skip
        return f'<table style="border-collapse:collapse">\n<tr>{top}</tr>\n{lines}</table>\n'

    def cells(self) -> list[list[str]]:
        """The names of the columns, then every row, as printed."""
        head = [_HEADS.get(name, name) for name in self.columns]
        return [head, *([_cell(name, row[name]) for name in self.columns] for row in self.rows)]

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        lines = self.cells()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ("  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in lines)
        return "\n".join([*table, "", self.note])


def publication(comparison: Comparison, restarts: int = 20) -> Publication:
    """The row of every size, by the method that decides."""
    row = comparison.cells[comparison.methods.index(comparison.decided_by)]
    chances = comparison.probabilities
    rows = []
    for cell, chance in zip(row, chances, strict=True):
        if cell.fit is not None:
            known = {comparison.size_name: cell.model, "log_evidence": cell.total, "error": cell.fit.standard_error,
                     "probability": float(chance)}  # fmt: skip
            rows.append(known | _criteria(cell.fit, restarts) | _sizes(cell.fit) | {"stability": _stability(cell.fit)})
    if not rows:
        raise NumericalFailure("there is no fit to publish: every one of them failed")
    bound = "" if any(row["error"] is not None for row in rows) else " The log evidence is a lower bound."
    return Publication(tuple(rows), comparison.best, NOTE + bound)


def _criteria(fit: Fit, restarts: int) -> dict[str, Any]:
    """The maximum of the log likelihood and the criteria that follow from it; None where there is no maximum."""
    names = ("log_likelihood", "parameters", "AIC", "BIC", "aBIC", "ICL", "entropy")
    weights = np.asarray(fit.data.weights)[: fit.data.size]
    n, p = float(weights.sum()), _free(fit)
    found = _maximum(fit, restarts)
    if found is None:
        return dict.fromkeys(names) | {"parameters": p}  # in the order of the other rows
    value, shares = found
    blur = -float(weights @ np.where(shares > 0, shares * np.log(np.maximum(shares, 1e-300)), 0.0).sum(axis=1))
    bic = p * np.log(n) - 2 * value
    entropy = None if shares.shape[1] == 1 else 1.0 - blur / (n * np.log(shares.shape[1]))
    scores = (value, p, 2 * p - 2 * value, bic, p * np.log((n + 2) / 24) - 2 * value, bic + 2 * blur, entropy)
    return {name: x if x is None or isinstance(x, int) else float(x) for name, x in zip(names, scores, strict=True)}


def _maximum(fit: Fit, restarts: int) -> tuple[float, np.ndarray] | None:
    """The highest log likelihood, and the shares (n, k) of the components at this maximum."""
    from ..kernels import small_likelihood, small_mixture

    model: Any = require(fit.model, Profiling)
    q, size = fit._families(), fit.data.size
    if small_likelihood.suits(model, fit.data):
        few = small_mixture.suits(model, fit.data, restarts)
        return small_likelihood.maximum_likelihood(model, fit.data, q, restarts if few else 0)
    try:
        best = fit_arrays(model, fit.data, EM(prior=False, restarts=restarts), fit.seed, False)
    except NumericalFailure:
        return None
    shares = np.asarray(model.responsibilities(best.state, fit.data.values))[:size]
    return float(best.details["log_likelihood"]), shares


def _sizes(fit: Fit) -> dict[str, Any]:
    model = require(fit.model, Profiling)
    held = np.sort(model.held(fit._families(), fit.data)[0])[::-1]
    shares = held[held >= 0.5] / held.sum()
    return {"in_use": len(shares), "sizes": tuple(round(float(s), 4) for s in shares), "smallest": float(shares[-1])}


def _stability(fit: Fit) -> str | None:
    """How many of the restarts ended at the best optimum, in words."""
    bounds = np.asarray(fit.history.get("restarts", ()))
    if len(bounds) < 2:
        return None
    top = np.nanmax(bounds)
    return f"{int((bounds >= top - CLOSE - LOOSE * abs(top)).sum())} of {len(bounds)}"


# ---- the number of free parameters ------------------------------------------------------------------------------


def _free(fit: Fit) -> int:
    model: Any = require(fit.model, Profiling)
    k = model.n_components
    each = _dimension(jax.tree.map(np.asarray, model.prior["components"])) // k
    return k * each + (k - 1 if "weights" in model.prior else 0)


_DIMENSIONS: dict[type, Callable[[Any], Any]] = {
    Product: lambda prior: sum(map(_dimension, prior.factors.values())),
    Independent: lambda prior: _dimension(prior.inner),
    NormalGamma: lambda prior: 2 * np.size(prior.location),
    IsotropicNormalGamma: lambda prior: np.size(prior.location) + np.size(prior.dof),
    NormalWishart: lambda prior: np.size(prior.location) * (1 + (np.shape(prior.location)[-1] + 1) / 2),
    Gamma: lambda prior: np.size(prior.shape),
    Beta: lambda prior: np.size(prior.a),
    Dirichlet: lambda prior: np.size(prior.concentration[..., 1:]),
}


def _dimension(prior: Any) -> int:
    """The number of parameters of all components together."""
    if type(prior) not in _DIMENSIONS:
        raise UnsupportedMethod(f"the parameters of components with a {type(prior).__name__} prior are not counted")
    return int(_DIMENSIONS[type(prior)](prior))


# ---- cells --------------------------------------------------------------------------------------------------------


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, tuple):
        return " ".join(f"{share:.2f}" for share in value)
    if isinstance(value, float):
        digits = 1 if name in _WHOLE else 3 if name in ("entropy", "smallest", "probability") else 2
        return f"{value:.{digits}f}".replace("-", "−")
    return str(value)


def _latex(text: str) -> str:
    return text.replace("±", "$\\pm$").replace("−", "$-$").replace("–", "--").replace("%", "\\%").replace("_", "\\_")
