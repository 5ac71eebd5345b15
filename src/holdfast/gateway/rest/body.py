"""Reads bodies and parameters: bounded first, then decoded, then converted.

Promises: a body is refused by its size before it is kept, and by its depth before it is decoded. A field or
parameter that the call does not have is refused by name. Every refusal is InvalidInput or a child of it.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request

from holdfast.core import codec
from holdfast.core.errors import Malformed, TooLarge, UnsupportedMedia
from holdfast.errors import InvalidInput
from holdfast.gateway.invalid import check_text_value, invalid, parameters
from holdfast.gateway.settings import DEPTH_MAX

T = TypeVar("T")
JSON_TYPES: Final = ("application/json", "application/merge-patch+json")


class NoFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a call without one: absent, or an empty object."""


SLOW_SECONDS: Final = 1.0
"""After a body that took longer the credential of its request is looked at again."""


async def read_body(request: Request, most: int) -> bytes:
    """The bytes of the body. TooLarge as soon as more than `most` have arrived."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise TooLarge(f"the body has {declared[:20]} bytes: at most {most} are allowed")
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Malformed("the body ended early")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > most:
            raise TooLarge(f"the body is larger than {most} bytes")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def decode_body(request: Request, data: bytes, kind: Any) -> Any:
    """The body as a value of the type. An empty body stands for an empty object."""
    if not data:
        data = b"{}"
    else:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media not in JSON_TYPES:
            raise UnsupportedMedia(f"the body is {media or 'of no type'}: send application/json")
    check_depth(data)
    try:
        body = msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise invalid(error, kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Malformed("the body is not JSON in UTF-8") from None
    if b"\\u0000" in data and isinstance(body, msgspec.Struct):
        _check_texts(body)
    return body


def _check_texts(body: msgspec.Struct) -> None:
    """Names, ids and reasons have no NUL, which not every database can store. JSON values of a user may."""
    for field in msgspec.structs.fields(body):
        if field.type is not Any:
            check_text_value(field.encode_name, getattr(body, field.name))


def check_depth(data: bytes, most: int = DEPTH_MAX) -> None:
    """Malformed for JSON that is nested deeper than `most`. Brackets in strings do not count."""
    if codec.is_deeper(data, most):
        raise Malformed(f"the JSON is nested deeper than {most} levels")


def decode_query(request: Request, kind: type[T]) -> T:
    """The parameters as a value of the type."""
    given: dict[str, str] = {}
    has_query = bool(request.scope.get("query_string"))
    for name, value in request.query_params.multi_items() if has_query else ():
        if name in given:
            raise InvalidInput(f"the parameter '{name[:100]}' is given twice: give it once")
        given[name] = value
    return parameters(given, kind)
