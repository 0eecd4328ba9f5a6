# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real client of the hub against a double of it: fetching, going on after an interruption, damage, refusals."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _hub, _provision

sys.path.insert(0, str(Path(__file__).parents[1] / "stack" / "doubles"))

from hub import HubDouble, Repository, serving, small_model

MODEL = "acme/small"
COMMIT, OTHER = "1" * 40, "2" * 40
FILES = small_model(MODEL)
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
LOADED = [
    "1_Pooling/config.json",
    "config.json",
    FIRST,
    SECOND,
    "model.safetensors.index.json",
    "modules.json",
    "tokenizer.json",
    "tokenizer_config.json",
]


@pytest.fixture
def hub() -> Iterator[HubDouble]:
    changed = {**FILES, "config.json": b'{"model_type": "bert", "changed": true}'}
    models = {
        MODEL: Repository({COMMIT: FILES, OTHER: changed}, {"main": COMMIT, "v2": OTHER}),
        "acme/gated": Repository({COMMIT: FILES}, {"main": COMMIT}, gated=True),
    }
    tokens = frozenset({"hf_member", "hf_stranger"})
    with serving(HubDouble(models, tokens=tokens, members=frozenset({"hf_member"}))) as double:
        yield double


def wanted(folder: Path, revision: str | None = COMMIT, repository: str = MODEL, **more: Any) -> _provision.Wanted:
    return _provision.Wanted(repository, revision, str(folder), None, "embed", "vllm", "gpu", **more)


def provide(double: HubDouble, what: _provision.Wanted, token: str = "", write: bool = True) -> _provision.Outcome:
    return _provision.provide(what, lambda: _hub.Hub(double.url, token, what.directory), write)


def nobody() -> _provision.Source:
    raise AssertionError("the hub was asked")


def fetched(outcome: _provision.Outcome) -> list[str]:
    assert outcome.faults == []
    return sorted(file.name for file in outcome.fetched)


def test_the_files_that_the_engine_loads_are_fetched_and_no_others(hub: HubDouble, tmp_path: Path) -> None:
    outcome = provide(hub, wanted(tmp_path))
    assert fetched(outcome) == LOADED
    assert outcome.path == str(tmp_path / "models--acme--small" / "snapshots" / COMMIT)
    for name in LOADED:
        assert (Path(outcome.path) / name).read_bytes() == FILES[name]
    assert not (Path(outcome.path) / "pytorch_model.bin").exists()


def test_a_second_run_asks_nobody_and_reads_nothing(hub: HubDouble, tmp_path: Path, monkeypatch: Any) -> None:
    provide(hub, wanted(tmp_path))
    monkeypatch.setattr(hashlib, "sha256", nobody)
    assert fetched(_provision.provide(wanted(tmp_path), nobody)) == []


def test_a_name_is_resolved_once_and_kept(hub: HubDouble, tmp_path: Path) -> None:
    for revision, commit in ((None, COMMIT), ("v2", OTHER)):
        assert provide(hub, wanted(tmp_path, revision)).commit == commit
    hub.models[MODEL].refs.update(main=OTHER, v2=COMMIT)
    for revision, commit in ((None, COMMIT), ("v2", OTHER)):
        assert _provision.provide(wanted(tmp_path, revision), nobody).commit == commit


def test_two_engines_share_what_both_load(hub: HubDouble, tmp_path: Path) -> None:
    provide(hub, wanted(tmp_path))
    outcome = provide(hub, dataclasses.replace(wanted(tmp_path), engine="tei", device="cpu"))
    assert fetched(outcome) == ["onnx/model.onnx"]
    assert fetched(_provision.provide(wanted(tmp_path), nobody)) == []


def test_code_of_another_repository_comes_along(hub: HubDouble, tmp_path: Path) -> None:
    config = {"model_type": "new", "auto_map": {"AutoModel": "acme/code--modeling.NewModel"}}
    hub.models[MODEL].files[COMMIT] = {**FILES, "config.json": json.dumps(config).encode()}
    hub.models["acme/code"] = Repository(
        {OTHER: {"modeling.py": b"class NewModel: ...\n", "README.md": b""}}, {"main": OTHER}
    )
    assert fetched(provide(hub, wanted(tmp_path, code=True))) == sorted([*LOADED, "modeling.py"])
    assert (tmp_path / "models--acme--code" / "refs" / "main").read_text() == OTHER
    assert fetched(_provision.provide(wanted(tmp_path, code=True), nobody)) == []


def test_an_interrupted_download_goes_on_at_the_byte_where_it_ended(hub: HubDouble, tmp_path: Path) -> None:
    hub.cut[hashlib.sha256(FILES[SECOND]).hexdigest()] = 1_100_000
    with pytest.raises(_hub.HubError, match=r"cannot be asked for acme/small at 1{40}") as raised:
        provide(hub, wanted(tmp_path))
    assert raised.value.kind == "unreachable"
    assert not (tmp_path / "models--acme--small" / "checked").exists()
    outcome = provide(hub, wanted(tmp_path))
    assert fetched(outcome) == [SECOND]
    assert hub.ranges(FILES[FIRST]) == [None]
    assert hub.ranges(FILES[SECOND]) == [None, "bytes=1048576-"]
    assert (Path(outcome.path) / SECOND).read_bytes() == FILES[SECOND]


def test_a_damaged_file_is_found_and_fetched_anew(hub: HubDouble, tmp_path: Path) -> None:
    file = Path(provide(hub, wanted(tmp_path)).path) / FIRST
    damaged = bytearray(FILES[FIRST])
    damaged[500] ^= 1
    file.write_bytes(damaged)
    assert fetched(provide(hub, wanted(tmp_path))) == [FIRST]
    assert file.read_bytes() == FILES[FIRST]
    os.truncate(file, 100)
    assert fetched(provide(hub, wanted(tmp_path))) == [FIRST]
    assert hub.ranges(FILES[FIRST]) == [None, None, None]
    file.resolve().unlink()
    assert fetched(provide(hub, wanted(tmp_path))) == [FIRST]


