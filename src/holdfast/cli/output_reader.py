"""Reads the output of a task page by page, and goes on with its later runs.

Promises: a reader that looks late misses nothing. What a run wrote after the last look comes before the
output of the runs after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from holdfast.client.calls import Calls

Page = dict[str, Any]


class OutputReader:
    """One stream of a task. A query that names a run (`fence`) reads only that one."""

    def __init__(self, calls: Calls, path: str, query: dict[str, Any], start: int) -> None:
        self._calls = calls
        self._path = path
        self._query = query
        self._is_fixed = query.get("fence") is not None
        self._takes_fence = "fence" in query
        self._run: int | None = None
        self._start = start

    async def pages(self) -> AsyncIterator[Page]:
        """What there is from here on."""
        latest = (await self._page(self._query.get("fence"), limit_bytes=1))["fence"]
        if not self._is_fixed and self._run is not None and self._run != latest:
            if self._takes_fence:
                async for page in self._earlier(latest):
                    yield page
            self._start = 0
        self._run = latest
        async for page in self._rest(latest):
            yield page

    async def _earlier(self, latest: int) -> AsyncIterator[Page]:
        """What runs before the latest wrote since the last look."""
        for run in range(self._run or 0, latest):
            async for page in self._rest(run):
                yield page
            self._start = 0

    async def _rest(self, run: int) -> AsyncIterator[Page]:
        """The pages of a run from here on."""
        while True:
            page = await self._page(run if self._takes_fence else None)
            if page["fence"] != run or page["next"] == self._start:
                return
            self._start = page["next"]
            yield page

    async def _page(self, run: int | None, *, limit_bytes: int | None = None) -> Page:
        query = self._query | {"start": self._start, "limit_bytes": limit_bytes}
        if self._takes_fence:
            query["fence"] = run
        page: Page = (await self._calls.call("GET", self._path, query=query)).body
        return page
