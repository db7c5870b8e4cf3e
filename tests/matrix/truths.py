"""Tiny problems whose log evidence is known: by enumeration of the latents, by quadrature, or in closed form.

One for each model. All methods run on the same problem, so that what they share compiles once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import simpson
from scipy.special import betaln, gammaln, log_ndtr, logsumexp, ndtr
from scipy.stats import gamma, multivariate_normal, norm

import temperance as tp
from tests.exact import enumeration, marginals, paths, switching


@dataclass(frozen=True)
class Problem:
    """`evidence(data)` is log p(data), so that log p(new | data) is a difference of two."""

    model: Callable[[], Any]
    data: Any
    evidence: Callable[[Any], float]
    gap: float  # how far below the evidence a bound may end: what separates the posterior from the family of q
    more: Any = None  # the data with one more datum,
    new: Any = None  # which is this; None where draws have no predictive density

    @property
    def log_evidence(self) -> float:
        return self.evidence(self.data)

    @property
    def log_predictive(self) -> float:
        return self.evidence(self.more) - self.log_evidence


# ---- mixtures: every assignment -----------------------------------------------------------------------------

LINE = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2])[:, None]
MORE_LINE = np.concatenate([LINE, [[0.3]]])
PRIOR = {"mean": [0.0], "pseudo_count": 0.1, "dof": 3.0, "scatter": [[0.5]]}
FLAGS = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]], float)
MORE_FLAGS = np.concatenate([FLAGS, [[1.0, 0.0, 0.0]]])
HEADS = {"a": 0.6, "b": 0.8}


def gaussian(x: np.ndarray) -> float:
    return marginals.gaussian(x, **PRIOR)


SECOND = np.array([-1.0, -0.4, -0.7, 1.1, 0.3, 0.8])
PAIRS = {"mean": [0.0, 0.0], "pseudo_count": 0.1, "dof": 4.0, "scatter": [[0.5, 0.0], [0.0, 0.5]]}


def in_pairs(x: np.ndarray) -> float:
    return marginals.gaussian(x, **PAIRS)


def heads(x: np.ndarray) -> float:
    return marginals.bernoulli(x, **HEADS)


def sticks(
    x: np.ndarray, alpha: float = 1.5, size: int = 3, marginal: Callable[[np.ndarray], float] = gaussian
) -> float:
    """Stick-breaking weights: one beta integral for each stick but the last, which takes what is left."""
    assignments, given = enumeration.log_joints(x, marginal, np.ones(size))
    counts = (assignments[:, :, None] == np.arange(size)).sum(axis=1)
    dirichlet = gammaln(size) - gammaln(len(x) + size) + gammaln(1 + counts).sum(axis=1)
    after = counts[:, ::-1].cumsum(axis=1)[:, ::-1] - counts
    broken = (betaln(1 + counts[:, :-1], alpha + after[:, :-1]) - betaln(1, alpha)).sum(axis=1)
    return float(logsumexp(given - dirichlet + broken))


COLUMNS: dict[str, list[Any]] = {
    "height": [1.2, 0.7, None, 3.1, 2.8, 1.0],
    "income": [1.5, None, 1.1, 4.0, 5.2, 2.0],
    "visits": [0, 1, 0, 4, None, 2],
    "smokes": ["no", "no", "yes", "yes", None, "no"],
    "region": ["a", "b", None, "c", "c", "a"],
}
KINDS = {"height": "real", "income": "positive", "visits": "count", "smokes": "binary", "region": "category"}
TABLE = tp.read_table({name: values[:-1] for name, values in COLUMNS.items()}, kinds=KINDS)
MORE_TABLE, NEW_TABLE = (
    tp.read_table({name: values[rows] for name, values in COLUMNS.items()}, like=TABLE.schema)
    for rows in (slice(None), slice(-1, None))
)


def columns_prior() -> Any:
    numbers = tp.Independent(tp.NormalGamma(mean=[1.5, 0.5], pseudo_count=0.1, dof=3.0, scatter=[0.5, 0.3]))
    yes, region = tp.Independent(tp.Beta([0.6], [0.8])), tp.Independent(tp.Dirichlet([[0.7, 1.0, 1.3]]))
    return tp.Product(real=numbers, count=tp.Independent(tp.Gamma([1.2], [0.5])), binary=yes, category_3=region)


def columns(x: np.ndarray) -> float:
    """Given the class the columns are independent; of a positive column the logarithm is Gaussian."""
    total = marginals.diagonal(np.column_stack([x[:, 0], np.log(x[:, 1])]), [1.5, 0.5], 0.1, 3.0, [0.5, 0.3])
    total += marginals.poisson(x[:, [2]], 1.2, 0.5) + heads(x[:, [3]]) - np.nansum(np.log(x[:, 1]))
    return total + marginals.categorical(x[:, [4]], [0.7, 1.0, 1.3])


def table_evidence(table: Any) -> float:
    rows = np.stack([table[name] for name in COLUMNS], axis=1)
    return enumeration.log_evidence(rows, columns, np.ones(2))


DEGREES = (2.0, 10.0)


def student(x: np.ndarray) -> float:
    """One component with outliers: the mean and the log precision on a grid, the scales in closed form."""
    s, t = np.linspace(-6, 6, 241), np.linspace(-11, 5, 121)
    mean, precision = np.meshgrid(np.sinh(s), np.exp(t), indexing="ij")
    prior = norm(0.0, 1 / np.sqrt(0.1 * precision)).logpdf(mean) + gamma(1.5, scale=4.0).logpdf(precision)
    volume = np.log((s[1] - s[0]) * np.cosh(s)[:, None] * (t[1] - t[0]) * precision)
    squares = (x[:, 0, None, None] - mean) ** 2 * precision
    each = []
    for nu in DEGREES:
        peak = gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) + 0.5 * np.log(precision / (np.pi * nu))
        likelihood = len(x) * peak - 0.5 * (nu + 1) * np.log1p(squares / nu).sum(axis=0)
        each.append(logsumexp(prior + volume + likelihood))
    return float(logsumexp(each) - np.log(len(DEGREES)))


def graph_of_a_mixture() -> Any:
    g = tp.Graph()
    weights = g.dirichlet("weights", np.ones(2))
    both = g.normal_gamma("both", 0.0, 0.1, 3.0, 0.5, plates=g.plate("k", 2))
    g.normal("x", both[g.categorical("z", weights, plates="n")], observed=True)
    return g.model()


# ---- topics: every assignment of every token ----------------------------------------------------------------

TOKENS = [[0, 0, 1], [1, 2, 2], [0, 2]]
ALPHA, ETA = np.array([0.4, 0.9]), 0.6


def log_beta(concentration: np.ndarray) -> np.ndarray:
    return gammaln(concentration).sum(axis=-1) - gammaln(concentration.sum(axis=-1))


def topics(tokens: list[list[int]], alpha: np.ndarray = ALPHA) -> float:
    """α is that of all documents, or (documents, topics)."""
    document = np.repeat(np.arange(len(tokens)), [len(words) for words in tokens])
    words = np.concatenate(tokens)
    logs = []
    for z in itertools.product(range(2), repeat=len(words)):
        of_document, of_word = np.zeros((len(tokens), 2)), np.zeros((2, 3))
        np.add.at(of_document, (document, z), 1)
        np.add.at(of_word, (z, words), 1)
        value = (log_beta(alpha + of_document) - log_beta(alpha)).sum()
        logs.append(value + (log_beta(ETA + of_word) - log_beta(np.full(3, ETA))).sum())
    return float(logsumexp(logs))


def shared(tokens: list[list[int]]) -> float:
    """α = c (v, 1 − v) with v ~ Beta(1, γ), γ = 2 and c = 0.8: a polynomial in v, by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    v = 0.5 * (nodes + 1.0)
    logs = [topics(tokens, 0.8 * np.array([here, 1.0 - here])) for here in v]
    return float(logsumexp(logs, b=0.5 * weights * 2.0 * (1.0 - v)))


