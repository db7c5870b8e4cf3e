"""What an installed copy holds."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_holds_code_data_and_types(tmp_path: Path) -> None:
    """An editable install reads the checkout, so only a built wheel shows a file that was not packaged."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "temperance", tree / "temperance", ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / file).exists():
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
