"""The packages that users install, as a lock and as a bill of materials (CycloneDX), from what is installed here.

    python tests/lock.py > requirements.lock      # versions with which the tests pass
    python tests/lock.py --sbom > sbom.json       # the same, with licences and with who needs whom

The second reads the lock and fails where another version is installed, so that both tell of one set of packages.
"""

from __future__ import annotations

import json
import sys
import tomllib
import uuid
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
EXTRAS = ("parquet", "excel", "texts", "dask")  # what users can ask for; tools of the tests are not in it


def project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"])


def required() -> list[Requirement]:
    """What pyproject.toml asks for, with the extras that users can choose."""
    about = project()
    extras = [line for name in EXTRAS for line in about["optional-dependencies"][name]]
    return [Requirement(line) for line in (*about["dependencies"], *extras)]


def needs(found: Distribution, extras: set[str]) -> list[Requirement]:
    """What an installed package asks for on this machine."""
    asked = [Requirement(line) for line in found.requires or ()]
    chosen = [{"extra": extra} for extra in (*extras, "")]
    return [each for each in asked if each.marker is None or any(each.marker.evaluate(extra) for extra in chosen)]


def closure() -> dict[str, tuple[Distribution, list[str]]]:
    """Every package that is needed, by its name, with the names of those that it needs itself."""
    found: dict[str, tuple[Distribution, list[str]]] = {}
    waiting, seen = required(), set()
    while waiting:
        each = waiting.pop()
        name = canonicalize_name(each.name)
        if (name, frozenset(each.extras)) in seen:
            continue
        seen.add((name, frozenset(each.extras)))
        installed = distribution(name)
        inner = needs(installed, each.extras)
        before = found[name][1] if name in found else []
        found[name] = installed, sorted({*before, *(canonicalize_name(one.name) for one in inner)})
        waiting += inner
    return dict(sorted(found.items()))


def lock() -> str:
    head = "# Versions with which the tests pass: pip install --constraint requirements.lock temperance\n"
    return head + "".join(f"{name}=={found.version}\n" for name, (found, _) in closure().items())


def locked() -> dict[str, str]:
    lines = [line for line in LOCK.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def licence(found: Distribution) -> str:
    """What a package says of its licence: an expression, a classifier, or the first line of a text."""
    about = found.metadata
    classified = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if "License ::" in line]
    said = about.get("License-Expression") or ", ".join(classified) or about.get("License") or "unknown"
    return str(said).strip().splitlines()[0][:80]


def sbom() -> dict[str, Any]:
    """A bill of materials, CycloneDX 1.5; the same lock gives the same bytes."""
    about, versions, packages = project(), locked(), closure()
    if odd := sorted(name for name, (found, _) in packages.items() if versions.get(name) != found.version):
        raise SystemExit(f"installed and locked versions differ: {', '.join(odd)}")
    refs = {name: f"pkg:pypi/{name}@{version}" for name, version in versions.items()}
    root = f"pkg:pypi/{about['name']}@{about['version']}"
    direct = sorted({refs[canonicalize_name(each.name)] for each in required()})
    inner = [{"ref": refs[name], "dependsOn": [refs[one] for one in below]} for name, (_, below) in packages.items()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, root + LOCK.read_text('utf-8'))}",
        "version": 1,
        "metadata": {
            "component": {"type": "library", "bom-ref": root, "purl": root, "name": about["name"],
                          "version": about["version"], "licenses": [{"license": {"id": about["license"]}}]},
        },
        "components": [
            {"type": "library", "bom-ref": refs[name], "purl": refs[name], "name": name, "version": versions[name],
             "licenses": [{"license": {"name": licence(found)}}]}
            for name, (found, _) in packages.items()
        ],
        "dependencies": [{"ref": root, "dependsOn": direct}, *inner],
    }  # fmt: skip


if __name__ == "__main__":
    try:
        print(json.dumps(sbom(), indent=1) if "--sbom" in sys.argv else lock().rstrip("\n"))
    except PackageNotFoundError as error:
        sys.exit(f"{error} is not installed: pip install '.[{','.join(EXTRAS)}]'")
