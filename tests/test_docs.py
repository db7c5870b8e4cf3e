"""The Python examples in the documentation run as they stand."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import temperance as tp
from temperance import registry

ROOT = Path(__file__).parents[1]


def _tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


notebooks = _tool("notebooks")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "docs" / "llms.txt"]
    if BLOCK.search(page.read_text("utf-8"))
)


TUTORIALS = {ROOT / "docs" / page for page in notebooks.PAGES}  # run as notebooks, below


@pytest.mark.docs
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in TUTORIALS], ids=lambda page: str(page.relative_to(ROOT))
)
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


@pytest.mark.docs
@pytest.mark.parametrize("page", notebooks.PAGES)
def test_notebooks_run_and_show_their_output(page: str, tmp_path: Path) -> None:
    """Each in a fresh interpreter; the build then offers it with its output (docs/tools/notebooks.py)."""
    path = notebooks.RUN / notebooks.target(page).replace("/", "-")
    command = [
        sys.executable,
        "-W",
        "error",
        str(ROOT / "docs/tools/notebooks.py"),
        str(ROOT / "docs" / page),
        str(path),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "jax")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code) and any(cell["outputs"] for cell in code)


def test_there_are_eight_tutorials_with_links_to_their_notebooks() -> None:
    assert len(notebooks.PAGES) >= 8 and all((ROOT / "docs" / page).exists() for page in notebooks.PAGES)
    told = notebooks.cells("# A\n\nSee [b](b.md).\n\n```python\nprint(1)\n```\n")
    notebooks.execute(told)
    assert [cell["source"] for cell in told] == ["# A\n\nSee b.", "print(1)"] and told[1]["outputs"][0]["text"] == "1\n"


# What we do not write: notebook voice, histories of measurements, riddles.
AVOIDED = (
    "What improved:", "What did not:", "pen and paper's formulas", "its first bytes say", "a run before gave",
    "before these it was", "for what some rows can tell", "says so of partitions", "what speaks against it",
    "worked out when it is asked for", "what there is, and", "as people have it", "in one call with what there is",
    "Of annealed, one", "with a sentence that says why, and a", "The rest say why not", "What is not as you want it",
    "one's own", "For an evidence", "for usual ones", "which is said first", "changes its ways", "as you have it",
    "The papers and we",
    "data ask for", "no choice of yours", "What there is\n",
    "by what it is", "counts as what it is", "worked out afresh", "is what to use", "What was run, by which",
    "Nothing of it", "nothing of it", " lest ", "in the place of", "last said", "at a time in so many",
    "of one nothing", "goes on from", "how sure that is", "what was not seen", "are learnt", "is learnt",
    "what came out", "What came out", "hiding it would",
    "comes to nothing", "come to nothing", "what there is to say", "is taken for a word", "addresses of the web",
    "of which there is none", "of which nothing is said", "what was left out is said", "Of more than",
    "What was tried", "as often as to",
)  # fmt: skip
# "one a topic" for "one per topic", "nats a token" for "nats per token".
PER = re.compile(
    r"\b(?:one|once|two|three|[Nn]ats|sweeps|seconds|tasks?|(?:one|non-negative) number|(?:one|truth) value|moves)"
    r"\s+an?\s+"
    r"(?:topic|column|word|component|factor|sweep|token|datum|document|walk|partition|pass|draw|core|row|report|model)\b"
)


def avoided(text: str) -> list[str]:
    return [phrase for phrase in AVOIDED if phrase in text] + PER.findall(text)


def test_no_page_or_docstring_has_a_phrase_that_we_avoid() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("temperance/**/*.py")]
    found = [(str(page.relative_to(ROOT)), phrase) for page in pages for phrase in avoided(page.read_text("utf-8"))]
    assert not found


def test_the_phrases_of_the_style_guide_are_found() -> None:
    assert len(avoided("one a topic; nats a token; nats a\n  document; What improved: more")) == 4
    assert not avoided("one per topic; documents a second; a topic")


# Guides advise; measurements are dated tables elsewhere. These words belong to a history of runs.
HISTORY = re.compile(
    r"\b(?:an earlier run|a later run|busy (?:core|machine)|seconds? of CPU|on two cores|took \d+ s|\d ms|CPU time)\b"
)


def test_no_guide_tells_the_history_of_measurements() -> None:
    apart = {"speed.md", "gallery.md"}
    pages = [
        page for page in ROOT.glob("docs/**/*.md") if page.parent.name != "measurements" and page.name not in apart
    ]
    found = [(page.name, match) for page in pages for match in HISTORY.findall(page.read_text("utf-8"))]
    assert len(pages) > 40 and not found


def test_equations_and_guarantees_of_each_method_are_two_clicks_from_the_home_page() -> None:
    """Home → what exactly is computed → the method, whose row there says what is guaranteed and what can go wrong."""
    maths = (ROOT / "docs" / "maths.md").read_text("utf-8")
    assert "(maths.md)" in (ROOT / "docs" / "index.md").read_text("utf-8")
    rows = re.findall(r"^\| \[[^\]]+\]\(methods/([\w-]+)\.md\) \| .+ \| .+ \|$", maths, re.MULTILINE)
    methods = {page.stem: page.read_text("utf-8") for page in ROOT.glob("docs/methods/*.md")}
    assert set(rows) == set(methods)
    assert [name for name, text in methods.items() if "$$" not in text] == ["moves"]  # which have no equation


def test_every_model_and_method_has_its_equation_and_its_paper() -> None:
    """The page that the reference links to as "Equations"; moves have none, and graphs are what their author writes."""
    pages = [*ROOT.glob("docs/models/*.md"), *ROOT.glob("docs/methods/*.md")]
    texts = {page.stem: page.read_text("utf-8") for page in pages}
    assert len(texts) > 25
    assert {name for name, text in texts.items() if "$$" not in text} == {"moves"}
    year = re.compile(r"\(?\b(?:19|20)\d\d\)|, (?:19|20)\d\d[),]|Zabaras")
    assert not [name for name, text in texts.items() if not year.search(text)]


def test_the_first_tutorial_explains_its_words_where_they_stand() -> None:
    """A reader who knows scikit-learn but not Bayes need not leave the page."""
    text = (ROOT / "docs" / "tutorials" / "clusters.md").read_text("utf-8")
    for word in (
        "prior",
        "log evidence",
        "Ockham hill",
        "posterior",
        "Responsibilities",
        "variational Bayes",
        "lower bound",
    ):
        assert f"*{word}*" in text, word
    for word in ("GaussianMixture", "predict_proba", "n_init", "NormalWishart", "label_correction", "pip install"):
        assert word in text


# A formula of a table is typeset as one of the text is: Greek letters, powers and indices stand between dollar signs.
FORMULA = re.compile(r"[α-ωΓ-Ω∑∫∂√∇⟨⟩ᵀ⁻½‖∞]|\b\w_\w\b|\^")
TYPESET = re.compile(r"\$[^$]*\$|`[^`]*`|\[[^\]]*\]\([^)]*\)")


def plain_formulas(text: str) -> list[str]:
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [row for row in re.findall(r"^\|.*", prose, re.MULTILINE) if FORMULA.search(TYPESET.sub("", row))]


def test_formulas_of_tables_are_typeset() -> None:
    """But for the two tables that the command line prints too."""
    printed = {"gallery.md", "command-line.md"}
    pages = [page for page in ROOT.glob("docs/**/*.md") if page.name not in printed]
    assert not [(page.name, row) for page in pages for row in plain_formulas(page.read_text("utf-8"))]
    assert plain_formulas("| α = ½ | `α` |\n| $\\alpha$ | `α` |") == ["| α = ½ | `α` |"]


RUNS = re.compile(
    r"earlier run|later run|machine that was busy|busy machine|two runs before|\bSince then\b|whoever's it is"
)


def test_measurements_are_results_and_not_the_story_of_runs() -> None:
    pages = [ROOT / "docs" / "speed.md", *ROOT.glob("docs/measurements/*.md")]
    assert not [(page.name, match) for page in pages for match in RUNS.findall(page.read_text("utf-8"))]


def test_every_public_name_has_a_docstring() -> None:
    """The reference is written from docstrings (docs/tools/reference.py)."""
    names = [name for name in registry.EXPORTS if not (getattr(tp, name).__doc__ or "").strip()]
    assert not names


@pytest.mark.docs  # which installs MkDocs
def test_every_public_name_has_a_running_example_in_the_reference() -> None:
    """Blocks of docs/tools/examples.md or statements of the pages, all of which the tests above run."""
    _tool("parameters")  # which it imports
    reference = _tool("reference")
    used = reference.usages(ROOT / "docs")
    groups = reference.groups()
    assert not [name for group in groups for name in group.names if name not in used]
    assert sum(len(group.names) for group in groups) > 150
    assert {name for group in groups for name in group.names} >= set(registry.EXPORTS)


@pytest.mark.docs
def test_every_parameter_of_a_public_name_is_described() -> None:
    """In its docstring, beside its field, in a docstring that it refers to, or for a whole module."""
    parameters, reference = _tool("parameters"), _tool("reference")
    assert not reference.undescribed()
    counted = [
        each
        for group in reference.groups()
        for name in group.names
        for each in parameters.parameters(getattr(group.module, name))
    ]
    assert len(counted) > 700


# A docstring of something that returns begins with what it returns (words, a name or a formula), or says so.
BEGINS = re.compile(
    r"(?:The|A|One|Each|Every|Two|What|How|Whether|Can|By|For|Mean|Size|Known|Discrete|Membership|Probabilities|Numbers|"
    r"Counts|Coefficients|Parameters|Rows|Documents|Topics|Shares|Held-out)\b|`|0 |log |exp\(|[A-Zt]{1,2}[(\[]|[(⟨]"
)


def says_what_it_returns(text: str) -> bool:
    return bool(BEGINS.match(text)) or "return" in text or "comes back" in text


@pytest.mark.docs
def test_every_result_of_a_public_function_is_described() -> None:
    _tool("parameters")
    found = _tool("reference").results()
    assert len(found) > 150
    assert not [name for name, text in found.items() if not says_what_it_returns(text)]
    assert not says_what_it_returns("Fit every model by every method.") and says_what_it_returns("The mean of x.")


@pytest.mark.docs
def test_sentences_about_parameters_are_found_and_the_rest_stays() -> None:
    parameters = _tool("parameters")

    def both(first: int, second: int = 0, third: int = 0) -> int:
        """The sum of `first` and something.

        It is quick. `second` is added (twice). So it must be small.
        """
        return first + 2 * second

    kept, said = parameters.own(both)
    assert kept == "The sum of `first` and something.\n\nIt is quick."
    assert said == {
        "first": "The sum of `first` and something.", "second": "`second` is added (twice). So it must be small."
    }  # fmt: skip
    assert "third" not in parameters.described(both, lambda name: None)


@pytest.mark.docs
def test_models_and_methods_link_to_their_equations_and_do_not_repeat_themselves() -> None:
    parameters, reference = _tool("parameters"), _tool("reference")
    groups = [group for group in reference.groups() if group.file in ("models", "methods")]
    entries = [(group, name) for group in groups for name in group.names]
    assert len(entries) > 35 and all(reference.equations(group, name) for group, name in entries)
    assert reference.noun("`draws` is the number of draws.", ["`draws`"]) == "The number of draws."
    for group, name in entries:
        text = (getattr(tp, name).__doc__ or "").split("\n\n")[0]
        first = parameters.ENDS.split(" ".join(text.split()))[0]
        assert not [each for each, said in reference.described(group, getattr(tp, name)).items() if said.text == first]
