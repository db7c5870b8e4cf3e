"""Small files, short functions: lengths counted from the syntax, docstrings and comments included."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "temperance"
LONGEST_FUNCTION, LONGEST_FILE = 60, 500

# Functions still to be cut, "file:name". An entry that is not needed fails. Commands (temperance/cli) list their flags.
ALLOWED: set[str] = set()


def sources() -> list[tuple[str, str]]:
    return [(path.relative_to(ROOT.parent).as_posix(), path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))]


def long_functions() -> set[str]:
    return {
        f"{name}:{node.name}"
        for name, text in sources()
        if not name.startswith("temperance/cli/")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    }


def test_no_function_is_long() -> None:
    found = long_functions()
    assert found - ALLOWED == set(), f"longer than {LONGEST_FUNCTION} lines"
    assert ALLOWED - found == set(), "no longer needed: take them off the list"


def test_no_file_is_long() -> None:
    lengths = {name: len(text.splitlines()) for name, text in sources()}
    assert len(lengths) > 50
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}
