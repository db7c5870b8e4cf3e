"""Formulas in LaTeX become MathML when the pages are built: browsers draw it themselves, online and offline."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    def drawn(found: re.Match[str]) -> str:
        display = "block" if found.group(2) == "[" else "inline"
        latex = html.unescape(found.group(3)).strip()
        math = convert(latex, display=display)
        return f'<div class="formula" tabindex="0">{math}</div>' if display == "block" else math

    return FORMULA.sub(drawn, content)
