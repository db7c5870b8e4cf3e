"""Scripts and documentation name only what exists in the package: moved modules would otherwise break them unseen."""

import ast
import importlib
from pathlib import Path

import pytest

import temperance as tp
from tests.test_docs import BLOCK, PAGES

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted([*ROOT.glob("benchmarks/**/*.py"), *ROOT.glob("examples/**/*.py")])


def missing(source):
    """The imports from temperance and the attributes of `tp` in this source that do not exist."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "temperance":
            found += [f"{node.module}.{alias.name}" for alias in node.names if not exists(node.module, alias.name)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "temperance"]
            found += [name for name in names if not exists(*name.rpartition(".")[::2])]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tp":
            found += [] if hasattr(tp, node.attr) else [f"tp.{node.attr}"]
    return found


def exists(module, name):
    try:
        if module and hasattr(importlib.import_module(module), name):
            return True
        importlib.import_module(f"{module}.{name}".strip("."))
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("page", [*SCRIPTS, *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_import_resolves(page):
    text = page.read_text("utf-8")
    assert not missing(text if page.suffix == ".py" else "\n".join(BLOCK.findall(text)))


def test_what_does_not_exist_is_found():
    wrong = "from temperance.models import Nothing\nimport temperance.nothing\nimport temperance\ntp.VB\ntp.VBB"
    assert missing(wrong) == ["temperance.models.Nothing", "temperance.nothing", "tp.VBB"]
