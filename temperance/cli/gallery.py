"""The figures of the papers: the scripts in `examples/papers`, which a wheel carries too."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

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
    script = known[name]
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
    script.main(str(folder), **(script.QUICK if quick else {}))
