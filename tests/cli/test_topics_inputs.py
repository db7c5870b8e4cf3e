"""`temperance topics` and `predict` end to end; what holds no text is refused in one sentence, exit code 2."""

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import temperance as tp
from temperance.cli import main
from temperance.cli.app import app
from temperance.cli.topics import passage
from temperance.data.text import decode
from temperance.errors import InvalidData

CATS = ["Katze", "Maus", "Pfote", "Größe", "Fell"]
STARS = ["Stern", "Mond", "Komet", "Nähe", "Licht"]


def write_texts(path: Path, encoding: str) -> list[str]:
    """Sixty texts, every other one about stars, in a csv with an id."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(STARS if row % 2 else CATS, 12)) for row in range(60)]
    lines = ["id,text", *(f"{row},{text}" for row, text in enumerate(texts))]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return texts


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


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def test_a_table_of_numbers_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "numbers.csv"
    table.write_text("height,weight\n1,2\n3,4\n5,6\n")
    code, _, err = command(capsys, "topics", table)
    assert code == 2 and err.count("\n") == 1
    assert "numbers.csv has no column of text, only numbers (height, weight)" in err
    (tmp_path / "gaps.csv").write_text("number,text\n1,\n2,\n3,\n")
    code, _, err = command(capsys, "topics", tmp_path / "gaps.csv")
    assert code == 2 and "gaps.csv has no column of text: no cell of text is filled" in err
    code, out, _ = command(capsys, "fit", table, "--model", "topics", "-k", 2, "--method", "cvb0")
    assert code == 0 and "each of its 2 columns counts as a word" in json.loads(out)["notes"][0]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-16"])
def test_texts_to_topics_to_new_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str) -> None:
    table, out = tmp_path / "texts.csv", tmp_path / "out"
    write_texts(table, encoding)
    assert command(capsys, "topics", table, "--topics", 2, "--out", out)[0] == 0
    with (out / "topics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    leading = [{row["word"] for row in rows if row["topic"] == k and int(row["rank"]) <= 5} for k in ("1", "2")]
    assert sorted(leading, key=min) == sorted([{w.lower() for w in CATS}, {w.lower() for w in STARS}], key=min)
    with (out / "documents.csv").open(encoding="utf-8") as file:
        documents = list(csv.DictReader(file))
    assert len(documents) == 60 and len({d["main topic"] for d in documents[::2]}) == 1
    assert {d["main topic"] for d in documents} == {"1", "2"}
    new = tmp_path / "new.csv"
    new.write_text("id,text\n1,Katze Maus Pfote Fell\n2,Größe Pfote Katze und Fell\n3,nothing that is known here\n")
    code, told, err = command(capsys, "predict", out / "fit.tp", new, "--text", "text")
    shares = [[row["topic 1"], row["topic 2"]] for row in json.loads(told)]
    cats = int(documents[0]["main topic"]) - 1
    assert code == 0 and shares[0][cats] > 0.8 and shares[1][cats] > 0.8
    assert "1 of 3 documents has none of the words of the fit" in err
    fit = tp.load(out / "fit.tp")
    truth = fit.transform(["katze maus pfote fell", "größe pfote katze fell", ""])[:, fit.order]
    assert np.allclose(shares, truth, atol=1e-5)
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("height,weight\n1,2\n3,4\n")
    code, _, err = command(capsys, "predict", out / "fit.tp", numbers)
    assert code == 2 and "no column of text" in err


def test_texts_on_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines, a column of a csv, and records; typical documents are read from it too."""
    table, out = tmp_path / "texts.csv", tmp_path / "out"
    texts = write_texts(table, "utf-8")
    lines, records = "\n".join(texts), "\n".join(json.dumps({"n": {"text": text}}) for text in texts)
    for number, content in enumerate((table.read_text("utf-8"), lines, records)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        code, _, err = command(capsys, "topics", "-", "--topics", 2, *(("--out", out) if number == 0 else ()))
        assert code == 0, err
    page = (out / "report.html").read_text("utf-8")
    assert sum(f"<blockquote>{text}<br>" in page for text in set(texts)) == 6  # three typical ones of each topic
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Katze Maus Pfote Fell\n")))
    code, told, _ = command(capsys, "predict", out / "fit.tp", "-")
    assert code == 0 and len(json.loads(told)) == 1
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"height,weight\n1,2\n3,4\n")))
    code, _, err = command(capsys, "topics", "-")
    assert code == 2 and "no column of text, only numbers" in err


def test_a_passage_is_where_the_words_of_the_topic_are():
    text = " ".join(["fellow citizens of the house"] * 40 + ["Silver, gold and the banks."] + ["thank you all"] * 40)
    found = passage(text, ["silver", "gold", "banks"])
    assert found.startswith("… ") and found.endswith(" …") and "Silver, gold and the banks." in found
    assert len(found.split()) <= 47
    assert passage("Gold and silver.", ["gold"]) == "Gold and silver."
    assert passage("銀と金" * 400, ["銀"]) == ("銀と金" * 120) + " …"  # no spaces


def test_stray_characters_of_prose_are_spaces_and_those_of_numbers_damage():
    prose = "The vessels of Spain\x02 and of France. " + "They were taken by the enemy in the year before. " * 40
    assert decode(prose.encode(), "a.csv") == prose.replace("\x02", " ")
    for damaged in ("1.5,2.5\n" * 500 + "1.\x025,3\n", "words \x00 of a file " * 100, "a\x01b\x02c\x03" * 100):
        with pytest.raises(InvalidData, match="neither text nor a known kind"):
            decode(damaged.encode(), "a.csv")
