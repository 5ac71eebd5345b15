"""Lists on a phone: what decides is there without scrolling sideways, also within the box of a table."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.browser.fill import Filler
from tests.browser.place import PHONE, Place, open_page
from tests.browser.test_screens import show

pytestmark = pytest.mark.asyncio(loop_scope="package")
LISTS = (
    "/tasks", "/dead-letters", "/dead-letters?by=type", "/queues", "/schedules", "/fleet", "/fleet/hosts",
    "/fleet/groups", "/fleet/blocks", "/nodes?show=all", "/conflicts", "/locks", "/events",
    "/events?tab=audit", "/operations", "/settings/tokens", "/settings/projects",
)  # fmt: skip
CUT = """() => [...document.querySelectorAll("table")]
    .map((table) => table.parentElement)
    .filter((box) => box.scrollWidth > box.clientWidth + 1)
    .map((box) => `${box.scrollWidth} in ${box.clientWidth}`)"""


async def test_no_list_scrolls_sideways(browser: Browser, site: tuple[Place, Filler]) -> None:
    place, to = site
    job = {
        "selector": "ams1-n01",
        "command_type": "ping",
        "external_id": "ping-of-one-host-in-ams1",
    }
    await to.ask("POST", "/jobs", {**job, "reason": "for the list"})
    await to.task(
        "note.write", {"text": "x"}, queue="reports-of-the-last-quarter", delay_seconds=3_600
    )
    await to.ask("POST", "/queues/reports-of-the-last-quarter/pause", {"reason": "for the list"})
    page = await open_page(
        browser,
        place,
        path="",
        viewport=PHONE,
        is_mobile=True,
        has_touch=True,
        reduced_motion="reduce",
    )
    wrong = {}
    for path in LISTS:
        await show(page, f"{place.url}{path}")
        if cut := await page.evaluate(CUT):
            wrong[path] = cut
    await page.context.close()
    assert not wrong, "; ".join(f"{path} {cut}" for path, cut in wrong.items())
