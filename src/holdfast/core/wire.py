"""Values as they travel: times, positions, cursors, ids, names of projects, previews.

Promises: every surface writes and checks these values in the same way; what cannot be read is InvalidInput
with the name of the field. Never: accepts a cursor of another list.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from datetime import UTC, datetime
from functools import lru_cache
from math import modf
from typing import Final, TypeAlias

import msgspec

from holdfast.core import codec
from holdfast.core.check import check_id, check_number, check_whole, shown
from holdfast.core.event import Position
from holdfast.errors import InvalidInput

WHOLE_MAX: Final = 2**53 - 1
"""The largest version, fence, offset, clock or sequence: a JSON number holds it exactly."""
PREVIEW_BYTES: Final = 200
PROJECT_CHARS_MAX: Final = 64
RESERVED_PROJECTS: Final = frozenset({"register", "all", ".", ".."})
"""Names that stand for something else in a path. The dots are steps of a path."""
POSITION_CHARS_MAX: Final = 200
CURSOR_CHARS_MAX: Final = 2_000
TIME_CHARS_MAX: Final = 64
TIME_MAX: Final = 253_402_300_799.0
"""The last second of the year 9999."""
SECONDS_KEPT: Final = 256
"""Seconds whose texts are kept."""
_PROJECT: Final = re.compile(rf"[a-z0-9._-]{{1,{PROJECT_CHARS_MAX}}}")
_CURSOR_VERSION: Final = b"\x01"
_MAC_BYTES: Final = 8

Scalar: TypeAlias = str | int | float | None
_scalars: Final = msgspec.json.Decoder(tuple[Scalar, ...])


def time_text(at: float) -> str:
    """Epoch seconds as RFC 3339 in UTC with milliseconds: `2026-11-15T20:07:31.123Z`."""
    check_number("time", at, most=TIME_MAX)
    part, whole = modf(at)
    micros = round(part * 1e6)
    # A part that rounds up to a second is the next second.
    return f"{_second_text(int(whole) + micros // 1_000_000)}.{micros % 1_000_000 // 1_000:03d}Z"


@lru_cache(SECONDS_KEPT)
def _second_text(second: int) -> str:
    """A whole second. Most texts are of times within the same few seconds."""
    return datetime.fromtimestamp(second, UTC).isoformat().removesuffix("+00:00")


def parse_time(field: str, text: object) -> float:
    """Epoch seconds of a time in RFC 3339. InvalidInput without a zone, which would mean another moment on
    another machine."""
    try:
        if not isinstance(text, str) or len(text) > TIME_CHARS_MAX:
            raise ValueError
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError
        return check_number(field, moment.timestamp(), most=TIME_MAX)
    except (ValueError, OverflowError, InvalidInput):
        raise InvalidInput(
            f"{field} {shown(text)} is not a time: write it as 2026-11-15T20:07:31Z"
        ) from None


def parse_position(field: str, text: object) -> Position:
    """The position that a reader gives: `epoch:offset`."""
    try:
        if not isinstance(text, str) or len(text) > POSITION_CHARS_MAX or not text.isprintable():
            raise ValueError
        position = Position.parse(text)
        check_whole("offset", position.offset, least=0, most=WHOLE_MAX)
    except (ValueError, InvalidInput):
        raise InvalidInput(
            f"{field} {shown(text)} is not a position: give one that the feed gave"
        ) from None
    return position


def make_cursor(values: tuple[Scalar, ...], *, of: str, key: bytes = b"") -> str:
    """An opaque cursor: the values of the last row by which its list is sorted.

    `of` names the list with its query and order; the cursor is valid for that list only. All gateways of a
    store share the `key`. Without a key, a changed cursor is found but a made-up one is not: it can only name
    another place in the same list, whose rows are authorised like any others."""
    body = codec.dumps(values).encode()
    data = _CURSOR_VERSION + _mac(body, of, key) + body
    return urlsafe_b64encode(data).decode().rstrip("=")


def parse_cursor(text: str, *, of: str, key: bytes = b"") -> tuple[Scalar, ...]:
    """The values of a cursor of this list. InvalidInput for every other text."""
    data = _decoded(text)
    start = len(_CURSOR_VERSION)
    body = data[start + _MAC_BYTES :]
    mac = data[start : start + _MAC_BYTES]
    is_ours = data[:start] == _CURSOR_VERSION and hmac.compare_digest(mac, _mac(body, of, key))
    if not is_ours:
        raise _bad_cursor(text)
    try:
        return _scalars.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _bad_cursor(text) from None


def parse_id_cursor(text: str, *, of: str) -> str:
    """The id in a cursor of a list that is sorted by ids."""
    match parse_cursor(text, of=of):
        case (str() as id_,):
            return id_
    raise _bad_cursor(text)


def check_new_id(field: str, value: object) -> str:
    """An id that a client chooses: as any id, and without what ends or leaves a path."""
    text = check_id(field, value)
    if "/" in text:
        raise InvalidInput(f"{field} {shown(value)} has a slash: use another character")
    if text in (".", ".."):
        raise InvalidInput(f"{field} {shown(value)} means another path: use another name")
    return text


def check_project(field: str, value: object, *, wrong: type[InvalidInput] = InvalidInput) -> str:
    """The name of a project."""
    if not isinstance(value, str) or _PROJECT.fullmatch(value) is None:
        raise wrong(
            f"{field} {shown(value)} is not a name of a project: use 1 to {PROJECT_CHARS_MAX} of "
            "a-z, 0-9, '.', '_' and '-'"
        )
    if value in RESERVED_PROJECTS:
        raise wrong(f"{field} {shown(value)} is reserved: use another name")
    return value


def preview(text: str, most: int = PREVIEW_BYTES) -> str:
    """The start of the text, of at most `most` bytes of UTF-8. A character is never cut."""
    if len(text) * 4 <= most:
        return text
    # A character has at least one byte, so the rest of a long text is not encoded.
    return text[:most].encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def _mac(body: bytes, of: str, key: bytes) -> bytes:
    secret = hashlib.sha256(key).digest() if key else b""
    hasher = hashlib.blake2b(digest_size=_MAC_BYTES, key=secret, person=b"holdfast-cursor")
    hasher.update(hashlib.sha256(of.encode("utf-8", "surrogatepass")).digest())
    hasher.update(body)
    return hasher.digest()


def _decoded(text: str) -> bytes:
    """The bytes of a cursor. Only the one text that stands for them is accepted."""
    if len(text) > CURSOR_CHARS_MAX:
        raise _bad_cursor(text)
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (BadBase64, ValueError):
        raise _bad_cursor(text) from None
    if urlsafe_b64encode(data).decode().rstrip("=") != text:
        raise _bad_cursor(text)
    return data


def _bad_cursor(text: str) -> InvalidInput:
    return InvalidInput(
        f"after {shown(text)} is not a cursor of this list: give the `next` of its last page, with the same q"
    )
