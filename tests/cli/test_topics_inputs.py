"""Texts that cannot be modelled: one sentence, exit code 2."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from temperance.cli.app import app


@pytest.mark.parametrize(
    "content, sentence",
    [
        (bytes(range(1, 32)) * 20, "neither text nor a known kind of file"),
        (b"word\n", "topics need at least two different words"),
        (b"the and of\nand the of\n", "stop words"),
    ],
    ids=["binary", "one word", "stop words"],
)
def test_nothing_that_is_not_text_is_modelled(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    found = CliRunner().invoke(app, ["topics", str(path), "--topics", "2"])
    assert found.exit_code != 0 and sentence in str(found.exception or found.output)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["topics", str(tmp_path)])
    assert found.exit_code != 0 and "has no .txt files" in str(found.exception or found.output)
