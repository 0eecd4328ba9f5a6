# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault that verification can find, declared once. Pure: the rules reference and `rag_accept` read it anywhere."""

from __future__ import annotations

from ansible_collections.plumbline.rag.plugins.module_utils._findings import ERROR, WARNING, Rule, register

# Versions

VERSION_FLOOR = register(
    "PL401",
    ERROR,
    "A running version is below its floor",
    "Releases below the floor have faults or holes that the collection cannot work around.",
    "Raise rag_open_webui_version, rag_litellm_version or rag_postgres_version to the floor or above and deploy again.",
    example='rag_open_webui_version: "0.12.4"',
)
VERSION_DRIFT = register(
    "PL402",
    ERROR,
    "A running version is not the one in the plan",
    "Somebody changed the image outside the inventory, or the container was not replaced.",
    "Run site.yml again, or write the running version into rag_open_webui_version or rag_litellm_version.",
)
VERSION_UNKNOWN = register(
    "PL403",
    WARNING,
    "A service does not tell its version",
    "Its floor cannot be checked.",
    "See the message for the answer of the service; check that it is the service that the inventory names.",
)
IMAGE_DRIFT = register(
    "PL410",
    ERROR,
    "A container runs another image than the plan's",
    "A tag names what was pulled or built last. A container that was started before goes on with the old program, and one "
    "that somebody started by hand runs anything.",
    "Run site.yml again, which replaces the container; if the image is meant, put its version into the inventory.",
)

# Several engines

INSTANCE_DOWN = register(
    "PL407",
    ERROR,
    "One of several engines does not answer rightly",
    "The proxy leaves it out, and what is left has no other one to stand in for it. Until it is found out, requests wait for it.",
    "Look at the container on the host that the message names; site.yml starts it again.",
)
INSTANCE_VECTORS = register(
    "PL408",
    ERROR,
    "Engines of one installation give different vectors for the same text",
    "The proxy spreads texts over them: questions are then compared with passages that another model, or other weights, embedded.",
    "Run site.yml, so that all have the same image, weights and arguments; set rag_embedder_revision.",
)
INSTANCE_SCORES = register(
    "PL409",
    ERROR,
    "Rerankers of one installation give different scores for the same documents",
    "The same question gets another order each time, and a threshold means something else on each of them.",
    "Run site.yml, so that all have the same image, weights and arguments; set rag_reranker_revision.",
)

# Settings and access

SETTING_DRIFT = register(
    "PL411",
    ERROR,
    "A setting in Open WebUI's database is not the one in the plan",
    "After the first start the database wins over the environment: Open WebUI works with the stored value.",
    "With rag_config_owner: inventory, run site.yml again; with ui, change the setting in Admin Settings > Documents or "
    "take the value over into the inventory.",
    example="rag_config_owner: inventory",
)
ENV_DRIFT = register(
    "PL412",
    ERROR,
    "An environment variable of the running container is not the one in the plan",
    "Prefixes exist only there. A lost blank or a kept quote changes every vector, and nothing says so.",
    "Run site.yml again, which replaces the container; check rag_open_webui_env if the variable comes from there.",
)
SIGNUP_OPEN = register(
    "PL413",
    ERROR,
    "Sign-up is open",
    "Anybody who reaches the page gets an account.",
    "Run site.yml with rag_config_owner: inventory, which closes it, or close it in Admin Settings > General.",
)
UNGUARDED = register(
    "PL414",
    ERROR,
    "A service answers without a key",
    "Whoever reaches its port can use it, and read what it is sent.",
    "Set rag_embedder_api_key, rag_reranker_api_key or rag_litellm_master_key and deploy again.",
)
VARIANT_DRIFT = register(
    "PL415",
    ERROR,
    "Open WebUI runs in another variant than the plan's",
    "The slim variant is a different product: external engines and pgvector only.",
    "Set rag_open_webui_variant to what is meant to run and run site.yml again.",
)
SIGN_IN = register(
    "PL416",
    ERROR,
    "The administrator cannot sign in",
    "Without the admin API neither the settings nor the way through Open WebUI can be checked.",
    "Give the right rag_open_webui_admin_email and rag_open_webui_admin_password. They act only on an empty database: an "
    "administrator that exists keeps its password. With multi-factor sign-in use an administrator without it.",
    acknowledgeable=False,
)
NO_ADMIN = register(
    "PL417",
    ERROR,
    "Open WebUI has no administrator yet",
    "The next stranger who signs up becomes the administrator.",
    "Give rag_open_webui_admin_password at most 72 bytes and run site.yml again on an empty database.",
    acknowledgeable=False,
)