SLOPES = {"x": [0.5, -1.0, 2.0]}


def structural(data: tuple[list[list[int]], dict[str, list[float]]]) -> float:
    """log α_dk = λ_k x_d / sd(x), λ_k ~ N(0, 1): by Gauss and Hermite over both λ."""
    tokens, columns = data
    nodes, weights = np.polynomial.hermite_e.hermegauss(16)
    x = np.array(columns["x"]) / np.std(columns["x"])
    log_weights = np.log(weights / weights.sum())
    pairs = itertools.product(range(len(nodes)), repeat=2)
    logs = [log_weights[[i, j]].sum() + topics(tokens, np.exp(np.outer(x, nodes[[i, j]]))) for i, j in pairs]
    return float(logsumexp(logs))


# ---- sequences: every path ----------------------------------------------------------------------------------

STEPS = np.array([1, 1, 0, 1, 0, 0, 0], float)[:, None]
MOVES = np.array([[2.0, 0.7], [0.7, 2.0]])


def hidden_markov(x: Any) -> float:
    sequences = x if isinstance(x, list) else [x]
    return paths.log_evidence(sequences, heads, [1.0, 1.0], MOVES)


# ---- linear models: what is left after the Gaussian integrals by quadrature ----------------------------------

ACTIVE = np.array([[0.2, -0.4], [2.1, 0.3], [1.8, 2.2], [-0.3, 1.7]])
FACTORS: dict[str, Any] = {"noise": 0.3, "probability": [0.3, 0.6], "factor_variance": 2.0}


