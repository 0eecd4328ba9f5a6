# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec: the operator's rag_* variables as typed values. Pure."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, Finding, register

ENGINES = ("tei", "vllm", "bundled", "openai", "openrouter", "cohere", "jina", "voyage", "ollama", "external")
EXTRACTION = (
    "builtin",
    "tika",
    "docling",
    "external",
    "document_intelligence",
    "mistral_ocr",
    "datalab_marker",
    "mineru",
    "paddleocr_vl",
)


@dataclasses.dataclass(frozen=True)
class Variable:
    """One rag_* variable: its type, default, allowed values and meaning.

    ``type`` is one of str, int, float, bool, list, dict and secret. ``default`` None means derived or absent.
    ``per_host`` variables may differ between the hosts of one installation; all others may not. ``form`` is the regular
    expression of a text and its description.
    """

    type: str
    doc: str
    default: Any = None
    choices: tuple[str, ...] = ()
    required: bool = False
    per_host: bool = False
    form: tuple[str, str] | None = None


# the name becomes a part of container names and folders
NAME = ("[a-z0-9][a-z0-9_-]{0,39}", "lower-case letters, digits, dashes and underscores, 40 at most")
TAG = (r"\w[\w.+-]{0,99}", "a version such as 1.2.3")
EMAIL = (r"[^@\s]+@[^@\s]+", "an e-mail address")
ABSOLUTE = (r"/[^:\s]*[^:/\s]", "an absolute path without colons and blanks")
URL = (r"https?://[^\s/]+(/\S*)?", "a URL that begins with http:// or https://")


