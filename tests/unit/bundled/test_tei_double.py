"""The double of TEI answers as TEI does, in both versions; tests/contract holds its routes to TEI's own description."""

from __future__ import annotations

import base64
import math
import struct

import pytest
from fastapi.testclient import TestClient
from tei_double import cli
from tei_double.app import EMBEDDER, FACTS, RERANKER, StartError, create_app, settings_from

OLD, NEW = "1.8.3", "1.9.3"
LONG = " ".join(["word"] * 700)


def client(model, *arguments, version=NEW, environment=None):
    options = cli.parse(["--model-id", EMBEDDER, *arguments], environment or {}, version)
    return TestClient(create_app(settings_from(options, version), model))


@pytest.fixture(scope="module", params=[OLD, NEW])
def version(request):
    return request.param


@pytest.fixture(scope="module")
def embedder(model):
    return client(model, "--max-client-batch-size", "3")


@pytest.fixture(scope="module")
def reranker(model):
    options = cli.parse(["--model-id", RERANKER, "--max-client-batch-size", "4"], {}, NEW)
    return TestClient(create_app(settings_from(options, NEW), model))


def test_vectors_are_those_of_the_model_on_every_route(embedder, model):
    texts = ["query: first", "passage: second"]
    expected = model.embed(texts).tolist()
    native = embedder.post("/embed", json={"inputs": texts})
    openai = embedder.post("/v1/embeddings", json={"input": texts, "model": "anything"}).json()
    packed = embedder.post("/embeddings", json={"input": texts, "encoding_format": "base64"}).json()
    for i, vector in enumerate(expected):
        assert native.json()[i] == pytest.approx(vector, abs=1e-6)
        assert openai["data"][i]["embedding"] == pytest.approx(vector, abs=1e-6)
        assert struct.unpack("<384f", base64.b64decode(packed["data"][i]["embedding"])) == pytest.approx(
            vector, abs=1e-6
        )
    assert openai["model"] == EMBEDDER
    assert openai["usage"]["total_tokens"] == sum(model.count(text) for text in texts)
    assert native.headers["x-compute-tokens"] == str(openai["usage"]["total_tokens"])


def test_a_reduced_vector_is_normalised_again(embedder):
    (vector,) = embedder.post("/embed", json={"inputs": "x", "dimensions": 64}).json()
    assert (len(vector), sum(x * x for x in vector)) == (64, pytest.approx(1, abs=1e-5))


def test_similarity_is_the_cosine(embedder, model):
    body = {"inputs": {"source_sentence": "a cat", "sentences": ["a cat", "the weather"]}}
    same, other = embedder.post("/similarity", json=body).json()
    assert same == pytest.approx(1, abs=1e-4)
    rows = model.embed(["a cat", "the weather"])
    assert other == pytest.approx(float(rows[0] @ rows[1]), abs=1e-4)


def test_rerank_is_a_bare_list_with_the_best_first(reranker, model):
    texts = ["Cats sleep a lot.", "Paris is the capital of France."]
    plain = reranker.post("/rerank", json={"query": "capital of France", "texts": texts, "return_text": True}).json()
    assert [(rank["index"], rank["text"]) for rank in plain] == [(1, texts[1]), (0, texts[0])]
    rows = model.embed(["query: capital of France", f"passage: {texts[1]}"])
    assert plain[0]["score"] == pytest.approx((1 + float(rows[0] @ rows[1])) / 2, abs=1e-3)
    raw = reranker.post("/rerank", json={"query": "capital of France", "texts": texts, "raw_scores": True}).json()
    for one, other in zip(plain, raw):
        assert one["score"] == pytest.approx(1 / (1 + math.exp(-other["score"])), abs=1e-4)
    predicted = reranker.post("/predict", json={"inputs": [["capital of France", text] for text in texts]}).json()
    assert [entry["score"] for (entry,) in predicted] == pytest.approx([plain[1]["score"], plain[0]["score"]], abs=1e-4)


@pytest.mark.parametrize(("version", "status"), [(OLD, 413), (NEW, 422)])
def test_validation_has_another_status_since_1_9(model, version, status):
    served = client(model, "--max-client-batch-size", "3", version=version)
    native = served.post("/embed", json={"inputs": ["x"] * 4})
    message = "batch size 4 > maximum allowed batch size 3"
    assert (native.status_code, native.json()) == (status, {"error": message, "error_type": "Validation"})
    openai = served.post("/v1/embeddings", json={"input": ["x"] * 4})
    assert (openai.status_code, openai.json()) == (status, {"message": message, "code": status, "type": "Validation"})
    long = served.post("/embed", json={"inputs": LONG, "truncate": False})
    assert long.status_code == status
    assert long.json()["error"].startswith("Input validation error: `inputs` must have less than 512 tokens. Given: 7")


