"""The pages of a list in the browser."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.fill import Filler
from tests.browser.place import Place

pytestmark = pytest.mark.asyncio(loop_scope="package")


@pytest.mark.parametrize("path", ["tasks", "events", "events?tab=audit"])
async def test_the_newest_page_says_that_it_is(
    page: Page, site: tuple[Place, Filler], path: str
) -> None:
    place, to = site
    await to.task("email.send", {"to": "ann@paged.example"})
    await page.goto(f"{place.url}/{path}")
    newer = page.get_by_role("button", name="Newer")
    await expect(newer).to_have_attribute("aria-disabled", "true")
    await newer.click(force=True)
    await expect(page.get_by_text("This is the newest page.")).to_be_visible()


async def test_the_feed_goes_back_a_page_and_returns(
    page: Page, site: tuple[Place, Filler]
) -> None:
    place, to = site
    await to.until("/events?limit=100&before=head", lambda body: len(body["items"]) > 60)
    await page.goto(f"{place.url}/events")
    newer = page.get_by_role("button", name="Newer")
    await page.get_by_role("button", name="Older").click()
    await page.wait_for_url("**before=*")
    await expect(newer).not_to_have_attribute("aria-disabled", "true")
    await newer.click()
    await expect(newer).to_have_attribute("aria-disabled", "true")


async def test_newer_is_a_page_of_the_list_whatever_was_opened_meanwhile(
    page: Page, site: tuple[Place, Filler]
) -> None:
    place, to = site
    await to.until("/events?limit=100&before=head", lambda body: len(body["items"]) > 60)
    await page.goto(f"{place.url}/events")
    await page.get_by_role("button", name="Older").click()
    await page.wait_for_url("**before=*")
    await page.locator("tr[data-row]").first.click()
    await expect(page.locator("aside.sheet")).to_be_visible()
    await page.get_by_role("button", name="Newer").click()
    await expect(page).to_have_url(f"{place.url}/events")


async def test_newer_on_a_page_of_a_link_leads_to_the_newest(
    page: Page, site: tuple[Place, Filler]
) -> None:
    place, to = site
    after = (await to.ask("GET", "/tasks?limit=1"))["next"]
    await page.goto(f"{place.url}/tasks?after={after}")
    await page.get_by_role("button", name="Newer").click()
    await expect(page).to_have_url(f"{place.url}/tasks")
