"""The standing attack: every model × every method × every hostile input ends in a right answer or in a named sentence.

    python -m tests.faults.attack --out attack.jsonl
    python -m tests.faults.attack --count attack-*.jsonl

Models and methods come from the registry: a new one is attacked without a line here. What is in the file already is not
asked again (`siege.py` says in which order cases go, and what happens to one that ends its process).
"""

from __future__ import annotations

import contextlib
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import temperance as tp
from temperance.errors import TemperanceError
from temperance.fitting import prepare
from temperance.models._answers import as_table
from temperance.registry import MethodEntry, ModelEntry, methods, models
from tests.faults.inputs import INPUTS, leaves

PATIENCE = 120  # seconds of work for one case, compilation included
ASLEEP = 5  # times as many seconds by the clock without work
GOOD = ("answered", "refused", "unsupported")

RNG = np.random.default_rng(0)
ROWS = 12
REAL = RNG.integers(0, 12, size=(ROWS, 2)) + 40.0 * (np.arange(ROWS) % 2)[:, None]
COUNTS = RNG.poisson(3.0, size=(ROWS, 2)) + 15.0 * (np.arange(ROWS) % 2)[:, None] + 1.0
BINARY = np.where(RNG.uniform(size=(ROWS, 2)) < 0.1, 1.0, 0.0) + (np.arange(ROWS) % 2)[:, None]
BINARY = np.minimum(BINARY, 1.0)
WORDS = RNG.poisson(1.0, size=(ROWS, 6)) + np.eye(6)[np.arange(ROWS) % 6]


class Case(NamedTuple):
    """A model as it is made anew for each fit, and clean data for it; `split` where the last column is the target."""

    make: Callable[[], Any]
    clean: np.ndarray
    split: bool = False


def coins() -> Any:
    """A graph: a mixture of two coins, each tossed twice."""
    g = tp.Graph()
    heads = g.beta("heads", 1.0, 1.0, plates=g.plate("k", 2))
    z = g.categorical("z", g.dirichlet("share", [1.0, 1.0]), plates="n")
    g.bernoulli("x", heads[z], plates=("n", g.plate("toss", 2)), observed=True)
    return g.model()


def noisy() -> Any:
    """A graph: numbers around one mean, in noise that is learnt."""
    g = tp.Graph()
    g.normal("x", g.normal("mean", 0.0, 1e-4), g.gamma("noise", 1.0, 1.0), plates=("n", g.plate("d", 2)), observed=True)
    return g.model()


def clean_for(entry: ModelEntry) -> tuple[np.ndarray, bool]:
    likelihood = entry.arguments.get("likelihood", "")
    if entry.data == "inputs and targets":
        target = {"LinearRegression": REAL[:, 1], "PoissonRegression": COUNTS[:, 0]}.get(entry.name, BINARY[:, 0])
        return np.column_stack([REAL[:, 0], target]), True
    if entry.data == "corpus":
        return WORDS, False
    if likelihood in ("bernoulli", "categorical"):
        return BINARY, False
    return (COUNTS if entry.data == "counts" else REAL), False


def entries() -> Iterator[tuple[str, Case]]:
    for entry in models():
        if entry.command:
            clean, split = clean_for(entry)
            yield entry.command, Case(lambda entry=entry: entry.make(2), clean, split)


FURTHER = {
    "mixture, diagonal": Case(lambda: tp.GaussianMixture(2, covariance="diag"), REAL),
    "mixture, spherical": Case(lambda: tp.GaussianMixture(2, covariance="spherical"), REAL),
    "mixture, known covariance": Case(lambda: tp.GaussianMixture(2, covariance=4.0 * np.eye(2)), REAL),
    "mixture, holes": Case(lambda: tp.GaussianMixture(2, missing="marginalise"), REAL),
    "mixture of 20": Case(lambda: tp.GaussianMixture(20), REAL),
    "counts, holes": Case(lambda: tp.Mixture(2, "poisson", missing="marginalise"), COUNTS),
    "process, diagonal": Case(lambda: tp.DirichletProcessMixture(3, "diagonal"), REAL),
    "states, on or off": Case(lambda: tp.HMM(2, "bernoulli", missing="marginalise"), BINARY),
    "states, counts": Case(lambda: tp.HMM(2, "poisson"), COUNTS),
    "topics, 20": Case(lambda: tp.LDA(20), WORDS),
    "principal components": Case(lambda: tp.FactorAnalysis(1, noise="isotropic"), REAL),
    "factors, holes": Case(lambda: tp.FactorAnalysis(1, missing="marginalise"), REAL),
    "local level": Case(lambda: tp.StateSpace.local_level(missing="marginalise"), REAL),
    "relevance": Case(lambda: tp.LinearRegression(ard=True), np.column_stack([REAL, COUNTS[:, 0]]), True),
    "graph, coins": Case(coins, BINARY),
    "graph, noise": Case(noisy, REAL),
}
CASES: dict[str, Case] = dict(entries()) | FURTHER

