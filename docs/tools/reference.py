"""The API reference: a page for each group of public names, written from signatures and docstrings at build time.

`temperance.registry` lists the names, so a name that is exported is documented without another step. Pages whose code
blocks use a name are linked from its entry; `tests/test_docs.py` runs those blocks and counts the names without one.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import temperance as tp
from temperance import registry

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RESULTS = ("fit", "Fit", "load", "compare", "Comparison", "bracket", "report")
DATA = (
    "read_table", "Table", "Schema", "read_texts", "Corpus", "Stream", "Polynomial", "Prediction",
    "document_completion", "Completion", "perplexity", "coherence",
)  # fmt: skip
MEMBERS = (*RESULTS, "Graph", "Corpus", "Family", "Pair", "Vector")  # classes whose methods are for users


@dataclasses.dataclass(frozen=True)
class Group:
    file: str
    title: str
    about: str
    names: tuple[str, ...]
    prefix: str = "tp."
    module: ModuleType = tp


def groups() -> tuple[Group, ...]:
    models = tuple(dict.fromkeys(entry.name for entry in registry.models()))
    methods = tuple(dict.fromkeys(entry.name for entry in registry.methods()))
    families = tuple(sorted(name for name, module in registry.EXPORTS.items() if module.startswith("families")))
    known = {*RESULTS, *models, *methods, *families, *DATA}
    rest = tuple(sorted(name for name in registry.EXPORTS if name not in known))
    from temperance import errors, estimators

    refused = tuple(name for name, value in vars(errors).items() if inspect.isclass(value))
    listed = tuple(sorted(name for name in tp.plot.__all__))
    return (
        Group("fit", "Fitting and comparing", "The functions that people call, and what they return.", RESULTS),
        Group("models", "Models", "Each has a guide with its equations under *Models*.", models),
        Group("methods", "Methods", "Each has a page with its equations under *Methods*.", methods),
        Group("data", "Data and scores", "Reading data, and scoring what was found.", (*DATA, *rest)),
        Group("families", "Families and pairs", "Priors and likelihoods: see [the guide](../families.md).", families),
        Group("plots", "Plots", "Each takes Matplotlib axes or makes a figure.", listed, "tp.plot.", tp.plot),
        Group(
            "estimators", "Estimators", "The interface of scikit-learn: see [the guide](../estimators.md).",
            tuple(sorted(estimators.__all__)), "temperance.estimators.", estimators,
        ),
        Group("datasets", "Data sets", "The bundled data: see [the guide](../data.md).",
              ("load", "names", "describe"), "tp.datasets.", tp.datasets),
        Group("errors", "Errors", "Every mistake raises one of these, with a sentence.", refused, "tp.errors.", errors),
    )  # fmt: skip


def entry(group: Group, name: str, used: Mapping[str, list[str]]) -> str:
    value = getattr(group.module, name)
    module = inspect.getmodule(value)
    lines = [f"## {group.prefix}{name} {{ #{name} }}", ""]
    if not (inspect.isclass(value) and issubclass(value, BaseException)):
        lines += ["```text", signature(f"{group.prefix}{name}", value), "```", ""]
    lines += [prose(value), ""]
    if name in MEMBERS and inspect.isclass(value):
        lines += [line for member in members(value) for line in member]
    if used.get(name):
        lines += ["Examples: " + ", ".join(used[name]) + ".", ""]
    if module is not None:
        lines += [f"Defined in `{module.__name__}`.", ""]
    return "\n".join(lines)


def signature(name: str, value: Any) -> str:
    """The call, with one argument to a line where it is long; annotations as they are written."""
    try:
        given = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    parameters = [parameter(each) for each in given.parameters.values()]
    kinds = [each.kind for each in given.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returned = given.return_annotation
    arrow = "" if returned in (inspect.Signature.empty, None, "None") or inspect.isclass(value) else f" -> {returned}"
    arrow = arrow.replace("'", "")
    whole = f"{name}({', '.join(parameters)}){arrow}"
    if len(whole) <= 88:
        return whole
    return f"{name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){arrow}"


def parameter(each: inspect.Parameter) -> str:
    """The name, the annotation as it is written, and the default with the quotes of a string."""
    whole = str(each.replace(default=inspect.Parameter.empty)).replace("'", "").replace('"', "")
    if each.default is inspect.Parameter.empty:
        return whole
    default = repr(each.default).replace("<factory>", "…")
    return f"{whole} = {default}" if ": " in whole else f"{whole}={default}"


def prose(value: Any) -> str:
    return inspect.getdoc(value) or ""


def members(value: type) -> Iterator[list[str]]:
    """Public methods and properties with a docstring, in the order in which they are written."""
    for name, member in vars(value).items():
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if name.startswith("_") or not (inspect.isfunction(plain) or isinstance(plain, property)):
            continue
        text = inspect.getdoc(plain)
        if text:
            call = signature(f".{name}", plain) if inspect.isfunction(plain) else f".{name}"
            call = call.replace("(self, ", "(").replace("(self)", "()").replace("    self,\n", "")
            shown = " ".join(call.split()).replace("( ", "(").replace(", )", ")")
            yield [f"`{shown}`", ":   " + textwrap.indent(text, "    ").lstrip(), ""]


def usages(docs: Path) -> dict[str, list[str]]:
    """Name → links to the pages whose running blocks use it, at most four each."""
    found: dict[str, list[str]] = {}
    for path in sorted(docs.rglob("*.md")):
        text = path.read_text("utf-8")
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        code = "\n".join(BLOCK.findall(text))
        if title is None or not code:
            continue
        link = f"[{title.group(1)}](../{path.relative_to(docs).as_posix()})"
        words = set(re.findall(r"\btp\.(?:plot\.|datasets\.|errors\.)?(\w+)", code))
        for imported in re.findall(r"from temperance[\w.]* import ([^\n]+)", code):
            words |= set(re.findall(r"\w+", imported))
        for word in words:
            found.setdefault(word, []).append(link)
    return {name: links[:4] for name, links in found.items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    used = usages(Path(config.docs_dir))
    for group in groups():
        index = ", ".join(f"[`{name}`](#{name})" for name in group.names)
        parts = [f"# {group.title}\n\n{group.about}\n\n{index}\n"]
        parts += [entry(group, name, used) for name in group.names]
        files.append(File.generated(config, f"reference/{group.file}.md", content="\n".join(parts)))
    return files
