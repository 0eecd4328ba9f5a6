"""Archives, and what the builder says when it cannot build."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _image_archive
from ansible_collections.plumbline.rag.plugins.module_utils._image_archive import (
    Builder,
    BuildError,
    explain,
    write_archive,
)
from ansible_collections.plumbline.rag.plugins.module_utils._image_recipe import Base, Recipe

BASE = Base("bookworm", "3.11")
RECIPE = Recipe("localhost/example:1", "example", "")


@pytest.fixture
def archive(tmp_path):
    tree = tmp_path / "tree"
    (tree / "opt/app").mkdir(parents=True)
    (tree / "opt/app/b").write_text("b")
    (tree / "opt/app/a").write_text("a")
    (tree / "opt/app/a").chmod(0o700)
    base = tmp_path / "base.tar"
    base.write_bytes(b"base" * 1000)
    return lambda name: (tmp_path / name, write_archive(tmp_path / name, RECIPE, "key", "amd64", base, tree))


def test_an_archive_holds_manifest_configuration_and_layers_that_agree(archive):
    path, image_id = archive("one.tar")
    with tarfile.open(path) as outer:
        content = {member.name: outer.extractfile(member).read() for member in outer}
    (entry,) = json.loads(content["manifest.json"])
    assert entry["RepoTags"] == ["localhost/example:1"]
    assert "sha256:" + hashlib.sha256(content[entry["Config"]]).hexdigest() == image_id
    layers = ["sha256:" + hashlib.sha256(content[layer]).hexdigest() for layer in entry["Layers"]]
    assert json.loads(content[entry["Config"]])["rootfs"]["diff_ids"] == layers
    assert content["base/layer.tar"] == b"base" * 1000


def test_the_layer_depends_on_content_alone(archive, tmp_path):
    first = archive("one.tar")[1]
    os.utime(tmp_path / "tree/opt/app/a", (1, 1))
    assert archive("two.tar")[1] == first
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    (tmp_path / "tree/opt/app/a").write_text("other")
    assert archive("three.tar")[1] != first


def test_every_user_can_read_the_layer_and_none_but_the_owner_can_write(archive, tmp_path):
    path = archive("one.tar")[0]
    with tarfile.open(path) as outer, tarfile.open(fileobj=outer.extractfile("app/layer.tar")) as layer:
        modes = {member.name: member.mode for member in layer}
    assert modes["./opt/app/a"] == 0o755
    assert modes["./opt/app/b"] == 0o644


@pytest.mark.parametrize(
    ("tool", "output", "words"),
    [
        ("uv", "error: Request failed\n  cause: error sending request for url", "package index could not be reached"),
        ("uv", "Because example was not found in the package registry", "lacks a locked package"),
        ("uv", "error: Hash mismatch for `numpy`", "whose hash is not the locked one"),
        ("uv", "failed to write: No space left on device (os error 28)", "no space left in /images or /cache"),
        ("mmdebstrap", "E: apt-get update failed: exit 100", "set images_debian_mirror"),
        ("mmdebstrap", "The following signatures couldn't be verified: NO_PUBKEY", "debian-archive-keyring"),
        ("tar", "something else", "tar failed. It said: something else"),
    ],
)
def test_a_failure_names_the_resource_and_the_remedy(tool, output, words):
    message = explain(tool, output, "/images or /cache")
    assert words in message
    assert output.splitlines()[-1].strip() in message


def builder(tmp_path: Path, **environment: str) -> Builder:
    return Builder(tmp_path / "images", tmp_path / "cache", BASE, environment)


def test_a_missing_tool_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(_image_archive, "_uv", lambda: "true")
    with pytest.raises(BuildError, match="mmdebstrap is not installed on this host: install the package mmdebstrap"):
        builder(tmp_path, PATH=str(tmp_path)).build([RECIPE])
    assert [path.name for path in (tmp_path / "images").iterdir()] == [".lock"]


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "images").write_text("a file in the way")
    with pytest.raises(BuildError, match=f"File exists on {tmp_path}/images: set images_directory"):
        builder(tmp_path).build([RECIPE])


def test_a_machine_without_wheels_is_refused(tmp_path):
    one = builder(tmp_path)
    one.machine = "riscv64"
    with pytest.raises(BuildError, match="cannot be built on riscv64"):
        one.build([RECIPE])


def test_the_remains_of_an_interrupted_run_are_cleared_and_finished_archives_kept(tmp_path, archive):
    one = builder(tmp_path)
    leftover = tmp_path / "images/.build-old"
    leftover.mkdir(parents=True)
    plan = one.plan(RECIPE)
    assert (plan["changed"], plan["image_id"]) == (True, None)
    path, image_id = archive("one.tar")
    path.rename(plan["path"])
    (result,) = one.build([RECIPE])
    assert (result["changed"], result["image_id"]) == (False, image_id)
    assert not leftover.exists()


def test_images_share_no_file_while_they_are_packed(tmp_path):
    # a link more changes a file's times, and tar calls that a change
    assert builder(tmp_path).environment["UV_LINK_MODE"] == "copy"


def test_what_tar_says_is_passed_on(tmp_path):
    with pytest.raises(BuildError, match=r"tar failed on .*gone: tar: .*gone: .*No such file"):
        _image_archive._pack(tmp_path / "gone", io.BytesIO())
