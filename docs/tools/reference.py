"""The API reference: a page for each group of public names, written from signatures and docstrings at build time.

`temperance.registry` lists the names, so a name that is exported is documented without another step. Its example is a
block of `docs/tools/examples.md`, or else a statement from a page, which is linked; `tests/test_docs.py` runs all of
them and counts the names without one.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import parameters
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import temperance as tp
from temperance import registry

DOCS = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RESULTS = ("fit", "Fit", "load", "compare", "Comparison", "bracket", "report")
DATA = (
    "read_table", "Table", "Schema", "read_texts", "Corpus", "Stream", "Polynomial", "Prediction",
    "document_completion", "Completion", "perplexity", "left_to_right", "coherence",
)  # fmt: skip
OWN_PAGE = {  # where another page names the method or model more often
    "VB": "vb.md", "SVI": "svi.md", "Annealed": "annealed.md", "Laplace": "laplace.md", "Mixture": "mixture.md",
    "ParallelTempering": "parallel-tempering.md",
}  # fmt: skip
RETURNED = (
    "Fit", "Comparison", "Table", "Schema", "Corpus", "Prediction", "Completion", "Effects", "TopicSizes", "TopicsBy",
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


def entry(group: Group, name: str, used: Mapping[str, list[Use]]) -> str:
    value = getattr(group.module, name)
    module = inspect.getmodule(value)
    short = name if group.prefix == "temperance.estimators." else f"{group.prefix}{name}"
    lines = [f"## {short} {{ #{name} }}", ""]
    if not (inspect.isclass(value) and issubclass(value, BaseException)) and value not in returned():
        lines += ["```text", signature(f"{group.prefix}{name}", value), "```", ""]
    text, _ = parameters.own(value)
    if {said.text for said in described(group, value).values()} <= {text} or (
        inspect.isclass(value) and issubclass(value, tp.Vector)
    ):
        lines += [linked(inspect.getdoc(value) or "", group), ""]  # so short that a list would repeat it
    else:
        lines += [linked(text, group), "", *arguments(group, value)]
    if name in MEMBERS and inspect.isclass(value):
        lines += [line for place, member in members(value).items() for line in member_entry(place, member)]
    if used.get(name):
        lines += ["**Example**", "", *example(used[name], equations(group, name))]
    lines += [f"Equations: {page}.", ""] if (page := equations(group, name)) else []
    if module is not None:
        about = (module.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip()
        lines += [f"Defined in `{module.__name__}`" + (f" ({about.rstrip('.')})." if about else "."), ""]
    return "\n".join(lines)


def arguments(group: Group, value: Any) -> list[str]:
    """A list of the parameters with their descriptions; those that share one stand together."""
    together: dict[parameters.Said, list[str]] = {}
    for name, said in described(group, value).items():
        together.setdefault(said, []).append(f"`{name}`")
    if not together:
        return []
    lines = ["**Fields**" if value in returned() else "**Parameters**", ""]
    for said, names in together.items():
        by = (
            f" (See [`{said.by}`](#{said.by}).)"
            if said.by in group.names
            else f" (See `{said.by}`.)"
            if said.by
            else ""
        )
        lines += [", ".join(names), f":   {linked(noun(said.text, names), group)}{by}", ""]
    return lines


def noun(text: str, names: list[str]) -> str:
    """Below its own name, "`draws` is the number of …" begins with "The number of …"."""
    found = re.match(rf"{names[0]} (?:is|are) (\w)", text) if len(names) == 1 else None
    return f"{found.group(1).upper()}{text[found.end() :]}" if found else text


def described(group: Group, value: Any) -> dict[str, parameters.Said]:
    """The description of each parameter; the module of plots or estimators describes those that they share."""
    common = "" if group.module is tp else inspect.getdoc(group.module) or ""
    return parameters.described(value, functools.partial(find, group), common)


def returned() -> list[Any]:
    """Classes that functions return and nobody calls: their parameters are fields."""
    return [getattr(tp, name) for name in RETURNED]


def find(group: Group, name: str) -> Any:
    """The public object of this name, of the same page if there is one."""
    if name in group.names:
        return getattr(group.module, name)
    return getattr(tp, name) if name in registry.EXPORTS else None


@functools.cache
def home(name: str) -> str:
    """The file of the reference with an exported name."""
    return next((each.file for each in groups() if each.module is tp and name in each.names), "")


def linked(text: str, group: Group) -> str:
    """Names of the reference as links to their entries."""

    def link(found: re.Match[str]) -> str:
        shown, name = found.group(1), found.group(2)
        file = group.file if name in group.names and (group.module is tp or not shown.startswith("tp.")) else home(name)
        return f"[`{shown}`]({file}.md#{name})" if file else found.group(0)

    return re.sub(r"(?<!\[)`((?:tp\.)?([A-Z]\w+))`", link, text)


@functools.cache
def pages(folder: str) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in sorted((DOCS / folder).glob("*.md"))}


def equations(group: Group, name: str) -> str:
    """A link to the page under Models or Methods that says most about a name."""
    if group.file == "families":
        return "[Families and pairs](../families.md)"
    if group.file not in ("models", "methods"):
        return ""
    uses = re.compile(rf"\btp\.{name}\b")
    most = max(pages(group.file), key=lambda file: len(uses.findall(pages(group.file)[file])))
    if name == "Graph":
        return "[Your own model](../graph/guide.md), [what exactly is computed](../maths.md)"
    file = OWN_PAGE.get(name, most)
    text = pages(group.file)[file]
    return f"[{text.split(chr(10))[0].removeprefix('# ')}](../{group.file}/{file})" if uses.search(text) else ""


def signature(name: str, value: Any) -> str:
    """The call, with one argument to a line where it is long; annotations as they are written."""
    try:
        given = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    taken = parameters.parameters(value)
    listed, kinds = [parameter(each) for each in taken], [each.kind for each in taken]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        listed.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returned = given.return_annotation
    arrow = "" if returned in (inspect.Signature.empty, None, "None") or inspect.isclass(value) else f" -> {returned}"
    arrow = arrow.replace("'", "")
    whole = f"{name}({', '.join(listed)}){arrow}"
    if len(whole) <= 88:
        return whole
    return f"{name}(\n" + "".join(f"    {each},\n" for each in listed) + f"){arrow}"


def parameter(each: inspect.Parameter) -> str:
    """The name, the annotation as it is written, and the default with the quotes of a string."""
    whole = str(each.replace(default=inspect.Parameter.empty)).replace("'", "").replace('"', "").replace(",  ", ", ")
    whole = re.sub(r"ForwardRef\((.+)\)$", r"\1", whole).replace("Key[Array, ]", "Key")
    if each.default is inspect.Parameter.empty:
        return whole
    default = repr(each.default).replace("<factory>", "…")
    return f"{whole} = {default}" if ": " in whole else f"{whole}={default}"


def members(value: type) -> dict[str, Any]:
    """Public methods and properties with a docstring, those of its own class first."""
    public = {name: member for base in reversed(value.__mro__[:-1]) for name, member in vars(base).items()}
    found = {}
    for name in dict.fromkeys([*vars(value), *public]):
        member = public[name]
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        shown = inspect.isfunction(plain) or isinstance(plain, property)
        if shown and inspect.getdoc(plain) and not name.startswith("_"):
            found[name] = plain
    return found


def member_entry(name: str, member: Any) -> list[str]:
    call = signature(f".{name}", member) if inspect.isfunction(member) else f".{name}"
    shown = " ".join(call.split()).replace("( ", "(").replace(", )", ")")
    return [f"`{shown}`", ":   " + textwrap.indent(inspect.getdoc(member) or "", "    ").lstrip(), ""]


def undescribed() -> list[str]:
    """Every parameter of a public name, or of a method of one, without a description."""
    missing = []
    for group in groups():
        for name in group.names:
            value = getattr(group.module, name)
            said = described(group, value)
            missing += [f"{name}({each.name})" for each in parameters.parameters(value) if each.name not in said]
            if name in MEMBERS and inspect.isclass(value):
                about = inspect.getdoc(value) or ""
                for place, member in members(value).items():
                    taken = [each.name for each in parameters.parameters(member) if each.name != "cls"]
                    told = parameters.described(member, functools.partial(find, group), about)
                    missing += [f"{name}.{place}({each})" for each in taken if each not in told]
    return missing


def results() -> dict[str, str]:
    """Functions, and methods of classes, that return something, with their docstrings."""
    found: dict[str, Any] = {}
    for group in groups():
        for name in group.names:
            value = getattr(group.module, name)
            if inspect.isfunction(value):
                found[f"{group.prefix}{name}"] = value
            elif name in MEMBERS and inspect.isclass(value):
                found |= {f"{name}.{place}": member for place, member in members(value).items()}
    plain = {name: value.fget if isinstance(value, property) else value for name, value in found.items()}
    returning = {
        name: value for name, value in plain.items() if value.__annotations__.get("return") not in (None, "None")
    }
    return {name: inspect.getdoc(value) or "" for name, value in returning.items()}


@dataclasses.dataclass(frozen=True)
class Use:
    """A statement that uses a name, and the page that it is from (none for one of examples.md)."""

    code: str
    link: str


def called(tree: ast.AST, imported: set[str]) -> set[str]:
    """Public names in some code: attributes of tp, tp.plot, tp.datasets and tp.errors, and what was imported."""
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in imported}
    spaces = {"tp", "tp.plot", "tp.datasets", "tp.errors"}
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return found | {node.attr for node in attributes if ast.unparse(node.value) in spaces}


def imports(tree: ast.Module) -> set[str]:
    lines = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return {name.name for node in lines if (node.module or "").startswith("temperance") for name in node.names}


def usages(docs: Path) -> dict[str, list[Use]]:
    """Name → where it is used in code that runs, the shortest statement of each page, those of examples.md first."""
    found: dict[str, list[Use]] = {}
    for block in BLOCK.findall((docs / "tools" / "examples.md").read_text("utf-8"))[1:]:
        tree = ast.parse(block)
        for name in called(tree, imports(tree)):
            found.setdefault(name, []).append(Use(block.rstrip(), ""))
    for path in sorted(docs.rglob("*.md")):
        text = path.read_text("utf-8")
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        code = "\n".join(BLOCK.findall(text))
        if title is None or not code or path.parent.name == "tools":
            continue
        link = f"[{title.group(1)}](../{path.relative_to(docs).as_posix()})"
        tree = ast.parse(code)
        shortest: dict[str, str] = {}
        for statement in tree.body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                continue
            source = ast.get_source_segment(code, statement) or ""
            for name in called(statement, imports(tree)):
                if name not in shortest or source.count("\n") < shortest[name].count("\n"):
                    shortest[name] = source
        for name, source in shortest.items():
            found.setdefault(name, []).append(Use(source, link))
    return found


def example(uses: list[Use], own: str) -> list[str]:
    """The shortest statement of the page about a name, or else a block of examples.md, and links to four pages."""
    uses = sorted(uses, key=lambda use: (use.link != own, not use.link, len(use.code) if use.link else 0))
    links = [use.link for use in uses if use.link][:4]
    lines = ["```python", uses[0].code, "```", ""]
    return [*lines, "Used in " + ", ".join(links) + ".", ""] if links else lines


def on_files(files: Files, config: MkDocsConfig) -> Files:
    used = usages(Path(config.docs_dir))
    for group in groups():
        index = ", ".join(f"[`{name}`](#{name})" for name in group.names)
        parts = [f"# {group.title}\n\n{group.about}\n\n{index}\n"]
        parts += [entry(group, name, used) for name in group.names]
        files.append(File.generated(config, f"reference/{group.file}.md", content="\n".join(parts)))
    return files
