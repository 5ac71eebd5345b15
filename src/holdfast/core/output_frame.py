"""The bytes of a chunk of output, as a frame of the live feed carries them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from holdfast.core.output import Piece


def output_data(start: int, size: int, pieces: Sequence[Piece]) -> dict[str, Any]:
    """The bytes from `start` on, out of the stored pieces that overlap them: `data` if they are UTF-8, else
    `data_base64`. `gap` if a part of them is not stored any more."""
    parts: list[bytes] = []
    at, end = start, start + size
    for piece in pieces:
        if piece.data is None or piece.start > at:
            return {"gap": True}
        part = piece.data[at - piece.start : end - piece.start]
        parts.append(part)
        at += len(part)
    if at < end:
        return {"gap": True}
    data = b"".join(parts)
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": b64encode(data).decode()}