REPLICA_DRIFT = register(
    "PL418",
    ERROR,
    "A further Open WebUI does not work as the first one",
    "Users are spread over all of them: the same question gets other passages, depending on who answers.",
    "Restart Open WebUI on the host that the message names: a setting that is changed over the API reaches the process that "
    "answers. With another version run site.yml again.",
)

# Embedding

COUNT = register(
    "PL420",
    ERROR,
    "A request gets another number of vectors than it has texts",
    "Open WebUI pairs vectors with passages by position: the upload fails, or vectors end up with the wrong passage.",
    "Replace the server behind this hop, or set rag_embedding_batch_size: 1.",
    acknowledgeable=False,
)
EMBEDDING_FAILED = register(
    "PL421",
    ERROR,
    "An embedding request fails",
    "Uploads fail with it, and so does every question.",
    "See the message for the answer. 401 and 403: rag_embedder_api_key or rag_litellm_master_key; 404: the model's name "
    "or rag_embedder_base_url; 413 and 422: rag_embedding_batch_size.",
    acknowledgeable=False,
)
DIMENSION = register(
    "PL422",
    ERROR,
    "Vectors have the wrong dimension",
    "pgvector pads or cuts them without a word; a cut vector finds the wrong passages.",
    "Set rag_embedder to the model that really runs, or rag_embedder_dimensions to the dimension that is wanted.",
    acknowledgeable=False,
)
NORM = register(
    "PL423",
    ERROR,
    "Vectors are not normalised",
    "Scores leave their range, and stores that use the dot product rank by length.",
    "On vLLM add --pooler-config '{\"use_activation\":true}' to rag_embedder_extra_args.",
)
ORDER = register(
    "PL424",
    ERROR,
    "Vectors come back in another order than the texts",
    "Open WebUI ignores the index and stores each vector with the wrong passage.",
    "Replace the server behind this hop, or set rag_embedding_batch_size: 1.",
    acknowledgeable=False,
)
BATCH = register(
    "PL425",
    ERROR,
    "A text gets another vector in a batch than alone",
    "What is found then depends on what was uploaded together.",
    "Update the engine (padding and attention masks are the usual cause), or set rag_embedding_batch_size: 1.",
)
ROUTE = register(
    "PL426",
    ERROR,
    "The proxy gives other vectors than the engine",
    "Another model, a prompt or a second backend sits behind the name that Open WebUI uses.",
    "Compare the proxy's model list with rag_embedder and rag_litellm_extra_models.",
    acknowledgeable=False,
)
MODEL_NAME = register(
    "PL427",
    WARNING,
    "A model name that does not exist is accepted",
    "A misspelt or outdated name goes unnoticed: the answer comes from another model.",
    "Nothing to do when the server holds one model only; otherwise check its list of models.",
)
NULL_FORMAT = register(
    "PL428",
    WARNING,
    "A request with a null encoding_format is answered wrongly",
    "Old proxies send the null, and the caller cannot tell what went wrong.",
    "Keep rag_litellm_version at 1.84.0 or above, which never sends it.",
)
REFERENCE = register(
    "PL429",
    ERROR,
    "Vectors do not reproduce the model's reference values",
    "Another model, revision or pooling is served, or a layer of the model is missing. Answers get worse, silently.",
    "Check rag_embedder, rag_embedder_revision and rag_embedder_extra_args (pooling, dtype) against the model card.",
)
PREFIX_WITHOUT_EFFECT = register(
    "PL430",
    ERROR,
    "The prefix has no effect on the vector",
    "The server drops it, or adds its own: questions and passages are not where the model expects them.",
    "Serve the model without a prompt of its own (on TEI no --default-prompt) in rag_embedder_extra_args.",
)
INVALID_VECTOR = register(
    "PL438",
    ERROR,
    "A vector is empty, zero or not a number",
    "The passage can never be found, or the store refuses it.",
    "Serve Gemma models in bfloat16 or float32 (rag_embedder_extra_args: [--dtype, bfloat16]); update the engine.",
    acknowledgeable=False,
)
BLIND_REFERENCE = register(
    "PL439",
    WARNING,
    "The reference values cannot tell right from wrong",
    "A wrong input reproduces them as well, so that they prove nothing about this server.",
    "Compare the tolerance with the values in the catalog entry of rag_embedder.",
)
ENCODING = register(
    "PL440",
    WARNING,
    "Base64 and plain numbers give different vectors",
    "Clients that ask for base64, as the OpenAI SDK does, see another model.",
    "Update the engine or the proxy; Open WebUI itself asks for plain numbers.",
)

