"""What the engine refuses, and the words it uses. Nothing is ever truncated or corrected silently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param

    def body(self) -> dict[str, Any]:
        kind = {401: "AuthenticationError", 404: "NotFoundError"}.get(self.status, "BadRequestError")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.status}}


def check_model(model: object, served: str) -> None:
    if model is not None and model != served:
        raise Refusal(404, f"The model `{model}` does not exist.", "model")


def check_texts(texts: Sequence[object], param: str, *, empty: bool = False) -> list[str]:
    if not texts:
        raise Refusal(400, f"{param} must not be empty", param)
    checked = []
    for text in texts:
        if not isinstance(text, str):
            raise Refusal(400, f"{param} must be text, not {type(text).__name__}", param)
        if not text and not empty:
            raise Refusal(400, f"{param} must not be empty", param)
        if "\0" in text:
            raise Refusal(400, f"{param} must not contain a NUL character", param)
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise Refusal(400, f"{param} must be valid Unicode", param)
        checked.append(text)
    return checked


def check_batch(size: int, limit: int) -> None:
    if size > limit:
        raise Refusal(422, f"batch size {size} > maximum allowed batch size {limit}")


def count_tokens(texts: list[str], limit: int, count: Callable[[str], int], param: str) -> int:
    """The tokens of all texts; none of them may be longer than the model reads."""
    total = 0
    for text in texts:
        tokens = count(text)
        if tokens > limit:
            raise Refusal(
                400,
                f"This model's maximum context length is {limit} tokens. However, you requested {tokens} tokens in "
                "the input. Please reduce the length of the input.",
                param,
            )
        total += tokens
    return total
