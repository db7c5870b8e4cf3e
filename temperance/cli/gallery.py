"""The figures of the papers: the scripts in `examples/papers`, which a wheel carries too."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InvalidData, InvalidParameter

_ROOT = Path(__file__).parents[2]
_PLACES = (_ROOT / "examples" / "papers", _ROOT / "temperance_papers")  # in a checkout, and beside an installed package


def figures() -> dict[str, Path]:
    """Every figure by name."""
    for folder in _PLACES:
        scripts = sorted(folder.glob("[a-z]*.py"))
        if scripts:
            return {script.stem.replace("_", "-"): script for script in scripts}
    raise InvalidData("the scripts of the gallery (examples/papers) are not in this installation")


def load_script(name: str) -> ModuleType:
    """The script of a figure: `main(folder, **settings)` draws it, and `QUICK` holds settings that take seconds."""
    known = figures()
    if name not in known:
        raise InvalidParameter(f"NAME must be one of {', '.join(known)}, got {name!r}")
    return _module(known[name])


def claims() -> dict[str, list[Any]]:
    """For each script, the figures of papers that it draws, the claim of the paper, and how our figure compares."""
    listed = _module(next(iter(figures().values())).with_name("_claims.py")).CLAIMS
    return {name: [claim for claim in listed if claim.script == name] for name in figures()}


def shown(of_script: list[Any]) -> str:
    """Which figures a script draws: "latent-variable thesis: 2.1; 2.2"."""
    papers = dict.fromkeys(claim.paper for claim in of_script)
    return ", ".join(
        f"{paper}: " + "; ".join(claim.figure for claim in of_script if claim.paper == paper) for paper in papers
    )


def _module(script: Path) -> ModuleType:
    sys.path.insert(0, str(script.parent))  # the scripts share a module
    try:
        spec = importlib.util.spec_from_file_location(script.stem, script)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[script.stem] = module  # where dataclasses look for the annotations of a model defined there
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(script.parent))
    return module


def make_figure(name: str, folder: Path, quick: bool = False) -> None:
    script = load_script(name)
    if quick and script.QUICK:
        settings = ", ".join(f"{setting} = {value}" for setting, value in script.QUICK.items())
        print(f"quick settings ({settings}): the figure shows that the script runs, not the paper's result")
    try:
        script.main(str(folder), **(script.QUICK if quick else {}))
    finally:
        if "matplotlib.pyplot" in sys.modules:  # keeps what is drawn, and warns after twenty figures
            sys.modules["matplotlib.pyplot"].close("all")


PAGE, DONE = "the-papers-and-us.md", "reproduce.json"


def make_all(folder: Path, quick: bool = False) -> Path:
    """Draw every figure, and write a page with our figure beside each claim. Figures of an earlier call are not drawn
    again."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / DONE
    done = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    for name in figures():
        if done.get(name, {}).get("quick") == quick:
            continue
        print(f"{name} …", flush=True)
        said, begun = io.StringIO(), time.monotonic()
        before = {path: path.stat().st_mtime for path in folder.glob("*.png")}
        with contextlib.redirect_stdout(said):
            make_figure(name, folder, quick)
        drawn = sorted(path.name for path in folder.glob("*.png") if before.get(path) != path.stat().st_mtime)
        lines = [line for line in said.getvalue().splitlines() if not line.startswith("the figure is in")]
        done[name] = {"quick": quick, "seconds": round(time.monotonic() - begun), "said": lines, "drawn": drawn}
        kept.write_text(json.dumps(done), "utf-8")
    page = folder / PAGE
    page.write_text("\n".join(_page(done, quick)), "utf-8")
    return page


def _page(done: dict[str, Any], quick: bool) -> list[str]:
    lines = ["# The papers and us", ""]
    if quick:
        lines += ["Quick settings: the figures show that the scripts run, not the papers' results.", ""]
    for name, drawn in claims().items():
        entry = done[name]
        lines += [f"## {name}", "", "| figure | the paper | ours |", "|---|---|---|"]
        lines += [f"| {each.paper}, {each.figure} | {each.claim} | {each.verdict} |" for each in drawn]
        lines += ["", "```text", *entry["said"], "```", ""] if entry["said"] else [""]
        lines += [f"![{name}: {shown(drawn)}]({image})" for image in entry["drawn"]]
        lines += ["", f"`temperance reproduce {name}`, {entry['seconds']} s", ""]
    return lines
