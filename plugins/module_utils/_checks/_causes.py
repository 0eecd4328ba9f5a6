# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may only follow from what: a fault is named once, at the hop where it is made. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, Rule


@dataclass(frozen=True)
class Link:
    """Faults of these rules at these hops make findings of those rules at those hops, whatever else is right there."""

    causes: tuple[Rule, ...]
    at: tuple[str, ...]
    effects: tuple[Rule, ...]
    then_at: tuple[str, ...]

    def explains(self, cause: Finding, effect: Finding) -> bool:
        return _is(cause, self.causes, self.at) and _is(effect, self.effects, self.then_at)


_WEBUI, _STORE = (_context.OPEN_WEBUI,), (_context.VECTOR_STORE,)
# What makes other vectors, and what makes none.
_VECTORS = (
    _faults.COUNT,
    _faults.DIMENSION,
    _faults.ORDER,
    _faults.BATCH,
    _faults.ROUTE,
    _faults.REFERENCE,
    _faults.PREFIX_WITHOUT_EFFECT,
    _faults.PROMPT,
    _faults.INVALID_VECTOR,
    _faults.UNSTABLE,
    _faults.CONCURRENT,
    _faults.LENGTH_CUT,
    _faults.INSTANCE_VECTORS,
)
_REFUSALS = (
    _faults.EMBEDDING_FAILED,
    _faults.BURST,
    _faults.LENGTH_REFUSED,
    _faults.BATCH_REFUSED,
    _faults.DENSE_REFUSED,
    _faults.INSTANCE_DOWN,
    _faults.UNREACHABLE,
)
_SCORES = (
    _faults.RERANK_FAILED,
    _faults.RERANK_SHAPE,
    _faults.RERANK_INDEXES,
    _faults.RERANK_ORDER,
    _faults.RERANK_FLAT,
    _faults.RERANK_RANGE,
    _faults.RERANK_BATCH,
    _faults.RERANK_NUMBERS,
    _faults.RERANK_ROUTE,
    _faults.RERANK_SLOW,
    _faults.UNREACHABLE,
)
_PREFIXES = (
    _faults.PREFIX_MISSING,
    _faults.PREFIX_SIDE,
    _faults.PREFIX_BLANK,
    _faults.PREFIX_LITERAL,
    _faults.PREFIX_TWICE,
    _faults.OTHER_MODEL,
)
_UPLOADS = (
    _faults.INGESTION_FAILED,
    _faults.KNOWLEDGE_FAILED,
    _faults.QUERY_FAILED,
    _faults.FORMAT,
    _faults.CHUNKS,
)

LINKS = (
    Link(
        _VECTORS,
        (_context.ENGINE, _context.PROXY),
        (*_PREFIXES, *_UPLOADS, _faults.WRONG_CHUNK),
        (*_WEBUI, *_STORE),
    ),
    Link(_REFUSALS, (_context.ENGINE, _context.PROXY), (*_UPLOADS, _faults.WRONG_CHUNK), (*_WEBUI, *_STORE)),
    Link(
        _SCORES,
        (_context.RERANKER, _context.PROXY),
        (_faults.RERANK_FALLBACK, _faults.RERANK_SCORES, _faults.QUERY_FAILED, _faults.WRONG_CHUNK),
        _WEBUI,
    ),
    Link(
        (_faults.STORE_UNREACHABLE, _faults.NO_PGVECTOR),
        _STORE,
        (*_UPLOADS, _faults.SIGN_IN, _faults.LEFTOVERS, _faults.NOT_RUN),
        _WEBUI,
    ),
    Link((*_PREFIXES, _faults.CHUNK_MODEL, _faults.RERANK_SCORES), _WEBUI, (_faults.WRONG_CHUNK,), _WEBUI),
    Link((_faults.UNREACHABLE,), _WEBUI, (_faults.LEFTOVERS, _faults.NOT_RUN), _WEBUI),
    # A passage of the configured size is a long text.
    Link(
        (_faults.LENGTH_REFUSED, _faults.LENGTH_CUT),
        (_context.ENGINE, _context.PROXY),
        (_faults.BATCH_REFUSED, _faults.DENSE_REFUSED),
        (_context.ENGINE, _context.PROXY),
    ),
    # Who refuses the key tells nothing of itself.
    Link(
        (_faults.EMBEDDING_FAILED, _faults.RERANK_FAILED, _faults.UNREACHABLE),
        (_context.PROXY,),
        (_faults.VERSION_UNKNOWN,),
        (_context.PROXY,),
    ),
    # A setting that says another model or another address.
    Link((_faults.CHUNK_MODEL,), _WEBUI, _PREFIXES, _WEBUI),
)


def cause(effect: Finding, found: Iterable[Finding], accepted: Collection[str]) -> Finding | None:
    """The open error among these that a finding may only follow from; an acknowledged one explains nothing."""
    for other in found:
        if other.severity == ERROR and other.id not in accepted and any(link.explains(other, effect) for link in LINKS):
            return other
    return None


def _is(finding: Finding, rules: Sequence[Rule], hops: Sequence[str]) -> bool:
    return finding.where.get("hop") in hops and any(finding.id == rule.id for rule in rules)
