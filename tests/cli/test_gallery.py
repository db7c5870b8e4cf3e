"""`temperance reproduce`: every name draws its figure, and simulated data are called that in the figure."""

import importlib
import inspect
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from temperance.cli import gallery, main

NAMES = list(gallery.figures())


@pytest.mark.parametrize("name", NAMES)
def test_every_script_imports_and_takes_its_quick_settings(name):
    script = gallery.load_script(name)
    signature = inspect.signature(script.main)
    assert next(iter(signature.parameters)) == "folder"
    signature.bind("out", **script.QUICK)


def test_settings_of_ockham_hills_are_those_of_its_command_line():
    script = gallery.load_script("ockham-hills")
    assert set(script.QUICK) <= set(vars(script.arguments().parse_args([])))


@pytest.mark.docs
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn(name, tmp_path, monkeypatch):
    monkeypatch.delenv("TEMPERANCE_DATA", raising=False)
    assert main(["reproduce", name, "--quick", "--out", str(tmp_path)]) == 0
    assert not plt.get_fignums()
    assert list(tmp_path.glob("*.png"))


def test_data_that_are_absent_are_simulated_and_called_that(monkeypatch, capsys):
    monkeypatch.delenv("TEMPERANCE_DATA", raising=False)
    script = gallery.load_script("ockham-hills")
    enzyme, name = script.load("enzyme")
    assert enzyme.shape == (245, 1) and "simulated" in script.title(name)
    assert "TEMPERANCE_DATA" in capsys.readouterr().out
    assert script.title(script.load("galaxy")[1]) == "Galaxies"
    small, new, said = gallery.load_script("tempering-faces").faces(20)
    assert small.shape == (20, 16, 16) and new.shape == (500, 16, 16) and "simulated" in said
    assert "TEMPERANCE_DATA" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_simulated_data_are_called_that_in_the_figure(name):
    """A script that simulates its data, or takes those of another, writes so into a title or a label."""
    text = gallery.figures()[name].read_text("utf-8")
    drawn = [line for line in text.splitlines() if "title" in line or "label=" in line]
    if re.search(r"(?m)^def simulate\(|^from .* import .*\bsimulate\b", text):
        assert any("simulated" in line for line in drawn)


@pytest.mark.slow
def test_the_stories_of_the_home_page_hold(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    stories = importlib.import_module("stories")
    found = stories.critical(str(tmp_path))
    assert found["critical"] == pytest.approx(found["variance"], rel=1e-3)  # two Gaussians of known variance 1
    brackets = stories.bracket(str(tmp_path), draws=(300, 3000))
    assert all(low < brackets["exact"] < high for low, high in (brackets[300], brackets[3000]))


def test_every_figure_has_a_claim_and_a_verdict(capsys):
    claims = gallery.claims()
    assert set(claims) == set(NAMES)
    for claim in claims.values():
        assert claim.verdict.split()[0].rstrip(":,;") in {"reproduced", "differs", "galaxies", "cannot"}
    page = (Path(__file__).parents[2] / "docs" / "gallery.md").read_text("utf-8")
    assert all(
        f"| `{name}` | {claim.figures} | {claim.claim} | {claim.verdict} |" in page for name, claim in claims.items()
    )
    assert main(["reproduce", "--list"]) == 0
    listed = capsys.readouterr().out
    for figures in (
        "2.1",
        "2.5 and 2.6",
        "3.3, 3.4",
        "3.10 to 3.13",
        "4.1 to 4.4",
        "5.1",
        "5.2",
        "figure 1",
        "1a to 1d",
    ):
        assert figures in listed


def test_all_goes_on_where_it_stopped(tmp_path, monkeypatch):
    drawn = []

    def draw(name, folder, quick=False):
        drawn.append(name)
        print(f"result of {name}")
        (folder / f"{name}.png").write_bytes(b"")

    monkeypatch.setattr(gallery, "make_figure", draw)
    page = gallery.make_all(tmp_path, quick=True).read_text("utf-8")
    assert drawn == NAMES and "differs" in page and "result of two-modes" in page and "(two-modes.png)" in page
    gallery.make_all(tmp_path, quick=True)
    assert drawn == NAMES  # nothing is drawn twice
    gallery.make_all(tmp_path)
    assert len(drawn) == 2 * len(NAMES)  # the quick figures are not the result
