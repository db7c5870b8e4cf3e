"""Formulas: terms by R's rules, and coefficients that mean the same in both coordinates."""

import numpy as np
import pytest

from temperance.data.formula import complete_design, parse_formula
from temperance.errors import InvalidData, InvalidParameter

ROWS = {
    "party": ["R", "D", "D", "I", "R", "I"],
    "year": [2001, 2004, 2002, 2010, 2005, 2008],
    "sex": ["m", "f", "f", "m", "m", "f"],
}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("~ a * b", [(), ("a",), ("b",), ("a", "b")]),
        ("~ a + b:c - 1", [("a",), ("b", "c")]),
        ("~ 0 + a", [("a",)]),
        ("~ (a + b) * c", [(), ("a",), ("b",), ("c",), ("a", "c"), ("b", "c")]),
        ("~ a * b - a:b", [(), ("a",), ("b",)]),
        ("~ a + a + `a b`", [(), ("a",), ("a b",)]),
        ("~ 1", [()]),
    ],
)
def test_terms(text, terms):
    assert list(parse_formula(text).terms) == terms


@pytest.mark.parametrize("text", ["party", "~", "~ a +", "~ (a", "~ a ^ 2", "~ 0", "~ a b", 3])
def test_what_is_not_a_formula_is_refused(text):
    with pytest.raises(InvalidParameter):
        parse_formula(text)


def test_names_follow_the_coding_of_r():
    assert complete_design(parse_formula("~ party * sex"), ROWS).names == (
        "intercept", "party[I]", "party[R]", "sex[m]", "party[I]:sex[m]", "party[R]:sex[m]",
    )  # fmt: skip
    assert complete_design(parse_formula("~ 0 + party"), ROWS).names == ("party[D]", "party[I]", "party[R]")
    # Without `party` itself, each party has a slope of its own.
    assert complete_design(parse_formula("~ party:year"), ROWS).names == (
        "intercept", "party[D]:year", "party[I]:year", "party[R]:year",
    )  # fmt: skip
    assert complete_design(parse_formula("~ C(year)"), ROWS).names[1] == "year[2002]"


@pytest.mark.parametrize("text", ["~ party * year", "~ year", "~ party:year", "~ 0 + year + party", "~ sex * party"])
def test_coefficients_mean_the_same_in_both_coordinates(text):
    design = complete_design(parse_formula(text), ROWS)
    b = np.random.default_rng(0).normal(size=design.width)
    inner, outer = design.matrix(ROWS), design.matrix(ROWS, user=True)
    np.testing.assert_allclose(inner @ b, outer @ (design.to_user @ b), rtol=1e-6, atol=1e-8)


def test_user_coordinates_are_the_columns_themselves():
    design = complete_design(parse_formula("~ party * year"), ROWS)
    row = design.matrix({"party": ["R"], "year": [2007]}, user=True)[0]
    np.testing.assert_array_equal(row, [1, 0, 1, 2007, 0, 2007])


def test_dates_count_years():
    design = complete_design(parse_formula("~ day"), {"day": ["2001-01-01", "2003-01-01", "2009-01-01"]})
    assert np.ptp(design.matrix({"day": ["2001-01-01", "2009-01-01"]}, user=True)[:, 1]) == pytest.approx(8, abs=0.01)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"party": ["R", "D"]}, "the columns are party"),
        ({"party": ["R", None, "D"], "year": [1, 2, 3]}, "lacks a value in 1 of 3 rows"),
        ({"party": ["R", "D"], "year": [3, 3]}, "the same in every row"),
    ],
)
def test_columns_that_cannot_be_used_are_refused(columns, says):
    with pytest.raises((InvalidData, InvalidParameter), match=says):
        complete_design(parse_formula("~ party + year"), columns)


def test_a_new_level_is_refused():
    with pytest.raises(InvalidData, match="the fit knows D, I, R"):
        complete_design(parse_formula("~ party"), ROWS).matrix({"party": ["X"]})
