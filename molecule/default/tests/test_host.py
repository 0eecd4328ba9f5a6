"""What the quickstart leaves on a host, seen from outside the collection."""

from __future__ import annotations

import json

import pytest

CONTAINERS = ("rag-postgres", "rag-embedder", "rag-reranker", "rag-litellm", "rag-open-webui")


def inspect(host, name):
    return json.loads(host.check_output("docker inspect %s", name))[0]


def test_docker_runs_and_starts_at_boot(host):
    service = host.service("docker")
    assert service.is_running
    assert service.is_enabled


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_run_hardened(host, name):
    container = inspect(host, name)
    settings = container["HostConfig"]
    assert container["State"]["Running"] is True
    assert container["State"]["Health"]["Status"] == "healthy"
    assert settings["RestartPolicy"]["Name"] == "unless-stopped"
    assert settings["CapDrop"] == ["ALL"]
    assert "no-new-privileges:true" in settings["SecurityOpt"] or "no-new-privileges" in settings["SecurityOpt"]
    assert settings["Privileged"] is False
    assert settings["Memory"] > 0
    assert settings["LogConfig"]["Type"] == "json-file"
    assert settings["LogConfig"]["Config"]["max-size"]


@pytest.mark.parametrize("name", ["rag-postgres", "rag-embedder", "rag-reranker", "rag-litellm"])
def test_roots_are_read_only_and_users_are_not_root(host, name):
    container = inspect(host, name)
    assert container["HostConfig"]["ReadonlyRootfs"] is True
    assert container["Config"]["User"] not in ("", "0", "0:0", "root")


@pytest.mark.parametrize("name", ["rag-postgres", "rag-embedder", "rag-reranker", "rag-litellm"])
def test_only_open_webui_is_published(host, name):
    assert not inspect(host, name)["HostConfig"]["PortBindings"]


def test_open_webui_listens_on_loopback_only(host):
    assert inspect(host, "rag-open-webui")["HostConfig"]["PortBindings"] == {
        "8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "3000"}]
    }
    assert host.socket("tcp://127.0.0.1:3000").is_listening
    assert not host.socket("tcp://0.0.0.0:3000").is_listening


def test_prefixes_have_their_trailing_space_in_the_running_process(host):
    environment = host.check_output("docker exec rag-open-webui cat /proc/1/environ | tr '\\0' '\\n'").splitlines()
    # process 1 is the init that docker puts in front, with the container's environment
    assert "RAG_EMBEDDING_QUERY_PREFIX=query: " in environment
    assert "RAG_EMBEDDING_CONTENT_PREFIX=passage: " in environment
    assert not [line for line in environment if line.startswith("RAG_EMBEDDING_PREFIX_FIELD_NAME=")]


def test_files_with_secrets_are_private_and_others_have_none(host):
    secrets = {
        line.split("=", 1)[1]
        for name in CONTAINERS
        for line in inspect(host, name)["Config"]["Env"]
        if line.split("=", 1)[0].endswith(("_KEY", "PASSWORD")) and line.split("=", 1)[1]
    }
    assert len(secrets) >= 4
    folder = host.file("/etc/plumbline")
    assert folder.is_directory
    assert not folder.mode & 0o022
    for path in host.check_output("find /etc/plumbline -type f").splitlines():
        file = host.file(path)
        if any(secret in file.content_string for secret in secrets):
            assert file.mode & 0o077 == 0, path
