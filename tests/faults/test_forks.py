"""A forked child whose parent had used JAX is told so at once: it never waits for threads that only the parent has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, sys
import numpy as np
import temperance as tp
from temperance.errors import ForkedProcess

x = np.random.default_rng(0).normal(size=(40, 2))
tp.VB, tp.FactorAnalysis  # imports JAX
if sys.argv[1] == "used":
    mixture = tp.fit(tp.GaussianMixture(2), x, seed=0)
if os.fork() == 0:
    signal.alarm(60)  # ends a child that waits
    asked = {
        "fit": lambda: tp.fit(tp.FactorAnalysis(1), x[:31], tp.VB(max_iter=3)),
        "series": lambda: tp.fit(tp.StateSpace(1), [x[:7], x[:5]], tp.VB(max_iter=3)),
        "regression": lambda: tp.fit(tp.LinearRegression(), (x[:9, :1], x[:9, 1]), tp.AIS()),
        "topics": lambda: tp.fit(tp.LDA(2), np.ones((5, 7), int), tp.VB(max_iter=3)),
        "sequences": lambda: tp.fit(tp.HMM(2, "bernoulli"), (x[:11] > 0).astype(float), tp.Gibbs(draws=4, warmup=1)),
        "log_predictive": lambda: mixture.log_predictive(x[:3]),
        "posterior": lambda: mixture.posterior,
        "summary": lambda: mixture.summary(),
        "sample": lambda: mixture.sample(0, 3),
        "prior": lambda: tp.NormalWishart(np.zeros(3), 1.0, 4.0, np.eye(3)),
        "mixture": lambda: tp.fit(tp.GaussianMixture(2), x, seed=0),
    }
    for name, ask in asked.items() if sys.argv[1] == "used" else list(asked.items())[:1]:
        try:
            ask()
            print(name, "answered")
        except Exception as error:
            print(name, "refused" if isinstance(error, ForkedProcess) else "failed", str(error))
    sys.stdout.flush()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize(("parent", "expected"), [("used", "refused"), ("unused", "answered")])
def test_a_forked_child(parent: str, expected: str) -> None:
    here = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, parent],
        env={**os.environ, "PYTHONPATH": str(here)}, cwd=here, text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked = done.stdout.splitlines()
    assert len(asked) == (11 if parent == "used" else 1)
    assert all(line.split()[1] == expected for line in asked), done.stdout
    if expected == "refused":
        assert all('get_context("spawn")' in line for line in asked)
