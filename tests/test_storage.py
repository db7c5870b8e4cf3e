"""Saving and loading: the same bits back, no code run, damaged files refused and left in place."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import temperance as tp
from temperance import storage
from temperance._saved import class_named, name_of
from temperance.errors import DamagedFile, InvalidParameter
from tests.files.write import ANSWERS


@pytest.fixture(scope="module")
def fitted():
    x = tp.datasets.load("galaxy")
    return tp.fit(tp.GaussianMixture(2), x, tp.VB(restarts=2), seed=3)


def test_everything_comes_back_bit_for_bit(fitted, tmp_path):
    path = tmp_path / "fit.tp"
    fitted.save(path)
    again = tp.load(path)
    x = tp.datasets.load("galaxy")
    assert again.log_evidence == fitted.log_evidence
    assert again.method == fitted.method and again.converged == fitted.converged
    np.testing.assert_array_equal(again.log_predictive(x), fitted.log_predictive(x))
    np.testing.assert_array_equal(again.history["elbo"], fitted.history["elbo"])


def test_the_same_fit_gives_the_same_bytes(fitted, tmp_path):
    fitted.save(tmp_path / "one.tp")
    fitted.save(tmp_path / "two.tp")
    assert (tmp_path / "one.tp").read_bytes() == (tmp_path / "two.tp").read_bytes()


@pytest.mark.parametrize(
    "value", [float("inf"), -0.0, 1e-320, 10**30, "ünïcode", (), [1, (2.5, None)], {"a": {3: True}}]
)
def test_plain_values(value, tmp_path):
    storage.save(value, tmp_path / "v")
    again = storage.load(tmp_path / "v")
    assert again == value and type(again) is type(value)


def test_every_flipped_byte_is_noticed(fitted, tmp_path):
    path = tmp_path / "fit.tp"
    fitted.save(path)
    intact = path.read_bytes()
    rng = np.random.default_rng(0)
    noticed = 0
    for place in rng.choice(len(intact), 60, replace=False):
        damaged = bytearray(intact)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            value = tp.load(path)
        except DamagedFile:
            noticed += 1
            assert path.read_bytes() == bytes(damaged)
        else:
            # A flip in the archive's dates and padding changes nothing that is read.
            assert value.log_evidence == fitted.log_evidence
    assert noticed > 40


def test_truncated_and_foreign_files(fitted, tmp_path):
    path = tmp_path / "fit.tp"
    fitted.save(path)
    content = path.read_bytes()
    for size in (0, 10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(DamagedFile):
            tp.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps({"format": "other"}))
    with pytest.raises(DamagedFile, match="not written by Temperance"):
        tp.load(path)


def write(path, tree, arrays=None, compression=zipfile.ZIP_STORED, **header):
    """A file whose checksums are right, whatever it holds."""
    entries = {"tree.json": json.dumps(tree).encode(), **(arrays or {})}
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in entries.items()}
    about = {"format": "temperance", "version": 1, "sha256": checksums, **header}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in {"header.json": json.dumps(about).encode(), **entries}.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "name",
    ["os:system", "temperance.storage:_write", "subprocess:Popen", "temperance.cli.__main__:Fault",
     "temperance.cli.settings:Settings", "cluster.Session", "temperance.fit:fit", "Fit.save", "", ".", ":"],
)  # fmt: skip
def test_a_file_cannot_name_code_outside_the_list(name, tmp_path):
    for tree in ({"class": name, "fields": {}}, {"class": name, "items": []}, {"type": name}):
        write(tmp_path / "bad", tree)
        with pytest.raises(DamagedFile, match="not a class"):
            tp.load(tmp_path / "bad")


def test_a_file_that_names_the_command_line_does_not_run_it(tmp_path):
    write(tmp_path / "bad", {"class": "temperance.cli.__main__:Group", "fields": {}})
    code = (
        "import sys, temperance as tp\n"
        "try: tp.load(sys.argv[1])\n"
        "except tp.errors.DamagedFile: print('refused', 'temperance.cli.__main__' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "bad")], capture_output=True, text=True)
    assert done.stdout == "refused False\n" and done.returncode == 0, done.stderr


def nodes(tree, path=()):
    """The places in a tree where one value stands, but for names and tags."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in children:
        if key in ("class", "on", "array", "fields", "items", "dict", "tuple", "list"):
            yield from (place for place in nodes(value, (*path, key)))
        else:
            yield (*path, key)
            yield from nodes(value, (*path, key))


