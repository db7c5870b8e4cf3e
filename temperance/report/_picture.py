"""A Matplotlib figure as part of a page: SVG, or PNG where a vector picture would be too heavy."""

from __future__ import annotations

import base64
import html
import io
import re
import warnings
from typing import Any

from ..cards import printable

_WIDEST = 5.0  # inches
_HEAVIEST = 200_000  # bytes of SVG; above it a bitmap is smaller and faster


def picture(drawn: Any, words: str, mark: str) -> str:
    """An HTML element that shows a figure (or the figure of some axes), with a description for those who cannot see it.

    `mark` makes the names inside the picture unique on the page.
    """
    figure = getattr(drawn, "figure", drawn)
    width, height = figure.get_size_inches()
    if width > _WIDEST:
        # Smaller paper, larger type: on a phone a figure is as wide as the screen.
        figure.set_size_inches(_WIDEST, height * _WIDEST / width)
    text = _svg(figure, mark)
    wide = f"max-width: {figure.get_figwidth() * 110:.0f}px"  # one size of type for all figures
    if len(text) > _HEAVIEST:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150, facecolor="white")
        data = base64.b64encode(buffer.getvalue()).decode()
        return f'<img alt="{html.escape(printable(words))}" style="{wide}" src="data:image/png;base64,{data}">'
    label = html.escape(printable(words))
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" style="{wide}" ', 1)


def _svg(figure: Any, mark: str) -> str:
    import matplotlib

    buffer = io.StringIO()
    # Text stays text: it can be selected, searched and read aloud, in scripts that only the reader's fonts have.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "temperance", "font.family": "sans-serif"}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # A viewBox and no fixed size: the page decides how wide it is.
    text = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", text, count=1)
    names = sorted(set(re.findall(r'\bid="([^"]+)"', text)), key=len, reverse=True)
    for name in names:
        text = text.replace(f'id="{name}"', f'id="{mark}-{name}"')
        text = text.replace(f'"#{name}"', f'"#{mark}-{name}"').replace(f"url(#{name})", f"url(#{mark}-{name})")
    return text
