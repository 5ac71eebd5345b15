"""Output as the API answers it, page by page."""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Final

from msgspec.structs import replace

from holdfast.client.api import decoded
from holdfast.client.models import OutputChunk

OUTPUT_BYTES: Final = 262_144
FOLLOW_SECONDS: Final = 1.0


def chunk_of(body: dict[str, Any]) -> OutputChunk:
    """A page of output: text, or base64 of bytes that are no text."""
    text, encoded = body.get("text"), body.get("data_base64")
    data = text.encode() if isinstance(text, str) else b64decode(encoded or "")
    fields = {name: value for name, value in body.items() if name not in ("text", "data_base64")}
    return replace(decoded({**fields, "data": ""}, OutputChunk), data=data)
