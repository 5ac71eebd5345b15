"""What people share in the pages: views of tasks, templates of commands, tokens, webhooks."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.fill import Filler
from tests.browser.place import Place, open_page

pytestmark = pytest.mark.asyncio(loop_scope="package")
Site = tuple[Place, Filler]


async def test_a_view_is_saved_for_everyone_and_removed(
    page: Page, browser: Browser, site: Site
) -> None:
    place, to = site
    await page.goto(f"{place.url}/tasks?q=status:queued+type:invoice.*")
    await page.get_by_role("button", name="Save view").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("Late money")
    await page.keyboard.press("Enter")
    view = page.locator(".views").get_by_role("link", name="Late money")
    await expect(view).to_have_attribute("aria-current", "page")
    await expect(page.get_by_role("button", name="Save view")).to_have_count(0)
    made = await to.ask("POST", "/tokens", {"name": "vera", "roles": ["viewer"]})
    other = await open_page(browser, place, made["token"])
    await other.goto(f"{place.url}/tasks")
    await other.locator(".views").get_by_role("link", name="Late money").click()
    await other.wait_for_url("**/tasks?q=status%3Aqueued+type%3Ainvoice.*")
    await expect(other.get_by_role("button", name="Remove the view Late money")).to_have_count(0)
    await other.context.close()
    await page.get_by_role("button", name="Remove the view Late money").click()
    await dialog.get_by_role("button", name="Remove it").click()
    await expect(view).to_have_count(0)


async def test_a_command_becomes_a_template_and_a_form_again(page: Page, site: Site) -> None:
    place, to = site
    selector = "sim-%5B0001-0004%5D"
    await page.goto(
        f"{place.url}/fleet/new?selector={selector}&type=restart&command=nginx&failed=3"
    )
    await page.get_by_role("button", name="Save as template").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("restart nginx")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.locator(".toast")).to_contain_text("for everyone in the project")
    assert "/fleet/new" in page.url, "the form behind the dialog was not sent"
    [kept] = (await to.ask("GET", "/presets?kind=template"))["items"]
    assert (kept["body"]["selector"], kept["body"]["rollout"]["budget"]["failed"]) == (
        "sim-[0001-0004]",
        3,
    )
    await page.goto(f"{place.url}/fleet/new")
    await page.get_by_text("From template").click()
    await page.get_by_role("button", name=re.compile("^restart nginx")).click()
    await expect(page.get_by_label("Hosts").first).to_have_value("sim-[0001-0004]")
    await expect(page.get_by_label("The unit to restart")).to_have_value("nginx")
    await expect(page.get_by_role("complementary", name="Plan")).to_contain_text("4 of 4 hosts")


async def test_the_secret_of_a_token_is_shown_once(page: Page, site: Site) -> None:
    place, to = site
    await page.goto(f"{place.url}/settings/tokens")
    await page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("ci-deploy")
    await dialog.get_by_role("button", name="Make the token").click()
    first = await dialog.locator("[data-secret]").inner_text()
    assert first.startswith("hf_user_")
    await dialog.get_by_role("button", name="I have it").click()
    await expect(page.locator("body")).not_to_contain_text(first)
    await page.get_by_role("button", name="Rotate ci-deploy").click()
    await dialog.get_by_label("Reason").fill("it was in a log")
    await dialog.get_by_role("button", name="Make another secret").click()
    second = await dialog.locator("[data-secret]").inner_text()
    assert second.startswith("hf_user_")
    assert second != first
    await dialog.get_by_role("button", name="I have it").click()
    await page.get_by_role("button", name="Revoke ci-deploy").click()
    await dialog.get_by_role("button", name="Revoke the token").click()
    await expect(page.get_by_role("button", name="Revoke ci-deploy")).to_have_count(0)
    tokens = (await to.ask("GET", "/tokens?limit=200"))["items"]
    assert [one["state"] for one in tokens if one["name"] == "ci-deploy"] == ["revoked"]
    reasons = [row["reason"] for row in (await to.ask("GET", "/audit?limit=5"))["items"]]
    assert "it was in a log" in reasons


async def test_a_webhook_is_made_tested_rotated_and_removed(page: Page, site: Site) -> None:
    place, to = site
    await page.goto(f"{place.url}/settings/webhooks")
    await page.get_by_role("button", name="New webhook").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Address").fill("http://example.com/hook")
    await dialog.get_by_role("button", name="Make the webhook").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("https")
    await dialog.get_by_label("Address").fill("https://hook.invalid/x")
    await dialog.get_by_label("Name").fill("chat")
    await dialog.get_by_label("Kinds").fill("job.finished task.dead")
    await dialog.get_by_role("button", name="Make the webhook").click()
    await expect(dialog.locator("[data-secret]")).to_contain_text("whsec_")
    await dialog.get_by_role("button", name="I have it").click()
    await page.get_by_role("button", name="Test chat").click()
    await expect(page.get_by_role("row", name=re.compile("webhook.test"))).to_be_visible()
    await page.get_by_role("button", name="Rotate chat").click()
    await dialog.get_by_role("button", name="Make another secret").click()
    await dialog.get_by_role("button", name="I have it").click()
    await expect(page.get_by_text("2 secrets count")).to_be_visible()
    await page.get_by_role("button", name="Retire the old secret of chat").click()
    await dialog.get_by_role("button", name="Retire it").click()
    await expect(page.get_by_text("2 secrets count")).to_have_count(0)
    await page.get_by_role("button", name="Disable chat").click()
    await dialog.get_by_role("button", name="Disable").click()
    await expect(page.get_by_role("button", name="Enable chat")).to_be_visible()
    await page.get_by_role("button", name="Remove chat").click()
    await dialog.get_by_role("button", name="Remove the webhook").click()
    await expect(page.get_by_text("No other system gets events")).to_be_visible()
    assert (await to.ask("GET", "/webhooks"))["items"] == []
