"""Seeded topics: which topic has which words is decided by the prior, and nothing else changes."""

import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter

WORDS = ("army", "war", "peace", "tax", "bank", "money", "rain", "wind", "snow")


def texts(seed=0, documents=120):
    rng = np.random.default_rng(seed)
    blocks = np.array(WORDS).reshape(3, 3)
    return [list(rng.choice(blocks[rng.integers(3)], 8)) + list(rng.choice(WORDS, 2)) for _ in range(documents)]


@pytest.mark.parametrize("method", [tp.CVB0(), tp.VB()], ids=["CVB0", "VB"])
def test_seeds_decide_which_topic_is_which(method):
    for first, second in (("tax", "snow"), ("snow", "war"), ("war", "tax")):
        model = tp.LDA(3, seeds={0: [first], 1: {second: 100}})
        fit = tp.fit(model, texts(), method, seed=0, progress=False)
        top = [{word for word, _ in topic} for topic in fit.topics(3)]
        group = {word: set(WORDS[3 * (i // 3) : 3 * (i // 3) + 3]) for i, word in enumerate(WORDS)}
        assert top[0] == group[first] and top[1] == group[second]


def test_the_prior_has_the_counts():
    documents = [["a", "b", "b"]] * 20 + [["c", "b"]] * 20
    model, _ = tp.LDA(2, topic_prior=0.5, seeds=[["b", "-c"], {"a": 7}]).prepare(documents)
    eta = np.asarray(model.prior["topics"].concentration)
    np.testing.assert_allclose(eta, [[0.5, 0.5 + 0.1 * 60, 0.5e-6], [7.5, 0.5, 0.5]])
    again, _ = model.prepare(documents)  # once is enough
    np.testing.assert_allclose(np.asarray(again.prior["topics"].concentration), eta)


def test_a_word_to_avoid_is_avoided_where_another_topic_explains_it():
    documents = [[*text, "people", "people"] for text in texts()]
    place = sorted([*WORDS, "people"]).index("people")
    shares = []
    for words in (["war", "army"], ["war", "army", "-people"]):
        model = tp.LDA(4, document_prior=1.0, seeds={0: words, 3: {"people": 20}})
        fit = tp.fit(model, documents, tp.CVB0(), seed=0, progress=False)
        assert {word for word, _ in fit.topics(4)[0]} >= {"war", "army"}
        shares.append(fit.model.distributions(fit.state)[0, place])
    assert shares[1] < 0.001 and shares[0] > 10 * shares[1]


@pytest.mark.parametrize(
    ("seeds", "says"),
    [
        ("war", "seeds must be"),
        ({5: ["war"]}, "from 0 to 2"),
        ({0: "war"}, "must be a list"),
        ({0: {"war": -1}}, "at least 0"),
        ({0: ["nowhere"]}, "'nowhere' of seeds is not among the 9 words"),
        ({0: [3]}, "must be texts"),
    ],
)
def test_mistakes_are_one_sentence(seeds, says):
    with pytest.raises(InvalidParameter, match=says):
        tp.fit(tp.LDA(3, seeds=seeds), texts())


def test_seeds_need_words():
    with pytest.raises(InvalidData, match="seeds need a vocabulary"):
        tp.fit(tp.LDA(2, seeds=[["war"]]), np.eye(4))
    with pytest.raises(InvalidParameter, match="not learned"):
        tp.LDA(2, seeds=[["war"]], learn="topic_prior")
