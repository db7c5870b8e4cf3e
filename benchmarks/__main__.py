"""Run one benchmark by name, or list them: `python -m benchmarks [name …]`."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main(names: list[str]) -> None:
    known = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_")]
    for name in names or known:
        if name not in known:
            raise SystemExit(f"there is no benchmark {name!r}; there are: {', '.join(known)}")
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