def activations(x: np.ndarray) -> float:
    """Every pattern of factors on and off; given it each column is Gaussian."""
    n, p, logs = len(x), np.array(FACTORS["probability"]), []
    for bits in itertools.product((0.0, 1.0), repeat=2 * n):
        z = np.reshape(bits, (n, 2))
        covariance = 0.3 * np.eye(n) + 2.0 * z @ z.T
        value = np.sum(z * np.log(p) + (1 - z) * np.log(1 - p))
        logs.append(value + multivariate_normal(np.zeros(n), covariance).logpdf(x.T).sum())
    return float(logsumexp(logs))


INPUTS = np.array([[-1.0], [-0.4], [0.1], [0.6], [1.2]])
TARGET = np.array([-1.1, -0.2, 0.3, 1.1, 1.7])


def regression(data: Any) -> float:
    """Precisions of weights and noise by a grid over their logarithms; the weights in closed form."""
    inputs, target = data
    phi = np.concatenate([np.ones((len(target), 1)), inputs], axis=1)
    values, vectors = np.linalg.eigh(phi @ phi.T)
    rotated = vectors.T @ target
    grid = np.linspace(-7, 6, 200)
    a, b = (axis.ravel() for axis in np.meshgrid(np.exp(grid), np.exp(grid)))
    variance = np.maximum(values, 0)[None] / a[:, None] + 1 / b[:, None]
    log_p = -0.5 * np.sum(np.log(2 * np.pi * variance) + rotated**2 / variance, axis=1)
    log_p += gamma(2.0, scale=1 / 1.5).logpdf(a) + np.log(a) + gamma(3.0, scale=1 / 0.8).logpdf(b) + np.log(b)
    return float(logsumexp(log_p) + 2 * np.log(grid[1] - grid[0]))


ANSWERS = np.array([0.0, 0.0, 1.0, 0.0, 1.0])
COUNTS = np.array([0.0, 1.0, 1.0, 4.0, 3.0])
GRADES, ENDS = np.array([0.0, 0.0, 1.0, 2.0, 1.0]), np.array([-np.inf, -0.4, 0.9, np.inf])
LIKELIHOODS = {
    "logistic": lambda a, y: -np.logaddexp(0.0, (1 - 2 * y) * a),
    "probit": lambda a, y: log_ndtr((2 * y - 1) * a),
    "poisson": lambda a, y: y * a - np.exp(a) - gammaln(y + 1),
    "ordered": lambda a, y: np.log(ndtr(ENDS[y.astype(int) + 1] - a) - ndtr(ENDS[y.astype(int)] - a)),
    "censored": lambda a, y: np.where(y <= 0.0, log_ndtr(-a), norm(a).logpdf(y)),
    "truncated": lambda a, y: norm(a).logpdf(y) - log_ndtr(a + 1.5),
}


GIVEN: dict[str, dict[str, Any]] = {
    "OrderedRegression": {"cuts": ENDS[1:-1]},
    "CensoredRegression": {"lower": 0.0},
    "TruncatedRegression": {"lower": -1.5},
}