# Small budgets; a method that is not named here runs with its defaults.
VB = tp.VB(max_iter=20, restarts=2)
SMALL: dict[str, dict[str, Any]] = {
    "VB": {"max_iter": 20, "restarts": 2},
    "Annealed": {"method": VB, "schedule": [2.0, 1.0]},
    "VT": {"method": VB, "temperatures": (1.0, 2.0), "length": 5},
    "LVT": {"method": VB, "temperatures": (1.0, 2.0), "length": 5},
    "MessagePassing": {"alpha": 0.5, "max_passes": 5, "restarts": 1},
    "EP": {"max_passes": 5, "restarts": 1},
    "Laplace": {"restarts": 2, "max_iter": 20},
    "SVI": {"batch_size": 4, "steps": 10},
    "CVB0": {"passes": 5},
    "EM": {"max_iter": 10, "restarts": 2},
    "ParallelTempering": {"draws": 8, "warmup": 4, "replicas": 3},
    "AIS": {"particles": 4, "temperatures": 5},
    "SMC": {"particles": 16, "populations": 4},
    "ImportanceSampling": {"draws": 64},
    "Gibbs": {"draws": 8, "warmup": 2, "chains": 2},
    "CollapsedGibbs": {"draws": 8, "warmup": 2, "chains": 1},
    "VariationalKernel": {"draws": 8, "warmup": 2, "chains": 1},
}
METHODS: dict[str, MethodEntry] = {entry.command: entry for entry in methods()}
PAIRS = [(model, method) for model in CASES for method in METHODS]


def method(command: str) -> Any:
    entry = METHODS[command]
    return getattr(tp, entry.name)(**SMALL.get(entry.name, dict(entry.arguments)))


def fed(case: Case, make: Callable[[np.ndarray], Any] = np.asarray) -> Any:
    """What `make` makes of the clean data, as the model takes them: inputs and targets apart, where it has both."""
    value = make(case.clean)
    if not case.split:
        return value
    if isinstance(value, list) and value and isinstance(value[0], list):
        return [row[:-1] for row in value], [row[-1] for row in value]
    if hasattr(value, "iloc"):
        return value.iloc[:, :-1], value.iloc[:, -1]
    if not hasattr(value, "nnz") and len(getattr(value, "shape", ())) == 2 and value.shape[1] > 1:
        return value[:, :-1], value[:, -1]
    return make(case.clean[:, :-1]), case.clean[:, -1]  # what cannot be cut is made of the inputs alone


class Outcome(NamedTuple):
    outcome: str
    detail: str = ""
    evidence: float | None = None


def ask(fit: Any, case: Case) -> Iterator[tuple[str, Any]]:
    """All that a fit can be asked; what it cannot answer is a sentence."""
    inputs, _ = fed(case) if case.split else (case.clean, None)
    asked: dict[str, Callable[[], Any]] = {
        "table": fit.table,
        "posterior": lambda: fit.posterior,
        "summary": lambda: fit._repr_html_(),
        "log_predictive": lambda: fit.log_predictive(fed(case)),
        "predict": lambda: fit.predict(inputs),
        "transform": lambda: fit.transform(case.clean),
        "responsibilities": lambda: fit.responsibilities(case.clean),
        "sample": lambda: fit.sample(0, 2),
    }
    for name, question in asked.items():
        try:
            yield name, question()
        except TemperanceError as error:
            yield name, str(error)