# Prefixes, proven from stored vectors and returned distances

PREFIX_MISSING = register(
    "PL431",
    ERROR,
    "The prefix is missing",
    "The model was trained with it: without it, passages are found less often.",
    "Set rag_embedder_document_prefix or rag_embedder_query_prefix, leave RAG_EMBEDDING_PREFIX_FIELD_NAME out of "
    "rag_open_webui_env, run site.yml and re-index.",
)
PREFIX_SIDE = register(
    "PL432",
    ERROR,
    "The prefix of the other side is used",
    "Passages are embedded as questions, or questions as passages.",
    "Exchange rag_embedder_query_prefix and rag_embedder_document_prefix, run site.yml and re-index.",
)
PREFIX_BLANK = register(
    "PL433",
    ERROR,
    "The prefix lost its trailing space",
    "The first word is glued to the prefix and becomes another token.",
    "Quote the value of rag_embedder_query_prefix or rag_embedder_document_prefix in the inventory, run site.yml and "
    "re-index.",
    example='rag_embedder_document_prefix: "passage: "',
)
PREFIX_LITERAL = register(
    "PL434",
    ERROR,
    "The prefix holds characters that were never meant to be sent",
    "A backslash with an n, or quotes around the value, reach the model as text.",
    "Write the prefix in double quotes in YAML, so that \\n is a newline; run site.yml and re-index.",
    example='rag_embedder_query_prefix: "Instruct: …\\nQuery:"',
)
PREFIX_TWICE = register(
    "PL435",
    ERROR,
    "The prefix is applied twice",
    "Open WebUI adds it, and the server or the proxy adds it again.",
    "Serve the model without a prompt of its own, or set rag_embedder_query_prefix and rag_embedder_document_prefix to "
    '""; then re-index.',
)
OTHER_MODEL = register(
    "PL436",
    ERROR,
    "Vectors in Open WebUI come from something else than the engine",
    "No text that Open WebUI could have sent gives this vector: another model or another server made it.",
    "Compare rag_embedder with the model and the URL in Admin Settings > Documents, restart Open WebUI, and re-index.",
    acknowledgeable=False,
)
PREFIX_UNPROVEN = register(
    "PL437",
    WARNING,
    "The prefixes cannot be proven",
    "The stored texts cannot be read, so that nobody can say which vector should belong to them.",
    "Check the container's RAG_EMBEDDING_QUERY_PREFIX and RAG_EMBEDDING_CONTENT_PREFIX by hand.",
)

PROMPT = register(
    "PL482",
    ERROR,
    "The server puts text of its own before each text",
    "Open WebUI adds the model's prefixes: the server's come on top of them, and questions and passages get the same ones.",
    "Serve the model without a prompt of its own (on TEI no --default-prompt or --default-prompt-name) in "
    "rag_embedder_extra_args; then re-index.",
)

# Reranking

