"""A call of the API, and its answer.

`Http` makes calls to a gateway; `gateway.local.LocalApi` makes them to the operations in its process. What is
written over `Calls` works with both. Never: imports a package for HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote

import msgspec


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
