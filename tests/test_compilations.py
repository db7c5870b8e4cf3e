"""How much a first fit compiles, with nothing kept from an earlier process: counts do not depend on the machine."""

import pytest

from benchmarks.first import Call, beyond, formatted, measure, middle

FEW = 5  # XLA programs: the start, the steps, the result and the like


@pytest.mark.parametrize(
    "case, programs, same_bucket",
    [
        ("vb", FEW, True),
        ("factors", FEW, True),
        ("regression", FEW, True),
        pytest.param("hmm", FEW, True, marks=pytest.mark.slow),
        pytest.param("em", FEW, True, marks=pytest.mark.slow),
        ("svi", FEW, True),
        ("cvb0", FEW, True),
        ("graph", FEW, True),
        pytest.param("ep", FEW, True, marks=pytest.mark.slow),
        pytest.param("compare", 12, False, marks=pytest.mark.slow),
    ],
)
def test_a_first_fit_compiles_little(case, programs, same_bucket):
    """Seven rows fewer fall into the same bucket, where nothing is compiled again."""
    # Topics choose an engine without Numba by themselves, for this size.
    found = measure(case) if case in ("svi", "cvb0") else measure(case, TEMPERANCE_ENGINE="plain")
    assert found["first"].programs <= programs
    # A count that hears nothing proves nothing.
    assert case in ("vb", "compare") or found["first"].programs > 0
    assert found["first"].kernels == 0
    assert found["second"][1:] == (0, 0)
    if same_bucket:
        assert found["new"][1:] == (0, 0)


@pytest.mark.parametrize("case", ["hmm", "states", "factors"])
def test_small_chains_and_factors_compile_nothing_for_any_number_of_rows(case):
    found = measure(case)
    assert [found[call][1:] for call in ("first", "second", "new")] == [(0, 0)] * 3


@pytest.mark.parametrize("case", ["pt", "ais"])
def test_a_small_mixture_is_sampled_without_compiling(case):
    assert measure(case, "--once")["first"][1:] == (0, 0)


def test_the_table_holds_medians_of_times_and_the_largest_counts():
    rounds = [
        {"unit": 0.4, "cold": Call(seconds, programs, 0), "kept": Call(0.5, 0, 0), "second": Call(0.1, 0, 0),
         "new": Call(0.15, 0, 0), "peer": Call(0.2, 0, 0)}
        for seconds, programs in ((1.0, 3), (4.0, 4), (2.0, 3))
    ]  # fmt: skip
    row = middle(rounds)
    line = "| mixture, VB | 2.00 (4, 0) | 2 | 0.5 | 0.50 (0, 0) | 0.10 | 0.15 (0, 0) | 0.20 |"
    assert formatted("vb", row) == line
    assert beyond({"vb": row}).splitlines()[-1] == "| mixture, VB | 0.40 | 0.5 | 0.25 | 0.05 | 0.1 |"
    assert formatted("hmm", middle([{key: call for key, call in rounds[0].items() if key != "peer"}])).endswith("|  |")
