"""The first steps of `holdfast dev`: they tick by what is done, and hide when they are asked to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import expect

from tests.browser.place import ADMIN, chromium
from tests.launcher import launcher


@pytest.fixture
def said(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What a `holdfast dev` without hosts has printed, by name, when its sample is complete."""
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "HOLDFAST_ADMIN_TOKEN": ADMIN}
    command = ["dev", "--port", "0", "--hosts", "0"]
    with (
        (tmp_path / "stderr").open("w") as stderr,
        launcher().running(command, tmp_path, env, stderr) as child,
    ):
        assert child.stdout is not None
        words: dict[str, str] = {}
        for line in child.stdout:
            name, _, text = line.strip().partition(" ")
            words[name] = text.strip()
            if name == "sample":
                break
        yield words


async def test_the_steps_tick_by_themselves(said: dict[str, str]) -> None:
    async with chromium() as browser:
        context = await browser.new_context(viewport={"width": 1440, "height": 900})
        page = await context.new_page()
        await page.goto(said["open"])
        line = page.get_by_role("region", name="First steps")
        await expect(line).to_contain_text("0 of 4 done")
        await line.get_by_role("link", name="Open the import").click()
        await page.wait_for_url("**/tasks/*")
        await page.get_by_role("link", name="Overview").first.click()
        await expect(line).to_contain_text("1 of 4 done")
        await line.get_by_role("link", name="All steps").click()
        steps = page.get_by_role("region", name="All steps")
        await expect(steps.locator("[data-step]")).to_have_count(4)
        await expect(steps.locator("[data-step=watch]")).to_have_attribute("data-done", "true")
        async with httpx2.AsyncClient(
            base_url=said["open"].partition("/login")[0] + "/api/v1",
            headers={"Authorization": f"Bearer {ADMIN}"},
        ) as elsewhere:
            decision = (await elsewhere.get("/decisions?q=state:open")).json()["items"][0]
            await elsewhere.post(f"/decisions/{decision['id']}", json={"choice": "close anyway"})
        await expect(steps.locator("[data-step=decide]")).to_have_attribute("data-done", "true")
        await page.get_by_role("button", name="Hide the steps").click()
        await page.wait_for_url("**/")
        await page.reload()
        await expect(page.locator(".need")).to_be_visible()
        await expect(line).to_have_count(0)
