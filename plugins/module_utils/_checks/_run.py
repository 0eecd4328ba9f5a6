# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the checks from the plan and run them: each as soon as what it builds on is done."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils import _docker, _evaluation, _vectors
from ansible_collections.plumbline.rag.plugins.module_utils._checks import (
    _causes,
    _context,
    _faults,
    embedding,
    ingestion,
    instances,
    length,
    limits,
    logs,
    memory,
    paths,
    refusals,
    relevance,
    replicas,
    rerank,
    rerank_edges,
    settings,
    stability,
    store,
    users,
    versions,
)
from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding
from ansible_collections.plumbline.rag.plugins.module_utils._http import BudgetExceeded, Http, ServiceError, Unreachable
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import OpenWebUI, SignInError
from ansible_collections.plumbline.rag.plugins.module_utils._pgvector import Pgvector

# Small requests to every service together; a production system must not notice them. Deep is for quiet hours.
BUDGETS = {"quick": 100, "standard": 200, "deep": 1000}
DEPTHS = tuple(BUDGETS)
_DEFAULT_DEPTH = "standard"
_AT_ENGINE = "embedding at the engine"
_AT_ONCE = "again and at once through the proxy"
_RELEVANCE = "reranking against no reranking"
_EVERY = 3  # of the texts at the engine: a passage and a question as they are sent, and both bare
_PASSED, _FAILED, _WARNED, _SKIPPED = "passed", "failed", "warned", "skipped"


@dataclasses.dataclass(frozen=True)
class Probe:
    """A check with the hop that its findings belong to, and the checks whose outcome it builds on."""

    name: str
    hop: str
    check: _context.Check
    after: tuple[str, ...] = ()
    depth: str = "quick"  # the least thorough verification that runs it


def probes(plan: Mapping[str, Any]) -> list[Probe]:
    """The checks that this plan asks for, in an order in which every check follows what it builds on."""
    information, again = "engine information", "embedding again and at once"
    engine, proxy, table = _AT_ENGINE, "embedding through the proxy", "vector store"
    reranker, route = "reranking at the reranker", "reranking as Open WebUI asks"
    most = "reranking the most candidates"
    found = [
        Probe("version of Open WebUI", _context.OPEN_WEBUI, versions.open_webui),
        Probe(information, _context.ENGINE, versions.engines),
        Probe("container images", _context.OPEN_WEBUI, versions.images),
        Probe("public settings", _context.OPEN_WEBUI, settings.public),
        Probe("database settings", _context.OPEN_WEBUI, settings.database),
        Probe("container environment", _context.OPEN_WEBUI, settings.environment),
        Probe("access without a key", _context.ENGINE, settings.access),
        Probe(engine, _context.ENGINE, embedding.engine),
        Probe("reference vectors", _context.ENGINE, embedding.reference, (engine,)),
        Probe(again, _context.ENGINE, stability.engine, (engine,), "standard"),
        Probe("lengths of texts", _context.ENGINE, length.engine, (engine, information), "standard"),
        Probe("logs", _context.OPEN_WEBUI, logs.logs),
    ]
    before = [engine]
    if instances.further(plan["embedder"], plan["embedder"]["base_url"]):
        found.append(Probe("embedding at every engine", _context.ENGINE, instances.embedders, (engine,)))
    if plan.get("proxy"):
        found.append(Probe("version of the proxy", _context.PROXY, versions.proxy))
        found.append(Probe(proxy, _context.PROXY, embedding.proxy, (engine,)))
        before.append(proxy)
        lengths = "lengths of texts"
        found.append(Probe("a long text through the proxy", _context.PROXY, length.proxy, (proxy, lengths), "standard"))
        found.append(Probe(_AT_ONCE, _context.PROXY, stability.proxy, (proxy, again), "standard"))
    route_of_uploads = [again, _AT_ONCE] if plan.get("proxy") else [again]
    hop = _context.PROXY if plan.get("proxy") else _context.ENGINE
    found.append(Probe("configured limits", hop, limits.limits, (*before, *route_of_uploads), "standard"))
    if plan["open_webui"].get("replicas"):
        found.append(Probe("further containers of Open WebUI", _context.OPEN_WEBUI, replicas.replicas))
    if plan.get("reranker"):
        found.append(Probe(reranker, _context.RERANKER, rerank.reranker))
        if instances.further(plan["reranker"], plan["reranker"]["url"]):
            found.append(Probe("reranking at every reranker", _context.RERANKER, instances.rerankers, (reranker,)))
        before.append(reranker)
        if plan["open_webui"].get("rerank_url"):
            hop = _context.PROXY if plan.get("proxy") else _context.RERANKER
            further = (route,)
            found.append(Probe(route, hop, rerank.route, (reranker,)))
            found.append(Probe(most, hop, rerank.batch, further))
            found.append(Probe("reranking at the edges", hop, rerank_edges.edges, further, "standard"))
            found.append(Probe("reranking in other languages", hop, rerank_edges.languages, further, "standard"))
            # After the request whose time is measured.
            measured = (engine, route, most)
            found.append(Probe(_RELEVANCE, _context.RERANKER, relevance.relevance, measured, "standard"))
            before.append(route)
    if reads_store(plan):
        found.append(Probe(table, _context.VECTOR_STORE, versions.store))
        found.append(Probe("index of the vector store", _context.VECTOR_STORE, store.index, (table,)))
        found.append(Probe("connections of the vector store", _context.VECTOR_STORE, store.connections, (table,)))
        found.append(Probe("recall of the index", _context.VECTOR_STORE, store.recall, (table,), "standard"))
        found.append(Probe("models of the rows", _context.VECTOR_STORE, store.rows, (table,), "standard"))
        before.append(table)
    # One after the other: each removes what the others would still need, and then is no longer bound by the budget.
    through, memories, refused = paths.THROUGH, "a memory", "files that must be refused"
    return [
        *found,
        Probe(through, _context.OPEN_WEBUI, ingestion.ingestion, tuple(before)),
        Probe(memories, _context.OPEN_WEBUI, memory.memory, (*before, through), "standard"),
        Probe(refused, _context.OPEN_WEBUI, refusals.refusals, (*before, memories), "deep"),
        Probe("a user without rights", _context.OPEN_WEBUI, users.users, (*before, refused), "deep"),
    ]