def changed(tree, path, value):
    tree = json.loads(json.dumps(tree))
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return tree


def test_values_of_the_wrong_type_or_shape_are_refused_when_they_are_read(fitted, tmp_path):
    """Whatever `load` accepts, with right checksums, answers or refuses in words."""
    path = tmp_path / "fit.tp"
    fitted.save(path)
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("tree.json"))
        arrays = {name: archive.read(name) for name in archive.namelist() if name.startswith("arrays")}
    count = len(arrays)
    for number, array in enumerate((np.zeros(()), np.zeros((3, 7, 2)), np.array(["text"]))):
        np.save(tmp_path / "array.npy", array)
        arrays[f"arrays/{count + number}.npy"] = (tmp_path / "array.npy").read_bytes()
    wrong = [None, 7, "text", {"list": []}, {"dict": []}]
    wrong += [{"array": count + number, "on": "device" if number < 2 else "host"} for number in range(3)]
    refused, places = 0, list(nodes(tree))
    assert len(places) > 50
    for number, place in enumerate(places):
        write(path, changed(tree, place, wrong[number % len(wrong)]), arrays)
        try:
            found = tp.load(path)
        except DamagedFile as error:
            refused += 1
            assert "\n" not in str(error)
            continue
        assert np.isfinite(found.log_predictive(tp.datasets.load("galaxy"))).all(), place
        found.table()
    assert refused > 0.8 * len(places)


def test_shapes_within_a_class_must_agree(tmp_path):
    family = tp.NormalWishart(np.zeros(2), 1.0, 4.0, np.eye(2))
    storage.save(family, tmp_path / "family")
    with zipfile.ZipFile(tmp_path / "family") as archive:
        tree, names = json.loads(archive.read("tree.json")), archive.namelist()
        arrays = {name: archive.read(name) for name in names if name.startswith("arrays")}
    np.save(tmp_path / "array.npy", np.zeros(3))
    number = tree["fields"]["natural"]["fields"]["first"]["array"]
    arrays[f"arrays/{number}.npy"] = (tmp_path / "array.npy").read_bytes()
    write(tmp_path / "family", tree, arrays)
    with pytest.raises(DamagedFile, match=r"NormalWishartVector has an array of float64 of shape"):
        storage.load(tmp_path / "family")


def test_files_that_would_grow_are_refused_before_they_do(tmp_path):
    path = tmp_path / "bomb"
    zeros = bytes(50_000_000)
    write(path, None, {"arrays/0.npy": zeros}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000
    with pytest.raises(DamagedFile, match="is compressed"):
        storage.load(path)
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999,), }".ljust(117) + "\n"
    write(path, None, {"arrays/0.npy": b"\x93NUMPY\x01\x00\x76\x00" + header.encode()})
    with pytest.raises(DamagedFile, match=r"announces an array of shape \(999999999999,\)"):
        storage.load(path)


@pytest.mark.parametrize("node", [{"array": 0, "on": "device"}, {"key": "threefry2x32", "value": {"array": 0}}])
def test_a_file_that_names_an_array_often_holds_it_once(node, tmp_path):
    """Otherwise a megabyte takes ten gigabytes."""
    np.save(tmp_path / "array.npy", np.zeros((50, 2), np.uint32))
    write(tmp_path / "file", {"list": [node] * 100}, {"arrays/0.npy": (tmp_path / "array.npy").read_bytes()})
    found = storage.load(tmp_path / "file")
    assert len(found) == 100 and all(array is found[0] for array in found)


