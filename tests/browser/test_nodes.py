"""Nodes in the browser: the rhythm of their heartbeats and the skew of their clocks."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.fill import Filler
from tests.browser.place import Place

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def answered(page: Page, **changes: Any) -> None:
    """The gateway says this of each worker."""

    async def changed(route: Route) -> None:
        response = await route.fetch()
        body = await response.json()
        for node in body.get("items", [body]):
            if node["workers"]:
                node.update(changes)
        await route.fulfill(response=response, json=body)

    await page.route("**/api/v1/nodes?*", changed)
    await page.route("**/api/v1/nodes/*", changed)


async def test_a_strip_shows_what_was_late_and_the_page_says_it(
    page: Page, site: tuple[Place, Filler]
) -> None:
    place, _ = site
    beats = [5.0] * 21 + [12.0, 5.0, 40.0]
    await answered(
        page, heartbeats=beats, heartbeat_seconds=5.0, skew_seconds=-0.612, seen_seconds_ago=0.2
    )
    await page.goto(f"{place.url}/nodes")
    row = page.locator("tr", has_text="worker")
    strip = row.get_by_role("img", name="24 intervals, 2 late; the longest silence 40 s")
    await expect(strip).to_be_visible()
    shapes = await strip.locator("i").evaluate_all("bars => bars.map((bar) => bar.className)")
    assert shapes == [""] * 21 + ["l", "", "o"]
    await expect(row.locator("td .warn", has_text="\u2212612 ms")).to_be_visible()
    await row.get_by_role("link").first.click()
    bars = page.locator(".beats")
    await expect(bars).to_contain_text("40 s")
    await expect(bars.locator(".f-warn")).to_have_count(1)
    await expect(page.get_by_text("5 s expected")).to_be_visible()


async def test_a_node_that_this_gateway_has_not_heard_has_no_strip(
    page: Page, site: tuple[Place, Filler]
) -> None:
    place, _ = site
    await answered(page, heartbeats=None, skew_seconds=None)
    await page.goto(f"{place.url}/nodes")
    row = page.locator("tr", has_text="worker")
    await expect(row).to_be_visible()
    await expect(row.locator(".hb")).to_have_count(0)
    await row.get_by_role("link").first.click()
    await expect(page.get_by_text("This gateway has not heard it.")).to_be_visible()


async def test_a_silence_that_goes_on_is_drawn_while_it_lasts(
    page: Page, site: tuple[Place, Filler]
) -> None:
    place, _ = site
    await answered(page, heartbeats=[5.0, 5.0], heartbeat_seconds=5.0, seen_seconds_ago=14.0)
    await page.goto(f"{place.url}/nodes")
    row = page.locator("tr", has_text="worker")
    await expect(row).to_contain_text("late")
    await row.get_by_role("link").first.click()
    await expect(page.get_by_text("and counting")).to_be_visible()
    await expect(page.locator(".beats .open")).to_have_count(1)
