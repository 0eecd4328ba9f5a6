# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hub that weights come from, through huggingface_hub: it knows the routes, and resumes a file at the byte it has."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._weights import File

try:
    import httpx
    import huggingface_hub
    from huggingface_hub import constants, errors

    LIBRARY_ERROR: Exception | None = None
except ImportError as error:
    LIBRARY_ERROR = error

# seconds without an answer, or without a byte of a file
PATIENCE = 30.0
_REFUSED = (401, 403)


class HubError(Exception):
    """The hub does not give what is asked of it; ``kind`` is unreachable, refused, unknown or space."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def _client() -> httpx.Client:
    """A client that trusts what the host trusts, and takes proxies from the environment."""
    return httpx.Client(follow_redirects=True, timeout=PATIENCE, verify=ssl.create_default_context())


class Hub:
    """One hub, or a mirror of it, and the cache that its files go into."""

    def __init__(self, endpoint: str, token: str, cache: str) -> None:
        self._endpoint = endpoint.rstrip("/")
        # False: not the token of whoever is logged in on the host
        self._token: str | bool = token or False
        self._cache = cache
        # Xet's servers are other hosts, which sites open for nobody and mirrors lack, and its client resumes no file.
        constants.HF_HUB_DISABLE_XET = True
        # what is lost of a file that breaks off
        constants.DOWNLOAD_CHUNK_SIZE = 1 << 20
        huggingface_hub.set_client_factory(_client)

    def describe(self, repository: str, revision: str | None) -> tuple[str, dict[str, File]]:
        """The commit that the revision stands for, and the repository's files there."""
        with self._told(repository, revision):
            api = huggingface_hub.HfApi(endpoint=self._endpoint, token=self._token)
            info = api.model_info(repository, revision=revision or "main", files_metadata=True, timeout=PATIENCE)
        return str(info.sha), {file.name: file for file in map(_file, info.siblings or [])}

    def fetch(self, repository: str, commit: str, file: File) -> None:
        """Bring one file of a commit into the cache; what an interrupted run has left of it is gone on with."""
        with self._told(repository, commit):
            huggingface_hub.hf_hub_download(
                repository,
                file.name,
                revision=commit,
                cache_dir=self._cache,
                endpoint=self._endpoint,
                token=self._token,
                etag_timeout=PATIENCE,
            )

    @contextmanager
    def _told(self, repository: str, revision: str | None) -> Iterator[None]:
        """Turn what the library raises into the few reasons that an operator can do something about."""
        name = f"{repository} at {revision}" if revision else repository
        try:
            yield
        except errors.HFValidationError as problem:
            raise HubError("unknown", f"{repository} is not the name of a repository: {problem}") from problem
        except (errors.LocalEntryNotFoundError, errors.HfHubHTTPError, httpx.HTTPError, OSError) as problem:
            raise self._reason(problem, name) from problem

    def _reason(self, problem: Exception, name: str) -> HubError:
        cause: BaseException = problem
        while isinstance(cause, errors.LocalEntryNotFoundError) and cause.__cause__ is not None:
            cause = cause.__cause__
        response = getattr(cause, "response", None)
        status = getattr(response, "status_code", None)
        if isinstance(cause, errors.RevisionNotFoundError):
            return HubError("unknown", f"{self._endpoint} has no revision {name}")
        gated = isinstance(cause, errors.GatedRepoError)
        anonymous = status == 401 and not self._token
        if not gated and (anonymous or isinstance(cause, errors.RepositoryNotFoundError)):
            hidden = "" if self._token else ", or shows it to nobody without a token"
            return HubError("unknown", f"{self._endpoint} does not know {name}{hidden}")
        if gated or status in _REFUSED:
            whose = "the token that is given has no access" if self._token else "no token is given"
            return HubError("refused", f"{self._endpoint} refuses {name} ({status}): {whose}")
        if status is not None:
            return HubError("unreachable", f"{self._endpoint} answers with {status} when it is asked for {name}")
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            return HubError("space", f"the file system of {self._cache} is full")
        reason = str(cause).strip() or type(cause).__name__
        return HubError("unreachable", f"{self._endpoint} cannot be asked for {name}: {reason.splitlines()[0]}")


def _file(sibling: Any) -> File:
    """A file of the hub's answer; a mirror may leave out sizes and digests."""
    if sibling.lfs is not None:
        return File(sibling.rfilename, sibling.lfs.size, f"sha256:{sibling.lfs.sha256}")
    return File(sibling.rfilename, sibling.size, f"git:{sibling.blob_id}" if sibling.blob_id else "")
