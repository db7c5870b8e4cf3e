"""docs/matrix.md: what every method says to every set-up; `python -m tests.matrix.page` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp

from temperance.errors import UnsupportedMethod
from temperance.evidence import tempered_normaliser
from temperance.models import Powers
from tests.matrix.setups import IMPOSSIBLE, METHODS, MODELS, MORE_METHODS, MORE_MODELS

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"
RUNS, NEVER, NOT_YET = "✓", "✗", "–"
HEAD = f"""# Which method runs on which model

Usual set-ups of models against those of methods: {RUNS} the pair runs; {NEVER} it cannot, for a mathematical reason;
{NOT_YET} it is not built. A pair that does not run is refused in one sentence, which is quoted below the table. The
tests compare pairs that run with the exact answer to a tiny problem wherever there is one, and check that this page is
true.

"""
ALL_MODELS, ALL_METHODS = MODELS | MORE_MODELS, METHODS | MORE_METHODS
_SEARCHES = ("Annealed", "ParallelTempering", "AIS", "SMC", "ImportanceSampling")  # run others before they begin


class Begins(Exception):
    """What is asked for would now begin to run."""


def refusal(model: str, method: str) -> str:
    """What a user reads who tries this pair; empty where it runs. Nothing is run."""
    chosen = ALL_METHODS[method]
    try:
        prepared, data = prepared_of(model)
        prepared = chosen.prepare(prepared)
        if not method.startswith(_SEARCHES):
            with mock.patch.object(tempered_normaliser, "_sampled_logs", _volume_only):
                chosen.complete(prepared, data)
    except UnsupportedMethod as error:
        return str(error)
    except Begins:
        pass
    return ""


@cache
def prepared_of(model: str) -> tuple[Any, Any]:
    setup = ALL_MODELS[model]
    return setup.model().prepare(setup.data)


def _volume_only(model: Any, powers: Any, data: Any, seed: int, sweeps: int) -> None:
    """In place of sampling a tempered normaliser: whether it exists."""

    def volume(key: Any) -> Any:
        draws = model.sample_prior(key)
        local = model.sample_local_prior(key, data.values, draws)
        unseen = tempered_normaliser.Unseen(model)
        return unseen.log_likelihood(draws, data, Powers(jnp.asarray(0.5), jnp.asarray(0.5)), local)

    jax.eval_shape(volume, jax.random.key(0))
    raise Begins


def reason(model: str, method: str) -> str:
    """Why the mathematics forbids this pair; empty where it does not."""
    return next((why for methods, models, why in IMPOSSIBLE if method in methods and model in models), "")


def mark(model: str, method: str, said: str) -> str:
    if not said:
        return RUNS
    return NEVER if reason(model, method) else NOT_YET


def marks(text: str) -> dict[tuple[str, str], str]:
    """The cells of the page."""
    rows = [
        re.split(r"\s*\|\s*", line.strip().strip("|").strip()) for line in text.splitlines() if line.startswith("| ")
    ]
    methods = [name.strip("`") for name in rows[0]]
    methods = methods if methods[0] in ALL_METHODS else methods[1:]
    return {
        (row[0].strip("`"), method): cell for row in rows[1:] for method, cell in zip(methods, row[1:], strict=True)
    }


def page() -> str:
    said = {(model, method): refusal(model, method) for model in ALL_MODELS for method in ALL_METHODS}
    lines = [
        "| model | " + " | ".join(f"`{method}`" for method in ALL_METHODS) + " |",
        "|---" * (len(ALL_METHODS) + 1) + "|",
    ]
    for model in ALL_MODELS:
        cells = (mark(model, method, said[model, method]) for method in ALL_METHODS)
        lines.append(f"| `{model}` | " + " | ".join(cells) + " |")
    runs = sum(not said[model, method] for model in MODELS for method in METHODS)
    more = sum(not sentence for sentence in said.values())
    tally = (
        f"\n{more} of {len(said)} pairs run. Among the first {len(MODELS)} set-ups and the first {len(METHODS)} "
        f"methods {runs} of {len(MODELS) * len(METHODS)} do.\n"
    )
    return HEAD + "\n".join(lines) + "\n" + tally + "".join(_refusals(said))


def _refusals(said: dict[tuple[str, str], str]) -> Iterator[str]:
    yield "\n## What the mathematics forbids\n\n"
    for _, _, why in IMPOSSIBLE:
        here = {pair for pair, sentence in said.items() if sentence and reason(*pair) == why}
        methods = ", ".join(f"`{method}`" for method in ALL_METHODS if any(method == other for _, other in here))
        models = ", ".join(f"`{model}`" for model in ALL_MODELS if any(model == other for other, _ in here))
        yield f"- {methods}: {why} ({models})\n"
    yield "\n## What the library says\n\n"
    sentences: dict[str, list[str]] = {}
    for (model, method), sentence in said.items():
        if sentence:
            sentences.setdefault(sentence, []).append(f"`{method}` on `{model}`")
    for sentence, pairs in sentences.items():
        yield f"- {'; '.join(pairs)}: {sentence}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
