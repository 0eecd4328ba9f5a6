"""No secret in any output, at the highest verbosity and with diffs."""

from __future__ import annotations

import yaml

from .conftest import QUICKSTART, docker, site


def secrets() -> dict[str, str]:
    return yaml.safe_load((QUICKSTART / ".secrets" / "default.yml").read_text())


def leaks(text: str) -> list[str]:
    return [name for name, value in secrets().items() if value in text]


def test_verbose_output_with_diffs_holds_no_secret():
    # a container that has to be made anew shows its whole definition, if anything does
    docker("rm", "--force", "rag-litellm", "rag-open-webui")
    result = site("-vvvv", "--diff")
    assert result.status == 0
    assert len(secrets()) >= 5
    assert leaks(result.output) == []


def test_reports_and_logs_of_containers_hold_no_secret(root):
    for file in (root / "reports" / "default").iterdir():
        assert leaks(file.read_text(encoding="utf-8")) == [], file
    for name in docker("ps", "--format", "{{.Names}}").split():
        assert leaks(docker("logs", name)) == [], name
