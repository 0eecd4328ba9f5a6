# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on prefixes: they are bytes. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Finding, register
from ansible_collections.plumbline.rag.plugins.module_utils._rules._subject import Subject

PREFIX_PAIR = register(
    "PL130",
    ERROR,
    "The prefixes do not fit the model",
    "The model was trained with exact strings in front of queries and documents. A missing one, a lost trailing space or "
    "a literal backslash-n gives valid vectors that find less.",
    "Remove the overrides to use the catalog's prefixes, or write them exactly, in double quotes.",
    example='rag_embedder_query_prefix: "query:"    # "query: " with its space',
    source="Mintplex-Labs/anything-llm#5589, ansible/ansible#12200, ansible/ansible#30829",
)
PREFIX_FIELD = register(
    "PL131",
    ERROR,
    "RAG_EMBEDDING_PREFIX_FIELD_NAME is set",
    "Open WebUI then puts the prefix into a JSON field of that name, which TEI, vLLM and LiteLLM ignore; even an empty "
    "value counts as set. No text carries a prefix any more.",
    "Remove RAG_EMBEDDING_PREFIX_FIELD_NAME from rag_open_webui_env.",
    example='rag_open_webui_env:\n  RAG_EMBEDDING_PREFIX_FIELD_NAME: ""',
    source="open-webui retrieval/utils.py, generate_embeddings",
)
LOOK_ALIKE = register(
    "PL132",
    ERROR,
    "A prefix holds a character that only looks like a space, or that cannot be seen",
    "A no-break space copied from a web page is another token than a space, and the model was trained with the space.",
    "Type the prefix anew instead of copying it, or remove it to use the catalog's.",
    example='rag_embedder_query_prefix: "query:\u00a0"    # U+00A0 in place of the space',
    source="the byte-exact prefixes of the model cards",
)
QUOTED = register(
    "PL134",
    ERROR,
    "A prefix carries its own quotes",
    "The quotes become a part of every text that is embedded. They are left over from an env file or a second pair of quotes.",
    "Write one pair of quotes.",
    example="rag_embedder_query_prefix: '\"query: \"'",
    source="docker/compose#11058, docker/docs#14874",
)
DEFAULT_PROMPT = register(
    "PL135",
    ERROR,
    "The engine puts a prompt of its own before every text",
    "TEI's default prompt goes in front of queries and documents alike, and comes on top of the prefix that Open WebUI sends.",
    "Remove the argument; prefixes are rag_embedder_query_prefix and rag_embedder_document_prefix.",
    example='rag_embedder_extra_args: [--default-prompt, "query: "]',
    source="text-embeddings-inference router: the default prompt is applied to each input of /v1/embeddings",
)
_PLAIN = " \t\n"


def _damage(side: str, text: str) -> tuple[str, str] | None:
    """A damage that needs no catalog to be seen: the rule's id and the message."""
    for character in text:
        category = unicodedata.category(character)
        if character not in _PLAIN and category in ("Zs", "Zl", "Zp", "Cf"):
            name = unicodedata.name(character, "a character without a name")
            return LOOK_ALIKE.id, f"The {side} prefix {text!r} holds {name} (U+{ord(character):04X})."
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return QUOTED.id, f"The {side} prefix is {text!r}, quotes included."
    return None


def _difference(side: str, given: str, expected: str) -> str | None:
    """How a prefix differs from the catalog's, in words; None when it does not."""
    if given == expected:
        return None
    if "\\n" in given:
        return f"The {side} prefix {given!r} holds a backslash and an n, not a newline: single quotes do not turn it into one."
    if given.rstrip() == expected.rstrip():
        return f"The {side} prefix {given!r} differs from {expected!r} only in blanks at its end, and those are part of it."
    if not given:
        return f"The {side} prefix is empty; the model was trained with {expected!r}."
    if not expected:
        return f"The {side} prefix is {given!r}; the model was trained without one on this side."
    return f"The {side} prefix is {given!r}; the model was trained with {expected!r}."


def prefix_pair(subject: Subject) -> Iterator[Finding]:
    choice, spec = subject.choice, subject.spec
    known = choice.embedder.raw != {}
    sides = (
        ("query", "rag_embedder_query_prefix", choice.query_prefix, choice.embedder.query_prefix),
        ("document", "rag_embedder_document_prefix", choice.document_prefix, choice.embedder.document_prefix),
    )
    for side, variable, given, expected in sides:
        damage = _damage(side, given) if given != expected or not known else None
        problem = _difference(side, given, expected)
        if damage is not None:
            rule = LOOK_ALIKE if damage[0] == LOOK_ALIKE.id else QUOTED
            yield rule.finding(damage[1], variable=variable)
        elif problem is not None:
            # another instruction text is a matter of taste for models that take any; a damaged string never is
            tunable = (
                choice.embedder.kind == "query-only"
                and side == "query"
                and given
                and given.rstrip() != expected.rstrip()
            )
            severity = WARNING if tunable and "\\n" not in given else ERROR
            yield PREFIX_PAIR.finding(problem, severity=severity, variable=variable)
        elif not known and "\\n" in given:
            yield PREFIX_PAIR.finding(
                f"The {side} prefix {given!r} holds a backslash and an n, not a newline.", variable=variable
            )
    if not known and bool(choice.query_prefix) < bool(choice.document_prefix):
        message = f"{spec['rag_embedder']} has a document prefix and no query prefix; no known model is trained so."
        yield PREFIX_PAIR.finding(message, severity=WARNING, variable="rag_embedder_query_prefix")


def prefix_field(subject: Subject) -> Iterator[Finding]:
    env = subject.spec["rag_open_webui_env"]
    if "RAG_EMBEDDING_PREFIX_FIELD_NAME" not in env or subject.choice.prefix_field is not None:
        return
    value = env["RAG_EMBEDDING_PREFIX_FIELD_NAME"]
    message = f"rag_open_webui_env sets RAG_EMBEDDING_PREFIX_FIELD_NAME to {value!r}: no prefix reaches the model."
    if value and subject.choice.embedder_engine == "ollama":
        # a model of one's own may read the field; whether it does is for verification
        message = (
            f"rag_open_webui_env sets RAG_EMBEDDING_PREFIX_FIELD_NAME to {value!r}: Ollama has to read that field."
        )
        yield PREFIX_FIELD.finding(message, severity=WARNING, variable="rag_open_webui_env")
    else:
        yield PREFIX_FIELD.finding(message, variable="rag_open_webui_env")


def default_prompt(subject: Subject) -> Iterator[Finding]:
    for host, flag, _value in subject.flags("embedder"):
        if flag in ("--default-prompt", "--default-prompt-name"):
            message = f"rag_embedder_extra_args has {flag}, which goes before queries and documents alike."
            yield DEFAULT_PROMPT.finding(message, variable="rag_embedder_extra_args", host=host)


RULES = (prefix_pair, prefix_field, default_prompt)
