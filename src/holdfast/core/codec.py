"""JSON encoding and decoding. No other module turns values into text.

Promises: canonical output (sorted keys, no blanks), so equal values give equal text and equal hashes.
Never: pickle, NaN, or keys that are not strings.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

Json: TypeAlias = Any
"""A JSON value: None, bool, number, string, list or dict."""
DEPTH_MAX: Final = 32
"""How deep a value of a caller may be nested: a payload, a result, a checkpoint. Every reader can read it."""
_READ: Final = (str, int, float, type(None), dict, list, tuple, msgspec.Raw)
"""What needs no conversion to be looked at."""
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def plain(value: object) -> object:
    """Encoder hook: subclasses of str (e.g. a task handle), int and float are written as their base, Pydantic
    models as their fields."""
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__qualname__} is not a JSON value")


_canonical: Final = msgspec.json.Encoder(order="deterministic", enc_hook=plain)
_object: Final = msgspec.json.Decoder(dict[str, Any])
_any: Final = msgspec.json.Decoder()


def dumps(value: object) -> str:
    """Canonical JSON text. TypeError or ValueError names the value that JSON does not have."""
    try:
        text = _canonical.encode(value).decode()
    except TypeError:
        _refuse_keys(value)
        raise
    if "null" in text:
        _refuse_nan(value)
    return text


def dumps_each(values: Sequence[object]) -> list[str] | None:
    """The text of each value, in one call. None if a value needs a closer look, or has no JSON that can be
    read: `dumps` and `check_readable` of each then say which."""
    try:
        lines = _canonical.encode_lines(values).decode()
    except (TypeError, ValueError, RecursionError):
        return None
    texts = lines.split("\n")
    # A text that the caller has encoded may have line breaks. Null may stand for a NaN.
    if texts.pop() or len(texts) != len(values) or "null" in lines:
        return None
    return texts if _count_readable(lines) == len(texts) else None


def _count_readable(lines: str) -> int:
    """How many values the lines have. 0 if a reader refuses one."""
    try:
        return len(_any.decode_lines(lines))
    except (msgspec.DecodeError, RecursionError):
        return 0


def check_readable(text: str) -> None:
    """ValueError unless the text is one JSON value that every reader can read. What a caller has encoded
    (`msgspec.Raw`) is written as it is, alone and within a value."""
    try:
        _any.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"what was encoded before is not JSON: {error}") from None


def is_deeper(text: str | bytes, most: int) -> bool:
    """Whether arrays and objects are nested deeper than `most`. Brackets in strings do not count."""
    data = text
    if isinstance(data, str):
        if data.count("[") + data.count("{") <= most:
            return False
        data = data.encode()
    elif data.count(b"[") + data.count(b"{") <= most:
        return False
    depth = 0
    for token in _BRACKETS.finditer(data):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth > most:
                return True
        elif token[0] in (b"]", b"}"):
            depth -= 1
    return False


def _refuse_keys(value: object) -> None:
    """TypeError with the key that is not a string, which the encoder's own error does not name."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"dict key {key!r} is not a string, as JSON requires") from None
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            _refuse_keys(item)


def _refuse_nan(value: object) -> None:
    """JSON has no NaN. The encoder would write null in its place, which is another value."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON number")
    if not isinstance(value, _READ):
        # A dataclass, a set, …: what it is written as.
        value = msgspec.to_builtins(value, enc_hook=plain)
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
    """A short hash of strings, the same in every process and on every machine."""
    hasher = hashlib.blake2b(digest_size=12)
    for part in parts:
        data = part.encode()
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()
