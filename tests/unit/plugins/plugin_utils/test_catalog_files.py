from __future__ import annotations

import copy

import pytest
import yaml

from ansible_collections.plumbline.rag.plugins.plugin_utils import _catalog_files, _controller

EMBEDDER = {
    "id": "acme/embed",
    "languages": ["en"],
    "licence": {"name": "MIT", "commercial": True},
    "parameters": 1000,
    "dimensions": 8,
    "matryoshka": [4],
    "max_tokens": 64,
    "kind": "asymmetric",
    "prefixes": {"query": "q: ", "document": "d: "},
    "pooling": "mean",
    "normalized": True,
    "engines": {"vllm": {"args": ["--runner", "pooling"]}},
    "fixtures": [
        {"texts": "deep_learning", "query_prefix": "", "document_prefix": "", "cosines": [[0.5]], "tolerance": 0.01}
    ],
    "sources": ["ours"],
}
RERANKER = {
    "id": "acme/rerank",
    "licence": {"name": "MIT", "commercial": True},
    "parameters": 1000,
    "max_tokens": 64,
    "kind": "cross-encoder",
    "score_range": {"vllm": [0.0, 1.0]},
    "engines": {"vllm": {}},
    "quality": {"verdict": "unknown", "statement": "not compared"},
    "sources": ["ours"],
}
ABSENT = object()


