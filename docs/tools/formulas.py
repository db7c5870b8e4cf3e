"""Formulas in LaTeX become MathML when the pages are built: browsers draw it themselves, online and offline."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
LARGE = {r"\Big\{": r"\left\{", r"\Big\}": r"\right\}", r"\big\{": r"\left\{", r"\big\}": r"\right\}"}
BESIDE = re.compile(
    r"<msub>(<mo>&#x0(?:2211|220F);</mo>)((?:(?!<msub>).)*?)</msub>"
)  # the limit of a sum, within braces
SIGN = re.compile(  # a minus that no term stands before
    r"(<mo[^>]*>(?:&#x00028;|&#x0005B;|&#x0007B;|&#x0002C;|&#x0003D;|&#x02248;|&#x0003C;|&#x0003E;|\(|\[|,|=)</mo>)<mo>&#x02212;</mo>"
)
BARS = re.compile(r"<mo>(&#x0007C;)</mo>|<mi>(&#x0(?:007C|2016);)</mi>")  # a determinant or a norm, without space
FUNCTION = re.compile(r"<mi>(log|exp|ln|min|max|cosh)</mi>")


def mathml(latex: str, display: str) -> str:
    """The converter leaves some things to correct: large braces, upright words, space around ~ and functions."""
    for printed, known in LARGE.items():
        latex = latex.replace(printed, known)
    latex = re.sub(r"\\mathrm\{([^{}]+)\}", r"\\text{\1}", latex)
    math = convert(latex, display=display)
    math = SIGN.sub(r'\1<mo form="prefix" rspace="0">&#x02212;</mo>', math)
    if r"\lvert" in latex or r"\vert" in latex or r"\Vert" in latex:
        math = BARS.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1\2</mo>', math)
    if display == "block":
        math = BESIDE.sub(r"<munder>\1\2</munder>", math)
    math = math.replace("<mo>&#x0223C;</mo>", '<mo lspace="0.28em" rspace="0.28em">&#x0223C;</mo>')
    return FUNCTION.sub(r'<mo lspace="0.17em" rspace="0.17em">\1</mo>', math)


def on_page_content(content: str, **_: Any) -> str:
    def drawn(found: re.Match[str]) -> str:
        display = "block" if found.group(2) == "[" else "inline"
        math = mathml(html.unescape(found.group(3)).strip(), display)
        return f'<div class="formula" tabindex="0">{math}</div>' if display == "block" else math

    return FORMULA.sub(drawn, content)
