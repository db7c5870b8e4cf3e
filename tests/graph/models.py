"""Graphs that several tests use."""

from __future__ import annotations

from typing import Any

import numpy as np

from temperance.graph import Graph


def mixture(k: int = 3, d: int = 2) -> Graph:
    g = Graph()
    weights = g.dirichlet("weights", np.ones(k))
    components = g.normal_wishart("components", np.zeros(d), 0.01, d + 2.0, np.eye(d), plates=g.plate("k", k))
    z = g.categorical("z", weights, plates="n")
    g.normal("x", components[z], observed=True)
    return g


def regression(dim: int = 2) -> Graph:
    g = Graph()
    alpha = g.gamma("alpha", 2.0, 1.0)
    noise = g.gamma("noise", 2.0, 0.5)
    weights = g.normal("weights", 0.0, alpha, dim=dim)
    inputs = g.input("inputs", dim, plates="n")
    g.normal("y", g.dot(weights, inputs), noise, observed=True)
    return g


def mixture_of_regressions(k: int = 2) -> Graph:
    g = Graph()
    share = g.dirichlet("share", np.ones(k))
    weights = g.normal("weights", 0.0, 0.1, dim=2, plates=g.plate("k", k))
    noise = g.gamma("noise", 2.0, 0.5, plates="k")
    inputs = g.input("inputs", 2, plates="n")
    z = g.categorical("z", share, plates="n")
    g.normal("y", g.dot(weights[z], inputs), noise[z], observed=True)
    return g


def random_effects() -> Graph:
    g = Graph()
    centre = g.normal("centre", 0.0, 0.1)
    between = g.gamma("between", 3.0, 2.0)
    within = g.gamma("within", 3.0, 1.0)
    effect = g.normal("effect", centre, between, plates="group")
    g.normal("y", effect, within, plates=("group", "member"), observed=True)
    return g


def topics(k: int = 3, words: int = 6) -> Graph:
    g = Graph()
    topic = g.dirichlet("topics", np.full(words, 0.5), plates=g.plate("k", k))
    proportions = g.dirichlet("proportions", np.full(k, 0.7), plates="document")
    z = g.categorical("z", proportions, plates=("document", "token"))
    g.categorical("w", topic[z], observed=True)
    return g


def factorial(k: int, noise: float, probability: float, variance: float) -> Graph:
    g = Graph()
    g.plate("k", k)
    z = g.bernoulli("z", probability, plates=("n", "k"))
    factors = g.normal("factors", 0.0, 1.0 / variance, dim=k, plates="d")
    g.normal("x", g.dot(g.switches(z, "k"), factors), 1.0 / noise, plates=("n", "d"), observed=True)
    return g


def hidden_markov(k: int = 2) -> Graph:
    g = Graph()
    initial = g.dirichlet("initial", np.ones(k))
    transition = g.dirichlet("transition", np.ones(k), plates=g.plate("k", k))
    emission = g.normal_gamma("emission", 0.0, 0.3, 4.0, 2.0, plates="k")
    z = g.markov_chain("z", initial, transition, time="t", plates="n")
    g.normal("x", emission[z], observed=True)
    return g


def factor_analysis(q: int = 2) -> Graph:
    g = Graph()
    loadings = g.normal("loadings", 0.0, 1.0, dim=q, plates="d")
    scores = g.normal("scores", 0.0, 1.0, dim=q, plates="n")
    noise = g.gamma("noise", 2.0, 0.5, plates="d")
    g.normal("x", g.dot(scores, loadings), noise, plates=("n", "d"), observed=True)
    return g


def two_clusters(rng: np.random.Generator, n: int = 24) -> np.ndarray:
    return np.concatenate([rng.normal(size=(n // 2, 2)) + 2, rng.normal(size=(n // 2, 2)) - 2])


def inputs_and_targets(rng: np.random.Generator, n: int = 12) -> dict[str, Any]:
    phi = np.column_stack([np.ones(n), rng.normal(size=n)])
    sign = np.where(rng.integers(2, size=n) == 0, 1.0, -1.0)
    return {"inputs": phi, "y": sign * (phi @ [1.0, 2.0]) + 0.3 * rng.normal(size=n)}
