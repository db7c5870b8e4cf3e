"""Saving and loading: the same bits back, no code run, damaged files refused and left in place."""

import json
import zipfile

import numpy as np
import pytest

import temperance as tp
from temperance import storage
from temperance.errors import DamagedFile, InvalidParameter


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


def test_a_file_cannot_name_code_outside_the_package(tmp_path, monkeypatch):
    import hashlib

    for name in ("os:system", "temperance.storage:_write", "temperance.nothing:Fit", "subprocess:Popen"):
        tree = json.dumps({"class": name, "fields": {}}).encode()
        header = {
            "format": "temperance",
            "version": 1,
            "sha256": {"tree.json": hashlib.sha256(tree).hexdigest()},
        }
        path = tmp_path / "bad"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.json", json.dumps(header))
            archive.writestr("tree.json", tree)
        with pytest.raises(DamagedFile, match="not a class"):
            storage.load(path)


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
    fitted.summary()
    printed = capsys.readouterr().out
    assert "GaussianMixture fitted to 82 data by VB" in printed
    assert f"log evidence {fitted.log_evidence:.4f}" in printed
    assert "the best of 2 starts" in printed and "component" in printed
