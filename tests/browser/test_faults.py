"""Faults and bad input in the browser: the page says what happened and stays usable."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from playwright.async_api import Browser, Error, Page, Route, expect

from tests.browser.fill import Filler
from tests.browser.place import ADMIN, Place, filled, open_page
from tests.browser.texts import HOSTILE

pytestmark = pytest.mark.asyncio(loop_scope="package")
Site = tuple[Place, Filler]
LIVE = "[data-mark=live], [data-mark=caught-up]"
LISTED = "**/api/v1/tasks?*"
MARKUP = "<img src=x onerror=document.title=1>"
SIZE = 1_000_000


async def test_a_slow_store_leaves_what_is_there(page: Page, site: Site) -> None:
    place, to = site
    await page.goto(f"{place.url}/tasks?q=type:crawl.site")
    await page.wait_for_selector("tbody tr")
    answered, asked = asyncio.Event(), asyncio.Event()

    async def held(route: Route) -> None:
        asked.set()
        await answered.wait()
        await route.continue_()

    await page.route(LISTED, held)
    before = await page.locator("tbody tr").count()
    made = await to.task("crawl.site", {"site": "slow.example"}, delay_seconds=3_600)
    await asked.wait()
    assert await page.locator("tbody tr").count() == before
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("combobox", name="Search or run")).to_be_visible()
    await page.keyboard.press("Escape")
    answered.set()
    await expect(page.locator("tbody tr")).to_have_count(before + 1)
    await to.intervene(made, "ABORT", "it was a test")


async def test_a_store_that_is_away_is_named_and_asked_again(page: Page, site: Site) -> None:
    place, to = site
    detail = "PostgreSQL at db-1:5432 refuses connections: nothing acknowledged is lost"
    problem = {"code": "store-unavailable", "detail": detail, "status": 503, "title": "x"}

    async def away(route: Route) -> None:
        body = json.dumps(problem)
        await route.fulfill(status=503, content_type="application/problem+json", body=body)

    await page.route(LISTED, away)
    await page.goto(f"{place.url}/tasks?q=type:crawl.site")
    wrong = page.locator(".empty")
    await expect(wrong).to_contain_text("The store does not answer")
    await expect(wrong).to_contain_text(detail)
    await expect(wrong).to_contain_text("holdfast doctor")
    await page.unroute(LISTED)
    await wrong.get_by_role("button", name="Try again").click()
    await page.wait_for_selector("tbody tr")
    await page.route("**/api/v1/queues", away)
    await page.goto(f"{place.url}/queues")
    await expect(page.locator(".empty")).to_contain_text("The store does not answer")
    await page.unroute("**/api/v1/queues")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("queues")
    await page.route("**/api/v1/queues", away)
    await to.ask("POST", "/queues/crawl/pause", {"reason": "so that the page reads again"})
    await expect(page.locator(".banner")).to_contain_text("Not read again")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("queues")
    await to.ask("POST", "/queues/crawl/resume", {"reason": "done"})


async def test_a_megabyte_is_cut_and_can_be_downloaded(
    page: Page, site: Site, tmp_path: Path
) -> None:
    place, to = site
    task = await to.task("blob.make", {"size": SIZE})
    await to.until(f"/tasks/{task}", lambda body: body["status"] == "completed")
    await page.goto(f"{place.url}/tasks/{task}?tab=result")
    await expect(page.get_by_text("1.0 MB: the first 4,000 characters are shown")).to_be_visible()
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download").click()
    await (await download.value).save_as(tmp_path / "value.json")
    assert json.loads((tmp_path / "value.json").read_text("utf-8")) == "x" * SIZE
    await page.goto(f"{place.url}/tasks/{task}?tab=output")
    output = page.locator("pre.out")
    await expect(output.locator("span.hold").first).to_have_text("line")
    await expect(output).to_contain_text("<b>of</b> ⟨202E⟩output")
    assert await output.locator("b").count() == 0
    await expect(page.locator(".task")).to_contain_text("are shown")


async def test_the_second_answer_to_a_decision_is_refused(page: Page, site: Site) -> None:
    place, to = site
    task = await to.task("ledger.close-month", {"month": "2026-08"})
    found = await to.until(
        "/decisions?q=state:open",
        lambda body: [one for one in body["items"] if one["task_id"] == task],
    )
    decision = next(one["id"] for one in found["items"] if one["task_id"] == task)
    await page.goto(f"{place.url}/inbox/{decision}")
    await page.get_by_role("radio", name="book a correction").check()
    await page.get_by_role("button", name="Answer").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("An answer cannot be taken back")
    held = asyncio.Event()

    async def late(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await page.route(f"**/api/v1/decisions/{decision}", late)
    await dialog.get_by_role("button", name="Send the answer").click()
    await to.ask("POST", f"/decisions/{decision}", {"choice": "close anyway"})
    held.set()
    await expect(dialog.get_by_role("alert")).to_be_visible()
    assert (await to.ask("GET", f"/decisions/{decision}"))["choice"] == "close anyway"
    await dialog.get_by_role("button", name="Back").click()
    await expect(page.locator(".det .banner")).to_contain_text("close anyway")


async def test_names_of_people_are_text_everywhere(page: Page, site: Site) -> None:
    place, to = site
    await to.ask("PUT", "/presets/view/odd", {"body": {"q": f'error:~"{MARKUP}"'}})
    await to.ask("POST", "/groups", {"name": "odd", "selector": "role=web"})
    body = {"selector": "role=none", "reason": HOSTILE.replace("\x1b", "").replace("\x07", "")}
    body["reason"] = f"{MARKUP} reason"
    await to.ask("POST", "/blocks", {**body, "expires_in_seconds": 60})
    token = await to.ask("POST", "/tokens", {"name": MARKUP, "roles": ["viewer"]})
    await to.ask("POST", "/webhooks", {"name": MARKUP, "url": "https://hook.invalid/"})
    await to.ask("POST", "/queues/crawl/pause", {"reason": MARKUP})
    for path in (
        "/fleet/blocks",
        "/settings/tokens",
        "/settings/webhooks",
        "/queues",
        "/events?tab=audit",
    ):
        await page.goto(f"{place.url}{path}")
        await expect(page.locator("main")).to_contain_text("<img src=x")
        assert await page.locator("main img").count() == 0
        assert await page.title() != "1"
    await to.ask("POST", "/queues/crawl/resume", {"reason": "done"})
    await to.ask("DELETE", f"/tokens/{token['id']}")
    for hook in (await to.ask("GET", "/webhooks"))["items"]:
        await to.ask("DELETE", f"/webhooks/{hook['id']}")
    await to.ask("DELETE", "/presets/view/odd")


async def test_a_token_that_is_revoked_in_the_middle_of_an_act(
    browser: Browser, site: Site
) -> None:
    place, to = site
    made = await to.ask("POST", "/tokens", {"name": "olga", "roles": ["operator"]})
    task = await to.task("invoice.render", {"customer": "revoked"}, delay_seconds=3_600)
    page = await open_page(browser, place, made["token"])
    await page.goto(f"{place.url}/tasks/{task}")
    await page.get_by_role("button", name="Abort").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("too late")
    await to.ask("DELETE", f"/tokens/{made['id']}")
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    await expect(page.locator("main")).to_contain_text("Your session has ended")
    assert (await to.ask("GET", f"/tasks/{task}"))["status"] == "queued"
    await page.get_by_label("Token").fill(ADMIN)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_selector(LIVE)
    assert page.url == f"{place.url}/tasks/{task}", "the page is where it was"
    await page.context.close()


async def test_a_task_with_many_events_keeps_its_beginning(page: Page, site: Site) -> None:
    """The store keeps the latest events of a task; the task itself has its beginning."""
    place, to = site
    task = await to.task("report.render", {"name": "long"}, queue="default")
    await to.until(f"/tasks/{task}", lambda body: body["status"] == "completed")

    async def latest(route: Route) -> None:
        answer = await route.fetch()
        body = await answer.json()
        await route.fulfill(response=answer, json={**body, "items": body["items"][-1:]})

    await page.route(f"**/api/v1/tasks/{task}/history", latest)
    await page.goto(f"{place.url}/tasks/{task}")
    path = page.locator(".path li b")
    await expect(path).to_have_text(["queued", "running", "completed"])
    await expect(page.locator("table.att tbody tr")).to_have_count(1)
    await expect(page.locator(".task")).to_contain_text("the last 1 are kept")
    assert await page.title() == "report.render · Tasks · Holdfast"


async def test_the_second_of_two_voters_learns_of_the_first(page: Page, site: Site) -> None:
    place, to = site
    asking, first = [
        Filler(to.url, (await to.ask("POST", "/tokens", {"name": name, "roles": [role]}))["token"])
        for name, role in (("nina", "operator"), ("otto", "approver"))
    ]
    body = {"command_type": "shell", "command": "true", "external_id": "twice"}
    made = await asking.ask("POST", "/jobs", {**body, "selector": "sim-[0001-0004]"})
    await page.goto(f"{place.url}/inbox/{made['job_id']}")
    await page.get_by_role("button", name="Reject").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("too late")
    held, asked = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        asked.set()
        await held.wait()
        await route.continue_()

    await page.route("**/reject", late)
    await dialog.get_by_role("button", name="Reject").click()
    await asked.wait()
    await first.ask("POST", f"/jobs/{made['job_id']}/approve", {"reason": "checked"})
    held.set()
    await expect(dialog.get_by_role("alert")).to_be_visible()
    voted = await to.ask("GET", f"/jobs/{made['job_id']}")
    assert [vote["verdict"] for vote in voted["approval"]["votes"]] == ["approve"]
    await dialog.get_by_role("button", name="Back").click()
    await expect(page.locator(".det")).to_contain_text("approved")
    await asking.close()
    await first.close()


async def test_a_node_that_has_left_is_not_late(page: Page, site: Site) -> None:
    place, to = site
    await to.until("/nodes?live=false", lambda body: any(not one["live"] for one in body["items"]))
    await page.goto(place.url)
    nodes = page.locator(".answers a").filter(has_text="Nodes")
    await expect(nodes).to_contain_text("of 1 on time")


async def test_numbers_keep_every_digit(page: Page, site: Site) -> None:
    """JavaScript holds whole numbers up to 2**53: what a person edits keeps those that are longer."""
    place, to = site
    long, text = 2**63 - 1, '12345678901234567890\\" 1234567890123456789'
    payload = {"customer": text, "pages": long}
    task = await to.task("invoice.render", payload, delay_seconds=3_600)
    await page.goto(f"{place.url}/tasks/{task}")
    await expect(page.locator("pre.json").first).to_contain_text(f'"pages": {long}')
    await page.locator("summary[aria-label='More acts']").click()
    await page.get_by_role("button", name="Edit the payload").click()
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_label("Payload")
    assert json.loads(await field.input_value()) == payload
    await field.fill(json.dumps({**payload, "customer": f"{text}!"}))
    await dialog.get_by_role("button", name="Change the payload").click()
    await expect(dialog).to_be_hidden()
    assert (await to.ask("GET", f"/tasks/{task}"))["payload"] == {
        "customer": f"{text}!",
        "pages": long,
    }
    await to.intervene(task, "ABORT", "it was a test")


async def without_sync(route: Route) -> None:
    """Every screen but one is there before it is opened."""
    try:
        response = await route.fetch()
    except Error:  # The gateway is away already.
        await route.abort()
    else:
        if "about to fall off the feed" in await response.text():
            await route.abort()
        else:
            await route.fulfill(response=response)


async def test_a_screen_that_cannot_be_loaded_says_that_the_gateway_is_away(
    browser: Browser,
) -> None:
    """The code of a screen comes when it is first opened: without a gateway that is no new build."""
    async with filled() as (place, _):
        page = await open_page(browser, place, path="")
        await page.route("**/assets/part-*", without_sync)
        await page.goto(place.url)
        await page.wait_for_selector(LIVE)
        place.stop()
        await page.wait_for_selector("[data-mark=stale], [data-mark=reconnecting]")
        await page.locator("nav.nav").get_by_role("link", name="Sync").click()
        heading = page.get_by_role("heading", level=1)
        await expect(heading).to_have_text("The gateway does not answer")
        await page.unroute("**/assets/part-*")
        place.start()
        await expect(heading).to_have_text("Sync")
        await page.context.close()


async def test_a_long_reason_leaves_the_numbers_of_the_queues(page: Page, site: Site) -> None:
    place, to = site
    await to.task("note.write", {"text": "x"}, queue="long-reason", delay_seconds=3_600)
    await to.ask("POST", "/queues/long-reason/pause", {"reason": "W" * 300})
    await page.goto(f"{place.url}/queues")
    await expect(page.locator("main")).to_contain_text("WWWW")
    box = page.locator("table").first
    assert await box.evaluate("(e) => e.parentElement.scrollWidth <= e.parentElement.clientWidth")
