"""Calls of the API `/api/v1` with typed answers: what `Client` and its parts are made of."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from holdfast.client.calls import Answer, path_of
from holdfast.client.http import Http
from holdfast.errors import HoldfastError

T = TypeVar("T")
PAGE: Final = 200
"""Rows of one page, unless the caller wants fewer."""


class Rows(AsyncIterator[T]):
    """The rows of a list, read page by page: `async for row in rows`, or `await rows` for all of them."""

    def __init__(self, rows: AsyncGenerator[T, None]) -> None:
        self._rows = rows

    async def __anext__(self) -> T:
        return await anext(self._rows)

    def __await__(self) -> Generator[Any, None, list[T]]:
        return self._all().__await__()

    async def _all(self) -> list[T]:
        return [row async for row in self._rows]

    async def aclose(self) -> None:
        """Ends the reading early."""
        await self._rows.aclose()


class Api:
    """Sends requests and reads their answers."""

    __slots__ = ("http",)

    def __init__(self, http: Http) -> None:
        self.http = http

    async def get(self, type: type[T], *parts: str, **query: object) -> T:
        """Reads one resource."""
        return decoded((await self.http.call("GET", path_of(*parts), query=query)).body, type)

    async def send(self, type: type[T], method: str, *parts: str, body: object = None) -> T:
        """Sends a write."""
        return decoded((await self.http.call(method, path_of(*parts), body)).body, type)

    async def call(
        self,
        method: str,
        *parts: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
    ) -> Answer:
        return await self.http.call(method, path_of(*parts), body, query=query)

    def rows(
        self, type: type[T], *parts: str, limit: int | None = None, **query: object
    ) -> Rows[T]:
        """All rows of a list, page by page. `limit`: at most so long a list."""
        return Rows(self._pages(type, parts, limit, query))

    async def _pages(
        self, type: type[T], parts: tuple[str, ...], limit: int | None, query: dict[str, object]
    ) -> AsyncGenerator[T, None]:
        left, after = limit, None
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            given = {**query, "limit": size, "after": after}
            body = (await self.http.call("GET", path_of(*parts), query=given)).body
            for row in _items(body, type):
                yield row
                left = None if left is None else left - 1
            after = body.get("next")
            if after is None:
                return

    def unpaged(self, type: type[T], *parts: str, **query: object) -> Rows[T]:
        """All rows of a list whose pages have a size of their own, or that has none."""
        return Rows(self._all(type, parts, query))

    async def _all(
        self, type: type[T], parts: tuple[str, ...], query: dict[str, object]
    ) -> AsyncGenerator[T, None]:
        after: object = None
        while True:
            body = (
                await self.http.call("GET", path_of(*parts), query={**query, "after": after})
            ).body
            for row in _items(body, type):
                yield row
            after = body.get("next")
            if after is None:
                return


def _items(body: Any, type: type[T]) -> list[T]:
    """The rows of a page."""
    return [decoded(item, type) for item in decoded(body, dict[str, Any]).get("items", ())]


def decoded(body: Any, type: type[T]) -> T:
    """The answer as a typed value. HoldfastError if it is something else, e.g. a page of a proxy."""
    try:
        return msgspec.convert(body, type)
    except msgspec.ValidationError as error:
        name = getattr(type, "__name__", type)
        raise HoldfastError(
            f"the answer is not a {name}: {error}; is the address that of a gateway?"
        ) from None


def given(**fields: object) -> dict[str, object]:
    """The fields that are not None: absent means 'as it is'."""
    return {name: value for name, value in fields.items() if value is not None}
