"""Browser and server of the tests of pages: each pytest process starts one of both."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.browser.fill import Filler
from tests.browser.place import Place, Sins, chromium, filled, open_page


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def site() -> AsyncIterator[tuple[Place, Filler]]:
    async with filled() as made:
        yield made


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="package")
async def page(browser: Browser, site: tuple[Place, Filler]) -> AsyncIterator[Page]:
    """A page of the administrator, nothing loaded. A test fails if the page does what none may."""
    opened = await open_page(browser, site[0], path="")
    sins = Sins(site[0].url)
    sins.watch(opened)
    yield opened
    await opened.context.close()
    assert sins.found == []