VARIABLES: dict[str, Variable] = {
    "rag_installation": Variable(
        "str",
        "Name of the installation: hosts with the same value share one Open WebUI database.",
        "default",
        form=NAME,
    ),
    "rag_embedder": Variable("str", "Catalog id of the embedding model.", required=True),
    "rag_embedder_engine": Variable("str", "What serves the embedding model.", choices=ENGINES, required=True),
    "rag_embedder_revision": Variable("str", "Commit of the weights."),
    "rag_embedder_weights": Variable(
        "str",
        "Folder with the weights inside the engine's container, of an image or of rag_weights_dir; found by name unless set.",
    ),
    "rag_embedder_dimensions": Variable("int", "Reduced (Matryoshka) dimension, for models that allow it."),
    "rag_embedder_query_prefix": Variable(
        "str", "Overrides the catalog's query prefix; an empty string is an explicit none."
    ),
    "rag_embedder_document_prefix": Variable(
        "str", "Overrides the catalog's document prefix; an empty string is an explicit none."
    ),
    "rag_embedder_served_name": Variable(
        "str", "Name by which a hosted backend knows the embedding model; derived from rag_embedder unless set."
    ),
    "rag_embedder_base_url": Variable(
        "str", "OpenAI-style base URL of a hosted backend; its own unless set, required for ollama and external."
    ),
    "rag_embedder_api_key": Variable("secret", "Key of that URL."),
    "rag_embedder_gpus": Variable("list", "GPU indexes or UUIDs for the embedder on its host.", (), per_host=True),
    "rag_embedder_extra_args": Variable("list", "Engine arguments added by the operator.", (), per_host=True),
    "rag_reranker": Variable("str", "Catalog id of the reranking model, or none.", "none"),
    "rag_reranker_engine": Variable("str", "What serves the reranking model.", choices=ENGINES),
    "rag_reranker_revision": Variable("str", "Commit of the reranker's weights."),
    "rag_reranker_weights": Variable("str", "The same for the reranker's weights."),
    "rag_reranker_served_name": Variable(
        "str", "Name by which a hosted backend knows the reranking model; derived from rag_reranker unless set."
    ),
    "rag_reranker_url": Variable(
        "str", "Full rerank URL of a hosted backend, path included; its own unless set, required for external."
    ),
    "rag_reranker_api_key": Variable("secret", "Key of that URL."),
    "rag_reranker_gpus": Variable("list", "GPU indexes or UUIDs for the reranker on its host.", (), per_host=True),
    "rag_reranker_extra_args": Variable("list", "Engine arguments added by the operator.", (), per_host=True),
    "rag_proxy": Variable(
        "str", "What stands between Open WebUI and the engines.", "litellm", choices=("litellm", "none")
    ),
    "rag_litellm_version": Variable("str", "LiteLLM version; the recommended one unless set.", form=TAG),
    "rag_litellm_extra_models": Variable("list", "Raw model entries added to LiteLLM's model_list.", ()),
    "rag_litellm_salt_key": Variable("secret", "Encrypts credentials that LiteLLM stores in a database."),
    "rag_litellm_master_key": Variable(
        "secret", "LiteLLM's master key, beginning with sk-; generated once and kept unless set."
    ),
    "rag_open_webui_version": Variable("str", "Open WebUI version; the recommended one unless set.", form=TAG),
    "rag_open_webui_variant": Variable("str", "Which image of Open WebUI.", "slim", choices=("slim", "full", "cuda")),
    "rag_open_webui_env": Variable("dict", "Extra environment of Open WebUI, checked against what the plan sets.", {}),
    "rag_open_webui_secret_key": Variable("secret", "Signs sessions; generated once and kept unless set."),
    "rag_open_webui_admin_email": Variable("str", "E-mail of the first admin.", "admin@example.com", form=EMAIL),
    "rag_open_webui_admin_password": Variable(
        "secret", "Password of the first admin; generated once and kept unless set."
    ),
    "rag_open_webui_replicas": Variable("int", "Open WebUI containers per host.", 1),
    "rag_open_webui_address": Variable(
        "str", "Address on which Open WebUI's port is published.", "127.0.0.1", per_host=True
    ),
    "rag_open_webui_port": Variable("int", "Port on which Open WebUI is published.", 3000, per_host=True),
    "rag_config_owner": Variable(
        "str", "Who owns the settings in Open WebUI's database.", "inventory", choices=("inventory", "ui")
    ),
    "rag_vector_store": Variable(
        "str", "Where vectors are stored; slim implies pgvector.", "pgvector", choices=("pgvector", "chroma")
    ),
    "rag_database_url": Variable("secret", "An existing PostgreSQL; otherwise the postgres role makes one."),
    "rag_postgres_version": Variable("str", "PostgreSQL version of the postgres role.", form=TAG),
    "rag_pgvector_halfvec": Variable("bool", "Store half-precision vectors; derived from the dimension unless set."),
    "rag_pgvector_index": Variable(
        "str", "Index method of the vector column; derived unless set.", choices=("hnsw", "ivfflat")
    ),
    "rag_hybrid_search": Variable("bool", "Keyword plus vector search; on when there is a reranker, unless set."),
    "rag_top_k": Variable("int", "Candidates per search."),
    "rag_top_k_reranker": Variable("int", "Chunks kept after reranking."),
    "rag_relevance_threshold": Variable("float", "Lowest reranker score that is kept.", 0.0),
    "rag_bm25_weight": Variable("float", "Weight of the keyword search, 0 to 1.", 0.5),
    "rag_chunk_size": Variable(
        "int", "Chunk size in the splitter's unit; derived from the model's token limit unless set."
    ),
    "rag_chunk_overlap": Variable("int", "Overlap of neighbouring chunks; a tenth of the chunk size unless set."),
    "rag_text_splitter": Variable(
        "str", "Splitter of Open WebUI.", "character", choices=("character", "token", "token_transformers")
    ),
    "rag_embedding_batch_size": Variable(
        "int", "Texts per embedding request; derived from the engine's limit unless set."
    ),
    "rag_embedding_concurrency": Variable("int", "Concurrent embedding requests per document.", 4),
    "rag_gpu_tflops": Variable(
        "float", "Half-precision TFLOPS of one graphics card, without sparsity; the plan's estimates use it."
    ),
    "rag_gpu_efficiency": Variable(
        "float", "Share of them that the engine reaches, as measured; the plan's estimates use it.", 0.17
    ),
    "rag_gpu_memory": Variable(
        "float",
        "GiB of memory that each graphics card of the host has; vLLM's share of a card that two services use follows from it.",
        per_host=True,
    ),
    "rag_reranker_timeout": Variable("int", "Seconds that Open WebUI waits for the reranker.", 30),
    "rag_content_extraction": Variable("str", "Content extraction engine.", "builtin", choices=EXTRACTION),
    "rag_weights_source": Variable(
        "str",
        "Where the engines' weights come from: fetched from a model hub by revision, or a folder that is on the hosts already.",
        "hub",
        choices=("hub", "folder"),
    ),
    "rag_weights_dir": Variable(
        "str",
        "Folder with the weights on the hosts, which engines see read-only; of the source folder, a hub cache or a folder a model.",
        "/var/lib/plumbline/models",
        form=ABSOLUTE,
    ),
    "rag_hub_endpoint": Variable(
        "str", "URL of the model hub or of a mirror of it.", "https://huggingface.co", form=URL
    ),
    "rag_hub_token": Variable("secret", "Token of the model hub, for models that are not public."),
    "rag_image_source": Variable(
        "str", "Where images come from.", "registry", choices=("registry", "archive", "build")
    ),
    "rag_image_registry_prefix": Variable("str", "Mirror put in front of every image name.", ""),
    "rag_images": Variable(
        "dict",
        "Images in place of the collection's own: repository:tag, or repository:tag@sha256:digest, by tei, vllm, bundled, "
        "litellm, open_webui and postgres.",
        {},
        per_host=True,
    ),
    "rag_image_bundle_dir": Variable("str", "Folder of image archives on the controller or host."),
    "rag_verify_depth": Variable(
        "str",
        "How thorough a verification is: quick leaves out what needs many requests, deep sends up to 1000 of them.",
        "standard",
        choices=("quick", "standard", "deep"),
    ),
    "rag_eval_set": Variable(
        "str",
        "File on the controller with questions and passages that measure the reranker; the collection's own unless set.",
    ),
    "rag_accept": Variable("dict", "Acknowledged findings: id to reason.", {}),
    "rag_report_dir": Variable(
        "str", "Where plan, reports and locks go on the controller; reports/<installation> unless set."
    ),
    "rag_secrets_file": Variable(
        "str",
        "File of generated secrets on the controller; .secrets/<installation>.yml beside the inventory unless set.",
    ),
    "rag_catalog_dirs": Variable("list", "Folders with the operator's own catalog entries.", ()),
    "rag_address": Variable(
        "str", "Address under which other hosts reach this one; ansible_host unless set.", per_host=True
    ),
    "rag_python": Variable(
        "str",
        "Interpreter on the hosts with the collection's libraries.",
        "/opt/plumbline/venv/bin/python",
        per_host=True,
    ),
}

