"""Importing the package stays light: what only some users need is imported when it is used."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import temperance as tp
from temperance import registry

ROOT = Path(__file__).parents[1]
UNUSED = ("matplotlib", "arviz", "sklearn", "numba", "dask", "pandas", "rich", "typer", "scipy.interpolate")
HEAVY = ("jax", "numpy", "equinox")


def python(code, *arguments, **options):
    """What a fresh interpreter prints."""
    command, here = [sys.executable, "-c", code, *arguments], os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=here, **options).stdout.strip()


def test_the_package_imports_what_every_fit_needs_and_no_more():
    loaded = f"print([name for name in {(*HEAVY, 'scipy', *UNUSED)} if name in sys.modules])"
    assert python(f"import sys, temperance; temperance.__version__, dir(temperance); {loaded}") == str(list(HEAVY))


@pytest.mark.parametrize("started", ["-m", "/usr/bin/temperance", "temperance-script.py"])
def test_the_command_line_imports_nothing_heavy(started):
    loaded = f"print([name for name in {(*HEAVY, 'scipy', *UNUSED)} if name in sys.modules])"
    code = f"import sys; sys.argv[0] = {started!r}; import temperance; temperance.__version__, dir(temperance);"
    assert python(f"{code} {loaded}") == "[]"


def test_a_fit_imports_nothing_that_it_does_not_use():
    code = "import sys, temperance as tp; tp.fit, tp.compare, tp.GaussianMixture, tp.VB, tp.VT, tp.LDA;"
    assert python(f"{code} print([name for name in {UNUSED} if name in sys.modules])") == "[]"


def test_a_first_fit_waits_for_nothing_heavy():
    """SciPy's special functions take half as long to import as JAX, and readers of files have no part in a fit."""
    code = "import sys, temperance as tp; tp.fit(tp.GaussianMixture(2), [0.0, 0.1, 5.0, 5.1], seed=0);"
    names = ("scipy", "temperance.models.topics", "temperance.data.texts", *UNUSED)
    assert python(f"{code} print([name for name in {names} if name in sys.modules])") == "[]"


@pytest.mark.parametrize(
    "arguments, code",
    [
        ("", 0), ("--version", 0), ("--help", 0), ("compare --help", 0), ("models --format text", 0), ("reproduce", 0),
        ("fit galaxy --colour", 2), ("fit galaxy --model hmmm", 2), ("compare galaxy --method mcmc", 2),
        ("fit galaxy --mean zero", 2), ("fit none.csv", 2), ("predict none.tp galaxy", 2), ("fit galaxy -k 1:3", 2),
    ],
)  # fmt: skip
def test_help_and_mistakes_need_no_jax(arguments, code):
    script = "import sys; sys.argv[0] = 'temperance'; from temperance.cli import main;"
    script += "code = main(sys.argv[1:]); print(code, 'jax' in sys.modules)"
    assert python(script, *arguments.split()).splitlines()[-1] == f"{code} False"


@pytest.mark.parametrize("first", ["import jax", "import temperance", "from temperance import VB", "import equinox"])
def test_float64_is_on_and_a_cache_of_the_users_is_kept(first, tmp_path):
    code = f"{first}; import jax; jax.config.update('jax_compilation_cache_dir', 'mine'); import temperance;"
    code += "import os, jax.numpy as jnp; temperance.VB;"
    code += "print(jnp.zeros(1).dtype, jax.config.jax_compilation_cache_dir, int(os.environ['PJRT_NPROC']) >= 16)"
    assert python(code, cwd=tmp_path).split() == ["float64", "mine", "True"]


FORGET = """
import importlib, itertools, sys, types
import jax, equinox, scipy.special
def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == "temperance"]:
        del sys.modules[name]
"""


def test_functions_are_not_hidden_by_the_modules_of_their_names():
    """Whichever comes first: the submodules, the functions, or a class from a submodule."""
    code = """
statements = ("import temperance.fit, temperance.compare, temperance.report.words", "from temperance.fit import Fit",
              "from temperance import compare, fit, report")
for order in itertools.permutations(statements):
    forget()
    scope = {}
    for statement in order:
        exec(statement, scope)
    assert scope["Fit"].__module__ == "temperance.fit"
    for name in ("compare", "fit", "report"):
        assert isinstance(scope[name], types.FunctionType) and scope[name] is getattr(scope["temperance"], name), order
"""
    python(FORGET + code)


FIRST = ["compare", "coherence", "Fit", "Graph", "LDA", "VT", "LVT", "SVI", "EP", "AIS", "CollapsedGibbs", "Laplace"]
MODULES = [str(path.relative_to(ROOT).with_suffix("")).replace(os.sep, ".") for path in ROOT.glob("temperance/**/*.py")]


@pytest.mark.parametrize(
    "names", [[registry.EXPORTS[name] for name in FIRST], pytest.param(MODULES, marks=pytest.mark.slow)]
)
def test_any_module_can_be_the_first(names):
    """Names are imported when they are used, so that modules which import each other would fail in some order."""
    code = """
for name in sys.argv[1:]:
    forget()
    importlib.import_module(name.removesuffix(".__init__"))
"""
    python(FORGET + code, *(f"temperance.{name.removeprefix('temperance.')}" for name in names))


def test_a_function_can_be_replaced(monkeypatch):
    monkeypatch.setattr(tp, "fit", len)
    assert tp.fit is len
    monkeypatch.undo()
    assert tp.fit.__module__ == "temperance.fit"


def test_public_names():
    shown = dir(tp)
    assert {"fit", "plot", "estimators", "datasets", "__version__", "VB", "NormalWishart"} <= set(shown)
    assert not {"Any", "TYPE_CHECKING"} & set(shown)
    assert all(getattr(tp, name) is not None for name in shown)
    assert set(tp.__all__) <= set(shown) and set(tp.families.__all__) <= set(tp.__all__)
    assert not hasattr(tp, "nothing") and not hasattr(tp, "__wrapped__")
    with pytest.raises(AttributeError, match="module 'temperance' has no attribute 'Nothing'"):
        _ = tp.Nothing


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(tp.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    static = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    families = {name: module for name, module in registry.EXPORTS.items() if module == "families"}
    assert static.items() >= {(name, module) for name, module in registry.EXPORTS.items() if name not in families}
    assert set(families) == set(tp.families.__all__)