RERANK_FAILED = register(
    "PL441",
    ERROR,
    "A rerank request fails",
    "Open WebUI ignores the failure and shows passages in another order; nobody is told.",
    "See the message for the answer. 404 and 405: rag_reranker_url must be the full path; 422: TEI needs "
    "rag_proxy: litellm in front; 500 from LiteLLM: the provider in rag_litellm_extra_models.",
)
RERANK_SHAPE = register(
    "PL442",
    ERROR,
    "The rerank answer has another shape than Open WebUI reads",
    "Open WebUI takes it for no answer and silently carries on without reranking.",
    "Put rag_proxy: litellm between Open WebUI and this server; the answer must be "
    '{"results": [{"index": …, "relevance_score": …}]}.',
    example="rag_proxy: litellm",
)
RERANK_INDEXES = register(
    "PL443",
    ERROR,
    "The reranker does not score each document once",
    "Open WebUI pairs scores with documents by position: a missing one shifts all the others.",
    "Remove a limit on results (top_n) from rag_reranker_extra_args or from the proxy's model entry.",
)
RERANK_ORDER = register(
    "PL444",
    ERROR,
    "The reranker does not put the right document first",
    "A reranker that misses the obvious lowers the quality of answers.",
    "Check the model and its head (rag_reranker, rag_reranker_extra_args); rag_reranker: none is better than a broken one.",
)
RERANK_FLAT = register(
    "PL445",
    ERROR,
    "The reranker gives all documents the same score",
    "The order is then chance.",
    "Check that a reranking model is served (on vLLM the overrides in rag_reranker_extra_args); else rag_reranker: none.",
)
RERANK_RANGE = register(
    "PL446",
    ERROR,
    "Rerank scores are outside the range of the model",
    "rag_relevance_threshold then drops everything or nothing.",
    "Set rag_relevance_threshold: 0, or make the server apply its activation (rag_reranker_extra_args).",
)
RERANK_BATCH = register(
    "PL447",
    ERROR,
    "The reranker refuses as many documents as Open WebUI sends",
    "Hybrid search sends up to twice rag_top_k candidates; a refused request is silently ignored.",
    "Lower rag_top_k, or raise the server's batch limit (on TEI --max-client-batch-size in rag_reranker_extra_args).",
)
RERANK_NUMBERS = register(
    "PL448",
    ERROR,
    "Rerank scores are not numbers",
    "Open WebUI sorts text as text and null not at all.",
    "Replace the server behind rag_reranker_url, or put rag_proxy: litellm in front of it.",
)
RERANK_ROUTE = register(
    "PL449",
    ERROR,
    "The proxy gives other rerank scores than the reranker",
    "Another model sits behind the name that Open WebUI uses.",
    "Compare the proxy's model list with rag_reranker and rag_litellm_extra_models.",
)

