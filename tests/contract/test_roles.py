# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's defaults, argument_specs and README name the same variables, with the same defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.parents[1] for path in ROOT.glob("roles/*/tasks/main.yml"))
NO_DEFAULT = object()

role = pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None


def options(role: Path) -> dict[str, dict[str, Any]]:
    """The options of all entry points: the role's public variables."""
    specs = (load(role / "meta" / "argument_specs.yml") or {})["argument_specs"]
    return {name: option for spec in specs.values() for name, option in (spec.get("options") or {}).items()}


def own(role: Path, names: set[str]) -> set[str]:
    """Those that are the role's, and not of the spec or the plan."""
    return {name for name in names if name.startswith(f"{role.name}_")}


def test_there_are_roles() -> None:
    assert ROLES


@role
def test_anatomy(role: Path) -> None:
    wanted = ["README.md", "defaults/main.yml", "meta/argument_specs.yml", "meta/main.yml", "tasks/main.yml"]
    assert [name for name in wanted if not (role / name).exists()] == []


@role
def test_defaults_are_specified(role: Path) -> None:
    assert set(load(role / "defaults" / "main.yml") or {}) - set(options(role)) == set()


@role
def test_options_have_defaults_unless_required(role: Path) -> None:
    optional = {name for name, option in options(role).items() if not option.get("required")}
    assert own(role, optional) - set(load(role / "defaults" / "main.yml") or {}) == set()


@role
def test_default_values_agree(role: Path) -> None:
    specified = options(role)
    different = {
        name: value
        for name, value in (load(role / "defaults" / "main.yml") or {}).items()
        if specified.get(name, {}).get("default", NO_DEFAULT) not in (NO_DEFAULT, value)
    }
    assert different == {}


@role
def test_readme_names_the_variables(role: Path) -> None:
    named = set(re.findall(r"`([a-z0-9_]+)`", (role / "README.md").read_text(encoding="utf-8")))
    public = own(role, set(options(role)))
    assert public - named == set()
    private = set(re.findall(rf"\b_+{role.name}_\w+", " ".join(named)))
    assert private == set()


@role
def test_readme_names_no_other_variables(role: Path) -> None:
    """What looks like a variable of the role in its README is one, or a role, file or service of that name."""
    rows = re.findall(r"^\| *`([a-z0-9_]+)`", (role / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert own(role, set(rows)) - set(options(role)) == set()


@role
def test_private_constants_are_private(role: Path) -> None:
    constants = set().union(*(load(path) or {} for path in (role / "vars").glob("*.yml")))
    assert [name for name in constants if not name.startswith(f"_{role.name}_")] == []
