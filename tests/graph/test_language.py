"""A user's mistake is answered in words, with the variables and the line of code."""

from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter
from temperance.graph import Graph, NotConjugate, PlateMismatch
from tests.graph import models


def test_a_pair_that_is_not_conjugate_names_both_lines_and_the_alternatives() -> None:
    g = Graph()
    location = g.normal("location", 0.0, 1.0)
    with pytest.raises(NotConjugate) as caught:
        g.normal("x", 0.0, location, plates="n", observed=True)
    message = str(caught.value)
    assert "'x'" in message and "'location'" in message and "a Gamma variable" in message
    assert 'location = g.normal("location", 0.0, 1.0)' in message
    assert 'g.normal("x", 0.0, location, plates="n", observed=True)' in message


def test_a_latent_that_is_met_twice_is_refused() -> None:
    g = Graph()
    w = g.normal("w", 0.0, 1.0, dim=2)
    with pytest.raises(NotConjugate, match="depends on 'w'"):
        g.dot(w, w)
    a = g.normal("a", 0.0, 1.0)
    with pytest.raises(NotConjugate, match="twice"):
        a + a


def test_a_discrete_variable_chooses_once() -> None:
    """A stochastic block model has one block for each node, as a row and as a column: two variables, not one."""
    g = Graph()
    links = g.beta("links", 1.0, 1.0, plates=(g.plate("row", 2), g.plate("column", 2)))
    z = g.categorical("z", g.dirichlet("weights", np.ones(2)), plates="n")
    with pytest.raises(NotConjugate, match=r"chooses by 'z' twice") as caught:
        links.select(z, "row").select(z, "column")
    assert 'links.select(z, "row").select(z, "column")' in str(caught.value)


def test_a_diagonal_of_members_that_each_have_a_choice_is_refused() -> None:
    """Independent components whose sources are mixtures."""
    g = Graph()
    precision = g.gamma("precision", 1.0, 1.0, plates=(g.plate("source", 2), g.plate("kind", 3)))
    z = g.categorical("z", g.dirichlet("weights", np.ones(3), plates="source"), plates="n")
    with pytest.raises(NotConjugate, match=r"each chosen by its own 'z'") as caught:
        g.diagonal(precision[z], "source")
    assert 'g.diagonal(precision[z], "source")' in str(caught.value) and 'g.categorical("z"' in str(caught.value)


def test_the_shape_of_a_gamma_must_be_known() -> None:
    g = Graph()
    with pytest.raises(NotConjugate, match="no family is conjugate"):
        g.gamma("b", g.gamma("a", 1.0, 1.0), 1.0, observed=True)


def test_counts_cannot_be_latent() -> None:
    g = Graph()
    with pytest.raises(NotConjugate, match="observed=True"):
        g.poisson("x", g.gamma("rate", 1.0, 1.0), plates="n")
    assert "x" not in g.quantities


def test_plates_that_do_not_fit_are_drawn() -> None:
    g = Graph()
    components = g.gamma("components", 1.0, 1.0, plates=g.plate("k", 3))
    z = g.categorical("z", g.dirichlet("weights", np.ones(2)), plates="n")
    with pytest.raises(PlateMismatch, match=r"components \(plate k = 3\) × .*z \(plate n\)"):
        components[z]
    with pytest.raises(PlateMismatch, match=r"plate 'k' has 3 members, but 2"):
        g.dirichlet("other", np.ones((2, 4)), plates="k")


def test_data_on_plates_of_another_size_are_drawn() -> None:
    g = Graph()
    mean = g.normal("mean", 0.0, 1.0, plates=g.plate("d", 3))
    g.normal("x", mean, 1.0, plates=("n", "d"), observed=True)
    with pytest.raises(PlateMismatch, match=r"x \(plates n = 5, d = 2\) × mean \(plate d = 3\)"):
        tp.fit(g.model(), np.zeros((5, 2)))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"y": np.zeros(3)}, "must hold 'inputs', 'y'"),
        (np.zeros(3), "dictionary with 'inputs', 'y'"),
        ({"inputs": np.zeros((3, 3)), "y": np.zeros(3)}, "2 entries"),
        ({"inputs": np.zeros((3, 2)), "y": np.zeros(4)}, r"inputs \(plate n = 3\) × y \(plate n = 4\)"),
        ({"inputs": np.full((3, 2), np.nan), "y": np.zeros(3)}, "must not be missing"),
        ({"inputs": np.zeros((3, 2)), "y": [1.0, np.inf, 2.0]}, "finite"),
        ({"inputs": np.zeros((3, 2)), "y": np.zeros((3, 1))}, r"axes \(n\)"),
        ({"inputs": np.zeros((0, 2)), "y": np.zeros(0)}, "no rows"),
    ],
)
def test_data_that_do_not_fit(data: object, words: str) -> None:
    with pytest.raises((InvalidData, PlateMismatch), match=words):
        models.regression().model().prepare(data)


def test_values_outside_the_support() -> None:
    with pytest.raises(InvalidData, match="whole numbers from 0 to 5"):
        models.topics().model().prepare(np.full((2, 2), 6.0))
    with pytest.raises(InvalidData, match="as a whole"):
        models.mixture().model().prepare(np.array([[0.0, np.nan]]))


