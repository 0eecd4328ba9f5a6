# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Embedding numbers at the engine and through the proxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _engines, _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import _context, _faults, _probes
from ansible_collections.plumbline.rag.plugins.module_utils._engines import Embeddings
from ansible_collections.plumbline.rag.plugins.module_utils._findings import Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import ServiceError, Unreachable

ROUTE_COSINE = 0.99999  # the same server behind both routes
BATCH_COSINE = 0.999  # the same text, padded to another length
NORM_TOLERANCE = 1e-3
SAME_VECTOR = 0.99999
LEADING_TOLERANCE = 3e-3
_DEFAULT_BATCH = 32
_SINGLES = 3
_AGAIN = 4  # calls that tell a vector that depends on its batch from one that is never the same
_SHORT = "a"
_FEW_TOKENS = 4  # of a text of one letter, with the marks that a model puts around it

Table = Mapping[str, Sequence[float]]


async def engine(context: _context.Context, _before: _context.Before) -> _context.Outcome:
    """Everything that a vector must be, where it is made."""
    plan = context.plan["embedder"]
    outcome = await _hop(context.engine, plan, _context.ENGINE)
    table = outcome.data.get("table")
    if table is not None:
        outcome.measurements["similarity"] = _similarity(plan, table)
        effect = _prefix_effect(plan, table)
        outcome.measurements["prefix_effect"] = effect
        if not outcome.failed:
            outcome.findings += _without_effect(effect)
            outcome.findings += await _prompt(context.engine, outcome.measurements)
        outcome.findings += await _null_format(context.engine)
    return outcome