def test_what_is_damaged_on_its_way_is_not_handed_to_an_engine(hub: HubDouble, tmp_path: Path) -> None:
    blobs = tmp_path / "models--acme--small" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{hashlib.sha256(FILES[FIRST]).hexdigest()}.incomplete").write_bytes(b"something else")
    outcome = provide(hub, wanted(tmp_path))
    assert [(fault.kind, fault.file) for fault in outcome.faults] == [("damaged", FIRST)]
    assert not (tmp_path / "models--acme--small" / "checked").exists()
    assert fetched(provide(hub, wanted(tmp_path))) == [FIRST]


def test_check_mode_says_what_would_be_fetched(hub: HubDouble, tmp_path: Path) -> None:
    assert fetched(provide(hub, wanted(tmp_path), write=False)) == LOADED
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("repository", "revision", "token", "kind", "text"),
    [
        ("acme/gated", COMMIT, "", "refused", "(401): no token is given"),
        ("acme/gated", COMMIT, "hf_stranger", "refused", "(403): the token that is given has no access"),
        (MODEL, COMMIT, "hf_wrong", "refused", "(401): the token that is given has no access"),
        ("acme/none", COMMIT, "", "unknown", "does not know acme/none at 1111111111111111111111111111111111111111, or"),
        ("acme/none", None, "hf_member", "unknown", "does not know acme/none"),
        (MODEL, "3" * 40, "", "unknown", "has no revision acme/small at 3333333333333333333333333333333333333333"),
        ("not a name", None, "", "unknown", "not a name is not the name of a repository"),
    ],
)
def test_refusals(
    hub: HubDouble, tmp_path: Path, repository: str, revision: str | None, token: str, kind: str, text: str
) -> None:
    with pytest.raises(_hub.HubError) as raised:
        provide(hub, wanted(tmp_path, revision, repository), token)
    assert (raised.value.kind, text in str(raised.value)) == (kind, True), str(raised.value)
    assert token == "" or token not in str(raised.value)


def test_a_token_with_access_opens_a_gated_model(hub: HubDouble, tmp_path: Path) -> None:
    assert fetched(provide(hub, wanted(tmp_path, repository="acme/gated"), "hf_member")) == LOADED


def test_a_full_disk_is_found_before_anything_is_fetched(hub: HubDouble, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(_provision, "RESERVE", 1 << 60)
    outcome = provide(hub, wanted(tmp_path))
    assert [(fault.kind, fault.file) for fault in outcome.faults] == [("space", str(tmp_path))]
    assert hub.ranges(FILES[FIRST]) == []


def module(check: bool = False, **arguments: Any) -> tuple[int, dict[str, Any]]:
    """Status and answer of the module, which takes its arguments as a host gets them."""
    command = [sys.executable, "-m", "ansible_collections.plumbline.rag.plugins.modules.model_weights"]
    given = json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check}})
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, answer


def test_the_module(hub: HubDouble, tmp_path: Path) -> None:
    arguments = {"repository": MODEL, "engine": "vllm", "directory": str(tmp_path), "endpoint": hub.url}
    status, answer = module(check=True, **arguments)
    assert (status, answer["changed"], answer["fetched"], list(tmp_path.iterdir())) == (0, True, LOADED, [])
    status, answer = module(**arguments)
    assert (status, answer["changed"], answer["commit"]) == (0, True, COMMIT)
    assert answer["relative"] == f"models--acme--small/snapshots/{COMMIT}"
    assert answer["bytes"] == sum(len(FILES[name]) for name in LOADED)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        arguments["endpoint"] = f"http://127.0.0.1:{closed.getsockname()[1]}"
        status, answer = module(**arguments)
        assert (status, answer["changed"], answer["findings"]) == (0, False, [])
        status, answer = module(**{**arguments, "revision": OTHER})
    assert (status, [finding["id"] for finding in answer["findings"]]) == (1, ["PL256"])
    assert arguments["endpoint"] in answer["msg"]
    assert answer["msg"].startswith("The container was not touched.")


def test_the_module_judges_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "acme" / "small"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    what = wanted(tmp_path, revision=None)
    assert (_provision.examine(what).path, _provision.examine(what).faults) == (str(folder), [])
    (folder / FIRST).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1200072\n")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to("../../blobs/0123")
    arguments = {"repository": MODEL, "engine": "vllm", "directory": str(tmp_path), "source": "folder"}
    status, answer = module(**arguments)
    assert (status, [finding["id"] for finding in answer["findings"]]) == (1, ["PL250", "PL251"])
    assert FIRST in answer["msg"]
    status, answer = module(**arguments, state="examined")
    assert (status, [finding["id"] for finding in answer["findings"]]) == (0, ["PL250", "PL251"])


def test_preflight_judges_a_folder_before_anything_is_changed(tmp_path: Path) -> None:
    weights = {"source": "folder", "repository": MODEL, "directory": str(tmp_path), "folder": None}
    service = {
        "container": "plumbline-contract-embedder",
        "engine": "vllm",
        "device": "gpu",
        "gpus": [],
        "args": [],
        "publish": None,
        "memory": "1g",
        "revision": None,
        "weights": weights,
    }
    plan = {"installation": "contract", "image_source": "registry", "hosts": {"localhost": {"embedder": service}}}
    done = subprocess.run(
        ["ansible", "localhost", "-m", "plumbline.rag.preflight", "-a", json.dumps({"plan": plan})],
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "PL252 error    rag_weights_dir, embedder, localhost" in done.stdout
