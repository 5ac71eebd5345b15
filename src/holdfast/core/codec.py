"""JSON in and out: the one place where values become text.

Promises: canonical output (sorted keys, no blanks), so equal values give equal text and equal hashes.
Never: pickles, NaN, or keys that are not text.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, TypeAlias, cast

import msgspec

Json: TypeAlias = Any
"""A value of JSON: None, bool, number, text, list or dict."""

_canonical: Final = msgspec.json.Encoder(order="deterministic")
_object: Final = msgspec.json.Decoder(dict[str, Any])
_any: Final = msgspec.json.Decoder()


def dumps(value: object) -> str:
    """Canonical JSON text; TypeError or ValueError names what does not fit."""
    return _canonical.encode(value).decode()


def loads(text: str | bytes) -> Json:
    return _any.decode(text)


def loads_object(text: str | bytes) -> dict[str, Json]:
    return cast("dict[str, Json]", _object.decode(text))


def digest(*parts: str) -> str:
    """A short stable hash of texts; the same in every process, on every machine."""
    hasher = hashlib.blake2b(digest_size=12)
    for part in parts:
        data = part.encode()
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()
