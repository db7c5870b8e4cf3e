"""The lowest versions that pyproject.toml allows, as constraints for pip: `numpy>=2.0` becomes `numpy==2.0`.

Only what users install is held down; the tools of the tests may be new.
"""

import re
import tomllib
from pathlib import Path


def lowest(requirements: list[str]) -> list[str]:
    """One constraint for each requirement."""
    return [re.sub(r"\[.*\]", "", requirement).replace(">=", "==") for requirement in requirements]


if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    print("\n".join(lowest(project["dependencies"])))
