"""The meaning and the source of each data set."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ._load import BUNDLED, VARIABLE, find, kind
from ._read import read_archive, read_lines, read_table


@dataclass(frozen=True)
class Description:
    name: str
    shape: tuple[int, ...]  # empty for a dict of arrays
    columns: tuple[str, ...]  # of the array, or the keys of the dict
    about: str
    source: str

    def __str__(self) -> str:
        size = f" ({' × '.join(map(str, self.shape))})" if self.shape else ""
        columns = f": {', '.join(self.columns)}" if self.columns else ""
        return f"{self.name}{size}{columns}\n{self.about}\nSource: {self.source}"


BUNDLED_TEXT = {
    "acidity": (
        "Acidity index of 155 lakes in north-central Wisconsin: log(acid-neutralising capacity + 50), "
        "the capacity in micro-equivalents per litre.",
        "Crawford et al. (1992); Richardson and Green (1997); values as in the R package mixAK 5.8",
    ),
    "faithful": (
        "Old Faithful geyser, in time order: eruption duration and waiting time to the next, in minutes.",
        "Härdle (1991); values as in R 4.2.2, datasets::faithful",
    ),
    "galaxy": (
        "Velocities of 82 galaxies in the Corona Borealis region in 1000 km/s, in increasing order. "
        "The 78th value is 26.960; the copy in the R package MASS has the typo 26.690.",
        "Postman, Huchra and Geller (1986); Roeder (1990); values as in the R package mixAK 5.8",
    ),
    "geyser": (
        "Old Faithful geyser, 1 to 15 August 1985, in time order: waiting time before an eruption and the "
        "duration of that eruption, in minutes. Durations noted at night only as short, medium or long are "
        "coded 2, 3, 4.",
        "Azzalini and Bowman (1990); values as in the R package MASS 7.3-58.2",
    ),
}


def describe(name: str) -> Description:
    """Size, columns, meaning and source of the data set of this `name`; print it, or use its fields."""
    path = find(name)
    shape, columns, about = _DESCRIBERS[kind(path)](path)
    source = f"{path.name} in the folder of {VARIABLE}"
    if path.parent == BUNDLED:
        about, source = BUNDLED_TEXT[path.stem]
    return Description(name, shape, columns, about, source)


_Content = tuple[tuple[int, ...], tuple[str, ...], str]


def _table(path: Path) -> _Content:
    table = read_table(path)
    left_out = f", without the text in {', '.join(table.text_columns)}" if table.text_columns else ""
    return table.values.shape, table.columns, f"A table of numbers{left_out}."


def _archive(path: Path) -> _Content:
    content = read_archive(path)
    if not isinstance(content, dict):
        return content.shape, (), f"A sparse matrix, for a corpus documents × words, {content.nnz} nonzero."
    sizes = ", ".join(f"{key} {array.shape}" for key, array in content.items())
    return (), tuple(content), f"Arrays: {sizes}."


def _lines(path: Path) -> _Content:
    return (len(read_lines(path)),), (), "Lines of text."


_DESCRIBERS: dict[str, Callable[[Path], _Content]] = {".csv": _table, ".npz": _archive, ".txt.gz": _lines}