def test_what_a_model_needs() -> None:
    g = Graph()
    with pytest.raises(InvalidParameter, match="observed=True"):
        g.model()
    g.normal("x", 0.0, 1.0, observed=True)
    for attempt, error, message in (
        (lambda: g.model(), PlateMismatch, "needs a plate"),
        (lambda: g.normal("x", 0.0, 1.0), InvalidParameter, "in the graph already"),
        (lambda: models.mixture().model(factorised="weights"), InvalidParameter, "factorised"),
        (lambda: Graph().normal("y", g.normal("m", 0.0, 1.0), 1.0), InvalidParameter, "another graph"),
        (
            lambda: Graph().normal("y", models.mixture().normal_gamma("both", 0.0, 1.0, 1.0, 1.0), 1.0),
            InvalidParameter,
            "brings the precision",
        ),
    ):
        with pytest.raises(error, match=message):
            attempt()


def test_symmetries_are_named() -> None:
    assert "exchangeable" in models.mixture().model().remarks[0]
    assert "start at a draw" in models.factor_analysis().model().remarks[0]
    assert models.regression().model().remarks == ()


def test_structure_is_found() -> None:
    """Who is summed out, who has a distribution of its own, who takes turns."""
    assert models.mixture().model().spec.elimination == (("z",),)
    forced = models.mixture().model(factorised="z")
    assert forced.spec.elimination == () and forced.local_groups == (("z",),)
    assert models.hidden_markov().model().groups == (("initial", "transition", "emission"),)
    assert models.mixture_of_regressions().model().groups == (("share", "weights"), ("noise",))
    effects = models.random_effects()
    assert effects.model().spec.integrated == "effect" and effects.model().local_groups == ()
    assert effects.model(factorised="effect").local_groups == (("effect",),)
    many = Graph()
    total = (
        many.normal("m", 0.0, 1.0, plates=many.plate("k", 20))[many.categorical("a", np.full(20, 0.05), plates="n")]
        + many.normal("l", 0.0, 1.0, plates="k")[many.categorical("b", np.full(20, 0.05), plates="n")]
    )
    total = total + many.normal("o", 0.0, 1.0, plates="k")[many.categorical("c", np.full(20, 0.05), plates="n")]
    many.normal("x", total, 1.0, observed=True)
    model = many.model()
    assert len(model.spec.factorised) == 1 and "more than 4096" in " ".join(model.remarks)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: a / 2.0,
        lambda a: a / np.array(2.0),
        lambda a: np.array(0.5) * a,
        lambda a: np.float64(0.5) * a,
        lambda a: np.multiply(a, 0.5),
        lambda a: np.array(0.0) - (-a / 2),
    ],
)
def test_half_of_a_variable_in_any_spelling(function: Any) -> None:
    g = Graph()
    g.normal("x", function(g.normal("a", 0.0, 1.0)), 1.0, plates="n", observed=True)
    x = np.array([1.0, 2.0, 3.0])
    fit = tp.fit(g.model(), x, tp.VB())
    exact = stats.multivariate_normal(np.zeros(3), np.eye(3) + 0.25).logpdf(x)
    assert fit.log_evidence == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda g, a: np.exp(a), r"exp\(a\) \(at .*\) is not linear"),
        (lambda g, a: abs(a), r"abs\(a\) .* is not linear"),
        (lambda g, a: 1.0 / a, r"1.0 / a .* is not linear"),
        (lambda g, a: a / a, r"a / a .* is not linear"),
        (lambda g, a: a**2, r"a \*\* 2 .* is not linear"),
        (lambda g, a: a / 0, "a cannot be divided by zero"),
        (lambda g, a: a + "1", "what is added to 'a' must be a variable of the graph or numbers, got '1'"),
        (lambda g, a: a - None, "what is subtracted from 'a' must be"),
        (lambda g, a: a * [1.0, [2.0]], "what multiplies 'a' must be"),
        (lambda g, a: g.normal("x", "a", 1.0), "x.mean must be a variable of the graph or numbers, got 'a'"),
        (lambda g, a: g.normal("x", a, "t"), "x.precision must be a variable of the graph or numbers, got 't'"),
    ],
)
def test_what_is_not_linear_is_one_sentence(function: Any, words: str) -> None:
    g = Graph()
    with pytest.raises(InvalidParameter, match=words):
        function(g, g.normal("a", 0.0, 1.0))


def test_the_prior_of_known_numbers_is_the_gradient_of_its_factor():
    """Written out for Normals, so that a graph compiles nothing before its first step."""
    from temperance.graph.scope import Scope

    g = Graph()
    g.normal("place", [[1.0, 2.0], [0.0, -1.0], [3.0, 0.5]], [[2.0, 0.3], [0.3, 1.0]], plates="k")
    g.normal("wide", [0.5, -1.0], [1.0, 2.0, 4.0], plates="k", dim=2)
    g.normal("x", g.normal("number", 2.0, 0.25), 1.0, plates="n", observed=True)
    model = g.model()
    scope = Scope(model.spec, model.constants, {}, rows=1)
    for name in ("place", "wide", "number"):
        known, derived = scope.known_natural(name), scope.natural(name)
        assert type(known) is type(derived)
        for a, b in zip(jax.tree.leaves(known), jax.tree.leaves(derived), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-15)