def reads_store(plan: Mapping[str, Any]) -> bool:
    """Whether the vector store is one that can be read from outside."""
    return (plan.get("vector_store") or {}).get("kind") == "pgvector"


async def run(context: _context.Context, accepted: Collection[str] = ()) -> dict[str, Any]:
    """All checks of a plan; never raises for a fault of what is checked.

    Ids in ``accepted`` are acknowledged: what may follow from them is a finding of its own.
    """
    started = time.monotonic()
    planned = probes(context.plan)
    depth = context.plan.get("depth", _DEFAULT_DEPTH)
    tasks: dict[str, asyncio.Task[tuple[_context.Outcome, float]]] = {}
    for probe in planned:
        tasks[probe.name] = asyncio.ensure_future(
            _run(probe, context, {name: tasks[name] for name in probe.after}, depth)
        )
    with _cancelled_by_signals():
        try:
            done = await asyncio.gather(*tasks.values())
        except asyncio.CancelledError:
            # The checks were cancelled with it, and remove their probe data first.
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            raise
    outcomes = [outcome for outcome, _seconds in done]
    _explain(outcomes, accepted)
    findings = _unique([finding for outcome in outcomes for finding in outcome.findings])
    checks = [_check(probe, outcome, seconds) for probe, (outcome, seconds) in zip(planned, done)]
    result = {
        "findings": [finding.as_dict() for finding in findings],
        "measurements": {probe.name: outcome.measurements for probe, outcome in zip(planned, outcomes)},
        "versions": {name: version for outcome in outcomes for name, version in outcome.versions.items()},
        "checks": checks,
        "hops": _hops(planned, outcomes, findings),
        "requests": context.http.requests,
        "budget": BUDGETS[depth],
        "depth": depth,
        "duration": round(time.monotonic() - started, 2),
        "latency": _latency(context),
        "reference_vectors": _reference_vectors(planned, outcomes),
    }
    redacted: dict[str, Any] = context.http.redact.data(result)
    return redacted


