"""JSON in and out: the one place where values become text.

Promises: canonical output (sorted keys, no blanks), so equal values give equal text and equal hashes.
Never: pickles, NaN, or keys that are not text.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any, Final, TypeAlias

import msgspec

Json: TypeAlias = Any
"""A value of JSON: None, bool, number, text, list or dict."""


def plain(value: object) -> object:
    """Kinds of text (e.g. a task handle) go as text; anything else does not fit."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"a {type(value).__qualname__} is not a value of JSON")


_canonical: Final = msgspec.json.Encoder(order="deterministic", enc_hook=plain)
_object: Final = msgspec.json.Decoder(dict[str, Any])
_any: Final = msgspec.json.Decoder()


def dumps(value: object) -> str:
    """Canonical JSON text; TypeError or ValueError names what does not fit."""
    try:
        text = _canonical.encode(value).decode()
    except TypeError:
        _refuse_keys(value)
        raise
    if "null" in text:
        _refuse_nan(value)
    return text


def _refuse_keys(value: object) -> None:
    """The encoder does not say which key of which dict is not text."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a key of a dict is {key!r}, and keys of JSON are text") from None
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            _refuse_keys(item)


def _refuse_nan(value: object) -> None:
    """JSON has no NaN; the encoder writes null for it, which would be another value."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a number of JSON")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            _refuse_nan(item)


def loads(text: str | bytes) -> Json:
    return _any.decode(text)


def loads_object(text: str | bytes) -> dict[str, Json]:
    return _object.decode(text)


def digest(*parts: str) -> str:
    """A short stable hash of texts; the same in every process, on every machine."""
    hasher = hashlib.blake2b(digest_size=12)
    for part in parts:
        data = part.encode()
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()
