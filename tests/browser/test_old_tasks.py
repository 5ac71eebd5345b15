"""The page of a task whose events are older than the feed: it shows what the task itself still tells."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.fill import Filler
from tests.browser.place import Place

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def nothing_kept(route: Route) -> None:
    response = await route.fetch()
    await route.fulfill(response=response, json={**await response.json(), "items": []})


async def completed(to: Filler) -> str:
    return await ended(to, "completed")


async def failed(to: Filler) -> str:
    return await ended(to, "failed")


async def ended(to: Filler, status: str) -> str:
    return str((await to.ask("GET", f"/tasks?q=status:{status}"))["items"][0]["id"])


async def later(to: Filler) -> str:
    return await to.task("email.send", {"to": "late@example.com"}, delay_seconds=3_600)


async def held(to: Filler) -> str:
    task_id = await later(to)
    await to.intervene(task_id, "PAUSE", "not now")
    return task_id


async def aborted(to: Filler) -> str:
    task_id = await later(to)
    await to.intervene(task_id, "ABORT", "not needed")
    return task_id


async def blocked(to: Filler) -> str:
    return await to.task("invoice.mail", {"customer": "c"}, depends_on=[await later(to)])


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (completed, ["queued", "running", "completed"]),
        (failed, ["queued", "running", "failed"]),
        (aborted, ["queued", "aborted"]),
        (held, ["queued"]),
        (later, ["queued"]),
        (blocked, ["blocked"]),
    ],
)
async def test_a_task_without_kept_events_shows_how_it_stands(
    page: Page,
    site: tuple[Place, Filler],
    make: Callable[[Filler], Awaitable[str]],
    path: list[str],
) -> None:
    place, to = site
    task_id = await make(to)
    await page.route("**/api/v1/tasks/*/history*", nothing_kept)
    await page.goto(f"{place.url}/tasks/{task_id}")
    await expect(page.get_by_text("no longer has the events of this task")).to_be_visible()
    await expect(page.locator(".path li > b")).to_have_text(path)
    if "running" in path:
        await expect(page.locator("tbody tr", has_text=path[-1]).first).to_be_visible()
        await expect(page.locator("tbody tr", has_text="running")).to_have_count(0)
