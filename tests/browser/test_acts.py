"""Every intervention, and the acts on a schedule: a preview first, then the act, with its reason kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.fill import Filler
from tests.browser.place import Place

pytestmark = pytest.mark.asyncio(loop_scope="package")
Site = tuple[Place, Filler]
RUNS: Mapping[str, Any] = {"customer": "act", "for_ever": True}


class Act(NamedTuple):
    button: str
    before: str
    foreseen: str
    after: str
    type: str
    is_in_menu: bool = False


ACTS = [
    Act("Pause", "running", "running → paused", "paused", "PAUSE"),
    Act("Resume", "paused", "paused → queued", "running", "RESUME"),
    Act("Release", "running", "running → queued", "running", "RELEASE_LOCK"),
    Act("Reassign", "running", "running → queued", "running", "REASSIGN"),
    Act("Force status", "running", "running → failed", "failed", "FORCE_STATUS", is_in_menu=True),
    Act("Retry", "failed", "failed → queued", "running", "RETRY"),
    Act("Abort", "running", "running → aborted", "aborted", "ABORT"),
]
"""The seven, one after the other on one task."""


def is_now(status: str) -> Callable[[Any], bool]:
    return lambda task: bool(task["status"] == status)


async def open_act(page: Page, act: Act) -> Locator:
    if act.is_in_menu:
        await page.get_by_label("More acts").click()
        await page.locator(".pop").get_by_role("button", name=act.button).click()
    else:
        await page.locator(".taskacts").get_by_role("button", name=act.button).click()
    return page.get_by_role("dialog")


async def test_all_seven_interventions_show_their_effect_and_keep_their_reason(
    page: Page, site: Site
) -> None:
    place, to = site
    task = await to.task("invoice.render", RUNS, max_attempts=1)
    await to.until(f"/tasks/{task}", lambda body: body["status"] == "running")
    await page.goto(f"{place.url}/tasks/{task}")
    now = page.locator(".path .now")
    version = page.locator("dt:text-is('version') + dd")
    for act in ACTS:
        await expect(now).to_contain_text(act.before)
        dialog = await open_act(page, act)
        if act.type == "REASSIGN":
            await dialog.get_by_label("To the node").select_option(index=1)
            await dialog.get_by_label("Any node may claim it after").fill("1")
        if act.type == "FORCE_STATUS":
            await dialog.locator("select").select_option("failed")
        await expect(dialog.get_by_label("What happens")).to_contain_text(act.foreseen)
        await dialog.get_by_label("Reason").fill(f"to see {act.type}")
        await dialog.get_by_role("button", name=act.button).click()
        await expect(dialog).to_have_count(0)
        reached = await to.until(f"/tasks/{task}", is_now(act.after))
        # An act is bound to the version that the page shows.
        await expect(version).to_have_text(str(reached["version"]))
    acts = (await to.ask("GET", f"/tasks/{task}/interventions"))["items"]
    kept = {(one["type"], one["reason"]) for one in acts}
    assert kept == {(act.type, f"to see {act.type}") for act in ACTS}


async def test_a_task_offers_the_acts_that_it_takes(page: Page, site: Site) -> None:
    """A task that a person holds in the queue can be resumed; statuses that it cannot be forced to are not
    offered, and those that it cannot have next are not shown."""
    place, to = site
    task = await to.task("invoice.render", {"customer": "later"}, delay_seconds=3_600)
    await page.goto(f"{place.url}/tasks/{task}")
    buttons, dialog = page.locator(".taskacts"), page.get_by_role("dialog")
    await expect(page.locator(".next")).to_have_text("May become" + "running" + "aborted")
    await page.get_by_label("More acts").click()
    await page.locator(".pop").get_by_role("button", name="Force status").click()
    await expect(dialog.locator("option")).to_have_text(["paused"])
    await expect(dialog.get_by_label("Reason")).to_have_attribute("maxlength", "500")
    await page.keyboard.press("Escape")
    await to.intervene(task, "PAUSE", "the template is wrong")
    await expect(buttons.get_by_role("button", name="Pause")).to_have_count(0)
    await buttons.get_by_role("button", name="Resume").click()
    await dialog.get_by_label("Reason").fill("it is right again")
    await dialog.get_by_role("button", name="Resume").click()
    await to.until(f"/tasks/{task}", lambda body: body["held_by"] is None)
    await expect(buttons.get_by_role("button", name="Pause")).to_be_visible()
    await to.intervene(task, "ABORT", "it was a test")


async def test_the_path_of_a_revived_task_has_the_statuses_that_it_had(
    page: Page, site: Site
) -> None:
    """The replay of its parent makes it wait again; it is not queued."""
    place, to = site
    parent = await to.task("note.write", {"text": "no"})
    child = await to.task("invoice.render", {"customer": "later"}, depends_on=[parent])
    await to.until(f"/tasks/{child}", is_now("failed"))
    await to.intervene(parent, "RETRY", "once more")
    await to.until(f"/tasks/{child}/history", lambda page: has_died_twice(page["items"]))
    await page.goto(f"{place.url}/tasks/{child}")
    path = page.locator(".path li b")
    await expect(path).to_have_text(["blocked", "failed", "blocked", "failed"])
    for task in (child, parent):
        await to.intervene(task, "ABORT", "it was a test")


def has_died_twice(events: list[dict[str, Any]]) -> bool:
    return [event["kind"] for event in events].count("task.dead") == 2


async def test_a_schedule_is_run_paused_and_resumed(page: Page, site: Site) -> None:
    place, to = site
    await page.goto(f"{place.url}/schedules?name=report.daily")
    sheet = page.get_by_role("complementary", name="report.daily")
    await expect(sheet.locator(".next10 li")).to_have_count(10)
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="New schedule").click()
    for spec, words in (("5 * * * *", "Every hour, minute 5"), ("99 * * * *", "99 * * * *")):
        await dialog.get_by_label("When").fill(spec)
        await expect(dialog.locator("small", has_text=words).first).to_be_visible()
    await page.keyboard.press("Escape")
    await sheet.get_by_role("button", name="Run now").click()
    await dialog.get_by_role("button", name="Run it once").click()
    await expect(page.locator(".toast")).to_contain_text("Its task was enqueued")
    await sheet.get_by_role("button", name="Pause").click()
    await dialog.get_by_label("Reason").fill("the bucket moves")
    await dialog.get_by_role("button", name="Pause").click()
    await expect(sheet.get_by_role("button", name="Resume")).to_be_visible()
    await expect(sheet.locator(".next10 li")).to_have_count(0)
    assert (await to.ask("GET", "/schedules/report.daily"))["paused"]
    await sheet.get_by_role("button", name="Resume").click()
    await dialog.get_by_role("button", name="Resume").click()
    await expect(sheet.locator(".next10 li")).to_have_count(10)
