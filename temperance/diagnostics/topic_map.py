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


def laid_out(points: np.ndarray, radius: np.ndarray, room: tuple[float, float], edge: float) -> np.ndarray:
    """Centres of circles in a rectangle that the points fill up to its edges: circles are moved apart until none hides
    the number of another (or for 200 steps)."""
    size = np.array(room)
    spread = np.maximum(np.ptp(points, axis=0), 1e-9)
    places = (points - points.min(axis=0)) / spread if len(points) > 1 else np.full((1, 2), 0.5)
    # The little noise separates circles with one centre.
    centres = edge + places * (size - 2 * edge) + np.random.default_rng(0).normal(0.0, 1e-3, points.shape)
    wanted = 0.75 * (radius[:, None] + radius)
    np.fill_diagonal(wanted, 0.0)
    for _ in range(200):
        between = centres[:, None] - centres
        distance = np.maximum(np.sqrt((between**2).sum(axis=2)), 1e-9)
        missing = np.maximum(wanted - distance, 0.0)
        if missing.max() < 0.5:
            break
        centres = centres + 0.25 * ((missing / distance)[:, :, None] * between).sum(axis=1)
        centres = np.clip(centres, radius[:, None], size - radius[:, None])
    return centres


def free_labels(wanted: np.ndarray, halves: np.ndarray, room: tuple[float, float]) -> np.ndarray:
    """Centres of labels (rectangles of these half widths and heights) as near to the wanted ones as a simple search
    finds: inside the room, each is moved up or down until it covers none of those before it."""
    found = np.clip(wanted, halves, np.maximum(np.array(room) - halves, halves))
    for k in range(1, len(found)):
        beside = np.abs(found[:k, 0] - found[k, 0]) < halves[:k, 0] + halves[k, 0]
        taken, needed = found[:k, 1][beside], (halves[:k, 1] + halves[k, 1])[beside]
        tried = np.concatenate([[found[k, 1]], taken - needed, taken + needed])
        inside = (tried >= halves[k, 1]) & (tried <= room[1] - halves[k, 1])
        free = inside & (np.abs(tried[:, None] - taken) >= needed - 1e-9).all(axis=1)
        if free.any():
            found[k, 1] = min(tried[free], key=lambda y: abs(y - found[k, 1]))
    return found


def _plogp(p: np.ndarray) -> np.ndarray:
    return p * np.log(np.where(p > 0, p, 1.0))
