"""What an installed copy holds, and what says where it comes from."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from temperance.datasets._describe import BUNDLED_TEXT
from tests import lock
from tests.lowest import lowest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def value(file: str, key: str) -> str:
    """What a line `key: value` of a YAML file says."""
    (found,) = re.findall(rf"^ *{key}: *\"?([^\"\n$]+)\"?$", (ROOT / file).read_text("utf-8"), re.MULTILINE)
    return found


def test_the_version_is_the_same_everywhere() -> None:
    assert value("CITATION.cff", "version") == value("conda/recipe.yaml", "version") == PROJECT["version"]
    assert value("CITATION.cff", "license") == value("conda/recipe.yaml", "license") == PROJECT["license"]


def test_the_recipe_asks_for_what_the_project_does() -> None:
    run = (ROOT / "conda" / "recipe.yaml").read_text("utf-8").split("  run:\n")[1].split("\n\n")[0]
    asked = sorted(
        line.strip("- ").replace(" ", "").replace("matplotlib-base", "matplotlib") for line in run.split("\n")
    )
    assert asked == sorted([*PROJECT["dependencies"], f"python{PROJECT['requires-python']}"])


def test_every_bundled_table_has_its_notice() -> None:
    notice = (ROOT / "temperance" / "datasets" / "NOTICE.md").read_text("utf-8")
    tables = {path.stem for path in (ROOT / "temperance" / "datasets").glob("*.csv")}
    assert tables == set(re.findall(r"^\| `(\w+)\.csv`", notice, re.MULTILINE)) == set(BUNDLED_TEXT)
    assert "temperance/datasets/NOTICE.md" in PROJECT["license-files"]


def test_the_list_for_assistants_leads_somewhere() -> None:
    pages = re.findall(r"^- \[.*?\]\((.*?)\): ", (ROOT / "docs" / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert len(pages) > 10 and all((ROOT / "docs" / page).exists() for page in pages)


def test_the_lowest_versions_are_those_that_are_asked_for() -> None:
    assert lowest(["numpy>=2.0", "dask[distributed]>=2024.8"]) == ["numpy==2.0", "dask==2024.8"]
    assert all("==" in constraint for constraint in lowest(PROJECT["dependencies"]))


def test_the_lock_has_what_is_asked_for_and_the_bill_of_materials_has_the_lock(monkeypatch) -> None:
    versions = lock.locked()
    for each in lock.required():
        assert versions[canonicalize_name(each.name)] in each.specifier, each
    assert all(re.fullmatch(r"[\w.]+", version) for version in versions.values())  # no addresses
    here = lock.closure()  # newer releases may need other packages than the locked ones
    monkeypatch.setattr(lock, "locked", lambda: {name: found.version for name, (found, _) in here.items()})
    monkeypatch.setattr(lock, "closure", lambda: here)
    bill = lock.sbom()
    parts = {part["bom-ref"]: part for part in bill["components"]}
    assert bill["bomFormat"] == "CycloneDX" and {part["name"] for part in parts.values()} == set(here)
    assert all(part["licenses"][0]["license"]["name"] != "unknown" for part in parts.values())
    assert {line["ref"] for line in bill["dependencies"][1:]} == set(parts)
    assert {below for line in bill["dependencies"] for below in line["dependsOn"]} == set(parts)


@pytest.mark.slow
def test_the_wheel_holds_code_data_and_types(tmp_path: Path) -> None:
    """An editable install reads the checkout, so only a built wheel shows a file that was not packaged."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "temperance", tree / "temperance", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "examples" / "papers", tree / "examples" / "papers")
    for file in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / file, tree)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(tree),
    ]
    subprocess.run(pip, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("temperance/")}
    expected = {str(path.relative_to(tree)) for path in (tree / "temperance").rglob("*") if path.is_file()}
    assert packed == expected
    assert {"temperance/py.typed", "temperance/datasets/galaxy.csv"} <= packed


def test_the_readme_says_how_to_begin() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert re.search(r"source .*bin/activate", text) and {"tp.Graph", "tp.HMM"} <= set(re.findall(r"tp\.\w+", text))