def put(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else yaml.safe_dump(content, allow_unicode=True)
    path.write_text(text, encoding="utf-8")


def load(folder):
    return _controller.load_catalog([str(folder)])


def with_change(entry, field, value):
    """The entry with one field, named by its path, changed or removed."""
    changed = copy.deepcopy(entry)
    *parents, last = field.split(".")
    target = changed
    for key in parents:
        target = target[int(key) if key.isdigit() else key]
    if value is ABSENT:
        del target[last]
    else:
        target[last] = value
    return changed


def test_the_shipped_catalog_is_valid():
    catalog, findings = _controller.load_catalog()
    assert findings == []
    files = list((_catalog_files.COLLECTION / "catalog").glob("*rs/*.yml"))
    assert len(catalog.embedders) + len(catalog.rerankers) == len(files)


@pytest.mark.rule("PL106", "PL117", fires=False)
def test_an_operators_entries_lie_beside_the_shipped_ones(tmp_path):
    put(tmp_path, "embedders/acme.yml", EMBEDDER)
    put(tmp_path, "rerankers/acme.yaml", RERANKER)
    catalog, findings = load(tmp_path)
    assert findings == []
    assert catalog.embedders["acme/embed"].query_prefix == "q: "
    assert "acme/rerank" in catalog.rerankers
    assert "BAAI/bge-m3" in catalog.embedders


@pytest.mark.rule("PL117", fires=True)
def test_an_operators_entry_wins_over_the_shipped_one(tmp_path):
    put(tmp_path, "embedders/ours.yml", {**EMBEDDER, "id": "BAAI/bge-m3"})
    catalog, [finding] = load(tmp_path)
    assert (finding.id, finding.severity) == ("PL117", "note")
    assert catalog.embedders["BAAI/bge-m3"].dimensions == 8
    assert _controller.load_catalog()[0].embedders["BAAI/bge-m3"].dimensions == 1024


def test_an_operators_texts_serve_its_fixtures(tmp_path):
    put(tmp_path, "fixtures.yml", {"ours": {"source": "ours", "queries": ["q"], "documents": ["d", "e"]}})
    row = {"texts": "ours", "query_prefix": "", "document_prefix": "", "cosines": [[0.1, 0.2]], "tolerance": 0.01}
    put(tmp_path, "embedders/acme.yml", {**EMBEDDER, "fixtures": [row]})
    catalog, findings = load(tmp_path)
    assert findings == []
    assert catalog.embedders["acme/embed"].fixtures[0]["documents"] == ["d", "e"]
    assert catalog.embedders["BAAI/bge-m3"].fixtures


@pytest.mark.rule("PL106", fires=True)
@pytest.mark.parametrize(
    ("entry", "field", "value", "says"),
    [
        (EMBEDDER, "id", "no-organisation", "id: "),
        (EMBEDDER, "id", ABSENT, "'id' is a required property"),
        (EMBEDDER, "revision", "main", "revision: "),
        (EMBEDDER, "languages", ["English"], "languages[0]: "),
        (EMBEDDER, "licence", "MIT", "licence: 'MIT' is not of type 'object'"),
        (EMBEDDER, "licence.commercial", "yes", "licence.commercial: 'yes' is not of type"),
        (EMBEDDER, "licence.commercial", ABSENT, "licence: 'commercial' is a required property"),
        (EMBEDDER, "gated", "no", "gated: "),
        (EMBEDDER, "parameters", "568M", "parameters: '568M' is not of type 'integer'"),
        (EMBEDDER, "parameters", 0, "parameters: 0 is less than the minimum of 1"),
        (EMBEDDER, "dimensions", 8.5, "dimensions: 8.5 is not of type 'integer'"),
        (EMBEDDER, "dimensions", True, "dimensions: True is not of type 'integer'"),
        (EMBEDDER, "matryoshka", [4, "2"], "matryoshka[1]: "),
        (EMBEDDER, "matryoshka", [4, 16], "matryoshka must hold dimensions below 8"),
        (EMBEDDER, "max_tokens", None, "max_tokens: None is not of type 'integer'"),
        (EMBEDDER, "kind", "both", "kind: 'both' is not one of"),
        (EMBEDDER, "kind", "symmetric", "prefixes do not fit the kind symmetric"),
        (EMBEDDER, "prefixes.query", ABSENT, "prefixes: 'query' is a required property"),
        (EMBEDDER, "prefixes.query", 3, "prefixes.query: 3 is not of type 'string'"),
        (EMBEDDER, "prefixes.query", "q:\\n", "prefixes.query: It holds a backslash and an n"),
        (EMBEDDER, "prefixes.query", "q:\u00a0", "prefixes.query: "),
        (EMBEDDER, "prefixes.document", "d:\u3000", "prefixes.document: "),
        (EMBEDDER, "prefixes.document", "d:\u200b ", "prefixes.document: "),
        (EMBEDDER, "prefixes.document", "d:\t", "prefixes.document: "),
        (EMBEDDER, "pooling", "max", "pooling: 'max' is not one of"),
        (EMBEDDER, "normalized", "true", "normalized: 'true' is not of type 'boolean'"),
        (EMBEDDER, "dtypes_refused", {"fp16": "unstable"}, "dtypes_refused: 'fp16' is not one of"),
        (EMBEDDER, "engines", [], "engines: [] is not of type 'object'"),
        (EMBEDDER, "engines", {"llama.cpp": {}}, "engines: 'llama.cpp' is not one of"),
        (EMBEDDER, "engines.vllm.args", "--runner pooling", "engines.vllm.args: "),
        (EMBEDDER, "engines.vllm.args", ["--port", 8000], "engines.vllm.args[1]: 8000 is not of type 'string'"),
        (EMBEDDER, "engines.vllm.flags", [], "engines.vllm: Additional properties are not allowed ('flags'"),
        (EMBEDDER, "engines.vllm.refused", "no", "engines.vllm: "),
        (EMBEDDER, "benchmarks", {"source": "x"}, "benchmarks: 'zero_shot_percent' is a required property"),
        (EMBEDDER, "benchmarks", {"source": "x", "zero_shot_percent": [120, 5]}, "benchmarks.zero_shot_percent: "),
        (EMBEDDER, "fixtures", {}, "fixtures: {} is not of type 'array'"),
        (EMBEDDER, "fixtures.0.texts", "nope", "there is no text set nope"),
        (EMBEDDER, "fixtures.0.cosines", [[0.1, 0.2]], "1 documents and 2 values"),
        (EMBEDDER, "fixtures.0.cosines", [["0.1"]], "fixtures[0].cosines[0][0]: '0.1' is not of type 'number'"),
        (EMBEDDER, "fixtures.0.cosines", [[float("nan")]], "holds a value that JSON has not"),
        (EMBEDDER, "fixtures.0.tolerance", 0, "fixtures[0].tolerance: "),
        (EMBEDDER, "fixtures.0.query_prefix", ABSENT, "fixtures[0]: 'query_prefix' is a required property"),
        (EMBEDDER, "gotchas", ["a text"], "gotchas[0]: 'a text' is not of type 'object'"),
        (EMBEDDER, "gotchas", [{"text": "x", "rule": "PL1"}], "gotchas[0].rule: "),
        (EMBEDDER, "sources", [], "sources: "),
        (EMBEDDER, "unverified", ["everything"], "unverified[0]: 'everything' is not one of"),
        (EMBEDDER, "dimension", 8, "Additional properties are not allowed ('dimension' was unexpected)"),
        (RERANKER, "kind", "asymmetric", "kind: 'asymmetric' is not one of"),
        (RERANKER, "score_range", {"vllm": [1.0]}, "score_range.vllm: "),
        (RERANKER, "score_range", {"vllm": "0-1"}, "score_range.vllm: '0-1' is not of type 'array'"),
        (RERANKER, "quality.verdict", "good", "quality.verdict: 'good' is not one of"),
        (RERANKER, "quality.statement", ABSENT, "quality: 'statement' is a required property"),
        (RERANKER, "quality.figures", {"x": [1.0]}, "quality.figures.x: "),
        (RERANKER, "prefixes", {"query": ""}, "Additional properties are not allowed ('prefixes'"),
    ],
)
def test_a_bad_field_is_a_finding_that_names_file_and_field(tmp_path, entry, field, value, says):
    folder = "embedders" if entry is EMBEDDER else "rerankers"
    put(tmp_path, f"{folder}/acme.yml", with_change(entry, field, value))
    catalog, findings = load(tmp_path)
    assert {finding.id for finding in findings} == {"PL106"}
    assert all(f"{folder}/acme" in finding.message for finding in findings)
    assert any(says in finding.message for finding in findings), [finding.message for finding in findings]
    assert entry["id"] not in {**catalog.embedders, **catalog.rerankers}
    assert "BAAI/bge-m3" in catalog.embedders


def test_a_file_with_several_faults_is_told_of_all(tmp_path):
    changed = with_change(with_change(EMBEDDER, "kind", "both"), "dimensions", "8")
    put(tmp_path, "embedders/acme.yml", changed)
    _catalog, findings = load(tmp_path)
    assert len(findings) == 2


@pytest.mark.rule("PL106", fires=True)
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("embedders/a.yml", "id: a\nkind: [", "cannot be read: line 3: "),
        ("embedders/a.yml", "", "None is not of type 'object'"),
        ("embedders/a.yml", "- a", "is not of type 'object'"),
        ("embedders/a.yml", "id: \0", "cannot be read"),
        ("embedders/a.yml", "a: &a [*a]", "holds a YAML alias"),
        ("embedders/a.yml", "a: &a [x]\nb: [*a, *a]", "holds a YAML alias"),
        ("embedders/a.yml", "id: !!python/object/apply:os.getcwd []", "cannot be read"),
        ("embedders/a.yml", "day: 2026-01-01", "holds a value that JSON has not"),
        ("embedders/a.yml", "raw: !!binary aGk=", "holds a value that JSON has not"),
        ("embedders/a.yml", 'id: "\\ud800"', "a.yml"),
        ("embedders/a.yml", "id: " + "x" * 1_000_001, "is larger than 1000000 bytes"),
        ("embedders/a.yml", "[" * 30, "is nested too deeply"),
        ("embedders/a.yml", "[" * 300_000, "cannot be read"),
        ("embedders/a.yml", "- " * 300_000, "is nested too deeply"),
        ("embedders/a.yml", "{? " * 30, "is nested too deeply"),
        ("embedders/a.yml", "{[a]: b}", "cannot be read"),
        ("embedders/a.yml", "id: a\n---\nid: b", "cannot be read"),
        ("acme.yml", "id: acme/embed", "is not read; models belong into the folders embedders and rerankers"),
        ("engines.yml", "vllm: {}", "is not read"),
        ("fixtures.yml", "ours: [a]", "ours: ['a'] is not of type 'object'"),
        ("fixtures.yml", "[]", "[] is not of type 'object'"),
    ],
)
def test_a_file_that_is_no_entry_is_a_finding(tmp_path, name, content, says):
    put(tmp_path, name, content)
    _catalog, findings = load(tmp_path)
    assert {finding.id for finding in findings} == {"PL106"}
    assert says in findings[0].message
    assert name in findings[0].message