def attempt(case: Case, by: Any, data: Any) -> Outcome:
    """One fit with all that is asked of it; errors that are not ours go through."""
    try:
        fit = tp.fit(case.make(), data, by, seed=0)
    except tp.errors.UnsupportedMethod as error:
        return sentence("unsupported", error)
    except TemperanceError as error:
        return sentence("refused", error)
    if fit.log_evidence is not None and not np.isfinite(fit.log_evidence):
        return Outcome("nan", "log_evidence")
    # A restart without an evidence is a NaN in the history of restarts.
    history = {name: values for name, values in fit.history.items() if name != "restarts"}
    for part, value in (("state", fit.state), ("bracket", fit.bracket), ("history", history)):
        if any(np.isnan(array).any() for array in leaves(value)):
            return Outcome("nan", part)
    for name, answer in ask(fit, case):
        if isinstance(answer, str) and name != "summary" and (not answer or "\n" in answer):
            return Outcome("raw", f"{name}: {answer}")
        if any(np.isnan(array).any() for array in leaves(answer)):
            return Outcome("nan", name)
        if name == "summary" and "nan" in str(answer).split():
            return Outcome("nan", name)
    return Outcome("answered", "", fit.log_evidence)


def sentence(outcome: str, error: TemperanceError) -> Outcome:
    text = str(error)
    return Outcome(outcome if text and "\n" not in text and len(text) < 600 else "raw", text)


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """TimeoutError after so many seconds of work, or when hardly any work is done for five times as long."""
    worked = time.process_time()

    def late(*_: Any) -> None:
        raise TimeoutError(f"no answer in {seconds} s")

    def look(*_: Any) -> None:
        nonlocal worked
        if time.process_time() - worked < 0.001 * ASLEEP * seconds:
            raise TimeoutError(f"asleep for {ASLEEP * seconds} s")
        worked = time.process_time()  # other processes had the processor

    timers = ((signal.SIGALRM, signal.ITIMER_REAL, look), (signal.SIGPROF, signal.ITIMER_PROF, late))
    before = {kind: signal.signal(kind, act) for kind, _, act in timers}
    signal.setitimer(signal.ITIMER_REAL, ASLEEP * seconds, ASLEEP * seconds)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        for kind, timer, _ in timers:
            signal.setitimer(timer, 0.0)
            signal.signal(kind, before[kind])


def at_the_gate(model: str, by: str, name: str) -> bool:
    """Whether the data are refused before anything is compiled."""
    case = CASES[model]
    made, data = case.make(), fed(case, INPUTS[name].make)
    try:
        table = as_table(made, data)
        prepare(made, data if table is None else table, method(by), None, 0)
    except TemperanceError:
        return True
    return False


def attack(model: str, by: str, name: str, clean: dict[str, Outcome], only_gate: bool = False) -> Outcome:
    """The outcome of one case; `clean` remembers the answer to the clean data of each pair.

    With `only_gate` it is "later" for data that are not refused at the gate: of these, what holds the same numbers
    needs the clean answer.
    """
    case, hostile, pair = CASES[model], INPUTS[name], f"{model}, {by}"
    try:
        with limited(PATIENCE), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not at_the_gate(model, by, name):
                if only_gate:
                    return Outcome("later")
                if hostile.same:
                    if pair not in clean:
                        clean[pair] = attempt(case, method(by), fed(case))
                    if clean[pair].outcome == "unsupported":
                        return clean[pair]  # the method looks at the model, not at the data
            found = attempt(case, method(by), fed(case, hostile.make))
    except TimeoutError as error:
        return Outcome("hang", f"{error}{place(error)}")
    except Exception as error:
        return Outcome("raw", f"{type(error).__name__}: {str(error)[:300]}{place(error)}")
    if hostile.same and found.outcome == "answered" and found.evidence != clean[pair].evidence:
        return Outcome("wrong", f"{found.evidence} instead of {clean[pair].evidence}")
    return found


def place(error: BaseException) -> str:
    """The last line of ours that the error came through."""
    last, trace = "", error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if "temperance" in file.parts and "site-packages" not in file.parts:
            last = f" at {file.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return last


if __name__ == "__main__":
    from tests.faults.siege import main

    main()