# Facts and play variables of the collection itself, which stand beside the operator's variables in hostvars.
INTERNAL = frozenset({"rag_plans", "rag_plan", "rag_secrets"})

UNKNOWN_VARIABLE = register(
    "PL101",
    ERROR,
    "A rag_ variable that does not exist",
    "Ansible ignores a misspelt variable without a word: the default is deployed and nobody notices.",
    "Correct or remove the variable.",
    example="rag_embeder: BAAI/bge-m3    # rag_embedder",
    acknowledgeable=False,
)
WRONG_TYPE = register(
    "PL102",
    ERROR,
    "A variable has the wrong type or is not one of its values",
    "YAML turns an unquoted version into a number and an unquoted yes into a boolean; the value that arrives is another.",
    "Give a value of the documented type; quote versions and prefixes.",
    example='rag_open_webui_version: 0.12    # "0.12.4"',
    source="ansible-collections/community.docker#156",
    acknowledgeable=False,
)
MISSING = register(
    "PL103",
    ERROR,
    "A required variable is missing",
    "The collection guesses no model: another model means other vectors.",
    "Set the variable in the inventory, for example in group_vars/all.yml.",
    acknowledgeable=False,
)
DISAGREE = register(
    "PL104",
    ERROR,
    "Hosts of one installation disagree",
    "One installation has one database and one embedding; two values mean that one of them is not what is deployed.",
    "Set the variable once, for the group of all hosts of the installation, or give the hosts different rag_installation values.",
    acknowledgeable=False,
)
BROKEN_EXPRESSION = register(
    "PL105",
    ERROR,
    "A variable's expression cannot be evaluated",
    "A template that fails leaves the variable without a value.",
    "Correct the expression or define what it refers to.",
    acknowledgeable=False,
)
BAD_TEXT = register(
    "PL133",
    ERROR,
    "A text holds bytes that no program can be given, or is too long",
    "A null byte ends the text for every program that reads it, half a character cannot be written at all, and Linux takes "
    "no environment value or argument of more than 128 KiB.",
    "Write the text anew; an editor that shows invisible characters helps.",
    example='rag_embedder_query_prefix: "query: \\0"',
    source="execve(2): MAX_ARG_STRLEN",
    acknowledgeable=False,
)
LONGEST = 128 * 1024 - 1
# all control characters except tab and newline, and the halves of surrogate pairs
_UNPRINTABLE = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f\\ud800-\\udfff]")