def generalised(link: str) -> Callable[[Any], float]:
    """An intercept and a slope with precision ½ on a grid."""

    def evidence(data: Any) -> float:
        inputs, target = data
        grid = np.linspace(-11, 11, 441)
        intercept, slope = np.meshgrid(grid, grid, indexing="ij")
        a = intercept[..., None] + slope[..., None] * inputs[:, 0]
        with np.errstate(divide="ignore"):  # far from the answers a probability is zero
            log_p = LIKELIHOODS[link](a, target).sum(axis=-1)
        log_p = log_p + norm(0.0, np.sqrt(2.0)).logpdf(np.stack([intercept, slope])).sum(0)
        return float(logsumexp(log_p) + 2 * np.log(grid[1] - grid[0]))

    return evidence


ROWS = np.array([[0.4, 1.1], [-1.2, -0.3], [0.9, 0.2]])


def factor_analysis(x: np.ndarray) -> float:
    """One factor: Simpson's rule over its two loadings, with scores and means integrated out."""
    grid, n = np.linspace(-5.0, 5.0, 81), len(x)
    w = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    rows = w[..., :, None] * w[..., None, :] + np.diag([0.5, 0.8])
    total = np.einsum("nm,abij->abnimj", np.eye(n), rows) + np.einsum("nm,ij->nimj", np.ones((n, n)), np.eye(2))
    total = total.reshape(len(grid), len(grid), 2 * n, 2 * n)
    distance = np.einsum("i,abij,j->ab", x.ravel(), np.linalg.inv(total), x.ravel())
    log_density = -0.5 * (distance + np.linalg.slogdet(2 * np.pi * total)[1])
    log_density += norm(0.0, np.sqrt(1 / 2.0)).logpdf(w).sum(axis=-1)
    top = log_density.max()
    return float(top + np.log(simpson(simpson(np.exp(log_density - top), x=grid), x=grid)))


SERIES = np.array([5.3, 4.8, 6.0, 6.4, 5.9, 6.8])[:, None]


def local_level(x: np.ndarray) -> float:
    """Two variances by a grid over their logarithms, each point a dense Gaussian."""
    n, grid = len(x), np.linspace(-6, 5, 111)
    t = np.arange(n)
    walk, noise = (axis[..., None, None] for axis in np.meshgrid(np.exp(grid), np.exp(grid), indexing="ij"))
    total = 9.0 + np.minimum(t[:, None], t[None]) / walk + np.eye(n) / noise
    distance = (x[:, 0] - 5.0) @ np.linalg.solve(total, np.broadcast_to((x - 5.0), (*total.shape[:2], n, 1)))
    log_p = -0.5 * (distance[..., 0] + np.linalg.slogdet(2 * np.pi * total)[1])
    log_p += gamma(3.0, scale=1.0).logpdf(np.exp(grid))[:, None] + grid[:, None]
    log_p += gamma(3.0, scale=0.5).logpdf(np.exp(grid))[None] + grid[None]
    return float(logsumexp(log_p) + 2 * np.log(grid[1] - grid[0]))


