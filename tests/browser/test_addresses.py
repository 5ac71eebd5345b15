"""The address holds the view: what it names and is not there is said to be so. Back goes back one step."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.fill import Filler
from tests.browser.place import Place
from tests.browser.test_screens import LIVE

pytestmark = pytest.mark.asyncio(loop_scope="package")
Site = tuple[Place, Filler]
NOTHING = re.compile(r"Not found|There is no such page")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/tasks/01a1ec64-0000-7000-8000-000000000000", "Not found"),
        ("/fleet/jobs/job_none", "Not found"),
        ("/fleet/hosts/none", "Not found"),
        ("/nodes/none", "Not found"),
        ("/nodes/50%25", "Not found"),
        ("/tasks/50%25", "Not found"),
        ("/tasks/%E0%A4%A", "Not found"),
        ("/inbox/dec_none", "Not found"),
        ("/conflicts/con_none", "Not found"),
        ("/locks?name=none", "free"),
        ("/operations/op_none", "There is no operation 'op_none'"),
        ("/operations/op_none?show=running", "There is no operation 'op_none'"),
        ("/schedules?name=none", "There is no schedule 'none'"),
        ("/dead-letters?cause=none", "There is no cause 'none'"),
        ("/fleet/blocks?id=blk_none", "There is no block 'blk_none'"),
        ("/settings/webhooks?id=whk_none", "There is no webhook 'whk_none'"),
        ("/fleet/jobss", "There is no such page"),
        ("/settings/tokenz", "There is no such page"),
        ("/taskz", "There is no such page"),
        ("/taskz/and/more?x=1", "There is no such page"),
    ],
)
async def test_what_does_not_exist_is_said_to_be_so(
    page: Page, site: Site, path: str, says: str
) -> None:
    place, _ = site
    await page.goto(f"{place.url}{path}")
    await page.wait_for_selector(LIVE)
    await expect(page.locator("main")).to_contain_text(says)
    await page.locator("nav.nav").get_by_role("link", name="Queues").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("queues")


@pytest.mark.parametrize("path", ["/tasks/none", "/fleet/hosts/none", "/taskz", "/nodes/none"])
async def test_a_page_about_nothing_has_a_heading(page: Page, site: Site, path: str) -> None:
    place, _ = site
    await page.goto(f"{place.url}{path}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(NOTHING)


async def test_an_unknown_host_leads_to_the_hosts(page: Page, site: Site) -> None:
    place, _ = site
    await page.goto(f"{place.url}/fleet/hosts/none")
    await page.get_by_role("link", name="To the list").click()
    await expect(page).to_have_url(f"{place.url}/fleet/hosts")


async def test_an_old_operation_opens_by_its_address(page: Page, site: Site) -> None:
    """The list has the latest hundred: the link of an older one shows it nevertheless."""
    place, to = site
    waiting = await to.task("note.write", {"text": "x"}, delay_seconds=3_600)
    body = {"action": "pause", "args": {}, "ids": [waiting], "reason": "for the list"}
    made = await to.ask("POST", "/operations", body)

    async def without_it(route: Route) -> None:
        response = await route.fetch()
        answer = await response.json()
        items = [one for one in answer["items"] if one["id"] != made["id"]]
        await route.fulfill(response=response, json={**answer, "items": items})

    await page.route("**/api/v1/operations?*", without_it)
    await page.goto(f"{place.url}/operations/{made['id']}")
    await expect(page.locator("main")).to_contain_text("for the list")


async def test_back_undoes_one_choice(page: Page, site: Site) -> None:
    place, _ = site
    await page.goto(f"{place.url}/queues")
    await page.locator("nav.nav").get_by_role("link", name="Dead letters").click()
    await page.get_by_role("button", name="By type").click()
    await expect(page).to_have_url(f"{place.url}/dead-letters?by=type")
    await page.get_by_role("button", name="By cause").click()
    await page.locator("[data-row]").first.click()
    await expect(page.get_by_role("complementary", name="Replay this cause")).to_be_visible()
    await page.go_back()
    await expect(page.get_by_role("complementary", name="Replay this cause")).to_have_count(0)
    await page.go_back()
    await expect(page).to_have_url(f"{place.url}/dead-letters?by=type")
    await page.go_back()
    await expect(page).to_have_url(f"{place.url}/dead-letters")
    await page.go_forward()
    await expect(page.get_by_role("button", name="By type")).to_have_attribute(
        "aria-pressed", "true"
    )


async def test_back_brings_the_search_of_jobs_again(page: Page, site: Site) -> None:
    place, _ = site
    await page.goto(f"{place.url}/fleet?q=host:ams1-n01")
    search = page.get_by_label("Search jobs", exact=False)
    await expect(search).to_have_value("host:ams1-n01")
    await search.fill("host:ams1-n02")
    await search.press("Enter")
    await expect(page).to_have_url(f"{place.url}/fleet?q=host%3Aams1-n02")
    await page.go_back()
    await expect(search).to_have_value("host:ams1-n01")


async def test_a_choice_among_all_conflicts_stays_among_all(page: Page, site: Site) -> None:
    place, _ = site
    await page.goto(f"{place.url}/conflicts?state=all")
    await page.locator("tr[data-row]").first.click()
    await expect(page.locator("tr.open")).to_have_count(1)
    await expect(page.get_by_role("button", name="All", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
