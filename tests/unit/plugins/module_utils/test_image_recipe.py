"""Keys, configurations and manifests of images."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils._image_recipe import (
    LABEL,
    Base,
    Recipe,
    archive_name,
    image_config,
    manifest,
    recipe_key,
)

BASE = Base.of({"suite": "bookworm", "python": "3.11", "packages": ["python3"], "users": {"postgres": 999}})
DATA = {
    "ref": "localhost/example:1",
    "service": "example",
    "lock": "numpy==1\n",
    "files": [{"path": "/a", "content": "x"}],
    "env": {"A": "1", "PATH": "/own"},
    "entrypoint": ["example"],
    "cmd": ["--port", "80"],
    "user": "65534:65534",
    "ports": [80],
    "volumes": ["/data"],
    "stop_signal": "SIGINT",
}
RECIPE = Recipe.of(DATA)


def test_equal_inputs_have_an_equal_key():
    assert recipe_key(BASE, RECIPE) == recipe_key(
        Base.of({**dataclasses.asdict(BASE), "users": {"postgres": 999}}), Recipe.of(DATA)
    )


def test_services_that_share_an_image_share_its_key():
    assert recipe_key(BASE, Recipe.of({**DATA, "service": "other"})) == recipe_key(BASE, RECIPE)


def test_options_that_were_not_given_do_not_change_the_key():
    given = {
        **DATA,
        "links": None,
        "files": [{"path": "/a", "content": "x", "mode": None}],
        "requirements": ["ignored"],
    }
    assert recipe_key(BASE, Recipe.of(given)) == recipe_key(BASE, RECIPE)


@pytest.mark.parametrize(
    "change",
    [
        {"ref": "localhost/example:2"},
        {"lock": "numpy==2\n"},
        {"files": [{"path": "/a", "content": "y"}]},
        {"env": {"A": "2"}},
        {"prune": ["numpy/tests"]},
        {"stop_signal": None},
    ],
)
def test_whatever_goes_into_the_image_changes_its_key(change):
    assert recipe_key(BASE, Recipe.of({**DATA, **change})) != recipe_key(BASE, RECIPE)


@pytest.mark.parametrize("change", [{"suite": "trixie"}, {"packages": ("python3", "curl")}, {"users": (("a", 1),)}])
def test_another_base_changes_all_keys(change):
    other = dataclasses.replace(BASE, **change)
    assert other.key != BASE.key
    assert recipe_key(other, RECIPE) != recipe_key(BASE, RECIPE)


def test_the_configuration_is_what_the_engine_reads():
    document = image_config(RECIPE, "k" * 64, "amd64", ["b" * 64, "a" * 64])
    config = document["config"]
    assert config["Labels"] == {LABEL: "k" * 64}
    assert config["Env"] == ["PATH=/own", "LANG=C.UTF-8", "PYTHONPATH=/opt/app", "A=1"]
    assert (config["Entrypoint"], config["Cmd"]) == (["example"], ["--port", "80"])
    assert (config["User"], config["WorkingDir"], config["StopSignal"]) == ("65534:65534", "/", "SIGINT")
    assert (config["ExposedPorts"], config["Volumes"]) == ({"80/tcp": {}}, {"/data": {}})
    assert document["rootfs"] == {"type": "layers", "diff_ids": ["sha256:" + "b" * 64, "sha256:" + "a" * 64]}
    assert (document["architecture"], document["os"], len(document["history"])) == ("amd64", "linux", 2)


def test_what_a_recipe_leaves_out_is_left_to_the_engine():
    config = image_config(Recipe("r", "s", ""), "k", "amd64", [])["config"]
    assert (config["Entrypoint"], config["Cmd"], config["Volumes"]) == (None, None, None)
    assert "StopSignal" not in config


def test_the_manifest_names_the_configuration_the_reference_and_the_layers():
    assert manifest(RECIPE, "i" * 64, ["base/layer.tar"]) == [
        {"Config": "i" * 64 + ".json", "RepoTags": ["localhost/example:1"], "Layers": ["base/layer.tar"]}
    ]


def test_an_archive_is_named_by_service_and_key():
    assert archive_name(RECIPE, "0123456789abcdef" * 4) == "example-0123456789abcdef.tar"
