"""A browser with a page that is logged in, and what its processes cost."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psutil
from playwright.async_api import Browser, Page, async_playwright

from proof.bench.gateway import TOKEN
from proof.lab.chromium import FLAGS, find_chromium

WIDE: Any = {"width": 1440, "height": 900}
LIVE = "[data-mark=live], [data-mark=caught-up]"
WAIT_MS = 60_000


@asynccontextmanager
async def opened() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=[*FLAGS])
        yield browser
        await browser.close()


async def log_in(browser: Browser, url: str) -> Page:
    context = await browser.new_context(viewport=WIDE)
    context.set_default_timeout(WAIT_MS)
    page = await context.new_page()
    await page.goto(f"{url}/login")
    await page.get_by_label("Token").fill(TOKEN)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_selector(LIVE)
    return page


def renderer_seconds() -> float:
    """CPU time of the processes that run pages and their workers, below this process."""
    total = 0.0
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            if "--type=renderer" in process.cmdline():
                spent = process.cpu_times()
                total += spent.user + spent.system
        except psutil.NoSuchProcess:
            continue
    return total