@pytest.mark.parametrize(("version", "status"), [(OLD, 413), (NEW, 200)])
def test_long_texts_are_truncated_by_default_since_1_9(model, version, status):
    served = client(model, version=version)
    assert served.get("/info").json()["auto_truncate"] is (status == 200)
    assert served.post("/v1/embeddings", json={"input": LONG}).status_code == status
    assert served.post("/embed", json={"inputs": LONG, "truncate": True}).status_code == 200


def test_what_is_beyond_the_limit_does_not_count(model):
    served = client(model, "--max-batch-tokens", "64")
    assert served.get("/info").json()["max_input_length"] == 64
    tails = [f"{' '.join(['word'] * 100)} {tail}" for tail in ("cat", "parliament")]
    one, other = served.post("/embed", json={"inputs": tails}).json()
    assert one == pytest.approx(other, abs=1e-5)
    left, right = served.post("/embed", json={"inputs": tails, "truncation_direction": "left"}).json()
    assert left != pytest.approx(right, abs=1e-3)


@pytest.mark.parametrize(
    ("route", "body", "status", "text"),
    [
        ("/rerank", {"query": "q", "texts": ["a"]}, 424, "model is not a re-ranker model"),
        ("/embed", {"inputs": []}, 400, "`inputs` cannot be empty"),
        ("/embed", {"inputs": ""}, 400, "`inputs` cannot be empty"),
        ("/embed", {"inputs": "x", "dimensions": 385}, 422, "`dimensions` should be smaller"),
        ("/embed", {}, 422, "missing field `inputs`"),
        ("/embed", {"inputs": 5}, 422, "did not match any variant"),
        ("/rerank", {"query": "q", "documents": ["a"]}, 422, "missing field `texts`"),
        ("/v1/embeddings", {"input": "x", "encoding_format": None}, 400, "encoding_format: expected value"),
        ("/v1/rerank", {"query": "q", "documents": ["a"]}, 404, ""),
    ],
)
def test_a_wrong_request_is_refused_in_words(embedder, route, body, status, text):
    answer = embedder.post(route, json=body)
    assert (answer.status_code, text in answer.text) == (status, True)


def test_a_reranker_embeds_nothing(reranker):
    answer = reranker.post("/v1/embeddings", json={"input": "x"})
    assert (answer.status_code, answer.json()["type"]) == (424, "Backend")


def test_bodies_that_the_framework_rejects(model):
    served = client(model, "--payload-limit", "100")
    assert served.post("/embed", json={"inputs": "x" * 200}).status_code == 413
    assert served.post("/embed", content="{}").status_code == 415
    assert served.post("/embed", content="{", headers={"content-type": "application/json"}).status_code == 400


def test_every_input_takes_a_permit(model):
    served = client(model, "--max-concurrent-requests", "2")
    answer = served.post("/embed", json={"inputs": ["a", "b", "c"]})
    assert (answer.status_code, answer.json()) == (429, {"error": "Model is overloaded", "error_type": "Overloaded"})
    assert served.post("/embed", json={"inputs": ["a", "b"]}).status_code == 200
    assert 'te_request_failure{err="overloaded"} 1' in served.get("/metrics").text


def test_the_key_guards_all_but_health_and_metrics(model):
    served = client(model, environment={"API_KEY": "key"})
    answer = served.post("/embed", json={"inputs": "x"})
    assert (answer.status_code, answer.content) == (401, b"")
    assert served.get("/info", headers={"Authorization": "bearer key"}).status_code == 401
    assert served.get("/info", headers={"Authorization": "Bearer key"}).status_code == 200
    assert {served.get(path).status_code for path in ("/health", "/ping", "/", "/metrics")} == {200}


def test_a_default_prompt_is_put_before_every_text(model):
    served = client(model, "--default-prompt", "query: ")
    vector = served.post("/v1/embeddings", json={"input": "x"}).json()["data"][0]["embedding"]
    assert vector == pytest.approx(model.embed(["query: x"])[0].tolist(), abs=1e-6)


@pytest.mark.parametrize(
    ("version", "arguments", "text"),
    [
        (NEW, ["--nonsense", "1"], "unexpected argument '--nonsense' found"),
        (NEW, ["--port"], "a value is required for '--port <PORT>'"),
        (NEW, ["--port", "80", "--port", "81"], "cannot be used multiple times"),
        (NEW, ["--port", "eighty"], "invalid digit"),
        (NEW, ["--dtype", "bfloat16"], "[possible values: float16, float32]"),
        (NEW, ["--pooling", "max"], "[possible values: cls, mean, splade, last-token]"),
        (NEW, ["--auto-truncate", "yes"], "[possible values: true, false]"),
        (OLD, ["--auto-truncate", "false"], "unexpected argument 'false' found"),
        (OLD, ["--served-model-name", "x"], "unexpected argument '--served-model-name' found"),
        (NEW, ["--default-prompt", "a", "--default-prompt-name", "b"], "cannot be used with"),
    ],
)
def test_the_command_line_is_refused_as_clap_refuses_it(version, arguments, text):
    with pytest.raises(cli.UsageError) as refused:
        cli.parse(["--model-id", EMBEDDER, *arguments], {}, version)
    assert text in str(refused.value)