def test_a_file_in_another_encoding_is_a_finding(tmp_path):
    put(tmp_path, "embedders/a.yml", "")
    (tmp_path / "embedders/a.yml").write_bytes("id: ä".encode("utf-16"))
    assert [finding.id for finding in load(tmp_path)[1]] == ["PL106"]


def test_long_values_are_cut_in_the_message(tmp_path):
    put(tmp_path, "embedders/a.yml", {**EMBEDDER, "kind": "x" * 100_000})
    [finding] = load(tmp_path)[1]
    assert len(finding.message) < 500


def test_a_folder_that_is_not_there_is_a_finding(tmp_path):
    [finding] = load(tmp_path / "nowhere")[1]
    assert finding.id == "PL106"
    assert "is not a folder" in finding.message


@pytest.mark.rule("PL106", fires=True)
def test_without_the_schema_library_an_operators_folder_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr(_catalog_files, "jsonschema", None)
    put(tmp_path, "embedders/acme.yml", EMBEDDER)
    catalog, [finding] = load(tmp_path)
    assert "lacks the Python package jsonschema" in finding.message
    assert "acme/embed" not in catalog.embedders
    assert "BAAI/bge-m3" in catalog.embedders


def test_without_the_schema_library_the_shipped_catalog_is_still_read(monkeypatch):
    monkeypatch.setattr(_catalog_files, "jsonschema", None)
    documents, findings = _catalog_files.read(_catalog_files.COLLECTION / "catalog")
    assert findings == []
    assert "embedders/BAAI--bge-m3" in documents
