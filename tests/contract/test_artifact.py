# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built artifact holds what a user of the collection needs, all of it and nothing else."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOP = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "FILES.json",
    "LICENSE",
    "MANIFEST.json",
    "README.md",
    "catalog",
    "changelogs",
    "docs",
    "meta",
    "playbooks",
    "plugins",
    "requirements",
    "roles",
    "templates",
}
NOT_SHIPPED = {"catalog/locks/lock.py", "docs/generate.py", "changelogs/fragments"}


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        ["ansible-galaxy", "collection", "build", "--output-path", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        return {member.name for member in archive if not member.isdir()}


def test_top_level(shipped: set[str]) -> None:
    assert {PurePosixPath(name).parts[0] for name in shipped} - TOP == set()


def test_requirements_are_those_of_a_user(shipped: set[str]) -> None:
    assert {name for name in shipped if name.startswith("requirements/")} == {
        "requirements/controller.in",
        "requirements/controller.txt",
    }


def test_shipped_folders_are_whole(shipped: set[str]) -> None:
    """Every file of git's in a shipped folder is in the artifact, and no file is that git would not know."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    folders = {name for name in TOP if (ROOT / name).is_dir()} - {"requirements"}
    wanted = {
        name
        for name in listed
        if name.split("/")[0] in folders
        and (ROOT / name).exists()
        and not any(name.startswith(path) for path in NOT_SHIPPED)
    }
    assert {name for name in shipped if name.split("/")[0] in folders} == wanted
