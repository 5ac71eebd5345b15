"""The screens of the fleet: jobs on simulated hosts, orders, votes, plans, blocks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.browser.fill import Filler
from tests.browser.place import PHONE, Place, Sins, open_page

pytestmark = pytest.mark.asyncio(loop_scope="package")
Site = tuple[Place, Filler]
HOSTS = "sim-[0001-0024]"
MARKUP = "<img src=x onerror=document.title=1> \u202egnp.exe"
FREE: dict[str, Any] = {"canary_budget": None, "budget": {"failed": None}}


async def job(to: Filler, command: str, name: str, **fields: Any) -> str:
    body = {"command_type": "exec", "command": command, "external_id": name, "selector": HOSTS}
    return str((await to.ask("POST", "/jobs", {**body, **fields}))["job_id"])


async def test_a_job_is_followed_and_its_output_is_shown_not_obeyed(page: Page, site: Site) -> None:
    place, to = site
    rollout = {**FREE, "waves": [2, "rest"], "gate": "ask"}
    made = await job(to, f"echo '{MARKUP}'", "motd", rollout=rollout)
    await page.goto(f"{place.url}/fleet/jobs/{made}")
    await expect(page.get_by_text("2 of 24 hosts have ended")).to_be_visible()
    await page.get_by_role("button", name="Review wave 2").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("What happens")).to_contain_text("start in wave 2")
    await dialog.get_by_role("button", name="Open the wave").click()
    await expect(page.get_by_text("24 hosts ended")).to_be_visible()
    matrix = page.get_by_role("application")
    await expect(matrix).to_have_accessible_name(
        "24 hosts: 24 success. Arrow keys move between hosts, enter opens one."
    )
    output = page.locator(".fold")
    await expect(output).to_contain_text("24 hosts")
    await expect(output).to_contain_text(MARKUP.replace("\u202e", "⟨202E⟩"))
    await matrix.focus()
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("Enter")
    sheet = page.locator(".drawer")
    await expect(sheet).to_contain_text("succeeded, exit 0")
    await expect(sheet.locator("pre.out")).to_contain_text("<img src=x")
    assert "host=sim-" in page.url
    assert await page.locator(".page img").count() == 0
    assert await page.title() != "1"
    await page.keyboard.press("Escape")
    await expect(sheet).to_have_count(0)


async def test_orders_show_their_effect_and_need_a_reason(page: Page, site: Site) -> None:
    place, to = site
    made = await job(to, "sleep 600", "long", rollout={**FREE, "waves": [], "max_in_flight": 2})
    await page.goto(f"{place.url}/fleet/jobs/{made}")
    await expect(page.locator(".leg")).to_contain_text("2running")
    await page.keyboard.press("Shift+P")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("What happens")).to_contain_text("wait until it is resumed22")
    await dialog.get_by_role("button", name="Pause").click(force=True)
    await expect(page.locator(".toast")).to_contain_text("Give a reason first")
    await dialog.get_by_label("Reason").fill("the graphs look odd")
    await page.keyboard.press("Enter")
    await expect(page.locator(".banner")).to_contain_text("Paused by admin: the graphs look odd")
    await page.get_by_role("button", name="Change the window").click()
    await dialog.get_by_label("Hosts at the same time").fill("3")
    await dialog.get_by_role("button", name="Change").click()
    await expect(page.get_by_role("button", name="Change the window")).to_have_text("In flight 3…")
    await page.get_by_role("button", name="Abort").click()
    await dialog.get_by_label("End them").check()
    await dialog.get_by_label("Reason").fill("wrong command")
    await dialog.get_by_role("button", name="Abort 24 hosts").click()
    await expect(page.locator(".leg")).to_contain_text("24skipped")
    ended = await to.until(f"/jobs/{made}", lambda body: body["finished_at"])
    assert (ended["status"], ended["halt"]["reason"]) == ("CANCELLED", "wrong command")


async def test_an_approval_is_given_on_a_phone(browser: Browser, site: Site) -> None:
    place, to = site
    asking = Filler(
        to.url, (await to.ask("POST", "/tokens", {"name": "marta", "roles": ["operator"]}))["token"]
    )
    made = await job(asking, "true", "certs", command_type="shell", reason="renew, change 12")
    await asking.close()
    page = await open_page(browser, place, viewport=PHONE, is_mobile=True, has_touch=True)
    sins = Sins(place.url)
    sins.watch(page)
    await page.goto(f"{place.url}/inbox")
    await page.get_by_role("link", name="Approve certs").tap()
    detail = page.locator(".det")
    await expect(detail).to_contain_text("renew, change 12")
    await expect(detail).to_contain_text("The hosts are the same as when it was asked")
    await page.get_by_role("button", name="Approve 24 hosts").tap()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Yours is the last vote")
    await dialog.get_by_label("Reason").fill("checked")
    await dialog.get_by_role("button", name="Approve 24 hosts").tap()
    await expect(page.locator(".det .banner")).to_contain_text("It is approved")
    assert not await page.evaluate("document.documentElement.scrollWidth > screen.width + 1")
    voted = await to.ask("GET", f"/jobs/{made}")
    assert [vote["reason"] for vote in voted["approval"]["votes"]] == ["checked"]
    await page.context.close()
    assert sins.found == []


async def test_a_command_is_planned_then_run(page: Page, site: Site) -> None:
    place, to = site
    newest = (await to.ask("GET", "/jobs?limit=1"))["items"][0]["id"]
    await page.goto(f"{place.url}/fleet/new")
    await page.get_by_label("Hosts").first.fill("sim-[0001-0008")
    await expect(page.get_by_role("alert").first).to_be_visible()
    await page.get_by_label("Hosts").first.fill("sim-[0001-0008]")
    await page.get_by_role("button", name="ping").click()
    plan = page.get_by_role("complementary", name="Plan")
    await expect(plan).to_contain_text("8 of 8 hosts, 3 waves")
    await expect(plan).to_contain_text("It needs no approval")
    await page.wait_for_url("**/fleet/new?selector=*")
    assert (await to.ask("GET", "/jobs?limit=1"))["items"][0]["id"] == newest
    await plan.get_by_role("button", name="Run").click()
    await page.wait_for_url("**/fleet/jobs/job_*")
    await expect(page.get_by_text("8 hosts ended")).to_be_visible()


async def test_a_host_is_blocked_and_the_block_is_lifted(page: Page, site: Site) -> None:
    place, _ = site
    await page.goto(f"{place.url}/fleet/hosts?q=sim-002")
    await page.get_by_role("link", name="sim-0024").click()
    await page.get_by_role("button", name="Block").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("disk swap")
    await dialog.get_by_role("button", name="Add the block").click()
    banner = page.locator(".banner")
    await expect(banner).to_contain_text("A block refuses all commands: disk swap")
    await banner.get_by_role("button", name="Lift").click()
    await dialog.get_by_role("button", name="Lift the block").click()
    await expect(banner).to_have_count(0)


async def test_10_000_hosts_are_drawn_and_grouped(page: Page, site: Site) -> None:
    place, to = site
    made = (await to.ask("GET", "/jobs?status=RUNNING&limit=1"))["items"][0]["id"]
    many = 10_000

    async def answer(route: Route) -> None:
        body = {
            "job_id": made,
            "version": 1,
            "kinds": {"a": "succeeded", "b": "failed", "c": "running", "d": "awaiting_wave"},
            "cells": ("a" * 20 + "bccdd") * (many // 25),
            "hosts": [f"r{n // 24}-n{n:05}" for n in range(many)],
            "waves": [n // 4_000 + 1 for n in range(many)],
            "labels": {"zone": [f"z{n % 7}" for n in range(many)]},
        }
        await route.fulfill(content_type="application/json", body=json.dumps(body))

    await page.route("**/matrix*", answer)
    await page.goto(f"{place.url}/fleet/jobs/{made}")
    await expect(page.get_by_role("application")).to_have_accessible_name(
        "10,000 hosts: 8,000 success, 800 running, 800 waiting, 400 failed. Arrow keys move between hosts, "
        "enter opens one."
    )
    group = page.get_by_role("group", name="Group by")
    for word in ("Wave", "Outcome", "Zone") * 2:
        await group.get_by_role("button", name=word).click()
        await expect(group.get_by_role("button", name=word)).to_have_attribute(
            "aria-pressed", "true"
        )
    drawn = await page.evaluate("performance.getEntriesByName('matrix').map((one) => one.duration)")
    assert len(drawn) >= 6, "each grouping draws; how fast is measured by proof.bench.pages"


async def test_failed_executions_are_retried_by_their_job(page: Page, site: Site) -> None:
    place, to = site
    made = await job(to, "false", "nightly-false", rollout={**FREE, "waves": []})
    await to.until(f"/jobs/{made}", lambda body: body["finished_at"])
    task = (await to.ask("GET", "/tasks?q=status:failed%20type:fleet.run&limit=1"))["items"][0]
    await page.goto(f"{place.url}/tasks/{task['id']}")
    await expect(page.get_by_role("link", name="Open the job").first).to_be_visible()
    await expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    await page.goto(place.url)
    need = page.locator(".need li").filter(has_text="nightly-false")
    more = page.get_by_role("button", name="more")
    await page.wait_for_selector(".need")
    if await more.count():
        await more.click()
    await expect(need).to_contain_text("24 hosts of job nightly-false did not succeed")
    await need.get_by_role("link", name="Retry failed").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Retry").click()
    await page.wait_for_url(lambda url: "/fleet/jobs/job_" in url and made not in url)
    await page.goto(place.url)
    await page.wait_for_selector(".need")
    await expect(need).to_have_count(0)
