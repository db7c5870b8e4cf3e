"""Topics as points in the plane: topics with similar words are near each other."""

from __future__ import annotations

import numpy as np


def topic_distances(beta: np.ndarray) -> np.ndarray:
    """√(Jensen–Shannon divergence) between every two topics (topics × words): between 0 and √ln 2, a metric."""
    entropy = -np.sum(_plogp(beta), axis=1)
    found = np.zeros((len(beta), len(beta)))
    for k, row in enumerate(beta):
        middle = -np.sum(_plogp((row + beta) / 2.0), axis=1)
        found[k] = middle - (entropy[k] + entropy) / 2.0
    found = np.sqrt(np.maximum((found + found.T) / 2.0, 0.0))
    np.fill_diagonal(found, 0.0)
    return found


def topic_positions(distances: np.ndarray) -> tuple[np.ndarray, float]:
    """Points in the plane by classical scaling (topics, 2), and the fraction of squared distances that they show."""
    n = len(distances)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ distances**2 @ centre)
    order = np.argsort(-values)[:2]
    size = np.sqrt(np.maximum(values[order], 0.0))
    points = np.zeros((n, 2))
    signs = np.sign(vectors[np.abs(vectors[:, order]).argmax(axis=0), order])  # equal on every machine
    points[:, : len(order)] = vectors[:, order] * size * signs
    total = np.maximum(values, 0.0).sum()
    return points, float(np.maximum(values[order], 0.0).sum() / total) if total > 0 else 1.0


def _plogp(p: np.ndarray) -> np.ndarray:
    return p * np.log(np.where(p > 0, p, 1.0))