@dataclasses.dataclass(frozen=True)
class Broken:
    """Stands for the value of a variable whose expression failed, with the reason."""

    reason: str


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like ``name``, or None."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def shown(value: Any) -> str:
    """The value as a message shows it: its representation, cut when it is long."""
    text = repr(value[:100] if isinstance(value, str) else value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def text_problem(value: Any) -> str | None:
    """What is wrong with the texts inside a value, names of mappings included; None when nothing is."""
    if isinstance(value, str):
        if len(value.encode(errors="surrogatepass")) > LONGEST:
            return f"is {len(value)} characters long, more than a program can be given"
        found = _UNPRINTABLE.search(value)
        return (
            None if found is None else f"holds the character U+{ord(found.group()):04X}, which no program can be given"
        )
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple)):
        return next((problem for problem in map(text_problem, value) if problem), None)
    return None


def _describe(value: Any) -> str:
    """The value in words; a boolean comes first, because it is an int as well."""
    names = (
        (bool, "the boolean"),
        ((int, float), "the number"),
        (str, "the string"),
        (list, "a list"),
        (dict, "a mapping"),
    )
    kind = next((text for python, text in names if isinstance(value, python)), f"a {type(value).__name__}")
    return kind if isinstance(value, (list, dict)) else f"{kind} {shown(value)}"


def _convert(variable: Variable, value: Any) -> Any:
    """``value`` as the variable's type; raises ValueError with what was expected."""
    if variable.type in ("str", "secret"):
        if not isinstance(value, str):
            raise ValueError("a quoted string")
        if variable.choices and value not in variable.choices:
            raise ValueError("one of " + ", ".join(variable.choices))
        if variable.form and not re.fullmatch(variable.form[0], value):
            raise ValueError(variable.form[1])
        return str(value)
    if variable.type == "bool":
        if isinstance(value, bool):
            return value
        # extra variables given as key=value on the command line are always strings
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        raise ValueError("true or false")
    if variable.type in ("int", "float"):
        if not isinstance(value, bool) and isinstance(
            value, (int, str) if variable.type == "int" else (int, float, str)
        ):
            try:
                number = int(value) if variable.type == "int" else float(value)
                if abs(number) < 2**31:  # which also leaves out what is not a number
                    return number
            except (ValueError, OverflowError):
                pass
        raise ValueError("a whole number" if variable.type == "int" else "a number")
    if variable.type == "list":
        if isinstance(value, (list, tuple)):
            return list(value)
        raise ValueError("a list")
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return dict(value)
    raise ValueError("a mapping from names to values")


