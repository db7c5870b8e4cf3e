"""The Python examples in the documentation run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import temperance as tp
from temperance import registry

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "docs" / "llms.txt"]
    if BLOCK.search(page.read_text("utf-8"))
)


@pytest.mark.docs
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path) -> None:
    """All blocks of a page in one fresh interpreter, as a reader would: the tests' imports must not help."""
    script = tmp_path / "page.py"
    script.write_text("\n".join(BLOCK.findall(page.read_text("utf-8"))), "utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MPLBACKEND": "agg",
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "jax"),
    }
    command = [sys.executable, "-W", "error", script.name]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# What we do not write: notebook voice, and "one a topic" for "one per topic".
AVOIDED = (
    "one a topic", "one a column", "one a word", "one a component", "one a factor", "one a sweep", "nats a token",
    "What improved:", "What did not:", "pen and paper's formulas", "its first bytes say", "a run before gave",
    "before these it was",
)  # fmt: skip


def test_no_page_has_a_phrase_that_we_avoid() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    found = [(page.name, phrase) for page in pages for phrase in AVOIDED if phrase in page.read_text("utf-8")]
    assert not found


def test_every_public_name_has_a_docstring() -> None:
    """The reference is written from docstrings (docs/tools/reference.py)."""
    names = [name for name in registry.EXPORTS if not (getattr(tp, name).__doc__ or "").strip()]
    assert not names
