"""Tables of the yardstick of the evidence, from the figures of its last run, where a page asks for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MARK = "<!-- yardstick -->"
FIGURES = Path(__file__).parents[1] / "measurements" / "yardstick.json"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if MARK not in markdown:
        return markdown
    if not FIGURES.exists():
        return markdown.replace(MARK, f"No run is recorded yet in `{FIGURES.name}`.")
    from benchmarks.evidence.tables import printed

    return markdown.replace(MARK, printed(json.loads(FIGURES.read_text())))