UNSTABLE = register(
    "PL462",
    ERROR,
    "The same text gets different vectors in repeated calls",
    "Several servers behind one address hold different models or settings, or one of them is broken.",
    "Compare image, model and arguments of every embedder of the installation; look for a load balancer in front of them.",
)
CONCURRENT = register(
    "PL463",
    ERROR,
    "A text gets another vector when requests come at once",
    "The server joins concurrent requests and mixes them up: every upload of several passages stores wrong vectors.",
    "Update the engine; until then set rag_embedding_concurrency: 1.",
    example="rag_embedding_concurrency: 1",
    source="huggingface/text-embeddings-inference#882",
)
BURST = register(
    "PL464",
    ERROR,
    "Requests that come at once are refused",
    "Open WebUI sends several at once for each upload and does not try again.",
    "Lower rag_embedding_concurrency, or raise the engine's limit (on TEI --max-concurrent-requests in "
    "rag_embedder_extra_args).",
)
LENGTH_REFUSED = register(
    "PL465",
    ERROR,
    "A text within the model's limit gets no usable vector",
    "Long passages are missing from the knowledge base, or can never be found.",
    "Raise the engine's length (--max-batch-tokens or --max-model-len in rag_embedder_extra_args), or lower rag_chunk_size.",
)
LENGTH_CUT = register(
    "PL466",
    ERROR,
    "A text within the model's limit is cut",
    "The end of long passages is not searched, and nothing says so.",
    "Raise the engine's length (on TEI --max-batch-tokens in rag_embedder_extra_args), or lower rag_chunk_size.",
)
LENGTH_PAST = register(
    "PL467",
    WARNING,
    "A text past the limit is not treated as the engine's data says",
    "A passage that is too long is refused where it should be cut, or cut where it should be refused.",
    "Set the engine's truncation (on TEI --auto-truncate in rag_embedder_extra_args), and keep passages within the limit by "
    "rag_chunk_size.",
)
RERANK_EMPTY = register(
    "PL468",
    WARNING,
    "An empty document stops reranking",
    "Open WebUI ignores the refused answer, and all passages go out unranked.",
    "Update the reranker or the proxy; until then see that no file without text is uploaded.",
)
RERANK_DEPENDENT = register(
    "PL469",
    WARNING,
    "The score of a document depends on the other documents",
    "Padding or truncation is wrong, or the model ranks lists: a threshold means something else for each question.",
    "Update the engine; with a model that ranks lists set rag_relevance_threshold: 0.",
)
RERANK_LONG = register(
    "PL470",
    WARNING,
    "One over-long document stops reranking",
    "Open WebUI ignores the refused answer, and all passages go out unranked.",
    "Set rag_litellm_version to 1.109.0 or above, which lets TEI cut it off, or lower rag_chunk_size.",
)
RERANK_SLOW = register(
    "PL473",
    ERROR,
    "The reranker is too slow for its timeout",
    "Open WebUI waits, gives up, and shows the passages unranked.",
    "Lower rag_top_k, raise rag_reranker_timeout, or use a faster rag_reranker.",
)
RERANK_WEAK = register(
    "PL474",
    ERROR,
    "The reranker makes the order worse",
    "It costs time with every question and moves wrong passages up.",
    "Set rag_reranker: none, or use another one; rag_eval_set measures it on questions of your own.",
    example="rag_reranker: none",
)

BATCH_REFUSED = register(
    "PL493",
    ERROR,
    "The configured batch of full passages is refused",
    "Short files work, and every longer one fails: Open WebUI sends as many passages in one request.",
    "Lower rag_embedding_batch_size or rag_chunk_size, or raise the limit of the engine or the proxy (on TEI "
    "--max-client-batch-size and --payload-limit in rag_embedder_extra_args).",
    example="rag_embedding_batch_size: 16",
)
DENSE_REFUSED = register(
    "PL494",
    ERROR,
    "A passage of dense text is refused",
    "Chinese, Japanese and Korean text, URLs and rows of numbers have far more tokens than prose of the same length. One such "
    "passage makes the whole upload fail.",
    "Lower rag_chunk_size, or let the engine cut (on TEI --auto-truncate in rag_embedder_extra_args).",
    example="rag_chunk_size: 500",
)

# The lock

VECTORS_CHANGED = register(
    "PL490",
    ERROR,
    "The engine no longer gives the vectors of the lock",
    "Stored vectors were made by what the lock recorded. New questions do not compare with them, and nothing else says so: "
    "status, dimension and plan are the same.",
    "Bring back the image, the weights or the settings of that day. If the change is meant, re-index every knowledge base "
    "and acknowledge this once: the lock is then recorded anew.",
    example='rag_accept:\n  PL490: "weights updated on 1 March, everything re-indexed"    # remove it after one run',
)
QUALITY_DROPPED = register(
    "PL491",
    WARNING,
    "The labelled set is answered worse than when the lock was recorded",
    "Something between the question and its passages changed for the worse, and no single check is past its limit.",
    "Compare versions and images with those in lock.json. If the change is meant, acknowledge this once: the baseline is "
    "then recorded anew.",
)
LOCK_UNREADABLE = register(
    "PL492",
    ERROR,
    "The lock cannot be read",
    "Without it nobody can say whether stored vectors still belong to the engine.",
    "Restore lock.json in rag_report_dir from a copy, or remove it: the next verification records a new one.",
    acknowledgeable=False,
)

# Logs

LOGGED = register(
    "PL481",
    WARNING,
    "A service logged a failure that its users do not see",
    "Open WebUI and the engines carry on with worse answers and only write a line.",
    "Look at the container's log for the time and the cause; the other findings name the hop if the fault is still there.",
)

