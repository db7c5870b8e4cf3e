"""Latent classes of published tables: the largest log likelihood, beside StepMix's and the published one.

    python -m benchmarks.class_likelihood FOLDER

The folder holds the tables as csv files: the five of the R package poLCA, as write.csv(carcinoma, "carcinoma.csv",
row.names = FALSE) makes them, and house_votes_84, iris, diabetes and table_titanic. What is not there is left out.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import temperance as tp

STARTS = 30


class Published(NamedTuple):
    """A table, the columns that describe its rows, the number of classes, and the log likelihood that is published."""

    name: str
    file: str
    columns: Sequence[str]
    classes: int
    log_likelihood: float | None = None
    numbers: Sequence[str] = ()  # of the columns


ELECTION = [f"{trait}{who}" for who in "GB" for trait in ("MORAL", "CARES", "KNOW", "LEAD", "DISHON", "INTEL")]
BLOOD = ("bmi", "bp", "s1", "s2", "s3")
IRIS = ("sepal_length_cm", "sepal_width_cm", "petal_length_cm", "petal_width_cm")
TABLES = (
    Published("carcinoma, 118 slides", "carcinoma", list("ABCDEFG"), 3, -293.705),
    Published("conflicts of roles, 216 students", "values", list("ABCD"), 2, -504.468),
    Published("survey of 1982, 1,202 adults", "gss82", ["PURPOSE", "ACCURACY", "UNDERSTA", "COOPERAT"], 3, -2754.545),
    Published("cheating, 319 students", "cheating", ["LIEEXAM", "LIEPAPER", "FRAUD", "COPYEXAM"], 2, -440.027),
    Published("election of 2000, 1,785 voters", "election", ELECTION, 3),
    Published("House votes of 1984", "house_votes_84", (), 2),
    Published("iris", "iris", IRIS, 3, None, IRIS),
    Published("diabetes (bmi, bp, s1 to s3)", "diabetes", BLOOD, 2, None, BLOOD),
    Published("Titanic", "table_titanic", ("survived", "sex", "age", "passengerClass"), 2, None, ("age",)),
)


def frame_of(folder: Path, table: Published) -> pd.DataFrame:
    """The columns; those that hold no numbers as categories."""
    frame = pd.read_csv(folder / f"{table.file}.csv")
    frame = frame[list(table.columns or frame.columns[1:])]
    for name in frame.columns.difference(list(table.numbers)):
        frame[name] = frame[name].astype("category")
    return frame


def ours(frame: pd.DataFrame, table: Published) -> float:
    kinds = {name: "real" if name in table.numbers else "category" for name in frame.columns}
    found = tp.fit(tp.ClassMixture(table.classes, kinds=kinds), frame, tp.EM(prior=False, restarts=STARTS, tol=1e-12),
                   seed=0, progress=False)  # fmt: skip
    return float(found.details["log_likelihood"])


def theirs(frame: pd.DataFrame, table: Published) -> float:
    from stepmix.stepmix import StepMix
    from stepmix.utils import get_mixed_descriptor

    codes = frame.copy()
    words = list(frame.columns.difference(list(table.numbers)))
    for name in words:
        codes[name] = frame[name].cat.codes.replace(-1, np.nan).astype(float)
    groups: dict[str, Any] = {"categorical_nan": words} if words else {}
    groups |= {"gaussian_diag_nan": list(table.numbers)} if table.numbers else {}
    columns, descriptor = get_mixed_descriptor(codes, **groups)
    model = StepMix(table.classes, measurement=descriptor, n_init=STARTS, max_iter=20000, abs_tol=1e-12, rel_tol=0.0,
                    random_state=0, progress_bar=0, verbose=0)  # fmt: skip
    model.fit(columns)
    return float(model.score(columns) * len(columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print(f"{datetime.date.today()}, {STARTS} starts\n\n| data | columns | classes | ours | StepMix | published |")
    print("|---|---|---|---|---|---|")
    for table in TABLES:
        if not (folder / f"{table.file}.csv").exists():
            continue
        frame = frame_of(folder, table)
        published = "" if table.log_likelihood is None else f"{table.log_likelihood:.3f}"
        values = (ours(frame, table), theirs(frame, table))
        cells = [table.name, str(frame.shape[1]), str(table.classes), *(f"{value:.4f}" for value in values), published]
        print("| " + " | ".join(cells).replace("-", "−") + " |", flush=True)


if __name__ == "__main__":
    main()
