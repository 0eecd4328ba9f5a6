# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings in the configuration of the Docker daemon, added and taken away without touching the others. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def read(text: str) -> dict[str, Any]:
    """The content of a daemon.json; empty for an empty file. Raises ValueError when it is no JSON object."""
    content = json.loads(text) if text.strip() else {}
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    return content


def write(content: Mapping[str, Any]) -> str:
    """The text of a daemon.json; empty when nothing is set."""
    return json.dumps(content, indent=4) + "\n" if content else ""


def merged(content: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the settings; objects in it are merged."""
    result = dict(content)
    for name, value in settings.items():
        there = result.get(name)
        result[name] = merged(there, value) if isinstance(there, Mapping) and isinstance(value, Mapping) else value
    return result


def added(content: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that the configuration does not have at all: what may be taken away again later."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in content:
            result[name] = value
        elif isinstance(value, Mapping) and isinstance(content[name], Mapping):
            part = added(content[name], value)
            if part:
                result[name] = part
    return result


def without(content: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without the settings, as far as they still have those values; objects left empty go."""
    result = dict(content)
    for name, value in settings.items():
        there = result.get(name)
        if isinstance(there, Mapping) and isinstance(value, Mapping) and there != value:
            result[name] = without(there, value)
        elif there == value:
            del result[name]
    return result
