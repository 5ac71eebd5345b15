"""A call of the API, and its answer.

`Http` makes calls to a gateway; `gateway.local.LocalApi` makes them to the operations in its process. What is
written over `Calls` works with both. Never: imports a package for HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from holdfast.core import codec
from holdfast.errors import UnserialisablePayload


class Answer(msgspec.Struct, frozen=True):
    """A successful answer."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def position(self) -> str | None:
        """The position of the feed that the answer is at least as new as."""
        return self.headers.get("holdfast-position")


class Calls(Protocol):
    """Makes calls of the API."""

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        dry_run: bool = False,
    ) -> Answer:
        """The answer. Raises the error of a refusal. `dry_run`: a change is judged and answered, and not
        made."""
        ...


class DryCalls:
    """Calls whose changes are dry runs."""

    def __init__(self, inner: Calls) -> None:
        self._inner = inner

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        dry_run: bool = True,
    ) -> Answer:
        is_change = method != "GET"
        return await self._inner.call(method, path, body, query=query, dry_run=is_change)


def path_of(*parts: str, prefix: str = "/api/v1") -> str:
    """A path of the API, with the parts encoded."""
    return "/".join([prefix, *(quote(part, safe="") for part in parts)])


def text_of(value: object) -> str:
    """A parameter as it stands in a URL."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def encoded(body: object) -> bytes:
    """The body as JSON, by the rules of a queue with a database: a NaN, or a key that is not text, is
    refused here. The encoder of msgspec would send another value in its place."""
    try:
        return codec.dumps(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UnserialisablePayload(
            f"the request cannot be written as JSON: {error}; pass plain values, lists and dicts"
        ) from None
