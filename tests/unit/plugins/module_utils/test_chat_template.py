# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chat template of Qwen3-Reranker, rendered as vLLM renders it, against the published prompt, byte for byte."""

from __future__ import annotations

import jinja2
import pytest

from .installation import CATALOG, resolve

SYSTEM = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
DEFAULT = "Given a web search query, retrieve relevant passages that answer the query"
MESSAGES = [{"role": "query", "content": "what is panda?"}, {"role": "document", "content": "A bear.\nFrom China."}]


@pytest.mark.parametrize(
    ("given", "instruction"),
    [({}, DEFAULT), ({"instruction": None}, DEFAULT), ({"instruction": "Find the law"}, "Find the law")],
)
def test_the_prompt_is_the_published_one(given, instruction):
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, undefined=jinja2.Undefined)
    prompt = environment.from_string(CATALOG.templates["qwen3_reranker.jinja"]).render(messages=MESSAGES, **given)
    body = f"<Instruct>: {instruction}\n<Query>: what is panda?\n<Document>: A bear.\nFrom China."
    assert prompt == SYSTEM + body + SUFFIX


def test_the_engine_of_the_plan_carries_it():
    plan, _findings = resolve(
        {"rag_reranker": "Qwen/Qwen3-Reranker-0.6B", "rag_reranker_engine": "vllm", "rag_image_source": "registry"}
    )
    assert plan["hosts"]["h1"]["reranker"]["chat_template"] == CATALOG.templates["qwen3_reranker.jinja"]
    assert plan["hosts"]["h1"]["embedder"]["chat_template"] is None
