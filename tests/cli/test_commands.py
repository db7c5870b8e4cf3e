"""The command line: what it prints, what it returns, and how it refuses."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import temperance as tp
from temperance import registry
from temperance.cli import gallery, main
from temperance.comparison import tasks

TINY = "x\n-2.1\n-1.7\n-1.9\n0.9\n1.4\n1.2\n1.1\n"
PRIOR = ["--mean", "0", "--pseudo-count", "0.01", "--dof", "2", "--scatter", "0.22"]


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.csv").write_text(TINY)
    return tmp_path


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *arguments):
    """The one sentence of a command that exits with 2."""
    code, out, err = run(capsys, *arguments)
    assert code == 2 and out == ""
    assert err.startswith("temperance: ") and err.count("\n") == 1, err
    return err


def test_compare_prints_json_in_a_pipe(tiny, capsys):
    options = [*PRIOR, "--components", "1:3", "--restarts", "10", "--out", "hill.tp", "--report", "hill.html"]
    code, out, _ = run(capsys, "compare", "tiny.csv", *options)
    assert code == 0
    found = json.loads(out)
    assert found["best"] == 2
    assert [(row["components"], row["method"]) for row in found["models"]] == [(1, "vb"), (2, "vb"), (3, "vb")]
    assert {"log_evidence", "low", "high", "converged"} <= set(found["models"][0])
    np.testing.assert_allclose(
        [row["log_evidence"] for row in found["models"]], [-18.924757, -11.777076, -13.281153], atol=1e-4
    )
    assert found["models"][0]["high"] is None and found["models"][0]["converged"] is True
    assert tp.load("hill.tp").best == 2
    assert "2 components" in (tiny / "hill.html").read_text("utf-8")


def test_fit_predict_and_report(tiny, capsys):
    code, out, _ = run(capsys, "fit", "tiny.csv", *PRIOR, "-k", 2, "--restarts", 10, "--out", "fit.tp")
    found = json.loads(out)
    assert code == 0 and found["log_evidence"] == pytest.approx(-11.777076, abs=1e-4)
    assert sorted(found["table"]["data"]) == pytest.approx([3, 4], abs=0.2)

    fit = tp.load("fit.tp")
    x = np.loadtxt("tiny.csv", skiprows=1)[:, None]
    code, out, _ = run(capsys, "predict", "fit.tp", "tiny.csv")
    rows = json.loads(out)
    np.testing.assert_allclose([row["log_density"] for row in rows], fit.log_predictive(x), rtol=1e-12)
    assert [fit.order[row["component"] - 1] for row in rows] == np.argmax(fit.responsibilities(x), axis=1).tolist()
    assert [row["row"] for row in rows] == list(range(1, 8))
    by_component = [sum(row[f"probability of {k}"] for row in rows) for k in fit.table()["component"]]
    np.testing.assert_allclose(by_component, fit.table()["data"], atol=0.1)  # component 1 is the same in both

    code, out, _ = run(capsys, "predict", "fit.tp", "tiny.csv", "--out", "rows.csv", "--format", "text")
    assert code == 0 and "7 rows in rows.csv" in out
    np.testing.assert_allclose(np.loadtxt("rows.csv", delimiter=",", skiprows=1)[:, -1], fit.log_predictive(x))

    code, out, _ = run(capsys, "report", "fit.tp", "page.html", "--title", "Seven numbers")
    assert code == 0 and "Seven numbers" in (tiny / "page.html").read_text("utf-8")


def test_text_for_people(tiny, capsys):
    code, out, _ = run(capsys, "fit", "tiny.csv", *PRIOR, "-k", 2, "--restarts", 10, "--format", "text")
    assert code == 0 and "The run converged." in out and "log evidence is -11.78" in out and "component" in out


def test_the_prior_from_a_file_is_the_prior_from_flags(tiny, capsys):
    (tiny / "prior.toml").write_text("mean = 0\npseudo_count = 0.01\ndof = 2\nscatter = 5.0\n")
    options = ["--prior", "prior.toml", "--scatter", "0.22", "-k", 2, "--restarts", 10]
    _, out, _ = run(capsys, "fit", "tiny.csv", *options)
    assert json.loads(out)["log_evidence"] == pytest.approx(-11.777076, abs=1e-4)  # flags win over the file


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_flags_of_one_column_are_the_same_prior_in_every_form(tiny, capsys, covariance):
    options = ["--mean", "0", "--pseudo-count", "0.01", "--dof", "2", "--scatter", "0.22", "-k", 2, "--restarts", 10]
    _, out, _ = run(capsys, "fit", "tiny.csv", "--covariance", covariance, *options)
    assert json.loads(out)["log_evidence"] == pytest.approx(-11.777076, abs=1e-4)


def test_scatter_has_the_form_of_the_covariance(tiny, capsys):
    (tiny / "two.csv").write_text("a,b\n1,2\n3,4\n5,6\n")
    said = refused(capsys, "fit", "two.csv", "--covariance", "spherical", "--scatter", "1,2")
    assert "--scatter must be one number for --covariance spherical" in said


def test_bad_input_is_one_sentence_and_exit_code_2(tiny, capsys):
    (tiny / "holes.csv").write_text("a,b\n1,2\n,4\n5,6\n")
    (tiny / "head.csv").write_text("a,b\n")
    (tiny / "bad.toml").write_text("mean = = 3")
    (tiny / "foreign.tp").write_text("not a result")
    assert "there is no file 'none.csv'" in refused(capsys, "fit", "none.csv")
    assert "1 empty cells, the first in row 2 of column 'a'" in refused(capsys, "fit", "holes.csv")
    assert "header and no rows" in refused(capsys, "compare", "head.csv")
    assert "--components must be like" in refused(capsys, "compare", "tiny.csv", "--components", "1-6")
    assert "--components must go up" in refused(capsys, "compare", "tiny.csv", "--components", "3:1")
    assert "--method must be among" in refused(capsys, "compare", "tiny.csv", "--method", "mcmc")
    assert "does not work for --model topics; vb" in refused(
        capsys, "fit", "tiny.csv", "--model", "topics", "--method", "ep"
    )
    assert "--model must be one of" in refused(capsys, "fit", "tiny.csv", "--model", "hmmm")
    assert "--method em has no evidence" in refused(capsys, "compare", "tiny.csv", "--method", "em")
    assert "use temperance compare" in refused(capsys, "fit", "tiny.csv", "-k", "1:3")
    assert "--format must be" in refused(capsys, "fit", "tiny.csv", "--format", "xml")
    assert "bad.toml is not TOML" in refused(capsys, "fit", "tiny.csv", "--prior", "bad.toml")
    assert "--mean must be a number" in refused(capsys, "fit", "tiny.csv", "--mean", "zero")
    assert "takes no --dof" in refused(capsys, "fit", "tiny.csv", "--model", "poisson-mixture", "--dof", "2")
    assert "column 'y' of tiny.csv is not there" in refused(capsys, "fit", "tiny.csv", "--columns", "y")
    assert "foreign.tp is not a file of Temperance" in refused(capsys, "predict", "foreign.tp", "tiny.csv")
    assert "No such option" in refused(capsys, "fit", "tiny.csv", "--colour")
    assert "NAME must be one of" in refused(capsys, "reproduce", "mona-lisa")
    assert "dof" in refused(capsys, "fit", "tiny.csv", *PRIOR, "--dof", "-1")


def test_what_cannot_be_tempered_is_one_sentence(tiny, capsys):
    for command in ("fit", "compare"):
        assert "tp.Annealed" in refused(capsys, command, "tiny.csv", "-k", "2", "--method", "vt")  # variances learned
    process = ["fit", "tiny.csv", "-k", "2", "--model", "dirichlet-process", "--method", "vt"]
    assert "tp.VT needs known covariances" in refused(capsys, *process)
    holes = ["--missing", "marginalise"]
    assert "with missing values" in refused(capsys, "fit", "tiny.csv", "-k", "2", "--method", "lvt", *holes)
    assert "--length is for --method annealed, vt, lvt" in refused(capsys, "fit", "tiny.csv", "--length", "3")
    lvt = ["fit", "tiny.csv", "--method", "lvt"]
    assert "temperatures must increase from 1" in refused(capsys, *lvt, "--temperatures", "2,3")
    assert "--temperatures must be numbers" in refused(capsys, *lvt, "--temperatures", "1-3")
    assert "length must be a whole number" in refused(capsys, *lvt, "--length", "0.5")


def test_tempered_methods_run(tiny, capsys):
    options = [*PRIOR, "-k", 2, "--restarts", 3, "--method", "lvt", "--temperatures", "1,2", "--length", 4]
    code, out, _ = run(capsys, "fit", "tiny.csv", *options, "--out", "fit.tp")
    found = json.loads(out)
    assert code == 0 and found["method"] == "lvt" and found["low"] == found["log_evidence"]
    assert found["log_evidence"] == pytest.approx(-11.777076, abs=1e-4)  # at T = 1 the bound is that of VB
    assert tp.load("fit.tp").method == tp.LVT((1.0, 2.0), tp.VB(restarts=3), 4)


def test_a_failure_is_exit_code_1(tiny, capsys, monkeypatch):
    def fails(*arguments, **options):
        raise tp.errors.NumericalFailure("VB met an impossible state")

    monkeypatch.setattr(tasks, "fit", fails)
    code, out, err = run(capsys, "compare", "tiny.csv", "--components", "1:2")
    assert code == 1 and out == "" and "no method has a usable log evidence" in err


def test_ctrl_c_saves_what_was_done(tiny, capsys, monkeypatch):
    real = tasks.fit

    def stopped(model, *arguments, **options):
        if model.n_components == 2:
            raise KeyboardInterrupt
        return real(model, *arguments, **options)

    monkeypatch.setattr(tasks, "fit", stopped)
    options = [*PRIOR, "--components", "1:2", "--restarts", "10"]
    code, out, err = run(capsys, "compare", "tiny.csv", *options, "--out", "part.tp")
    assert code == 1 and "part.tp holds what was done; go on with --resume" in err
    monkeypatch.setattr(tasks, "fit", real)
    code, out, _ = run(capsys, "compare", "tiny.csv", *options, "--resume", "part.tp")
    assert code == 0 and json.loads(out)["best"] == 2
    assert json.loads(out)["models"][0]["seconds"] == tp.load("part.tp").fit(1).seconds  # not fitted again


def test_models_lists_the_table(capsys):
    found = json.loads(run(capsys, "models")[1])
    assert list(found["models"]) == [entry.command for entry in registry.models() if entry.command]
    assert list(found["methods"]) == [entry.command for entry in registry.methods()]
    text = run(capsys, "models", "--format", "text")[1]
    assert "dirichlet-process" in text and "laplace" in text


def test_version_and_help(capsys, monkeypatch):
    assert run(capsys, "--version") == (0, f"temperance {tp.__version__}\n", "")
    assert run(capsys)[:2] == run(capsys, "--help")[:2]
    assert "--install-completion" in run(capsys, "--help")[1]
    monkeypatch.setenv("COLUMNS", "80")
    assert "..." not in run(capsys, "--help")[1].split("Commands:")[1]  # what a command does is not cut


def test_the_shell_completes_what_has_names():
    command = [sys.executable, "-m", "temperance.cli"]
    words = {
        "fit --model fac": ["factorial-mixture", "factor-analysis"],
        "fit --method vb,e": ["vb,ep", "vb,em"],
        "fit --covariance d": ["diag"],
        "compare ga": ["galaxy"],
        "reproduce poly": ["polynomial-order"],
        "cache w": ["warm"],
        "models --format j": ["json"],
    }
    for line, offered in words.items():
        place = str(len(line.split()))
        asked = {"_TEMPERANCE_COMPLETE": "complete_bash", "COMP_WORDS": f"temperance {line}", "COMP_CWORD": place}
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | asked, check=True)
        assert done.stdout.split() == offered


def test_old_names_of_models_still_work(tiny, capsys):
    options = [*PRIOR, "-k", 1, "--restarts", 1]
    for name in ("mixture", "gaussian-mixture", "groups"):
        found = json.loads(run(capsys, "fit", "tiny.csv", "--model", name, *options)[1])
        assert found["model"] == "mixture" and found["log_evidence"] == pytest.approx(-18.924757, abs=1e-5)
    names = {"hidden-markov": "hmm", "factors": "factorial-mixture", "lda": "topics", "polynomial": "polynomial"}
    assert {name: registry.model(name).command for name in names} == names


def test_factors_says_what_it_is(tiny, capsys):
    _, out, _ = run(capsys, "fit", "tiny.csv", "--model", "factors", "-k", 1, "--restarts", 1)
    assert any("factor-analysis finds hidden scores" in note for note in json.loads(out)["notes"])


@pytest.mark.parametrize(
    "error, said, code",
    [
        (tp.errors.NumericalFailure("VB met an impossible state"), "VB met an impossible state", 1),
        (tp.errors.UnsupportedMethod("no\n such method"), "no such method", 2),
        (ValueError("bad cell"), "bad cell", 2),
        (csv.Error("field larger than field limit (131072)"), "field larger than field limit (131072)", 2),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), "x.csv: No such file or directory", 2),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device", 1),
        (MemoryError(), "there is not enough memory for this", 1),
        (TypeError("oops"), "unexpected TypeError: oops; run it with --traceback to see where", 1),
    ],
)
def test_any_exception_is_one_sentence(error, said, code, capsys, monkeypatch):
    def fails(*arguments, **options):
        raise error

    monkeypatch.setattr(gallery, "figures", fails)
    assert run(capsys, "reproduce") == (code, "", f"temperance: {said}\n")
    again, out, err = run(capsys, "reproduce", "--traceback")
    assert (again, out) == (code, "") and "in fails" in err and err.endswith(f"temperance: {said}\n")


def test_ctrl_c_is_one_sentence(capsys, monkeypatch):
    def stopped():
        raise KeyboardInterrupt

    monkeypatch.setattr(gallery, "figures", stopped)
    assert run(capsys, "reproduce") == (1, "", "temperance: interrupted before there was a result\n")


def test_reproduce_lists_the_figures(capsys):
    assert "old-faithful" in run(capsys, "reproduce")[1].split()


@pytest.mark.parametrize("command", ["fit", "compare", "predict", "report", "demo", "models", "reproduce"])
def test_every_command_has_help_with_an_example(command, capsys):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0 and f"Example: temperance {command}" in " ".join(out.split())


@pytest.mark.docs
@pytest.mark.parametrize("commands", ["fit predict report", "compare", "models", "demo", "reproduce"])
def test_the_examples_of_the_help_run(commands, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command in commands.split():
        text = " ".join(run(capsys, command, "--help")[1].split())
        example = re.search(r"Example: temperance (.*)$", text).group(1)
        code, _, err = run(capsys, *shlex.split(example))
        assert code == 0, (example, err)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["galaxy", "faithful"])
def test_the_known_choices(name, capsys):
    options = [*PRIOR, "--components", "1:6"] if name == "galaxy" else ["--components", "1:4"]
    _, out, _ = run(capsys, "compare", name, *options, "--method", "vb,hellinger,ep,pt", "--restarts", 12)
    found = json.loads(out)
    if name == "galaxy":
        assert set(found["choices"].values()) == {3}
    else:
        # The evidence prefers three by 1.9 nats (−1162.15 to −1164.09), and EP by 0.4; bounds prefer two.
        assert found["choices"]["vb"] == found["choices"]["hellinger"] == 2
        assert found["best"] == found["choices"]["pt"] == 3
        assert found["decided_by"] == "pt"


@pytest.mark.slow
def test_tempering_never_prefers_the_one_size_that_was_left(tmp_path, capsys):
    """Two columns of iris: "vb prefers 2 and pt prefers 1", because sizes 2 and 3 were set aside."""
    from sklearn.datasets import load_iris

    table = tmp_path / "iris.csv"
    rows = [",".join(map(str, row)) for row in load_iris().data[:, 2:]]
    table.write_text("\n".join(["length,width", *rows]))
    found = json.loads(run(capsys, "compare", table, "--components", "1:3", "--method", "vb,pt", "--restarts", 5)[1])
    assert found["choices"]["pt"] in (2, 3, None)
    assert found["choices"]["vb"] in (2, 3)


def test_in_a_process_of_its_own(tiny):
    """Standard input, a pipe as output, and the exit code."""
    command = [sys.executable, "-m", "temperance.cli", "fit", "-", *PRIOR, "-k", "1"]
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, input=TINY, capture_output=True, text=True, env=here)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["log_evidence"] == pytest.approx(-18.924757, abs=1e-5)
    done = subprocess.run([*command[:3], "fit", "none.csv"], capture_output=True, text=True, env=here)
    assert done.returncode == 2 and done.stderr.startswith("temperance: there is no file")


@pytest.mark.docs
def test_the_commands_of_the_documentation_run(tiny, capsys):
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text("utf-8")
    lines = re.findall(r"^temperance (.*)$", page.split("```sh\n")[1].split("```")[0], re.MULTILINE)
    for name in ("data.csv", "new.csv"):
        (tiny / name).write_text(TINY)
    for line in lines:
        if not line.startswith(("demo", "reproduce")):  # the examples of the help
            code, _, err = run(capsys, *shlex.split(line))
            assert code == 0, (line, err)


def test_texts_on_the_command_line(tmp_path, capsys):
    texts = ["cats purr and sleep all day", "dogs bark at night and day", "cats sleep when dogs bark"] * 8
    table = tmp_path / "docs.csv"
    table.write_text("id,body\n" + "".join(f"{number},{text} x{number}x\n" for number, text in enumerate(texts)))
    _, out, _ = run(
        capsys, "fit", table, "--model", "topics", "-k", 2, "--method", "cvb0", "--out", tmp_path / "fit.tp"
    )
    record = json.loads(out)
    assert record["notes"][0] == "texts are the column 'body' of docs.csv"
    words = set(" ".join(record["table"]["words"]).split())
    assert words <= {"cats", "purr", "sleep", "day", "dogs", "bark", "night"} and len(words) > 3
    rows = json.loads(run(capsys, "predict", tmp_path / "fit.tp", table)[1])
    shares = [value for name, value in rows[0].items() if name.startswith("topic")]
    assert len(rows) == len(texts) and sum(shares) == pytest.approx(1.0)
    assert run(capsys, "topics", table, "--topics", 2, "--out", tmp_path / "out")[0] == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "topics.csv", "documents.csv", "report.html", "fit.tp",
    }  # fmt: skip
    assert len((tmp_path / "out" / "documents.csv").read_text().splitlines()) == len(texts) + 1


def test_ids_are_no_topics(tmp_path, capsys):
    table = tmp_path / "ids.csv"
    table.write_text("id,code\n" + "".join(f"{number},c{number}\n" for number in range(30)))
    for command in (("fit", table, "--model", "topics"), ("topics", table), ("topics", tmp_path)):
        sentence = refused(capsys, *command)
        assert "looks like text" in sentence or "no .txt files" in sentence
    table.write_text("id,cat,dog\n" + "".join(f"{number},{number % 3},{number % 2}\n" for number in range(30)))
    record = json.loads(run(capsys, "fit", table, "--model", "topics", "-k", 2, "--method", "cvb0")[1])
    assert record["notes"][0].startswith("left out the column 'id'")
    assert set(" ".join(record["table"]["words"]).split()) == {"cat", "dog"}


def test_kept_executables_are_shown_and_cleared(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TEMPERANCE_CACHE", str(tmp_path))
    assert run(capsys, "cache", "--format", "json") == (0, "[]\n", "")
    assert run(capsys, "cache", "clear") == (0, "removed 0 kept executables\n", "")
    assert "show, warm or clear, got 'empty'" in refused(capsys, "cache", "empty")


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (["--model", "hmm"], "--set emission=poisson"),
        (["--model", "hmm", "--set", "emission=poisson"], None),
        ([], "--model poisson-mixture"),
    ],
)
def test_counts_are_not_taken_for_real_numbers_without_a_word(tmp_path, capsys, flags, hint):
    path = tmp_path / "calls.csv"
    path.write_text("calls\n" + "\n".join(str(value) for value in [0, 3, 2, 9, 8, 11, 1, 2] * 5))
    code, out, _ = run(capsys, "fit", str(path), "--components", "2", "--format", "text", *flags)
    said = "taken as real numbers, though they are counts: calls" in out
    assert code == 0 and said == (hint is not None)
    assert hint is None or hint in out
