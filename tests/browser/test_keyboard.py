"""Approval and replay with the keyboard alone: no pointer, no focus that a test sets."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.fill import Filler
from tests.browser.place import Place, open_page

pytestmark = pytest.mark.asyncio(loop_scope="package")
Site = tuple[Place, Filler]
ROWS_MAX = 40
STOPS_MAX = 60


async def to_row(page: Page, text: str) -> None:
    """Moves down until the row is the current one, and opens it."""
    await page.get_by_text(text).first.wait_for()
    at = page.locator("[data-row].at")
    for _ in range(ROWS_MAX):
        await page.keyboard.press("j")
        if text in await at.inner_text():
            await page.keyboard.press("Enter")
            return
    raise AssertionError(f"no row has {text!r}")


async def tab_to(page: Page, name: str) -> None:
    """Goes on with Tab until what has this name has the focus."""
    read = "() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
    for _ in range(STOPS_MAX):
        await page.keyboard.press("Tab")
        if (await page.evaluate(read)).startswith(name):
            return
    raise AssertionError(f"no stop is called {name!r}")


async def test_an_approval_by_keyboard_alone(browser: Browser, site: Site) -> None:
    place, to = site
    body = {"command_type": "exec", "command": "uname -r", "external_id": "kernel-9"}
    made = await to.ask("POST", "/jobs", {**body, "selector": "site=ams1,site=fra1"})
    assert made["approval_state"] == "WAIT_APPROVAL"
    token = await to.ask("POST", "/tokens", {"name": "kim", "roles": ["approver"]})
    page = await open_page(browser, place, token["token"])
    await page.keyboard.press("g")
    await page.keyboard.press("a")
    await page.wait_for_url("**/inbox")
    await to_row(page, "Approve kernel-9")
    await expect(page.get_by_role("heading", level=1, name="Approve kernel-9")).to_be_visible()
    await page.keyboard.press("a")
    await expect(page.get_by_role("dialog")).to_contain_text("uname -r")
    await page.keyboard.type("looks right")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    voted = await to.until(
        f"/jobs/{made['job_id']}", lambda job: job["approval_state"] == "APPROVED"
    )
    assert [vote["reason"] for vote in voted["approval"]["votes"]] == ["looks right"]
    await page.context.close()


async def test_a_replay_by_keyboard_alone(page: Page, site: Site) -> None:
    place, to = site
    await page.goto(f"{place.url}/")
    await page.wait_for_selector(".need")
    await page.keyboard.press("g")
    await page.keyboard.press("d")
    await page.wait_for_url("**/dead-letters")
    await to_row(page, "smtp.relay.internal")
    await page.wait_for_url("**/dead-letters?cause=*")
    await expect(page.get_by_role("complementary")).to_contain_text("will be queued again")
    await tab_to(page, "Start the replay")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/operations/op_*")
    [run, *_] = (await to.ask("GET", "/operations"))["items"]
    assert (run["action"], run["canary"]) == ("replay", 5)
