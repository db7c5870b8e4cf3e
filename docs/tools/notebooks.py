"""Tutorials as notebooks: made from their pages, run by the tests, offered for download beside each page.

    python docs/tools/notebooks.py PAGE NOTEBOOK

runs every block of the page in one fresh interpreter and writes the notebook with what was printed and drawn. The build
takes the notebooks that the tests have run from .cache/notebooks, if their page has not changed since, and shows each
block's output beneath it; otherwise page and download have no output yet.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RUN = ROOT / ".cache" / "notebooks"
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
PAGES = (
    "guides/ten-minutes.md",
    "tutorials/clusters.md", "tutorials/classes.md", "tutorials/topics.md", "tutorials/factors.md",
    "tutorials/regimes.md", "tutorials/regression.md", "graph/guide.md", "tutorials/evidence.md",
    "tutorials/large-data.md",
)  # fmt: skip


def cells(text: str) -> list[dict[str, Any]]:
    """Text and code in turn; links to other pages and pictures are left out, since a notebook stands alone."""
    found: list[dict[str, Any]] = []
    for place, part in enumerate(BLOCK.split(text)):
        if place % 2:
            code = part.rstrip("\n")
            found.append({"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": code})
        else:
            prose = re.sub(r"!\[[^\]]*\]\([^)]*\)\n*", "", part)
            prose = re.sub(r"\[([^\]]+)\]\((?!http)[^)]*\)", r"\1", prose).strip()
            if prose:
                found.append({"cell_type": "markdown", "metadata": {}, "source": prose})
    for number, cell in enumerate(found):
        cell["id"] = f"cell-{number}"
    return found


def notebook(content: list[dict[str, Any]]) -> str:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": content}
    return json.dumps(whole, ensure_ascii=False, indent=1)


def execute(content: list[dict[str, Any]]) -> None:
    """Run the code cells one after the other, and put what each printed and drew below it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    names: dict[str, Any] = {"__name__": "__main__"}
    drawn: list[Figure] = []
    code = [cell for cell in content if cell["cell_type"] == "code"]
    for count, cell in enumerate(code, 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell["source"], f"<cell {count}>", "exec"), names)
        cell["execution_count"] = count
        if printed.getvalue():
            cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
        given = [getattr(value, "figure", value) for value in names.values()]
        figures = [*map(plt.figure, plt.get_fignums()), *(each for each in given if isinstance(each, Figure))]
        for figure in dict.fromkeys(each for each in figures if each not in drawn):
            image = io.BytesIO()
            figure.savefig(image, format="png", dpi=80)
            data = {"image/png": base64.b64encode(image.getvalue()).decode()}
            cell["outputs"].append({"output_type": "display_data", "metadata": {}, "data": data})
            drawn.append(figure)
        plt.close("all")


def target(page: str) -> str:
    return page.removesuffix(".md") + ".ipynb"


def made(page: str) -> str:
    """The notebook of a page, with its output if the tests have run just this text."""
    content = cells((ROOT / "docs" / page).read_text("utf-8"))
    kept = RUN / target(page).replace("/", "-")
    if kept.exists():
        run = json.loads(kept.read_text("utf-8"))["cells"]
        if [cell["source"] for cell in run] == [cell["source"] for cell in content]:
            return kept.read_text("utf-8")
    return notebook(content)


def code_cells(page: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(made(page))["cells"] if cell["cell_type"] == "code"]


def picture(page: str, cell: int, output: int) -> str:
    return f"{page.removesuffix('.md')}-{cell}-{output}.png"


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for page in PAGES:
        files.append(File.generated(config, target(page), content=made(page)))
        for number, cell in enumerate(code_cells(page)):
            for place, output in enumerate(cell["outputs"]):
                if "data" in output:
                    drawn = base64.b64decode(output["data"]["image/png"])
                    files.append(File.generated(config, picture(page, number, place), content=drawn))
    return files


def shown(page: str, number: int, cell: dict[str, Any]) -> str:
    """What a block printed and drew, in Markdown."""
    parts = []
    for place, output in enumerate(cell["outputs"]):
        if "text" in output:
            parts.append(f"```{{ .text .output }}\n{output['text'].rstrip()}\n```\n")
        else:
            called = re.search(r"tp\.plot\.(\w+)", cell["source"])
            what = f"The figure of tp.plot.{called.group(1)}" if called else "What this code draws"
            parts.append(f"![{what}]({Path(picture(page, number, place)).name})\n")
    return "\n" + "\n".join(parts) if parts else ""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    name = page.file.src_uri
    if name not in PAGES:
        return markdown
    code = iter(enumerate(code_cells(name)))
    markdown = BLOCK.sub(lambda block: block.group(0) + shown(name, *next(code)), markdown)
    link = f"[Download as a notebook]({Path(target(name)).name}){{ .notebook download }}"
    return re.sub(r"^(# .+\n)", rf"\1\n{link}\n", markdown, count=1)


def main(page: str, path: str) -> None:
    content = cells(Path(page).read_text("utf-8"))
    execute(content)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(notebook(content), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
