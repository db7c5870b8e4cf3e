"""`temperance reproduce`: every name draws its figure, and simulated data are called that in the figure."""

import inspect

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


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn(name, tmp_path, monkeypatch):
    monkeypatch.delenv("TEMPERANCE_DATA", raising=False)
    assert main(["reproduce", name, "--quick", "--out", str(tmp_path)]) == 0
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
