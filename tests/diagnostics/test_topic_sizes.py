"""The number of topics by held-out words; and the map of topics, against distances that are known."""

import numpy as np
import pytest

import temperance as tp
from temperance.diagnostics.topic_map import free_labels, laid_out, topic_distances, topic_positions
from temperance.errors import InvalidData, InvalidParameter


def documents(n, rng, topics=5):
    """Documents of a few of five topics over 50 words, ten each."""
    beta = np.repeat(np.eye(topics), 10, axis=1) * 0.098 + 0.002 / 5
    beta /= beta.sum(axis=1, keepdims=True)
    theta = rng.dirichlet(np.full(topics, 0.2), n)
    return np.stack([rng.multinomial(40, row @ beta) for row in theta])


def test_the_true_number_of_topics_is_found():
    found = tp.topic_sizes(documents(150, np.random.default_rng(0)), (2, 5, 12), seed=0)
    assert found.best == 5 and found.sizes == (2, 5, 12)
    assert found.held_out.argmax() == 1 and found.coherence.argmax() == 1
    assert found.held_out[1] - found.held_out[0] > 5 * found.standard_error[0] > 0 == found.standard_error[1]
    assert "5 predict held-out words best" in found.sentence and "No number of topics is the true one" in found.sentence
    assert found.tokens == 150 * 20 and found.documents == 150
    figure = tp.plot.topic_sizes(found)
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["2", "5", "12"]


def test_the_smallest_size_within_one_error_is_chosen():
    zeros = np.zeros(3)
    found = tp.TopicSizes((5, 10, 20), np.array([-7.02, -7.004, -7.0]), np.array([0.005, 0.005, 0.0]),
                          np.array([0.1, 0.2, 0.05]), zeros, 100, 1000, 3)  # fmt: skip
    assert (found.best, found.highest) == (10, 20)
    assert "10 are within one standard error of that (0.004 lower)" in found.sentence
    assert "largest that was tried" in found.sentence and "do not agree" not in found.sentence


def test_what_cannot_be_chosen_from_is_refused():
    counts = documents(20, np.random.default_rng(0))
    with pytest.raises(InvalidData, match="at least 10 documents with words, got 5"):
        tp.topic_sizes(counts[:5])
    with pytest.raises(InvalidParameter, match="sizes must be whole numbers"):
        tp.topic_sizes(counts, (2, 0))
    with pytest.raises(InvalidParameter, match="folds must be"):
        tp.topic_sizes(counts, (2,), folds=1)


def test_distances_of_topics_are_those_of_jensen_and_shannon():
    from scipy.spatial.distance import jensenshannon

    beta = np.random.default_rng(0).dirichlet(np.full(8, 0.5), 5)
    found = topic_distances(beta)
    truth = [[jensenshannon(a, b) for b in beta] for a in beta]
    assert np.allclose(found, truth, atol=1e-7)


def test_points_in_a_plane_keep_their_distances():
    points = np.random.default_rng(0).normal(size=(6, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    found, kept = topic_positions(distances)
    assert kept == pytest.approx(1.0)
    assert np.allclose(np.linalg.norm(found[:, None] - found[None], axis=2), distances)
    one, kept = topic_positions(np.zeros((1, 1)))
    assert one.shape == (1, 2) and kept == 1.0


def test_circles_and_labels_of_a_map_do_not_hide_each_other():
    rng, room = np.random.default_rng(0), (490.0, 345.0)
    points, radius = rng.normal(size=(20, 2)) ** 3, rng.uniform(7.0, 20.0, 20)  # most in a heap
    centres = laid_out(points, radius, room, 45.0)
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2) + 1e9 * np.eye(20)
    assert (apart > 0.75 * (radius[:, None] + radius) - 0.5).all()
    assert (centres >= radius[:, None]).all() and (centres <= np.array(room) - radius[:, None]).all()
    halves = np.stack([rng.uniform(20.0, 50.0, 20), np.full(20, 4.5)], axis=1)
    labels = free_labels(centres, halves, room)
    over = np.abs(labels[:, None] - labels[None]) < halves[:, None] + halves[None] - 1e-6
    assert not (over.all(axis=2) & ~np.eye(20, dtype=bool)).any()
    assert (labels >= halves - 1e-9).all() and (labels <= np.array(room) - halves + 1e-9).all()
