"""A test double: the HTTP contract and the command line of text-embeddings-inference over the bundled engine's real model.

What it lacks: inputs as token ids, and the routes that need a tokenizer or token vectors (see the contract test).
"""
