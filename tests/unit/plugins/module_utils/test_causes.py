# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a finding may only follow from."""

from __future__ import annotations

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _causes
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding


def finding(text: str, severity: str = "error") -> Finding:
    identifier, hop = text.split()
    return Finding(identifier, severity, {"hop": hop}, "", "")


@pytest.mark.parametrize(
    ("other", "effect", "explained"),
    [
        # vectors in another order look like a prefix that is missing
        ("PL424 engine", "PL431 open_webui", True),
        ("PL426 proxy", "PL436 open_webui", True),
        # a refused request gives no vector, and so no wrong one
        ("PL464 engine", "PL431 open_webui", False),
        ("PL465 engine", "PL436 open_webui", False),
        ("PL464 engine", "PL451 open_webui", True),
        ("PL421 proxy", "PL459 open_webui", True),
        # a reranker changes no vector
        ("PL442 reranker", "PL431 open_webui", False),
        ("PL442 reranker", "PL457 open_webui", True),
        # what is at Open WebUI does not come from there to the engine
        ("PL431 open_webui", "PL424 engine", False),
        ("PL471 vector_store", "PL451 open_webui", True),
    ],
)
def test_links(other: str, effect: str, explained: bool) -> None:
    found = _causes.cause(finding(effect), [finding(other)], ())
    assert found == (finding(other) if explained else None)


def test_what_is_accepted_or_a_warning_explains_nothing() -> None:
    effect = finding("PL431 open_webui")
    assert _causes.cause(effect, [finding("PL424 engine")], ("PL424",)) is None
    assert _causes.cause(effect, [finding("PL424 engine", "warning")], ()) is None