# Through Open WebUI

INGESTION_FAILED = register(
    "PL451",
    ERROR,
    "Open WebUI cannot process an uploaded file",
    "No document gets into a knowledge base.",
    "See the message for Open WebUI's reason; the embedding and vector-store findings name the cause if there is one.",
    acknowledgeable=False,
)
KNOWLEDGE_FAILED = register(
    "PL452",
    ERROR,
    "Open WebUI cannot fill a knowledge base",
    "Uploaded files never become searchable.",
    "See the message for Open WebUI's reason.",
    acknowledgeable=False,
)
WRONG_CHUNK = register(
    "PL453",
    ERROR,
    "A question does not find its passage first",
    "The whole path works, and its result is wrong.",
    "Look at the prefix and reranker findings first; then compare rag_embedder with the model of the stored vectors.",
)
CHUNK_MODEL = register(
    "PL454",
    ERROR,
    "Open WebUI embeds with another model than the plan's",
    "Stored vectors and the inventory disagree about the model.",
    "Run site.yml with rag_config_owner: inventory and restart Open WebUI; then re-index.",
)
NOT_STORED = register(
    "PL455",
    ERROR,
    "The uploaded passage is not in the vector store",
    "Open WebUI writes to another store or table than the one in the plan.",
    "Compare rag_vector_store and rag_database_url with VECTOR_DB and PGVECTOR_DB_URL of the container.",
)
COLUMN = register(
    "PL456",
    ERROR,
    "The vector column is narrower than the model's vectors",
    "pgvector columns are fixed at first start: Open WebUI cuts longer vectors without a word.",
    "Set rag_embedder_dimensions to the column's width, or re-create the table and re-index.",
    acknowledgeable=False,
)
RERANK_FALLBACK = register(
    "PL457",
    ERROR,
    "Open WebUI answers without reranking",
    "The scores are those of its fallback (at most 1/61, or none): the reranker was asked in vain, or not at all.",
    "Check rag_hybrid_search: true, the reranker's URL and key in Admin Settings > Documents, and rag_reranker_timeout.",
)
RERANK_SCORES = register(
    "PL458",
    ERROR,
    "Open WebUI returns other scores than the reranker gives",
    "A running process still uses another reranker than the one in its settings.",
    "Restart Open WebUI: a changed setting reaches only the process that answered the request.",
)
QUERY_FAILED = register(
    "PL459",
    ERROR,
    "Open WebUI cannot answer a search",
    "Questions get no passages.",
    "See the message for Open WebUI's reason.",
    acknowledgeable=False,
)
FORMAT = register(
    "PL450",
    ERROR,
    "A file format is not read rightly",
    "Text of such files is missing from answers, or the upload fails.",
    "See the message for what reads it. Check the service of rag_content_extraction, its URL and its key, and its log; "
    "Open WebUI's own loaders need rag_open_webui_version to be up to date.",
    example="rag_content_extraction: tika",
)
NO_TEXT = register(
    "PL460",
    ERROR,
    "A file without text counts as processed",
    "Nothing of it is ever found, and nobody is told; some engines' silence is stored as the words <No text content found>.",
    "Check the service of rag_content_extraction, its URL and its key, and its log.",
    source="Open WebUI 0.12.4 retrieval/loaders/main.py",
)
CHUNKS = register(
    "PL475",
    ERROR,
    "A file is stored in another number of chunks than its settings make",
    "Passages are missing or doubled, or are cut elsewhere than rag_chunk_size says.",
    "Compare rag_chunk_size, rag_chunk_overlap and rag_text_splitter with Admin Settings > Documents, and re-index.",
)
LEAK = register(
    "PL476",
    ERROR,
    "A user gets what is private to another",
    "Confidential passages reach whoever asks.",
    "Raise rag_open_webui_version: its releases close such holes. Remove ENABLE_RETRIEVAL_UNSCOPED_COLLECTIONS from "
    "rag_open_webui_env, and look for a default that makes new knowledge bases public.",
    acknowledgeable=False,
)
USER = register(
    "PL477",
    ERROR,
    "A user who is no administrator is not served",
    "It works for whoever tries it out, and not for those whom it is for.",
    "See the message for Open WebUI's reason, and Admin Settings > Users > Groups for what users may do.",
)
TOO_LARGE = register(
    "PL478",
    WARNING,
    "A file above the limit is taken",
    "One upload may fill the disk or keep the embedder busy for hours.",
    "Set RAG_FILE_MAX_SIZE in rag_open_webui_env, and the same limit at whatever stands in front of Open WebUI.",
    example="rag_open_webui_env:\n  RAG_FILE_MAX_SIZE: 50",
)
LEFTOVERS = register(
    "PL461",
    WARNING,
    "Probe data could not be removed",
    "Files, knowledge bases, memories or users named plumbline-verify remain.",
    "Run the verification again, which removes leftovers first, or delete them in Open WebUI.",
)