async def _run(
    probe: Probe,
    context: _context.Context,
    after: Mapping[str, asyncio.Task[tuple[_context.Outcome, float]]],
    depth: str,
) -> tuple[_context.Outcome, float]:
    if DEPTHS.index(probe.depth) > DEPTHS.index(depth):
        return _context.Outcome(skipped=[f"left out by rag_verify_depth: {depth}; {probe.depth} makes it"]), 0.0
    before = {name: (await asyncio.shield(task))[0] for name, task in after.items()}
    started = time.monotonic()
    try:
        outcome = await probe.check(context, before)
    except SignInError as error:
        # The settings check names it; whoever needs the session as well only says what is not known.
        outcome = _context.Outcome(skipped=[str(error)])
    except BudgetExceeded as error:
        outcome = _context.Outcome([_faults.BUDGET.finding(f"{probe.name}: {error}.", hop=probe.hop)])
    except Unreachable as error:
        outcome = _context.Outcome([_faults.UNREACHABLE.finding(f"{error}.", hop=probe.hop)])
    except ServiceError as error:
        outcome = _context.Outcome([_faults.NOT_RUN.finding(f"{probe.name}: {error}", hop=probe.hop)])
    except Exception as error:
        # A fault of ours must not hide what the other checks found; type and text are enough to report it.
        message = f"{probe.name}: {type(error).__name__}: {error}"
        outcome = _context.Outcome([_faults.NOT_RUN.finding(message, hop=probe.hop)])
    return outcome, time.monotonic() - started


@contextlib.contextmanager
def _cancelled_by_signals() -> Iterator[None]:
    """An interrupt cancels the run, so that probe data is removed before the process ends."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    first = True

    def interrupt() -> None:
        nonlocal first
        if first and task is not None:  # a second signal must not stop the cleaning
            first = False
            task.cancel()

    with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread: the caller handles signals
        for number in signals:
            loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, RuntimeError):
            for number in signals:
                loop.remove_signal_handler(number)


def _explain(outcomes: Sequence[_context.Outcome], accepted: Collection[str]) -> None:
    """What may only follow from another finding is not known to be wrong; it stays as what could not be judged."""
    found = [finding for outcome in outcomes for finding in outcome.findings]
    first = [finding for finding in found if _causes.cause(finding, found, accepted) is None]
    for outcome in outcomes:
        for finding in list(outcome.findings):
            cause = _causes.cause(finding, first, accepted)
            if cause is not None:
                outcome.findings.remove(finding)
                outcome.unjudged = True
                outcome.skipped.append(
                    f"{finding.id} may only follow from {cause.id} ({cause.where['hop']}): {finding.message}"
                )


def _check(probe: Probe, outcome: _context.Outcome, seconds: float) -> dict[str, Any]:
    severities = {finding.severity for finding in outcome.findings}
    state = _FAILED if ERROR in severities else _WARNED if severities else _PASSED
    if state == _PASSED and (outcome.unjudged or (outcome.skipped and not outcome.measurements)):
        state = _SKIPPED
    return {
        "name": probe.name,
        "hop": probe.hop,
        "state": state,
        "seconds": round(seconds, 3),
        "findings": [finding.as_dict() for finding in outcome.findings],
        "skipped": outcome.skipped,
    }


def _hops(
    planned: Sequence[Probe], outcomes: Sequence[_context.Outcome], findings: Sequence[Finding]
) -> dict[str, str]:
    """The state of each hop: by the findings that name it, and unknown where no check came to an end."""
    states = {}
    for hop in _context.HOPS:
        severities = {finding.severity for finding in findings if finding.where.get("hop") == hop}
        measured = [o for probe, o in zip(planned, outcomes) if probe.hop == hop]
        if not measured:
            continue
        known = any(outcome.measurements or outcome.versions for outcome in measured)
        known = known and not any(outcome.unjudged for outcome in measured)
        states[hop] = _FAILED if ERROR in severities else _WARNED if severities else _PASSED if known else _SKIPPED
    return states


def _latency(context: _context.Context) -> list[dict[str, Any]]:
    """How long the answers of each route took, short and long texts together."""
    plan = context.plan
    routes = {"Open WebUI": plan["open_webui"]["url"]}
    if plan.get("reranker"):
        routes["reranking at the reranker"] = context.reranker.url
    if plan.get("proxy"):
        routes["embedding through the proxy"] = context.proxy.url
        routes["reranking through the proxy"] = plan["proxy"].get("rerank_url") or ""
    routes["embedding at the engine"] = context.engine.url
    found = []
    for route, start in reversed(routes.items()):
        seconds = sorted(round(taken, 4) for url, taken in context.http.timings if start and url.startswith(start))
        if seconds:
            points = {f"p{share}": _vectors.percentile(seconds, share / 100) for share in (50, 95)}
            found.append({"route": route, "seconds": seconds, **points, "max": seconds[-1]})
    return found


def _reference_vectors(planned: Sequence[Probe], outcomes: Sequence[_context.Outcome]) -> list[dict[str, str]]:
    """A few texts as they are sent, with the engine's vectors, for the lock."""
    tables = [outcome.data.get("table") for probe, outcome in zip(planned, outcomes) if probe.name == _AT_ENGINE]
    table: Mapping[str, Sequence[float]] = next((one for one in tables if one), {})
    chosen = list(table)[::_EVERY]
    return [{"text": text, "vector": _vectors.encode_base64(table[text])} for text in chosen]


