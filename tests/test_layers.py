"""Imports go one way. Each layer imports, at module level, only its own and the layers before it."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "temperance"

# What everybody may use comes first; modules of one layer may import each other.
LAYERS = (
    ("errors", "_configure", "_lazy", "_module", "_arguments", "_heap", "_uncollected", "cards", "programs"),
    ("numerics",),
    ("families",),
    ("data", "datasets", "_saved", "storage"),
    ("models",),
    ("graph",),
    ("kernels",),
    ("evidence",),
    ("inference",),
    ("fit", "fitting", "rowwise", "members", "compare", "comparison", "registry", "summary"),
    ("report", "estimators", "cli", "cluster", "diagnostics", "__main__", "temperance"),  # the front page sees all
)
DEPTH = {part: depth for depth, layer in enumerate(LAYERS) for part in layer}

# Imports against the order that are still to be undone, "module -> module". An entry that is not needed fails.
ALLOWED: set[str] = set()


def typing_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def at_module_level(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when the module is imported: not those in functions, nor those for types alone."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not typing_only(node):
            for field in ("body", "orelse", "handlers", "finalbody"):
                yield from at_module_level(getattr(node, field, []))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules of the package that a statement imports, by their full names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        package = module_name(path).split(".")[: None if path.name == "__init__.py" else -1]
        package = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join([*package, *filter(None, [node.module])])
        full = [f"{base}.{alias.name}" for alias in node.names]
        names = [name if is_module(name) else base for name in full]
    return [name for name in names if name.split(".")[0] == ROOT.name]


def is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def depth(name: str) -> int:
    """The layer of a module, from the folder or file of the package that it is in."""
    return DEPTH[".".join(name.split(".")[1:2]) or name]


def crossings() -> set[str]:
    found = set()
    for path in ROOT.rglob("*.py"):
        here = module_name(path)
        for node in at_module_level(ast.parse(path.read_text("utf-8")).body):
            for there in imported(path, node):
                if depth(there) > depth(here):
                    found.add(f"{here} -> {there}")
    return found


def test_every_part_has_its_layer() -> None:
    parts = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert parts - {"__init__"} <= set(DEPTH)


def test_imports_go_one_way() -> None:
    found = crossings()
    assert found - ALLOWED == set(), "imports against the order of the layers"
    assert ALLOWED - found == set(), "no longer needed: take them off the list"