def test_the_model_is_required_since_1_9():
    with pytest.raises(cli.UsageError, match="required arguments"):
        cli.parse([], {}, NEW)
    assert cli.parse([], {}, OLD)["model_id"] is None


def test_flags_win_over_variables():
    options = cli.parse(["--model-id=a", "--json-output"], {"MODEL_ID": "b", "PORT": "80", "API_KEY": "k"}, NEW)
    assert (options["model_id"], options["port"], options["api_key"], options["json_output"]) == ("a", 80, "k", True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--model-id", "other/model"],
        ["--model-id", EMBEDDER, "--default-prompt-name", "query"],
        ["--model-id", EMBEDDER, "--auto-truncate", "false", "--max-batch-tokens", "256"],
    ],
)
def test_it_does_not_start(arguments):
    with pytest.raises(StartError):
        settings_from(cli.parse(arguments, {}, NEW), NEW)


def test_a_folder_is_loaded_as_it_is(tmp_path):
    arguments = ["--model-id", str(tmp_path), "--served-model-name", "mine"]
    (tmp_path / "config.json").write_text(f'{{"_name_or_path": "{RERANKER}"}}')
    with pytest.raises(StartError, match=r"`tokenizer.json` not found"):
        settings_from(cli.parse(arguments, {}, NEW), NEW)
    (tmp_path / "tokenizer.json").write_text("{}")
    settings = settings_from(cli.parse(arguments, {}, NEW), NEW)
    assert (settings.model, settings.served_name, settings.reranks) == (str(tmp_path), "mine", True)


# TEI's own description, recorded as facts: what the double has, and what it leaves out.
LEFT_OUT = {"/decode", "/tokenize", "/embed_all", "/embed_sparse"}


def test_the_routes_are_those_of_the_description(embedder):
    routes = {route.path for route in embedder.app.routes}
    assert set(FACTS["paths"]) - routes == LEFT_OUT
    extra = {"/", "/ping", "/embeddings", "/api-doc/openapi.json"}
    assert routes - set(FACTS["paths"]) == extra
    assert embedder.get("/api-doc/openapi.json").json()["paths"].keys() == FACTS["paths"].keys()


@pytest.mark.parametrize("path", sorted(path for path, entry in FACTS["paths"].items() if "request" in entry))
def test_required_fields_are_those_of_the_description(embedder, reranker, path):
    served = reranker if path in ("/rerank", "/predict") else embedder
    full = {
        "/embed": {"inputs": "x"},
        "/v1/embeddings": {"input": "x"},
        "/rerank": {"query": "q", "texts": ["x"]},
        "/predict": {"inputs": ["q", "x"]},
        "/similarity": {"inputs": {"source_sentence": "x", "sentences": ["y"]}},
    }.get(path)
    if full is None:
        assert path in LEFT_OUT
        return
    assert set(full) == set(FACTS["paths"][path]["request"]["required"])
    assert served.post(path, json=full).status_code == 200
    for field in full:
        answer = served.post(path, json={name: value for name, value in full.items() if name != field})
        assert (answer.status_code, f"missing field `{field}`" in answer.text) == (422, True)
    assert {"400", "413", "422", "424", "429"} <= set(FACTS["paths"][path]["responses"])


def test_shapes_are_those_of_the_description(embedder, reranker):
    assert set(FACTS["paths"]["/info"]["answer"]["required"]) <= embedder.get("/info").json().keys()
    assert embedder.get("/info").json().keys() <= set(FACTS["paths"]["/info"]["answer"]["fields"])
    kinds = {kind for served in (embedder, reranker) for kind in served.get("/info").json()["model_type"]}
    assert kinds == {"embedding", "reranker"}
    assert kinds <= set(FACTS["model_types"])
    openai = embedder.post("/v1/embeddings", json={"input": "x"}).json()
    assert openai.keys() == set(FACTS["paths"]["/v1/embeddings"]["answer"]["required"])
    assert openai["data"][0].keys() == set(FACTS["openai_embedding"])
    assert openai["usage"].keys() == set(FACTS["openai_usage"])
    (rank,) = reranker.post("/rerank", json={"query": "q", "texts": ["x"], "return_text": True}).json()
    assert set(FACTS["rank"]["required"]) <= rank.keys() <= set(FACTS["rank"]["fields"])
    (prediction,) = reranker.post("/predict", json={"inputs": ["q", "x"]}).json()
    assert prediction.keys() == set(FACTS["prediction"])
    assert embedder.post("/embed", json={"inputs": []}).json().keys() == set(FACTS["error"])
    assert embedder.post("/v1/embeddings", json={"input": []}).json().keys() == set(FACTS["openai_error"])
    assert embedder.post("/embed", json={"inputs": []}).json()["error_type"] in FACTS["error_types"]
