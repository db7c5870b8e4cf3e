"""The description of each parameter of a public name, gathered from prose.

Docstrings are sentences in which a parameter stands in backticks; fields of a dataclass may have a comment beside them.
The reference lists the sentences about each parameter. One that a docstring leaves to another ("the other arguments are
those of `tp.LDA`") is listed with what that one says, one that is left to "scikit-learn's `PCA`" with a link to it.
`tests/test_docs.py` counts parameters and results without a description.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from temperance.inference._method import Method

ENDS = re.compile(r"(?<=\.)\s+(?=[A-Z`\"])|(?<=\.\))\s+(?=[A-Z`])")
NAMED = re.compile(r"`([A-Za-z_]\w*)(?:=[^`]*)?`")
REFERRED = re.compile(r"`(?:tp\.)?([A-Z]\w+)`")
THEIRS = re.compile(r"\b(scikit-learn|hmmlearn)'s (?:`(\w+)`|arguments)")
MODULES = {
    "scikit-learn": ("sklearn.linear_model", "sklearn.mixture", "sklearn.decomposition"),
    "hmmlearn": ("hmmlearn.hmm",),
}
PLACES = {
    "scikit-learn": "https://scikit-learn.org/stable/modules/generated/{module}.{name}.html",
    "hmmlearn": "https://hmmlearn.readthedocs.io/en/stable/api.html#{module}.{name}",
}


@dataclasses.dataclass(frozen=True)
class Said:
    """The sentences about a parameter, and the name whose docstring has them where that is another."""

    text: str
    by: str = ""


def parameters(value: Any) -> list[inspect.Parameter]:
    """What a caller may give; nothing for what has no signature, such as an error.

    Fields of a method that are not shown by `repr` are filled in by the method itself.
    """
    try:
        given = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    method = inspect.isclass(value) and issubclass(value, Method)
    hidden = {each.name for each in dataclasses.fields(value) if not each.repr} if method else set()
    return [each for each in given if each.name != "self" and each.name not in hidden]


def own(value: Any) -> tuple[str, dict[str, str]]:
    """The docstring without the sentences about parameters, and those sentences by parameter."""
    beside = comments(value)
    kept, said = divided(inspect.getdoc(value) or "", {each.name for each in parameters(value)} - set(beside))
    return kept, {**said, **beside}


def divided(text: str, known: set[str]) -> tuple[str, dict[str, str]]:
    """The first sentence always stays, and describes only the parameters that no other sentence is about. A sentence
    that names no parameter goes with the one before it."""
    kept: list[str] = []
    about: dict[str, list[str]] = {}
    opening: dict[str, str] = {}
    for number, paragraph in enumerate(text.split("\n\n")):
        if re.match(r"\s*- ", paragraph):  # a list stays as it is
            kept.append(paragraph)
            continue
        stay, last = [], ""
        for place, sentence in enumerate(ENDS.split(" ".join(paragraph.split()))):
            first = number == place == 0
            named = [name for name in dict.fromkeys(NAMED.findall(sentence)) if name in known]
            if first or not (named or last):
                stay.append(sentence)
            if first:
                opening = dict.fromkeys(named, sentence)
                continue
            for name in named or ([last] if last else []):
                about.setdefault(name, []).append(sentence)
            last = named[0] if named else last
        kept += [" ".join(stay)] if stay else []
    return "\n\n".join(kept), {**opening, **{name: " ".join(sentences) for name, sentences in about.items()}}


def comments(value: Any) -> dict[str, str]:
    """The comments beside the fields of a dataclass or a named tuple."""
    if not (inspect.isclass(value) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields"))):
        return {}
    source = textwrap.dedent(inspect.getsource(value))
    lines = source.splitlines()
    found = {}
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno is not None:
            _, mark, comment = lines[node.end_lineno - 1][node.end_col_offset :].partition("# ")
            if mark:
                found[node.target.id] = comment
    return found


def described(value: Any, find: Callable[[str], Any], common: str = "", seen: tuple[Any, ...] = ()) -> dict[str, Said]:
    """The description of each parameter, from here, a docstring that this one refers to, or `common`, the text for a
    whole module; `find` gets a name's object."""
    found = {name: Said(text) for name, text in own(value)[1].items()}
    text = inspect.getdoc(value) or ""
    for name in dict.fromkeys(REFERRED.findall(text)):
        other = find(name)
        if other is not None and other is not value and other not in seen:
            for parameter, told in described(other, find, seen=(*seen, value)).items():
                found.setdefault(parameter, Said(told.text, told.by or name))
    for library, name in THEIRS.findall(text):
        link, names = theirs(library, name or value.__name__)
        for parameter in names:
            found.setdefault(parameter, Said(f"As in {library}'s {link}."))
    for parameter, said in divided(common, {each.name for each in parameters(value)})[1].items():
        found.setdefault(parameter, Said(said))
    return {each.name: found[each.name] for each in parameters(value) if each.name in found}


def theirs(library: str, name: str) -> tuple[str, list[str]]:
    """A link to the class of another library, and the names of its parameters."""
    for module in MODULES[library]:
        if hasattr(importlib.import_module(module), name):
            link = PLACES[library].format(module=module, name=name)
            return f"[`{name}`]({link})", list(
                inspect.signature(getattr(importlib.import_module(module), name)).parameters
            )
    raise LookupError(f"{library} has no {name}")