# Vector store

STORE_UNREACHABLE = register(
    "PL471",
    ERROR,
    "The vector store cannot be read",
    "Neither the stored vectors nor the prefix can be proven.",
    "Check that PostgreSQL runs and that rag_database_url or the generated password is right.",
    acknowledgeable=False,
)
NO_PGVECTOR = register(
    "PL472",
    ERROR,
    "The database has no vector extension",
    "Slim Open WebUI cannot store a single passage.",
    "Use an image with pgvector (rag_postgres_version), or run CREATE EXTENSION vector as a superuser.",
    acknowledgeable=False,
)

INDEX = register(
    "PL479",
    ERROR,
    "The vector index is not the planned one, or cannot be used",
    "Searches read every row of a knowledge base, or fail.",
    "Drop idx_document_chunk_vector and restart Open WebUI, which makes it again; rag_pgvector_index says which kind.",
    example="rag_pgvector_index: hnsw",
    source="open-webui/open-webui 0.11.4 changelog: ivfflat on an empty table",
)
RECALL = register(
    "PL480",
    WARNING,
    "Searches by the vector index miss rows that an exact search finds",
    "The passage that answers a question is there, and is not returned.",
    "Use rag_pgvector_index: hnsw; an ivfflat index that was built on few rows has to be dropped and made again.",
    example="rag_pgvector_index: hnsw",
    source="pgvector/pgvector#259, pgvector/pgvector#677",
)
FOREIGN = register(
    "PL487",
    WARNING,
    "Stored vectors were made by another model",
    "Vectors of two models cannot be compared: these passages are found by chance, and push others out.",
    "Re-index the installation with the model of the plan, or set rag_embedder to the one that made the rows.",
)
CONNECTIONS = register(
    "PL488",
    WARNING,
    "The database may run out of connections",
    "Uploads and searches fail at the busiest hour: sorry, too many clients already.",
    "Lower DATABASE_POOL_SIZE and PGVECTOR_POOL_SIZE in rag_open_webui_env, or raise max_connections of the database.",
    example="rag_open_webui_env:\n  DATABASE_POOL_SIZE: 20\n  PGVECTOR_POOL_SIZE: 10",
)
MISFITS = register(
    "PL489",
    WARNING,
    "Stored vectors have another dimension than the model's",
    "pgvector fills up and cuts without a word: such rows are found by chance.",
    "Re-index the installation; compare rag_embedder_dimensions with the model that made the rows.",
)

# The verification itself

UNREACHABLE = register(
    "PL497",
    ERROR,
    "A service cannot be reached",
    "What depends on it does not work, and was not checked.",
    "Look at the state and the log of its container on its host, or check the URL of an external service; then run "
    "site.yml again.",
    acknowledgeable=False,
)
BUDGET = register(
    "PL498",
    ERROR,
    "The request budget was used up",
    "What was not checked is not known to be right.",
    "Report this: the checks are meant to stay under their budget on every installation.",
    acknowledgeable=False,
)
NOT_RUN = register(
    "PL499",
    ERROR,
    "A check could not run",
    "What was not checked is not known to be right.",
    "See the message for the hop and the resource; make it reachable and run the verification again.",
    acknowledgeable=False,
)

RULES = {rule.id: rule for rule in list(vars().values()) if isinstance(rule, Rule)}