def _unique(findings: Sequence[Finding]) -> list[Finding]:
    """Two checks that meet the same fault of the same service report it once."""
    seen: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        seen.setdefault((finding.id, finding.where.get("hop", ""), finding.message), finding)
    return list(seen.values())


async def verify(
    plan: Mapping[str, Any],
    secrets: Mapping[str, str],
    network: str,
    *,
    probes: Any = None,
    evaluation: Any = None,
    since: float = 0.0,
    accepted: Collection[str] = (),
    timeout: float = 30.0,
) -> dict[str, Any]:
    """Make the clients of a plan and run its checks.

    ``probes`` and ``evaluation`` are labelled sets as documents; logs are read from ``since``, in seconds since 1970.
    ``accepted`` are ids of acknowledged findings; ``timeout`` is how long a small request may take, in seconds.
    """
    started = time.time()
    containers, neighbours = await asyncio.to_thread(_containers, plan, network)
    resolve = _docker.addresses({**neighbours, **containers}, network)
    budget = BUDGETS[plan["depth"]]
    async with Http(secrets=secrets.values(), resolve=resolve, timeout=timeout, budget=budget) as http:
        webui = plan["open_webui"]
        password = secrets.get(webui["admin_password_secret"], "")
        client = OpenWebUI(http, webui["url"], webui["admin_email"], password)
        context = _context.Context(
            plan,
            secrets,
            http,
            containers,
            client,
            _store(plan, secrets, resolve),
            probes=_evaluation.parse(probes) if probes else None,
            evaluation=_evaluation.parse(evaluation) if evaluation else None,
            # What this run makes the services write is no news.
            logs=lambda name, lines: _docker.Docker().logs(name, lines, since, started),
        )
        return await run(context, accepted)


def _containers(
    plan: Mapping[str, Any], network: str
) -> tuple[dict[str, _docker.Container], dict[str, _docker.Container]]:
    """The plan's containers on this host, and others on the same network, whose names its URLs may use."""
    services = [service for service in plan.values() if isinstance(service, Mapping)]
    names = [str(service["container"]) for service in services if service.get("container")]
    if not names:
        return {}, {}
    engine = _docker.Docker()
    return engine.containers(names), engine.containers([name for name in engine.names_on(network) if name not in names])


def _store(plan: Mapping[str, Any], secrets: Mapping[str, str], resolve: Mapping[str, str]) -> Pgvector | None:
    if not reads_store(plan):
        return None
    store = plan["vector_store"]
    return Pgvector(
        host=resolve.get(store["host"], store["host"]),
        port=store["port"],
        user=store["user"],
        database=store["database"],
        password=secrets.get(store["password_secret"], ""),
        table=store["table"],
    )
