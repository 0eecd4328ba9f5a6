# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the weights that an engine loads, judged before its container is touched. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._weights import Fault

_COPY = "Copy the model anew, with its files and not with links to them: `hf download <model> --local-dir <folder>`."

POINTER = register(
    "PL250",
    ERROR,
    "A file of the weights is a Git LFS pointer",
    "The repository was cloned without Git LFS: three lines of text stand in place of the weights, and the engine ends at start.",
    "Run `git lfs pull` in the clone, or copy the model with `hf download`.",
    example="rag_weights_dir: /srv/models    # model.safetensors has 135 bytes there",
    source="huggingface/text-embeddings-inference#325",
    acknowledgeable=False,
)
LINK = register(
    "PL251",
    ERROR,
    "A link among the weights leads nowhere in the container",
    "A hub cache consists of links into its folder blobs. Copied without that folder, or by a tool that keeps links, they lead "
    "nowhere; one that leads out of the mounted folder leads nowhere in the container.",
    _COPY,
    example="cp -r snapshots/<commit> /srv/models/bge-m3    # cp -rL",
    source="huggingface/text-embeddings-inference#422",
    acknowledgeable=False,
)
INCOMPLETE = register(
    "PL252",
    ERROR,
    "A file of the weights is missing",
    "The engine ends at start, or goes on without a layer or the tokenizer's settings and answers with other numbers.",
    _COPY,
    example="rag_weights_dir: /srv/models    # model-00002-of-00004.safetensors is not there",
    source="huggingface/text-embeddings-inference#122, huggingface/Google-Cloud-Containers#115",
    acknowledgeable=False,
)
DAMAGED = register(
    "PL253",
    ERROR,
    "A file of the weights is damaged",
    "A file that was cut off, or that a disk has changed, stops the engine or changes its numbers.",
    "Copy the file anew; what the collection fetches, the next run fetches again.",
    acknowledgeable=False,
)
REVISION = register(
    "PL254",
    ERROR,
    "The folder of weights holds another revision",
    "Vectors of two revisions do not compare, and nothing raises an error.",
    "Copy the revision that is pinned, or pin the one that is there.",
    example='rag_embedder_revision: "5617a9f61b028005a4858fdac845db406aefb181"',
    acknowledgeable=False,
)
POOLING = register(
    "PL255",
    WARNING,
    "The folder of weights does not say how the model pools",
    "An engine then takes the first token or its own default, also for a model that was trained with the mean.",
    "Copy modules.json and 1_Pooling along, or accept the finding for a model that has none.",
    source="huggingface/Google-Cloud-Containers#115",
)
UNREACHABLE = register(
    "PL256",
    ERROR,
    "The model hub does not answer",
    "The weights are fetched before the container is touched, so that the running one goes on.",
    "Make it reachable (proxies: weights_environment), name a mirror in rag_hub_endpoint, or bring the weights along "
    "(rag_weights_source: folder). What was fetched is kept, and the next run goes on from there.",
    example="rag_hub_endpoint: https://hub.example.org",
    source="huggingface/text-embeddings-inference#207",
    acknowledgeable=False,
)
REFUSED = register(
    "PL257",
    ERROR,
    "The model hub refuses the weights",
    "The model is behind a licence, or is private: it needs a token of an account that has accepted the licence.",
    "Accept the licence on the model's page and set rag_hub_token to a token of that account that may read.",
    example="rag_embedder: google/embeddinggemma-300m\nrag_hub_token: \"{{ lookup('ansible.builtin.env', 'HF_TOKEN') }}\"",
    source="huggingface/text-embeddings-inference#207",
    acknowledgeable=False,
)
UNKNOWN = register(
    "PL258",
    ERROR,
    "The model hub does not know the model or the revision",
    "Without the weights nothing can be served. A private model looks like one that does not exist.",
    "Correct the name or the revision; a private model needs rag_hub_token.",
    example='rag_embedder_revision: "v1.5"    # the repository has no such tag',
    acknowledgeable=False,
)
SPACE = register(
    "PL259",
    ERROR,
    "There is not enough disk space for the weights",
    "A full disk stops every container of the host in the middle of a write.",
    "Free space, or name a folder on a larger file system in rag_weights_dir.",
    acknowledgeable=False,
)
RULES = {
    "pointer": POINTER,
    "link": LINK,
    "missing": INCOMPLETE,
    "damaged": DAMAGED,
    "revision": REVISION,
    "pooling": POOLING,
    "unreachable": UNREACHABLE,
    "refused": REFUSED,
    "unknown": UNKNOWN,
    "space": SPACE,
}
# a folder that was not copied at all lacks everything
_SHOWN = 5


def weights_findings(service: str, folder: str, faults: Iterable[Fault]) -> Iterator[Finding]:
    """The faults of a service's weights as findings: one for each kind, which names the first files."""
    kinds: dict[str, list[Fault]] = {}
    for fault in faults:
        kinds.setdefault(fault.kind, []).append(fault)
    for kind, alike in kinds.items():
        texts = [f"{fault.file} {fault.detail}".strip() for fault in alike[:_SHOWN]]
        more = f"; and {len(alike) - _SHOWN} more" if len(alike) > _SHOWN else ""
        # what the hub says is of no file, and a path says itself where it is
        place = f" in {folder}" if alike[0].file and not alike[0].file.startswith("/") else ""
        message = f"The {service}'s weights{place}: {'; '.join(texts)}{more}."
        yield RULES[kind].finding(message, variable=_variable(kind, service), hop=service)


def _variable(kind: str, service: str) -> str:
    return {
        "revision": f"rag_{service}_revision",
        "refused": "rag_hub_token",
        "unreachable": "rag_hub_endpoint",
        "unknown": f"rag_{service}",
        "space": "rag_weights_dir",
    }.get(kind, "rag_weights_dir")
