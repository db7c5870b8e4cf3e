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


# Every figure of the papers that shows a result; 1.1, 2.3, 2.4 and 3.1 of the thesis are schematic.
THESIS = (
    "2.1 2.2 2.5 2.6 2.7 2.8 2.9 3.2 3.3 3.4 3.5 3.6 3.7 3.8 3.9 3.10 3.11 3.12 3.13 3.14 4.1 4.2 4.3 4.4 5.1 5.2 5.3"
)


def test_every_figure_has_a_command_a_claim_and_a_verdict(capsys):
    claims = [claim for drawn in gallery.claims().values() for claim in drawn]
    assert all(gallery.claims().values())  # every script draws a figure of a paper
    assert sorted(claim.figure for claim in claims if "thesis" in claim.paper) == sorted(THESIS.split())
    tempering = {claim.figure.split(",")[0] for claim in claims if claim.paper == "variational tempering"}
    assert tempering == {"1", "2", "3", "4"}
    assert {"1a", "1b", "1c and 1d"} <= {claim.figure for claim in claims if "tutorial" in claim.paper}
    for claim in claims:
        assert re.match(r"(reproduced|differs|cannot)\b", claim.verdict), claim
    page = (Path(__file__).parents[2] / "docs" / "gallery.md").read_text("utf-8")
    for name, paper, figure, claim, verdict in claims:
        assert f"| {paper}, {figure} | `{name}` | {claim} | {verdict} |" in page
    assert main(["reproduce", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "latent-variable thesis: 2.5; 2.6" in listed and "tutorial on variational inference: 1a; 1b" in listed


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