SAVED = Path(__file__).parent / "files"  # saved-0.1: format 1; saved-0.1-format-2: before the release of 0.1
FILES = sorted(path.relative_to(SAVED) for path in SAVED.glob("saved-*/*.tp"))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_files_of_earlier_versions_load_and_predict_as_then(path, tmp_path):
    """Modules and classes have moved since; the answers of the time were stored beside the files."""
    expected = json.loads((SAVED / path.parent / "expected.json").read_text())[path.stem]
    fit = tp.load(SAVED / path)
    assert fit.log_evidence == expected["log_evidence"]
    answer = ANSWERS[path.stem](fit, np.array(expected["data"]))
    np.testing.assert_allclose(answer, expected["answer"], rtol=1e-9, atol=1e-9)
    fit.save(tmp_path / "again.tp")
    again = tp.load(tmp_path / "again.tp")
    assert type(again.data.values) is type(fit.data.values) and again.log_evidence == fit.log_evidence


def test_there_is_a_file_of_every_format():
    formats = set()
    for path in FILES:
        with zipfile.ZipFile(SAVED / path) as archive:
            formats.add(json.loads(archive.read("header.json"))["version"])
    assert formats == set(storage.READS)


@pytest.mark.parametrize("module", ["", "mixture.", "elsewhere.gaussian.", "models.mixture.gaussian."])
def test_a_class_is_found_wherever_its_module_has_moved(module, fitted, tmp_path):
    fitted.save(tmp_path / "fit.tp")
    with zipfile.ZipFile(tmp_path / "fit.tp") as archive:
        text = archive.read("tree.json").decode()
        arrays = {name: archive.read(name) for name in archive.namelist() if name.startswith("arrays")}
    name = json.loads(text)["fields"]["model"]["class"]
    write(tmp_path / "moved.tp", json.loads(text.replace(name, f"{module}GaussianMixture")), arrays, version=2)
    assert isinstance(tp.load(tmp_path / "moved.tp").model, tp.GaussianMixture)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("models.mixture.dirichlet_process.Sticks", "models.mixture.variants.Sticks"),
        ("models.topics.sticks.Sticks", "families.sticks.Sticks"),
        ("models.mixture.factors.Factor", "models._factors.Factor"),
        ("models.topics.effects.Effects", "inference.monte_carlo.effects.Effects"),
    ],
)
def test_of_classes_of_one_name_the_file_or_the_closest_folder_decides(before, now):
    assert name_of(class_named(before)) == now


def test_who_may_read_a_file_is_as_for_any_other(fitted, tmp_path):
    (tmp_path / "plain").touch()
    fitted.save(tmp_path / "fit.tp")
    assert (tmp_path / "fit.tp").stat().st_mode == (tmp_path / "plain").stat().st_mode
    os.chmod(tmp_path / "fit.tp", 0o640)
    fitted.save(tmp_path / "fit.tp")
    assert (tmp_path / "fit.tp").stat().st_mode & 0o777 == 0o640


def test_a_failed_save_leaves_the_old_file(fitted, tmp_path):
    path = tmp_path / "fit.tp"
    fitted.save(path)
    before = path.read_bytes()
    with pytest.raises(InvalidParameter, match="cannot be saved"):
        storage.save({"function": print}, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["fit.tp"]


def test_a_missing_file_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        tp.load(tmp_path / "none.tp")


def test_the_summary_names_what_matters(fitted, capsys):
    print(fitted.summary())
    printed = capsys.readouterr().out
    assert "GaussianMixture fitted to 82 data by VB" in printed
    assert f"log evidence {fitted.log_evidence:.4f}" in printed
    assert "the best of 2 starts" in printed and "component" in printed
