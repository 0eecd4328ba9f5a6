# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open WebUI's database settings: compare what is stored with what is wanted. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# The two forms of the admin API that hold the retrieval settings.
FORMS = ("embedding", "retrieval")


@dataclass(frozen=True)
class Difference:
    """One field whose stored value is not the wanted one; ``form`` is the form that writes it."""

    form: str
    name: str
    actual: Any
    wanted: Any
    secret: bool = False


def wanted_forms(settings: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The plan's fields with their secrets filled in, ready to be sent; nulls are left out, for they are not values."""
    forms = {form: _without_nulls(settings.get(form) or {}) for form in FORMS}
    for path, secret in (settings.get("secret_fields") or {}).items():
        if secrets.get(secret) is None:
            continue
        *parents, name = path.split(".")
        # Only the selected engine's sub-object belongs to the embedding form; other secrets are retrieval fields.
        target = forms["embedding" if parents else "retrieval"]
        for parent in parents:
            target = target.setdefault(parent, {})
        target[name] = secrets[secret]
    return forms


def differences(
    settings: Mapping[str, Any], effective: Mapping[str, Mapping[str, Any]], secrets: Mapping[str, str]
) -> list[Difference]:
    """The fields of the plan whose effective value is another one; fields that the plan does not have are not ours."""
    hidden = set(settings.get("secret_fields") or {})
    found = []
    for form, fields in wanted_forms(settings, secrets).items():
        for name, wanted in _flat(fields):
            actual = _get(effective.get(form) or {}, name)
            if not _equal(actual, wanted):
                found.append(Difference(form, name, actual, wanted, name in hidden))
    return found


def _without_nulls(fields: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        if value is not None:
            kept[name] = _without_nulls(value) if isinstance(value, Mapping) else value
    return kept


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        # Only *_config holds fields of ours; another mapping is a value in itself.
        if isinstance(value, Mapping) and name.endswith("_config"):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _get(fields: Mapping[str, Any], path: str) -> Any:
    value: Any = fields
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _equal(actual: Any, wanted: Any) -> bool:
    # An empty choice is stored as null by some releases; true and 1 are not the same answer.
    if wanted == "" and actual is None:
        return True
    return bool(actual == wanted and isinstance(actual, bool) == isinstance(wanted, bool))