@dataclasses.dataclass
class Spec:
    """One installation as the operator described it.

    ``values`` holds every variable of :data:`VARIABLES` (None where nothing is set and nothing is the default);
    ``given`` the names that the operator set; ``hosts`` the installation's hosts in inventory order; ``host_values`` the
    per-host variables; ``groups`` the hosts of the installation in each rag_ group.
    """

    installation: str
    values: dict[str, Any]
    given: frozenset[str]
    hosts: list[str]
    host_values: dict[str, dict[str, Any]]
    groups: dict[str, list[str]]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def check_host(host: str, variables: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
    """Type and name checks of one host's rag_* variables.

    Returns the converted values that the operator gave (invalid ones left out) and the findings.
    """
    values: dict[str, Any] = {}
    findings: list[Finding] = []
    for name in sorted(variables):
        if not name.startswith("rag_") or name in INTERNAL:
            continue
        value = variables[name]
        variable = VARIABLES.get(name)
        if variable is None:
            close = nearest(name, VARIABLES)
            hint = f"Did you mean {close}?" if close else None
            findings.append(UNKNOWN_VARIABLE.finding(f"There is no variable {name}.", hint, variable=name, host=host))
        elif isinstance(value, Broken):
            findings.append(
                BROKEN_EXPRESSION.finding(f"{name} cannot be evaluated: {value.reason}", variable=name, host=host)
            )
        elif value is not None and text_problem(value) is not None:
            findings.append(BAD_TEXT.finding(f"{name} {text_problem(value)}.", variable=name, host=host))
        elif value is not None:
            try:
                values[name] = _convert(variable, value)
            except ValueError as expected:
                what = "a value of another type" if variable.type == "secret" else _describe(value)
                message = f"{name} is {what}; it must be {expected}."
                hint = None
                if variable.choices and isinstance(value, str):
                    close = nearest(value, variable.choices)
                    hint = f"Did you mean {close}?" if close else None
                findings.append(WRONG_TYPE.finding(message, hint, variable=name, host=host))
    return values, findings


def build_specs(
    hosts: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Iterable[str]]
) -> tuple[dict[str, Spec], list[Finding]]:
    """Sort the hosts (name -> variables) into installations and merge their variables.

    ``groups`` maps inventory group names to host names; only rag_ groups are used. Same fault on several hosts is
    reported once, with the first host.
    """
    findings: list[Finding] = []
    seen: set[tuple[str, str]] = set()
    converted: dict[str, dict[str, Any]] = {}
    for host, variables in hosts.items():
        converted[host], host_findings = check_host(host, variables)
        for finding in host_findings:
            key = (finding.id, finding.message)
            if key not in seen:
                seen.add(key)
                findings.append(finding)

    members: dict[str, list[str]] = {}
    for host, values in converted.items():
        members.setdefault(values.get("rag_installation", VARIABLES["rag_installation"].default), []).append(host)

    invalid = {finding.where.get("variable") for finding in findings}
    specs: dict[str, Spec] = {}
    for installation, names in members.items():
        merged: dict[str, Any] = {}
        owner: dict[str, str] = {}
        for host in names:
            for name, value in converted[host].items():
                if VARIABLES[name].per_host:
                    continue
                if name in merged and merged[name] != value:
                    # mappings and lists may hold keys
                    hidden = VARIABLES[name].type in ("secret", "dict", "list")
                    both = "" if hidden else f": {shown(merged[name])} and {shown(value)}"
                    message = f"{owner[name]} and {host} of installation {installation} have different values of {name}{both}."
                    findings.append(DISAGREE.finding(message, variable=name, host=host))
                merged.setdefault(name, value)
                owner.setdefault(name, host)
        for name, variable in VARIABLES.items():
            if variable.required and name not in merged and name not in invalid:
                findings.append(MISSING.finding(f"{name} is not set for installation {installation}.", variable=name))
        specs[installation] = Spec(
            installation=installation,
            values={name: merged.get(name, variable.default) for name, variable in VARIABLES.items()},
            given=frozenset(merged),
            hosts=names,
            host_values={
                host: {n: converted[host].get(n, v.default) for n, v in VARIABLES.items() if v.per_host}
                for host in names
            },
            groups={
                group: [h for h in hosts_of if h in names]
                for group, hosts_of in groups.items()
                if group.startswith("rag_")
            },
        )
    return specs, findings
