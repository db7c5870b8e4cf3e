"""What the figures of the gallery share: colours that everyone can tell apart, and no clutter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import temperance as tp

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#999999"


def canvas(columns: int, width: float = 10.0, height: float = 3.4) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, columns, figsize=(width, height), layout="constrained", squeeze=False)
    for each in axes[0]:
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes[0]


def bundled_or_simulated(name: str, get: str, simulate: Callable[[], Any]) -> tuple[Any, str]:
    """The data set, and " (simulated)" for the figure's titles if it is not at hand and a stand-in is used."""
    if name in tp.datasets.names():
        return tp.datasets.load(name), ""
    print(f"{name} is not bundled, so simulated data stand in: {get}, and name its folder in TEMPERANCE_DATA")
    return simulate(), " (simulated)"


def keep(figure: Any, name: str, folder: str | None = None) -> Path:
    path = Path(folder or "out") / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    print(f"the figure is in {path}")
    return path
