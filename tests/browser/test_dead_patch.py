"""The replay of a cause with a patch of its payloads."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.fill import Filler
from tests.browser.place import Place

pytestmark = pytest.mark.asyncio(loop_scope="package")
PATCH = '{"template": "short", "fail": null}'


async def test_a_cause_is_replayed_with_a_patch_of_its_payloads(
    page: Page, site: tuple[Place, Filler]
) -> None:
    """The sheet shows the first payload before and after, refuses what is no object, and sends the patch."""
    place, to = site
    made = await to.task("email.send", {"to": "zoe@patched.example", "fail": "patched relay"})
    found = await to.until(
        f"/tasks?q=status:failed type:email.send {made}", lambda body: body["items"]
    )
    cause = found["items"][0]["fingerprint"]
    await page.goto(f"{place.url}/dead-letters?cause={cause}")
    text = page.get_by_label("Change the payload")
    start = page.get_by_role("button", name="Start the replay")
    await text.fill("[1]")
    await expect(page.get_by_text("Give an object with the fields to change")).to_be_visible()
    await expect(start).to_be_disabled()
    await text.fill(PATCH)
    await expect(page.locator(".diff .add")).to_contain_text('template: "short"')
    await expect(page.locator(".diff .del").first).to_contain_text("fail")
    await expect(page.locator(".cl", has_text="--patch")).to_be_visible()
    await start.click()
    await page.wait_for_url("**/operations/*")
    done = await to.until(f"/tasks/{made}", lambda body: body["status"] == "completed")
    assert done["payload"] == {"to": "zoe@patched.example", "template": "short"}
