"""Two checkouts side by side: what counts as slower, and that a checkout that waits is found out."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import before_after
from benchmarks.before_after import Row

ROOT = Path(__file__).resolve().parents[1]
EVEN = [1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06]


@pytest.mark.parametrize(
    ("after", "slower"),
    [
        (EVEN, False),
        ([1.04 * seconds for seconds in EVEN], False),  # less than 5%
        ([1.2 * seconds for seconds in EVEN], True),
        ([0.8, 0.9, 1.0, 1.2, 1.3, 1.4, 1.5], False),  # the median is 16% larger, but the quartiles overlap
        ([0.5 * seconds for seconds in EVEN], False),
    ],
)
def test_slower_is_more_than_a_twentieth_and_beyond_the_quartiles(after, slower):
    assert Row("one", EVEN, after).slower is slower


def test_what_cannot_be_compared_is_said(capsys):
    with pytest.raises(SystemExit, match="neither a folder nor a git ref"):
        before_after.folder_of("no-such-ref", ROOT)
    with pytest.raises(SystemExit):
        before_after.main([".", "--rounds", "3"])
    assert "at least 7 rounds" in capsys.readouterr().err


@pytest.mark.slow
def test_a_checkout_that_waits_is_slower(tmp_path, capsys):
    shutil.copytree(ROOT / "temperance", tmp_path / "temperance", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "temperance" / "fit.py").open("a") as module:
        module.write("\n\n_fit = fit\n\n\ndef fit(*given, **named):\n    import time\n\n    time.sleep(0.3)\n")
        module.write("    return _fit(*given, **named)\n")
    kept = tmp_path / "kept.json"
    flags = ["--case", "regression", "--json", str(kept)]
    with pytest.raises(SystemExit) as ended:
        before_after.main([str(ROOT), str(tmp_path), *flags])
    assert ended.value.code == 1 and "quartiles: regression" in capsys.readouterr().out
    row = json.loads(kept.read_text())["rows"][0]
    assert len(row["before"]) == len(row["after"]) == 7 and min(row["after"]) > 0.3
    before_after.main([str(ROOT), str(tmp_path), *flags, "--minutes", "0"])
    assert "left out for want of time: regression" in capsys.readouterr().out
