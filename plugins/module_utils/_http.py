# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one HTTP client: timeouts, retries of failed connections, a concurrency limit, a request budget and redaction."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

try:
    import httpx

    HTTPX_ERROR: Exception | None = None
except ImportError as error:
    HTTPX_ERROR = error

MASK = "********"
_SHORTEST_SECRET = 4
_EXCERPT = 300


class ServiceError(Exception):
    """A service could not be used; the message names the resource and holds no secret."""


class Unreachable(ServiceError):
    """Nothing answers: no connection could be made."""


class TimedOut(ServiceError):
    """The request was sent, and no answer came in time."""


class BudgetExceeded(Exception):
    """The stated number of requests is used up. Not a fault of a service, so that nobody takes it for one."""


class Redactor:
    """Removes the installation's secrets from text that leaves this process."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first, so that a secret which contains another one is removed whole.
        known = {secret for secret in secrets if isinstance(secret, str) and len(secret) >= _SHORTEST_SECRET}
        self._secrets = sorted(known, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def data(self, value: Any) -> Any:
        """The same for everything inside lists and dictionaries."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {self(str(key)): self.data(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.data(item) for item in value]
        return value


@dataclass(frozen=True)
class Reply:
    """An HTTP answer, read whole."""

    resource: str
    status: int
    content_type: str
    body: bytes = field(repr=False)
    seconds: float
    redact: Redactor = field(repr=False)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def excerpt(self) -> str:
        """The beginning of the body on one line, fit for a message."""
        text = " ".join(self.redact(self.body.decode("utf-8", "replace")).split())
        return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"

    def json(self) -> Any:
        """The body as JSON. Open WebUI answers unknown paths with 200 and a web page, hence the check of the type."""
        if "json" not in self.content_type.lower():
            kind = self.content_type or "no content type"
            raise ServiceError(f"{self.resource} answered {self.status} with {kind} instead of JSON: {self.excerpt}")
        try:
            return json.loads(self.body)
        except ValueError:
            raise ServiceError(f"{self.resource} answered {self.status} with broken JSON: {self.excerpt}") from None

    def expect(self) -> Any:
        """The JSON body of a successful answer."""
        if not self.ok:
            raise ServiceError(f"{self.resource} answered {self.status}: {self.excerpt}")
        return self.json()


class Http:
    """An asynchronous client for one run.

    ``resolve`` maps container names to addresses: they resolve only inside the stack's network. The Host header keeps
    the name. ``budget`` bounds the number of requests; 0 is no bound.
    """

    def __init__(
        self,
        *,
        secrets: Iterable[str] = (),
        resolve: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        concurrency: int = 16,
        budget: int = 0,
        connect_retries: int = 2,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.redact = Redactor(secrets)
        self.requests = 0
        self.timings: list[tuple[str, float]] = []  # URL and seconds of each answer
        self._budget = budget
        self._resolve = dict(resolve or {})
        self._retries = connect_retries
        self._slots = asyncio.Semaphore(concurrency)
        # The services are internal: a proxy from the environment must not see them. As with Open WebUI, each request has a
        # connection of its own: a kept one may be closed by the server in the moment in which it is used again.
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=5.0),
            limits=httpx.Limits(max_keepalive_connections=0),
            transport=transport,
            trust_env=False,
            follow_redirects=False,
        )

    async def __aenter__(self) -> Http:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._client.aclose()

    async def request(
        self,
        method: str,
        url: str,
        *,
        key: str | None = None,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        files: Mapping[str, tuple[str | None, bytes, str]] | None = None,
        timeout: float | None = None,
    ) -> Reply:
        """One request. Only a connection that could not be made is tried again: nothing was sent then."""
        target, headers, extensions = self._address(url)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        resource = self.redact(f"{method} {url}")
        content: dict[str, Any] = {"params": params, "files": files, "extensions": extensions}
        if body is not None:
            content["json"] = body
        if timeout is not None:
            content["timeout"] = timeout
        async with self._slots:
            started = time.monotonic()
            for attempt in range(self._retries + 1):
                self._count()
                try:
                    answer = await self._client.request(method, target, headers=headers, **content)
                    break
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    if attempt == self._retries:
                        origin = self.redact(f"{httpx.URL(url).scheme}://{httpx.URL(url).netloc.decode()}")
                        raise Unreachable(f"{origin} cannot be reached: {self._detail(error)}") from None
                    await asyncio.sleep(0.2 * 2**attempt)
                except httpx.TimeoutException as error:
                    raise TimedOut(f"{resource} did not answer in time: {self._detail(error)}.") from None
                except (httpx.HTTPError, httpx.InvalidURL) as error:
                    raise self._failed(resource, "failed", error) from None
        seconds = time.monotonic() - started
        self.timings.append((url, seconds))
        kind = answer.headers.get("content-type", "")
        return Reply(resource, answer.status_code, kind, answer.content, seconds, self.redact)

    def lift_budget(self) -> None:
        """From here on requests are only counted: what cleans up must not stop halfway."""
        self._budget = 0

    def _count(self) -> None:
        if self._budget and self.requests >= self._budget:
            raise BudgetExceeded(f"the budget of {self._budget} requests is used up")
        self.requests += 1

    def _address(self, url: str) -> tuple[httpx.URL, dict[str, str], dict[str, Any]]:
        try:
            target = httpx.URL(url)
        except (httpx.InvalidURL, TypeError, ValueError) as error:
            raise self._failed(self.redact(str(url)), "is not a URL", error) from None
        name = target.host
        address = self._resolve.get(name)
        if address is None:
            return target, {}, {}
        host = name if target.port is None else f"{name}:{target.port}"
        return target.copy_with(host=address), {"Host": host}, {"sni_hostname": name}

    def _failed(self, resource: str, what: str, error: Exception) -> ServiceError:
        return ServiceError(f"{resource} {what}: {self._detail(error)}")

    def _detail(self, error: Exception) -> str:
        return self.redact(str(error)) or type(error).__name__
