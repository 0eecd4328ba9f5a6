# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files an engine needs, and each fault of a folder of weights: found, and not found where there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _model_folder, _provision, _weights
from ansible_collections.plumbline.rag.plugins.module_utils._rules import weights as rules

MODEL = "acme/small"
COMMIT, OTHER = "1" * 40, "2" * 40
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n"
SENTENCE = [
    "1_Pooling/config.json",
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
]
OTHERS = [".gitattributes", "README.md", "images/a.png", "openvino/openvino_model.xml", "rust_model.ot", "tf_model.h5"]


def tensors(size: int) -> bytes:
    header = json.dumps({"__metadata__": {}, "w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


def documents() -> dict[str, Any]:
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Normalize", "Normalize"))
    return {
        "config.json": {"model_type": "bert"},
        "tokenizer.json": {},
        "modules.json": [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds],
        "1_Pooling/config.json": {},
        "2_Dense/config.json": {},
        "model.safetensors.index.json": {"weight_map": {"a": SHARDS[0], "b": SHARDS[1], "c": SHARDS[1]}},
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model in a plain folder."""
    target = tmp_path / "acme" / "small"
    contents = {name: json.dumps(document).encode() for name, document in documents().items()}
    contents |= {SHARDS[0]: tensors(1000), SHARDS[1]: tensors(2000), "2_Dense/model.safetensors": tensors(10)}
    for name, content in contents.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)
    return target


def examine(whole: Path, **changes: Any) -> _provision.Outcome:
    values = {"task": "embed", "engine": "tei", "device": "gpu", "revision": None, "folder": None, **changes}
    return _provision.examine(_provision.Wanted(repository=MODEL, directory=str(whole.parents[1]), **values))


def ids(outcome: _provision.Outcome, service: str = "embedder") -> list[str]:
    return [finding.id for finding in rules.weights_findings(service, outcome.path, outcome.faults)]


def messages(outcome: _provision.Outcome) -> str:
    return " ".join(finding.message for finding in rules.weights_findings("embedder", outcome.path, outcome.faults))


@pytest.mark.parametrize(
    ("names", "engine", "device", "code", "expected"),
    [
        (["model.safetensors", "pytorch_model.bin", "onnx/model.onnx"], "tei", "gpu", False, ["model.safetensors"]),
        (["pytorch_model.bin", "onnx/model.onnx", "flax_model.msgpack"], "vllm", "gpu", False, ["pytorch_model.bin"]),
        (
            ["model.safetensors", "onnx/model.onnx", "onnx/model.onnx_data", "onnx/model_O4.onnx"],
            "tei",
            "cpu",
            False,
            ["model.safetensors", "onnx/model.onnx", "onnx/model.onnx_data"],
        ),
        (["model.safetensors", "model.onnx"], "tei", "cpu", False, ["model.onnx", "model.safetensors"]),
        (["model.safetensors", "model.onnx"], "vllm", "cpu", False, ["model.safetensors"]),
        (["consolidated.safetensors", *SHARDS], "vllm", "gpu", False, list(SHARDS)),
        (
            [
                *SHARDS,
                "model.safetensors.index.json",
                "pytorch_model.bin.index.json",
                "pytorch_model-00001-of-00002.bin",
            ],
            "vllm",
            "gpu",
            False,
            [*SHARDS, "model.safetensors.index.json"],
        ),
        (["custom_st.py", "model.safetensors"], "vllm", "gpu", False, ["model.safetensors"]),
        (["custom_st.py", "model.safetensors"], "vllm", "gpu", True, ["custom_st.py", "model.safetensors"]),
        (
            [
                "2_Dense/config.json",
                "2_Dense/model.safetensors",
                "2_Dense/pytorch_model.bin",
                "2_Dense_1024/config.json",
            ],
            "tei",
            "gpu",
            False,
            ["2_Dense/config.json", "2_Dense/model.safetensors", "2_Dense_1024/config.json"],
        ),
        (["sentencepiece.bpe.model", "merges.txt"], "tei", "gpu", False, ["merges.txt", "sentencepiece.bpe.model"]),
        (["additional_chat_templates/x.jinja", "chat_template.jinja"], "vllm", "gpu", False, ["chat_template.jinja"]),
        ([*SENTENCE, *OTHERS], "tei", "gpu", False, SENTENCE),
    ],
)
def test_the_files_that_an_engine_needs(
    names: list[str], engine: str, device: str, code: bool, expected: list[str]
) -> None:
    assert _weights.needed(names, engine, device, code) == expected


@pytest.mark.rule("PL250", "PL251", "PL252", "PL253", "PL254", "PL255", fires=False)
@pytest.mark.parametrize("engine", ["tei", "vllm"])
def test_a_whole_folder_has_no_fault(folder: Path, engine: str) -> None:
    outcome = examine(folder, engine=engine)
    assert (outcome.path, outcome.commit, outcome.faults) == (str(folder), None, [])


@pytest.mark.rule("PL250", fires=True)
def test_a_pointer_of_git_lfs(folder: Path) -> None:
    (folder / SHARDS[0]).write_bytes(POINTER)
    outcome = examine(folder)
    assert ids(outcome) == ["PL250"]
    assert f"{SHARDS[0]} is a Git LFS pointer of 73 bytes in place of the file" in messages(outcome)


@pytest.mark.rule("PL251", fires=True)
@pytest.mark.parametrize(("target", "text"), [("../../gone", "not there"), ("/etc/hostname", "not in the container")])
def test_a_link_that_leads_nowhere(folder: Path, target: str, text: str) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to(target)
    outcome = examine(folder)
    assert ids(outcome) == ["PL251"]
    assert text in messages(outcome)


@pytest.mark.rule("PL251", fires=False)
def test_a_link_within_the_mounted_folder(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder.parents[1] / "tokenizer.json")
    (folder / "tokenizer.json").symlink_to("../../tokenizer.json")
    assert examine(folder).faults == []


def without(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


@pytest.mark.rule("PL252", fires=True)
@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (without(SHARDS[1]), SHARDS[1]),
        (without("config.json"), "config.json"),
        (without("tokenizer.json"), "tokenizer.json"),
        (without("1_Pooling/config.json"), "1_Pooling/config.json"),
        (without("2_Dense/config.json"), "2_Dense/config.json"),
        (without("2_Dense/model.safetensors"), "2_Dense/model.safetensors"),
        (without(*SHARDS, "model.safetensors.index.json"), "model.safetensors"),
    ],
)
def test_a_missing_file(folder: Path, change: Callable[[Path], None], missing: str) -> None:
    change(folder)
    outcome = examine(folder)
    assert [(fault.kind, fault.file) for fault in outcome.faults] == [("missing", missing)]
    assert ids(outcome) == ["PL252"]


@pytest.mark.rule("PL252", fires=True)
def test_no_folder_at_all(folder: Path) -> None:
    outcome = examine(folder, folder="elsewhere")
    assert ids(outcome) == ["PL252"]
    assert "it may be called elsewhere" in messages(outcome)


@pytest.mark.rule("PL252", fires=False)
def test_other_tokenizers_do_for_vllm(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "vocab.txt")
    assert examine(folder, engine="vllm").faults == []


@pytest.mark.rule("PL253", fires=True)
@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (SHARDS[0], tensors(1000)[:-1], "has 1093 bytes; by its header it has 1094"),
        (SHARDS[0], b"<!DOCTYPE html><html>not the file</html>", "does not begin as a safetensors file does"),
        ("tokenizer.json", b"", "is empty"),
        ("config.json", b'{"model_type": ', "is not JSON"),
    ],
)
def test_a_damaged_file(folder: Path, name: str, content: bytes, text: str) -> None:
    (folder / name).write_bytes(content)
    outcome = examine(folder)
    assert ids(outcome) == ["PL253"]
    assert f"{name} {text}" in messages(outcome)


@pytest.mark.rule("PL255", fires=True)
def test_a_folder_that_does_not_say_how_it_pools(folder: Path) -> None:
    without("modules.json", "1_Pooling/config.json")(folder)
    outcome = examine(folder)
    assert ids(outcome) == ["PL255"]
    assert [f.severity for f in rules.weights_findings("embedder", outcome.path, outcome.faults)] == ["warning"]


@pytest.mark.rule("PL255", fires=False)
def test_a_reranker_does_not_pool(folder: Path) -> None:
    without("modules.json", "1_Pooling/config.json")(folder)
    assert ids(examine(folder, task="rerank"), "reranker") == []


def cached(folder: Path, commit: str = COMMIT, ref: str | None = "main") -> Path:
    """The plain folder as a hub cache has it, with links into blobs."""
    cache = folder.parents[1] / "models--acme--small"
    snapshot = cache / "snapshots" / commit
    (cache / "blobs").mkdir(parents=True)
    for file in [path for path in folder.rglob("*") if path.is_file()]:
        blob = cache / "blobs" / str(file.relative_to(folder)).replace("/", "-")
        link = snapshot / file.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        file.rename(blob)
        link.symlink_to(Path(*[".."] * len(link.relative_to(cache).parts[:-1]), "blobs", blob.name))
    if ref:
        (cache / "refs").mkdir()
        (cache / "refs" / ref).write_text(commit)
    return cache


@pytest.mark.rule("PL254", fires=False)
@pytest.mark.parametrize(
    ("ref", "revision"), [("main", None), (None, None), ("v1", "v1"), ("main", COMMIT), (None, COMMIT)]
)
def test_a_hub_cache(folder: Path, ref: str | None, revision: str | None) -> None:
    cache = cached(folder, ref=ref)
    outcome = examine(folder, revision=revision)
    assert (outcome.path, outcome.commit, outcome.faults) == (str(cache / "snapshots" / COMMIT), COMMIT, [])


@pytest.mark.rule("PL254", fires=True)
@pytest.mark.parametrize("revision", [OTHER, "v2"])
def test_a_hub_cache_with_another_revision(folder: Path, revision: str) -> None:
    cached(folder)
    outcome = examine(folder, revision=revision)
    assert ids(outcome) == ["PL254"]
    assert f"does not hold {revision}; it has {COMMIT}" in messages(outcome)


def noted(folder: Path, commit: str) -> None:
    notes = folder / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    (notes / "config.json.metadata").write_text(f"{commit}\n0123\n1760000000.0\n")


@pytest.mark.rule("PL254", fires=True)
def test_a_plain_folder_of_another_revision(folder: Path) -> None:
    noted(folder, OTHER)
    assert ids(examine(folder, revision=COMMIT)) == ["PL254"]


@pytest.mark.rule("PL254", fires=False)
def test_a_plain_folder_of_the_revision(folder: Path) -> None:
    noted(folder, COMMIT)
    outcome = examine(folder, revision=COMMIT)
    assert (outcome.commit, outcome.faults) == (COMMIT, [])
    assert examine(folder, revision="v1").faults == []


@pytest.mark.rule("PL256", "PL257", "PL258", "PL259", fires=True)
def test_what_the_hub_and_the_disk_say() -> None:
    expected = {
        "unreachable": ("PL256", "rag_hub_endpoint"),
        "refused": ("PL257", "rag_hub_token"),
        "unknown": ("PL258", "rag_reranker"),
        "space": ("PL259", "rag_weights_dir"),
    }
    for kind, (rule, variable) in expected.items():
        (finding,) = rules.weights_findings("reranker", "", [_weights.Fault(kind, "", "the reason")])
        assert (finding.id, finding.where) == (rule, {"variable": variable, "hop": "reranker"})
        assert finding.message == "The reranker's weights: the reason."


@pytest.mark.rule("PL256", "PL257", "PL258", "PL259", fires=False)
def test_no_fault_is_no_finding() -> None:
    assert list(rules.weights_findings("embedder", "/models", [])) == []


def test_many_faults_of_a_kind_are_one_finding() -> None:
    faults = [_weights.Fault("missing", f"part-{number}", "is not there") for number in range(9)]
    (finding,) = rules.weights_findings("embedder", "/models/a", faults)
    assert finding.message.startswith("The embedder's weights in /models/a: part-0 is not there; part-1 is not there;")
    assert finding.message.endswith("part-4 is not there; and 4 more.")


def test_files_are_compared_with_what_the_hub_says() -> None:
    names = ("same", "short", "changed", "gone", "link")
    expected = {name: _weights.File(name, 10, "sha256:good") for name in names}
    entries = {name: _weights.Entry(10) for name in ("same", "changed")}
    entries |= {"short": _weights.Entry(9), "link": _weights.Entry(0, "dangling")}
    digests = {"same": "sha256:good", "changed": "sha256:bad"}
    found = {(fault.kind, fault.file) for fault in _weights.compare(expected, entries, digests)}
    assert found == {("damaged", "short"), ("damaged", "changed"), ("missing", "gone"), ("link", "link")}


def test_digests_are_those_of_git_and_of_lfs(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"hello\n")
    assert _model_folder.digest(str(file), "git:") == "git:ce013625030ba8dba906f756967f9e9ca394464a"
    sha256 = "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert _model_folder.digest(str(file), "sha256:") == sha256


@pytest.mark.parametrize("content", ["", "[]", "{", '{"files": {"a": 1}}', '{"repository": "a"}'])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "record.json").write_text(content)
    assert _model_folder.Record.read(str(tmp_path / "record.json")) is None


def test_code_of_other_repositories() -> None:
    config = {
        "auto_map": {
            "AutoConfig": "acme/code--configuration.NewConfig",
            "AutoModel": "acme/code--modeling.NewModel",
            "AutoTokenizer": [None, "acme/more--tokenization.Fast"],
            "AutoModelForMaskedLM": "modeling.Own",
        }
    }
    assert _weights.code_repositories(config) == ["acme/code", "acme/more"]
    assert _weights.code_repositories({"model_type": "bert"}) == []
    assert _weights.code_repositories(None) == []


@pytest.mark.rule("PL252", fires=True)
def test_code_that_was_not_brought_along(folder: Path) -> None:
    config = {"auto_map": {"AutoModel": "acme/code--modeling.NewModel"}}
    (folder / "config.json").write_text(json.dumps(config))
    assert examine(folder, engine="vllm").faults == []
    assert ids(examine(folder, engine="vllm", code=True)) == ["PL252"]
    (folder.parents[1] / "models--acme--code").mkdir()
    assert examine(folder, engine="vllm", code=True).faults == []
