# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule looks at. Pure."""

from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._catalog import Catalog
from ansible_collections.plumbline.rag.plugins.module_utils._choice import Choice
from ansible_collections.plumbline.rag.plugins.module_utils._spec import Spec


@dataclasses.dataclass(frozen=True)
class Subject:
    """One installation under inspection; ``plan`` is None while hosts or versions are unresolved.

    ``secrets`` are values that the operator gave: a rule may look at them and never shows them.
    """

    spec: Spec
    catalog: Catalog
    choice: Choice
    plan: dict[str, Any] | None
    secrets: dict[str, str]
