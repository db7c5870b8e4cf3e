"""Run benchmarks by name, or all but those that take arguments: `python -m benchmarks [name …]`."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

BY_ITSELF = ("evidence", "before_after", "galaxies")  # these take arguments


def main(names: list[str]) -> None:
    known = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_")]
    if names and names[0] in BY_ITSELF:
        importlib.import_module(f"benchmarks.{names[0]}").main(names[1:])
        return
    for name in names or [name for name in known if name not in BY_ITSELF]:
        if name not in known:
            raise SystemExit(f"there is no benchmark {name!r}; there are: {', '.join(known)}")
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
