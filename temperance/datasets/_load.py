"""Load a data set by its name."""

import os
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from ._read import READERS

BUNDLED = Path(__file__).parent
VARIABLE = "TEMPERANCE_DATA"


class UnknownDataset(ValueError):
    """No data set has this name; the message lists those that exist."""


@overload
def load(name: Literal["acidity", "faithful", "galaxy", "geyser"]) -> NDArray[np.float64]: ...
@overload
def load(name: str) -> Any: ...
def load(name: str) -> Any:
    """The data set called `name`.

    Bundled, as float64 arrays with one row per observation:

    - `galaxy` (82, 1): velocities of galaxies in 1000 km/s. This is the version whose 78th value is 26.960,
      analysed by Richardson and Green (1997); the copy in the R package MASS has 26.690 there, a typo.
    - `acidity` (155, 1): log(acid-neutralising capacity + 50) of lakes.
    - `faithful` (272, 2): Old Faithful, duration of an eruption and waiting time to the next, in minutes.
    - `geyser` (299, 2): Old Faithful, waiting time before an eruption and its duration, in minutes.

    Any other name is looked up in the folder named by the environment variable TEMPERANCE_DATA, as `name`,
    `name.csv`, `corpus_name.npz`, `name.npz`, `corpus_name.txt.gz` and `name.txt.gz`:

    - csv: the numeric columns as an array (n, d), NaN where a cell is empty; columns of text are left out;
    - npz with a sparse matrix (a corpus): a SciPy CSR matrix, documents × words;
    - any other npz: a dict of arrays;
    - txt.gz: a list of lines, so that `load("ap.vocab")` gives the words of the corpus `load("ap")`.

    A bundled name always means the bundled data, so that a result never depends on the environment.
    """
    path = find(name)
    return READERS[kind(path)](path)


def names() -> list[str]:
    """Every name that `load` accepts now: the bundled data sets, then those in TEMPERANCE_DATA."""
    bundled = _names_in(BUNDLED)
    return bundled + [name for name in _names_in(_folder()) if name not in bundled]


def find(name: str) -> Path:
    """The file of a data set."""
    candidates = (
        name,
        f"{name}.csv",
        f"corpus_{name}.npz",
        f"{name}.npz",
        f"corpus_{name}.txt.gz",
        f"{name}.txt.gz",
    )
    if Path(name).name == name:  # a name, not a path
        for folder in filter(None, (BUNDLED, _folder())):
            for path in (folder / candidate for candidate in candidates):
                if kind(path) and path.is_file():
                    return path
    raise UnknownDataset(_unknown(name))


def kind(path: Path) -> str:
    """The ending that decides how a file is read, or an empty string for files that are not data."""
    return next((ending for ending in READERS if path.name.endswith(ending)), "")


def _folder() -> Path | None:
    value = os.environ.get(VARIABLE)
    return Path(value).expanduser() if value else None


def _names_in(folder: Path | None) -> list[str]:
    if folder is None or not folder.is_dir():
        return []
    return sorted({_name(path) for path in folder.iterdir() if kind(path)})


def _name(path: Path) -> str:
    name = path.name.removesuffix(kind(path))
    return name if path.suffix == ".csv" else name.removeprefix("corpus_")


def _unknown(name: str) -> str:
    bundled, folder = _names_in(BUNDLED), _folder()
    message = f"unknown data set {name!r}; bundled: {', '.join(bundled)}; "
    if folder is None:
        return message + f"for others set {VARIABLE} to a folder of csv and npz files"
    if not folder.is_dir():
        return message + f"{VARIABLE} names {str(folder)!r}, which is not a folder"
    others = [other for other in _names_in(folder) if other not in bundled]
    return message + f"in the folder of {VARIABLE}: {', '.join(others) or 'nothing'}"
