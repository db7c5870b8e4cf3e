"""Results for people: plots, and an HTML page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..comparison.comparison import Comparison
    from ..comparison.publication import Publication
    from ..comparison.topic_sizes import TopicSizes
    from ..fit import Fit
    from ..models.topics.report import TopicsBy
    from .topics_page import Typical


def report(
    result: Fit | Comparison,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    code: str | None = None,
    names: Sequence[str] | None = None,
    also: Sequence[TopicsBy | TopicSizes | Typical | Publication] = (),
    lead: Sequence[str] = (),
) -> Path:
    """Write one self-contained HTML page about `result`, a fit or a comparison, to `path`, and return the path; it
    opens offline.

    `result` may be of any model and method. `path` names the file, which is replaced if it exists. `also` are further
    results to show: `tp.topic_sizes(...)`, `fit.topics_by(...)`, `hill.publication()`. `title` heads the page, `lead`
    are sentences that open the page in place of its usual ones (the first is the headline), `code` is the program (or
    command) that made the result, shown at the end of the page, and `names` are the names of the data's columns.
    """
    from .._arguments import TEXT, check_path
    from .page import write_page

    TEXT("title", title)
    TEXT("code", code)

    return write_page(result, check_path("path", path), title=title, code=code, names=names, also=also, lead=lead)
