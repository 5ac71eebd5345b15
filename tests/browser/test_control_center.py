"""The Control Center in a real browser: log in, watch, intervene, decide, repair; faults and hostile text."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.fill import Filler
from tests.browser.place import ADMIN, Place, Sins, open_page, server
from tests.browser.texts import HOSTILE

pytestmark = pytest.mark.asyncio(loop_scope="package")
Site = tuple[Place, Filler]
LIVE = "[data-mark=live]"


async def test_a_link_of_the_server_logs_in_once_and_a_token_always(
    browser: Browser, site: Site
) -> None:
    place, _ = site
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(place.login_url)
    await page.wait_for_selector(LIVE)
    assert page.url == f"{place.url}/"
    cookies = await context.cookies()
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]
    await page.get_by_label("You are admin").click()
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert await context.cookies() == []
    await page.goto(place.login_url)
    await expect(page.get_by_role("alert")).to_contain_text("The link was used before")
    await page.get_by_label("Token").fill("hf_user_" + "x" * 43)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("alert")).to_contain_text("does not count")
    await page.get_by_label("Token").fill(ADMIN)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_selector(LIVE)
    await context.close()


async def test_tasks_are_found_and_appear_by_themselves(page: Page, site: Site) -> None:
    place, to = site
    await page.goto(f"{place.url}/tasks")
    await page.get_by_role("button", name="email.send").click()
    await expect(page.get_by_role("row", name=re.compile("email.send")).first).to_be_visible()
    await page.goto(f"{place.url}/tasks")
    await page.wait_for_selector("tbody tr")
    await page.keyboard.press("/")
    await page.keyboard.type("status:queued type:invoice.*")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/tasks?q=status%3Aqueued+type%3Ainvoice.*")
    await expect(page.locator("tbody tr")).to_have_count(1)
    made = await to.task("invoice.render", {"customer": "new"}, delay_seconds=3_600)
    row = page.get_by_role("row", name=re.compile(made[-8:]))
    await expect(row).to_be_visible()
    # The end of an id, as lists show it, is enough to open what it names.
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Search or run").fill(made[-8:])
    await expect(page.get_by_role("option", name=re.compile(made[-8:])).first).to_be_visible()
    await page.keyboard.press("Escape")
    await to.intervene(made, "ABORT", "it was a test")
    await expect(row).to_have_count(0)
    await page.goto(f"{place.url}/tasks?q=status:")
    await expect(page.get_by_role("alert")).to_contain_text("expected a value")


async def test_paused_pages_stay_and_go_on(page: Page, site: Site) -> None:
    place, to = site
    await page.goto(f"{place.url}/tasks?q=type:crawl.site")
    await page.wait_for_selector(LIVE)
    await page.wait_for_selector("tbody tr")
    before = await page.locator("tbody tr").count()
    await page.keyboard.press("p")
    await page.wait_for_selector("[data-mark=paused]")
    await to.task("crawl.site", {"site": "example.net"}, delay_seconds=3_600)
    await expect(page.locator("[data-mark=paused]")).to_contain_text("wait")
    assert await page.locator("tbody tr").count() == before
    await page.keyboard.press("p")
    await expect(page.locator("tbody tr")).to_have_count(before + 1)


async def test_an_intervention_shows_its_effect_first_and_keeps_its_reason(
    page: Page, site: Site
) -> None:
    place, to = site
    task = await to.task("invoice.render", {"customer": "held", "for_ever": True})
    await to.until(f"/tasks/{task}", lambda body: body["status"] == "running")
    await page.goto(f"{place.url}/tasks/{task}")
    await expect(page.locator(".path .now")).to_contain_text("running")
    await page.keyboard.press("Shift+P")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("What happens")).to_contain_text("running → paused")
    await expect(dialog.get_by_label("What happens")).to_contain_text("Fence 1 becomes 2")
    await dialog.get_by_role("button", name="Pause").click(force=True)
    await expect(page.locator(".toast")).to_contain_text("Give a reason first")
    await dialog.get_by_label("Reason").fill("template fix")
    await page.keyboard.press("Enter")
    await expect(page.locator(".path .now")).to_contain_text("paused")
    acts = (await to.ask("GET", f"/tasks/{task}/interventions"))["items"]
    assert [(act["type"], act["reason"]) for act in acts] == [("PAUSE", "template fix")]
    await page.get_by_role("button", name="Abort").click()
    await dialog.get_by_label("Reason").fill("not needed")
    await dialog.get_by_role("button", name="Abort").click()
    await expect(page.locator(".path .now")).to_contain_text("aborted")


async def test_the_second_of_two_people_learns_of_the_first(page: Page, site: Site) -> None:
    place, to = site
    task = await to.task("invoice.render", {"customer": "both"}, delay_seconds=3_600)
    await page.goto(f"{place.url}/tasks/{task}")
    await page.get_by_role("button", name="Abort").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("What happens")).to_contain_text("queued → aborted")
    await dialog.get_by_label("Reason").fill("mine")
    await to.intervene(task, "PAUSE", "I was first")
    await dialog.get_by_role("button", name="Abort").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Someone was here first")
    assert (await to.ask("GET", f"/tasks/{task}"))["status"] != "aborted"


async def test_a_decision_is_made_by_keyboard_alone(page: Page, site: Site) -> None:
    place, to = site
    task = await to.task("ledger.close-month", {"month": "2026-09"})
    found = await to.until(
        "/decisions?q=state:open",
        lambda body: [one for one in body["items"] if one["task_id"] == task],
    )
    decision = next(one["id"] for one in found["items"] if one["task_id"] == task)
    await page.goto(f"{place.url}/inbox/{decision}")
    await expect(page.get_by_role("radio", name="book a correction")).to_be_visible()
    await page.keyboard.press("2")
    await page.keyboard.press("a")
    await expect(page.get_by_role("dialog")).to_contain_text("book a correction")
    await page.get_by_role("dialog").get_by_label("Reason").fill("see OPS-2210")
    await page.keyboard.press("Enter")
    await expect(page.locator(".toast")).to_contain_text("Decided: book a correction")
    made = await to.ask("GET", f"/decisions/{decision}")
    assert (made["choice"], made["reason"], made["by"]) == (
        "book a correction",
        "see OPS-2210",
        "user:admin",
    )


async def test_a_command_is_planned_asked_for_and_approved_by_another_person(
    page: Page, browser: Browser, site: Site
) -> None:
    place, to = site
    await page.goto(f"{place.url}/fleet/new")
    await page.get_by_label("Hosts").first.fill("site=ams1,site=fra1")
    await page.get_by_label("The command, without a shell").fill("uname -a")
    await page.get_by_label("Name, optional").fill("uname-1")
    plan = page.get_by_role("complementary", name="Plan")
    await expect(plan).to_contain_text("59 of 60 hosts")
    await expect(plan).to_contain_text("disk swap")
    command = plan.locator(".cl")
    for part in ("--hosts site=ams1,site=fra1 ", "--max-fail 0 ", "--external-id uname-1 "):
        await expect(command).to_contain_text(part)
    await expect(command).to_contain_text("--plan -- uname -a")
    await plan.get_by_role("button", name="Ask for approval").click()
    await page.wait_for_url("**/fleet/jobs/job_*")
    mine = page.get_by_role("button", name="Approve")
    await expect(mine).to_have_attribute(
        "aria-disabled", "true"
    )  # the one who asks does not approve
    made = await to.ask("POST", "/tokens", {"name": "ivan", "roles": ["approver"]})
    other = await open_page(browser, place, made["token"])
    await other.goto(f"{place.url}/inbox")
    await other.get_by_text("Approve uname-1").click()
    await other.get_by_role("button", name="Approve").click()
    dialog = other.get_by_role("dialog")
    await expect(dialog).to_contain_text("uname -a")
    await dialog.get_by_label("Reason").fill("looks right")
    await dialog.get_by_role("button", name="Approve 60 hosts").click()
    await to.until("/jobs/uname-1", lambda job: job["approval_state"] == "APPROVED")
    await expect(mine).to_have_count(0)
    await other.context.close()


async def test_dead_letters_are_replayed_with_a_canary(page: Page, site: Site) -> None:
    place, to = site
    await page.goto(f"{place.url}/dead-letters")
    await page.get_by_text("dns lookup of relay-b").click()
    sheet = page.get_by_role("complementary", name="Replay this cause")
    await expect(sheet).to_contain_text("will be queued again")
    await sheet.get_by_label("Canary first").fill("1")
    await sheet.get_by_label("Reason").fill("relay b is up")
    await sheet.get_by_role("button", name="Start the replay").click()
    await page.wait_for_url("**/operations/op_*")
    # The relay is not up: the canary shows it, and the rest stays where it is.
    await expect(page.locator("li.on")).to_contain_text("1 of 1 task of the canary failed again")
    await expect(page.locator("li.on")).to_contain_text("1 of 3")
    run = (await to.ask("GET", "/operations"))["items"][0]
    assert (run["action"], run["canary"], run["reason"]) == ("replay", 1, "relay b is up")


async def test_a_conflict_is_settled_field_by_field(page: Page, site: Site) -> None:
    place, to = site
    conflict = (await to.ask("GET", "/conflicts?q=state:open"))["items"][0]["id"]
    await page.goto(f"{place.url}/conflicts/{conflict}")
    await page.get_by_label("15/m").check()
    await page.get_by_label('["nightly","eu"]').check()
    await page.get_by_label("Reason, optional").fill("the site asked us")
    await page.get_by_role("button", name="Settle", exact=True).click()
    await expect(page.get_by_text("Nothing is in conflict")).to_be_visible()
    settled = await to.ask("GET", f"/conflicts/{conflict}")
    assert settled["resolution"] == "merged"
    payload = (await to.ask("GET", f"/tasks/{settled['task_id']}"))["payload"]
    assert payload == {"rate": "15/m", "depth": 4, "tags": ["nightly", "eu"]}


async def test_hostile_text_is_shown_not_obeyed(page: Page, site: Site) -> None:
    place, to = site
    # The page of failures has the latest: other tests may have made many since the sample was made.
    task = await to.task("note.write", {"text": HOSTILE})
    await to.until(f"/tasks/{task}", lambda body: body["status"] == "failed")
    for path in (
        f"/tasks/{task}",
        f"/tasks/{task}?tab=output",
        "/dead-letters",
        "/events?kinds=fail",
        "/",
        "/tasks?q=type:note.write",
    ):
        await page.goto(f"{place.url}{path}")
        await page.wait_for_selector(LIVE)
        await expect(page.locator(".page")).to_contain_text("<img src=x")
        assert await page.locator(".page img, .page script").count() == 0
    await page.goto(f"{place.url}/tasks/{task}?tab=output")
    output = page.locator("pre.out")
    await expect(output).to_contain_text("<script>document.title='owned'</script>")
    await expect(output.locator("span.bad")).to_have_text("red")
    shown = await output.inner_text()
    assert "⟨202E⟩" in shown
    assert "␛]0;title␇" in shown
    assert "\x1b" not in shown
    assert "owned" not in await page.title()
    assert HOSTILE.startswith("<img")


async def test_large_payloads_and_unknown_ids_leave_the_page_usable(page: Page, site: Site) -> None:
    place, to = site
    task = await to.task("report.render", {"name": "x" * 250_000}, delay_seconds=3_600)
    await page.goto(f"{place.url}/tasks/{task}")
    await expect(page.get_by_text("the first 4,000 characters are shown")).to_be_visible()
    await page.goto(f"{place.url}/tasks/01a1ec64-0000-7000-8000-000000000000")
    await expect(page.get_by_text("Not found", exact=True)).to_be_visible()
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Search or run").fill(task)
    await page.wait_for_url(f"**/tasks/{task}")
    await page.goto(f"{place.url}/tasks/..%2f..%2fsettings")
    await expect(page.locator(".page")).to_contain_text("Not found")


async def test_a_viewer_sees_why_a_button_is_off(browser: Browser, site: Site) -> None:
    place, to = site
    made = await to.ask("POST", "/tokens", {"name": "ann", "roles": ["viewer"]})
    page = await open_page(browser, place, made["token"])
    sins = Sins(place.url)
    sins.watch(page)
    await page.goto(f"{place.url}/queues")
    button = page.get_by_role("button", name="Resume").first
    await expect(button).to_have_attribute("aria-disabled", "true")
    await button.click(force=True)
    await expect(page.locator(".toast")).to_contain_text(
        "it needs the role operator or admin, you are viewer"
    )
    # What waits for others is shown, and not counted as theirs.
    await page.goto(f"{place.url}/inbox")
    await expect(page.get_by_role("button", name="For me 0")).to_be_visible()
    await page.goto(f"{place.url}/")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("a person")
    await to.ask("DELETE", f"/tokens/{made['id']}")
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    await page.context.close()
    assert sins.found == []


async def test_all_tabs_of_a_browser_share_one_connection(browser: Browser, site: Site) -> None:
    place, to = site
    page = await open_page(browser, place)
    for path in ("/tasks", "/events", "/", "/queues"):
        other = await page.context.new_page()
        await other.goto(f"{place.url}{path}")
        await other.wait_for_selector(LIVE)
    metrics = await to.text("/metrics")
    assert re.search(r'holdfast_ws_clients{transport="ws"} 1\b', metrics), metrics
    await page.context.close()


async def test_a_restarted_gateway_makes_pages_stale_then_live(browser: Browser) -> None:
    with server() as place:
        page = await open_page(browser, place)
        sins = Sins(place.url)
        sins.watch(page)
        await page.goto(f"{place.url}/queues")
        await page.wait_for_selector(LIVE)
        await page.get_by_role("button", name="Pause").first.click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Reason").fill("the gateway goes away")
        place.stop()
        await dialog.get_by_role("button", name="Pause the queue").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("The gateway does not answer")
        await page.wait_for_selector("[data-mark=reconnecting]")
        await page.wait_for_selector("[data-mark=stale]")
        await expect(page.get_by_role("alert").filter(has_text="Stale since")).to_have_count(1)
        await asyncio.to_thread(place.start)
        await page.wait_for_selector("[data-mark=live], [data-mark=caught-up]")
        await dialog.get_by_role("button", name="Pause the queue").click()
        await expect(dialog).to_have_count(0)
        await expect(page.locator("tr.note")).to_contain_text("the gateway goes away")
        await expect(page.get_by_role("alert")).to_have_count(0)
        await expect(page.get_by_role("heading", level=1)).to_contain_text("queues")
        await page.context.close()
        assert sins.found == []
