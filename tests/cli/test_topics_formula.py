"""`temperance topics --seeds FILE --formula "~ …"`: effects and seeded topics end to end, mistakes in one sentence."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from temperance.cli.app import app

GROUPS = (
    ["river", "boat", "water", "sail", "anchor", "deck", "harbour", "fish", "wave", "coast", "oar", "net"],
    ["engine", "wheel", "road", "brake", "fuel", "gear", "tyre", "lane", "bridge", "signal", "clutch", "truck"],
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Ninety texts; those of sailors are mostly about boats."""
    rng = np.random.default_rng(0)
    path = tmp_path / "texts.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["who", "text"])
        for row in range(90):
            who = row % 2
            words = [str(rng.choice(GROUPS[int(rng.random() < (0.8 if who else 0.2))])) for _ in range(8)]
            writer.writerow([("sailor", "driver")[who], " ".join(words)])
    (tmp_path / "seeds.txt").write_text("engine, road\nboat\n")
    return path


@pytest.mark.slow
def test_effects_are_written(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = ["--topics", "2", "--seeds", str(tmp_path / "seeds.txt"), "--formula", "~ who", "--out", str(out)]
    found = CliRunner().invoke(app, ["topics", str(table), "--text", "text", *given, "--format", "json"])
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    top = {row["topic"]: row for row in record["effects"] if row["coefficient"] == "who[sailor]"}
    # The first topic is that of engines: sailors have less of it, and more of the second.
    assert top[1]["estimate"] < 0 < top[2]["estimate"]
    assert set(top[1]["words"].split()) <= set(GROUPS[1])
    with (out / "effects.csv").open() as file:
        assert [row["coefficient"] for row in csv.DictReader(file)] == ["intercept", "who[sailor]"] * 2
    assert (out / "fit.tp").exists() and "who" in (out / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--formula", "who"], 'must begin with "~"'),
        (["--formula", "~ year"], "the columns are who"),
        (["--seeds", "nowhere.txt"], "there is no file"),
    ],
)
def test_mistakes_are_one_sentence(table: Path, given: list[str], sentence: str) -> None:
    found = CliRunner().invoke(app, ["topics", str(table), "--text", "text", "--topics", "2", *given])
    assert sentence in str(found.exception)