async def proxy(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """The same requests through the proxy, and the same vectors."""
    client = context.proxy
    own = before["embedding at the engine"]
    if "table" not in own.data:
        return _context.Outcome(skipped=["the engine itself gives no usable vectors"])
    outcome = await _hop(client, context.plan["embedder"], _context.PROXY)
    if own.failed:
        # What is wrong at the engine arrives here as well; it is named where it is made.
        outcome.findings = [finding for finding in outcome.findings if finding.id == _faults.EMBEDDING_FAILED.id]
        outcome.skipped.append("the vectors of the proxy: those of the engine itself are wrong")
        return outcome
    known = {finding.id for finding in own.findings}
    outcome.findings = [finding for finding in outcome.findings if finding.id not in known]
    # Vectors in the wrong order differ from the engine's too, for a reason that is already named.
    if not outcome.failed:
        outcome.findings += await _route(client, outcome.data["table"], own.data["table"], outcome.measurements)
    return outcome


async def _route(client: Embeddings, here: Table, there: Table, measured: dict[str, Any]) -> list[Finding]:
    cosines = {text: _vectors.cosine(here[text], there[text]) for text in here}
    farthest = min(cosines, key=cosines.__getitem__)
    lowest = measured["lowest_cosine_with_engine"] = cosines[farthest]
    if lowest >= ROUTE_COSINE:
        return []
    unstable = await _unstable(client, farthest, here[farthest], _context.PROXY)
    if unstable:
        return unstable
    message = (
        f"The same text has cosine {lowest:.6f} with the engine's vector when it goes through {client.url}; "
        f"it should be at least {ROUTE_COSINE}."
    )
    return [_faults.ROUTE.finding(message, variable="rag_embedder", hop=_context.PROXY)]


async def _unstable(client: Embeddings, text: str, vector: Sequence[float], hop: str) -> list[Finding]:
    """Whether a text that got a strange vector gets yet another one when it is sent again."""
    again = [(await client.embed([text]))[0] for _call in range(_AGAIN)]
    lowest = min(_vectors.cosine(vector, one) for one in again)
    if lowest >= BATCH_COSINE:
        return []
    message = (
        f"The same text has cosine {lowest:.6f} between two of {_AGAIN + 1} calls of {client.url}; "
        f"it should be at least {BATCH_COSINE}."
    )
    return [_faults.UNSTABLE.finding(message, variable="rag_embedder_extra_args", hop=hop)]


async def reference(context: _context.Context, before: _context.Before) -> _context.Outcome:
    """The model's published values, with a control that a wrong input does not reproduce them."""
    plan = context.plan["embedder"]
    outcome = _context.Outcome()
    if before["embedding at the engine"].failed:
        return _context.Outcome(skipped=["the engine's vectors are not usable"])
    if not plan.get("fixtures"):
        return _context.Outcome(skipped=[f"the catalog has no reference values for {plan['model']}"])
    results = []
    for fixture in plan["fixtures"]:
        result = await _fixture(context.engine, plan, fixture)
        results.append(result)
        outcome.findings += _judge_fixture(plan, fixture, result)
    outcome.measurements["fixtures"] = results
    return outcome


async def _hop(client: Embeddings, plan: Mapping[str, Any], hop: str) -> _context.Outcome:
    texts = _texts(plan)
    size = plan.get("max_batch") or _DEFAULT_BATCH
    outcome = _context.Outcome()
    try:
        batch: list[list[float]] = []
        for start in range(0, len(texts), size):
            part = texts[start : start + size]
            reply = await client.post(client.body(part))
            rows = _engines.vectors(reply)
            outcome.findings += _count(rows, part, client, hop)
            outcome.findings += _positions(_engines.positions(reply), client, hop)
            batch += rows
            outcome.measurements["seconds"] = round(outcome.measurements.get("seconds", 0.0) + reply.seconds, 4)
    except Unreachable:
        raise
    except ServiceError as error:
        outcome.findings.append(_faults.EMBEDDING_FAILED.finding(str(error), variable="rag_embedder", hop=hop))
        return outcome
    if len(batch) == len(texts):
        outcome.findings += _shape(batch, plan, client, hop, outcome.measurements)
    if outcome.failed:
        return outcome
    outcome.data["table"] = dict(zip(texts, batch))
    try:
        # One after the other: what differs when requests come at once is a check of its own.
        singles = [await client.embed([text]) for text in texts[:_SINGLES]]
        plain = [rows[0] for rows in singles]
        outcome.findings += await _batch(texts, batch, plain, client, hop, outcome.measurements)
        if not outcome.failed:
            outcome.findings += await _base64(client, texts[0], plain[0], hop)
        outcome.findings += await _model_name(client, plan, hop)
    except (ServiceError, IndexError) as error:
        message = str(error) or f"{client.url} gave no vector for one text"
        outcome.findings.append(_faults.EMBEDDING_FAILED.finding(message, variable="rag_embedder", hop=hop))
    return outcome


def _texts(plan: Mapping[str, Any]) -> list[str]:
    """Passages and questions as the plan sends them, and bare; each once."""
    passages = [plan["document_prefix"] + text for text in _probes.PASSAGES]
    questions = [plan["query_prefix"] + text for text in _probes.QUESTIONS]
    return list(dict.fromkeys([*passages, *questions, *_probes.PASSAGES, *_probes.QUESTIONS]))


def _count(rows: Sequence[Any], texts: Sequence[str], client: Embeddings, hop: str) -> Iterator[Finding]:
    if len(rows) != len(texts):
        message = f"{client.url} gave {len(rows)} vectors for {len(texts)} texts."
        yield _faults.COUNT.finding(message, variable="rag_embedding_batch_size", hop=hop)


def _positions(indexes: Sequence[Any], client: Embeddings, hop: str) -> Iterator[Finding]:
    if any(index is not None for index in indexes) and list(indexes) != list(range(len(indexes))):
        message = f"{client.url} numbers its vectors {list(indexes)[:6]}…; they should count up from 0."
        yield _faults.ORDER.finding(message, variable="rag_embedding_batch_size", hop=hop)


def _shape(
    batch: Sequence[Sequence[float]], plan: Mapping[str, Any], client: Embeddings, hop: str, measured: dict[str, Any]
) -> Iterator[Finding]:
    where = {"variable": "rag_embedder", "hop": hop}
    sizes = sorted({len(vector) for vector in batch})
    measured["dimension"] = sizes[0] if len(sizes) == 1 else sizes
    unusable = sum(not _vectors.is_usable(vector) for vector in batch)
    if unusable:
        message = f"{client.url} gave {unusable} of {len(batch)} vectors that are empty, zero or not finite."
        yield _faults.INVALID_VECTOR.finding(message, **where)
        return
    if sizes != [plan["dimensions"]]:
        found = ", ".join(map(str, sizes))
        message = f"{client.url} gives vectors of {found} numbers; the plan has {plan['dimensions']}."
        yield _faults.DIMENSION.finding(message, **where)
        return
    norms = [_vectors.norm(vector) for vector in batch]
    measured["norm"] = [min(norms), max(norms)]
    if plan.get("normalized") and max(abs(length - 1) for length in norms) > NORM_TOLERANCE:
        message = f"{client.url} gives vectors of length {min(norms):.4f} to {max(norms):.4f}; it should be 1."
        yield _faults.NORM.finding(message, variable="rag_embedder_extra_args", hop=hop)


async def _batch(
    texts: Sequence[str],
    batch: Sequence[Sequence[float]],
    singles: Sequence[Sequence[float]],
    client: Embeddings,
    hop: str,
    measured: dict[str, Any],
) -> list[Finding]:
    own, shifted = [], []
    for position, single in enumerate(singles):
        cosines = [_vectors.cosine(single, vector) for vector in batch]
        own.append(cosines[position])
        shifted.append(_vectors.argmax(cosines))
    measured["lowest_cosine_batch_single"] = min(own)
    if min(own) >= BATCH_COSINE:
        return []
    where = {"variable": "rag_embedding_batch_size", "hop": hop}
    wrong = own.index(min(own))
    there = shifted[wrong]
    if there != wrong and _vectors.cosine(singles[wrong], batch[there]) >= BATCH_COSINE:
        message = f"{client.url} returns the vector of text {wrong} at position {there} of the batch."
        return [_faults.ORDER.finding(message, **where)]
    unstable = await _unstable(client, texts[wrong], singles[wrong], hop)
    if unstable:
        return unstable
    message = (
        f"The same text has cosine {min(own):.6f} between alone and in a batch of {len(batch)} at {client.url}; "
        f"it should be at least {BATCH_COSINE}."
    )
    return [_faults.BATCH.finding(message, **where)]


async def _base64(client: Embeddings, text: str, plain: Sequence[float], hop: str) -> list[Finding]:
    reply = await client.post(client.body([text], encoding_format="base64"))
    if 400 <= reply.status < 500:
        return []
    packed = _engines.vectors(reply)[0]
    if len(packed) == len(plain) and _vectors.cosine(packed, plain) >= SAME_VECTOR:
        return []
    message = f"{client.url} gives another vector for the same text when it is asked for base64."
    return [_faults.ENCODING.finding(message, variable="rag_embedder", hop=hop)]


async def _model_name(client: Embeddings, plan: Mapping[str, Any], hop: str) -> list[Finding]:
    # TEI holds one model and does not look at the name.
    if hop == _context.ENGINE and plan["engine"] in ("tei", "external"):
        return []
    reply = await client.post({"input": ["plumb"], "model": f"{_probes.NAME}-no-such-model"})
    if not reply.ok:
        return []
    message = f"{reply.resource} answered {reply.status} for a model that does not exist."
    return [_faults.MODEL_NAME.finding(message, variable="rag_embedder", hop=hop)]


async def _null_format(client: Embeddings) -> list[Finding]:
    reply = await client.post(client.body(["plumb"], encoding_format=None))
    if 400 <= reply.status < 500:
        return []
    try:
        if _vectors.is_usable(_engines.vectors(reply)[0]):
            return []
        problem = "gave an unusable vector"
    except (ServiceError, IndexError):
        problem = f"answered {reply.status}"
    message = f"{client.url} {problem} for a null encoding_format; it should refuse it or ignore it."
    return [_faults.NULL_FORMAT.finding(message, variable="rag_litellm_version", hop=_context.ENGINE)]


async def _prompt(client: Embeddings, measured: dict[str, Any]) -> list[Finding]:
    """A server that puts text of its own before each text counts its tokens as well."""
    usage = (await client.post(client.body([_SHORT]))).expect().get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    if not isinstance(tokens, int) or isinstance(tokens, bool):
        return []
    measured["tokens_of_one_letter"] = tokens
    if tokens <= _FEW_TOKENS:
        return []
    message = f"{client.url} counts {tokens} tokens in a text of one letter; with nothing added it would be at most {_FEW_TOKENS}."
    return [_faults.PROMPT.finding(message, variable="rag_embedder_extra_args", hop=_context.ENGINE)]


def _similarity(plan: Mapping[str, Any], table: Table) -> dict[str, Any]:
    questions = [table[plan["query_prefix"] + text] for text in _probes.QUESTIONS]
    passages = [table[plan["document_prefix"] + text] for text in _probes.PASSAGES]
    return {
        "rows": list(_probes.QUESTIONS),
        "columns": list(_probes.PASSAGES),
        "values": _vectors.matrix(questions, passages),
    }


def _prefix_effect(plan: Mapping[str, Any], table: Table) -> dict[str, float]:
    """The highest cosine between bare and prefixed text, for each side that has a prefix."""
    sides = {
        "query": (plan["query_prefix"], _probes.QUESTIONS),
        "document": (plan["document_prefix"], _probes.PASSAGES),
    }
    return {
        side: max(_vectors.cosine(table[text], table[prefix + text]) for text in texts)
        for side, (prefix, texts) in sides.items()
        if prefix
    }


def _without_effect(effect: Mapping[str, float]) -> Iterator[Finding]:
    for side, cosine in effect.items():
        if cosine >= SAME_VECTOR:
            message = (
                f"Text with and without the {side} prefix has cosine {cosine:.6f} at the engine; it should differ."
            )
            yield _faults.PREFIX_WITHOUT_EFFECT.finding(
                message, variable=f"rag_embedder_{side}_prefix", hop=_context.ENGINE
            )


async def _fixture(client: Embeddings, plan: Mapping[str, Any], fixture: Mapping[str, Any]) -> dict[str, Any]:
    queries, documents = fixture["queries"], fixture["documents"]
    query_prefix, document_prefix = fixture.get("query_prefix", ""), fixture.get("document_prefix", "")
    sent = [*(query_prefix + q for q in queries), *(document_prefix + d for d in documents)]
    bare = [*queries, *documents]
    texts = list(dict.fromkeys([*sent, *bare]))
    size = plan.get("max_batch") or _DEFAULT_BATCH
    rows: list[list[float]] = []
    for start in range(0, len(texts), size):
        rows += await client.embed(texts[start : start + size])
    table = dict(zip(texts, rows))
    split = len(queries)
    wanted = fixture["cosines"]
    found = _vectors.matrix([table[t] for t in sent[:split]], [table[t] for t in sent[split:]])
    controls = [_error(wanted, [row[1:] + row[:1] for row in found])] if len(documents) > 1 else []
    if sent != bare:
        plain = _vectors.matrix([table[t] for t in queries], [table[t] for t in documents])
        controls.append(_error(wanted, plain))
    result: dict[str, Any] = {
        "source": fixture.get("source", ""),
        "query_prefix": query_prefix,
        "document_prefix": document_prefix,
        "found": found,
        "wanted": wanted,
        "error": _error(wanted, found),
        "tolerance": max(fixture.get("tolerance", 0.0), plan.get("tolerance", 0.0)),
        "control": min(controls) if controls else None,
    }
    leading = fixture.get("leading")
    if leading:
        first = table[sent[0]]
        length = _vectors.norm(first)
        result["leading_error"] = max(abs(a / length - b) for a, b in zip(first, leading))
    return result


def _error(wanted: Sequence[Sequence[float]], found: Sequence[Sequence[float]]) -> float:
    """The largest difference between two tables of cosines."""
    return max(abs(a - b) for left, right in zip(wanted, found) for a, b in zip(left, right))


def _judge_fixture(plan: Mapping[str, Any], fixture: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[Finding]:
    where = {"variable": "rag_embedder", "hop": _context.ENGINE}
    tolerance = result["tolerance"]
    leading = result.get("leading_error", 0.0)
    wrong_direction = leading > max(LEADING_TOLERANCE, plan.get("tolerance", 0.0))
    if result["error"] > tolerance or wrong_direction:
        if fixture.get("verified", True):
            message = (
                f"Reference cosines of {plan['model']} are missed by {result['error']:.4f} (tolerance {tolerance}): "
                f"found {_rounded(result['found'])}, published {_rounded(result['wanted'])}."
            )
            if wrong_direction:
                message += f" The first numbers of the vector are off by {leading:.4f}."
            yield _faults.REFERENCE.finding(message, **where)
    elif result["control"] is not None and result["control"] <= tolerance:
        message = (
            f"A wrong input reproduces the reference cosines of {plan['model']} within {tolerance} as well "
            f"(off by {result['control']:.4f})."
        )
        yield _faults.BLIND_REFERENCE.finding(message, **where)


def _rounded(table: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[round(value, 4) for value in row] for row in table]