PROBLEMS: dict[str, Problem] = {
    "GaussianMixture": Problem(
        lambda: tp.GaussianMixture(2, prior=tp.NormalWishart(**PRIOR)), LINE,
        lambda x: enumeration.log_evidence(x, gaussian, np.ones(2)), 1.1, MORE_LINE, MORE_LINE[-1:],
    ),
    "Mixture": Problem(
        lambda: tp.Mixture(2, "bernoulli", prior=tp.Beta(**HEADS)), FLAGS,
        lambda x: enumeration.log_evidence(x, heads, np.ones(2)), 2.5, MORE_FLAGS, MORE_FLAGS[-1:],
    ),
    "ClassMixture": Problem(
        lambda: tp.ClassMixture(2, prior=columns_prior()), TABLE, table_evidence, 2.5, MORE_TABLE, NEW_TABLE,
    ),
    "MixtureOfExperts": Problem(
        lambda: tp.MixtureOfExperts(2, prior=tp.NormalWishart(**PAIRS)), (LINE, SECOND),
        lambda data: enumeration.log_evidence(np.column_stack(data), in_pairs, np.ones(2)), 2.0,
        (MORE_LINE, np.append(SECOND, 0.2)), (MORE_LINE[-1:], np.array([0.2])),
    ),
    "DirichletProcessMixture": Problem(
        lambda: tp.DirichletProcessMixture(3, prior=tp.NormalWishart(**PRIOR), concentration=1.5), LINE,
        sticks, 3.5, MORE_LINE, MORE_LINE[-1:],
    ),
    "StudentMixture": Problem(
        lambda: tp.StudentMixture(2, degrees=DEGREES, prior=tp.NormalWishart(**PRIOR)), LINE,
        lambda x: enumeration.log_evidence(x, student, np.ones(2)), 1.5, MORE_LINE, MORE_LINE[-1:],
    ),
    "HMM": Problem(
        lambda: tp.HMM(
            2, "bernoulli", prior=tp.Beta(**HEADS), concentration=MOVES, initial_concentration=np.ones(2)
        ),
        STEPS, hidden_markov, 2.0, [STEPS, STEPS[:1]], STEPS[:1],
    ),
    "LDA": Problem(
        lambda: tp.LDA(2, document_prior=ALPHA, topic_prior=ETA), TOKENS, topics, 3.0
    ),
    "HDP": Problem(
        lambda: tp.HDP(2, concentration=2.0, document_concentration=0.8, topic_prior=ETA), TOKENS, shared, 4.0
    ),
    "StructuralTopics": Problem(
        lambda: tp.StructuralTopics(2, "~ 0 + x", topic_prior=ETA), (TOKENS, SLOPES), structural, 4.5
    ),
    "FactorialMixture": Problem(
        lambda: tp.FactorialMixture(2, **FACTORS), ACTIVE, activations, 1.5
    ),
    "LinearRegression": Problem(
        lambda: tp.LinearRegression(intercept="shared", prior=tp.Gamma(2.0, 1.5), noise=tp.Gamma(3.0, 0.8)),
        (INPUTS, TARGET), regression, 0.5,
        (np.concatenate([INPUTS, [[0.5]]]), np.append(TARGET, 0.4)), (np.array([[0.5]]), np.array([0.4])),
    ),
    **{
        name: Problem(
            lambda name=name: getattr(tp, name)(prior=0.5, **GIVEN.get(name, {})),
            (INPUTS, target), generalised(link), gap,
            (np.concatenate([INPUTS, [[0.5]]]), np.append(target, 1.0)), (np.array([[0.5]]), np.array([1.0])),
        )
        for name, link, target, gap in (
            ("LogisticRegression", "logistic", ANSWERS, 0.2),
            ("ProbitRegression", "probit", ANSWERS, 0.8),
            ("PoissonRegression", "poisson", COUNTS, 0.1),
            ("OrderedRegression", "ordered", GRADES, 0.8),
            ("CensoredRegression", "censored", TARGET, 0.8),
            ("TruncatedRegression", "truncated", TARGET, 0.8),
        )
    },
    "FactorAnalysis": Problem(
        lambda: tp.FactorAnalysis(1, noise=[0.5, 0.8], relevance=2.0, centre=0.0, scale=1.0), ROWS, factor_analysis,
        1.5, np.concatenate([ROWS, [[0.5, -0.5]]]), np.array([[0.5, -0.5]]),
    ),
    "StateSpace": Problem(
        lambda: tp.StateSpace.local_level(
            noise=tp.Gamma(3.0, 2.0), state_noise=tp.Gamma(3.0, 1.0), start=9.0, centre=5.0, scale=1.0
        ),
        SERIES, local_level, 0.5,
    ),
    "SwitchingStateSpace": Problem(
        lambda: tp.SwitchingStateSpace(
            2, 2, dynamics=tp.WeightsAndPrecision(switching.WEIGHTS, switching.PRECISIONS), start=[1.0, 2.0], noise=0.4,
            observation=switching.LOOK, concentration=switching.MOVES,
        ),
        switching.SERIES, lambda x: switching.every_path(x).log_evidence, 2.0,
    ),
    "Graph": Problem(
        graph_of_a_mixture, LINE[:, 0], lambda x: enumeration.log_evidence(x[:, None], gaussian, np.ones(2)), 1.1,
        MORE_LINE[:, 0], MORE_LINE[-1:, 0],
    ),
}  # fmt: skip
