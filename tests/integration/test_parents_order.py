"""`ctx.parents()` has the same order on every backend: that of the ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Context, TaskQueue
from tests.backends import SQL, url_of


@pytest.fixture(params=SQL)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


async def test_parents_come_in_the_order_of_their_ids(url: str) -> None:
    """Whatever order they ended in, and whatever order the store finds their rows in."""
    queue = TaskQueue(url, min_workers=1, max_workers=1)

    @queue.task
    async def part(name: str) -> str:
        return name

    @queue.task
    async def whole(ctx: Context) -> list[str]:
        return list(await ctx.parents())

    names = [f"part-{number}" for number in range(9)]
    async with queue:
        for name in (*names[5:], *names[:5]):
            task = await part.options(id=name).enqueue(name)
            await task.wait(timeout=20)
        child = await whole.options(depends_on=list(reversed(names))).enqueue()
        assert await child.result(timeout=20) == names
