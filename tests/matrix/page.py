"""docs/matrix.md from the cells of the matrix: `python -m tests.matrix.page` writes it, and the tests hold it to it."""

from __future__ import annotations

from pathlib import Path

import temperance as tp
from temperance.errors import UnsupportedMethod
from tests.matrix.cells import METHODS, REFUSED
from tests.matrix.truths import PROBLEMS

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"
HEAD = """# Which method runs on which model

Every pair of a public model and a public method either runs or is refused in one sentence, which is quoted below
the table. The tests compare what runs with an exact answer on a tiny problem wherever there is one, and hold this
page to what the library does; `python -m tests.matrix.page` writes it anew. Some arguments of a model narrow what
runs, and a sentence says so.

"""


def table() -> str:
    """A row for each method, a column for each model."""
    lines = ["| | " + " | ".join(f"`{model}`" for model in PROBLEMS) + " |", "|---" * (len(PROBLEMS) + 1) + "|"]
    for method in METHODS:
        marks = ("–" if method in REFUSED[model] else "runs" for model in PROBLEMS)
        lines.append(f"| `{method}` | " + " | ".join(marks) + " |")
    return "\n".join(lines) + "\n"


def refusal(model: str, method: str) -> str:
    """What a user reads who tries a pair that is refused."""
    problem = PROBLEMS[model]
    try:
        tp.fit(problem.model(), problem.data, METHODS[method].method, seed=1, progress=False)
    except UnsupportedMethod as error:
        return str(error)
    raise AssertionError(f"{method} runs on {model}, but REFUSED says that it does not")


def line(model: str, method: str, sentence: str) -> str:
    return f"- `{method}` on `{model}`: {sentence}\n"


def page() -> str:
    count = sum(len(refused) for refused in REFUSED.values())
    whole = len(PROBLEMS) * len(METHODS)
    tally = f"\n{whole - count} of {whole} pairs run.\n\n## Refusals\n\n"
    told = (line(model, method, refusal(model, method)) for model in PROBLEMS for method in METHODS
            if method in REFUSED[model])  # fmt: skip
    return HEAD + table() + tally + "".join(told)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
