"""The measurements of the pages (`proof.bench.pages`) can be taken. No figure is judged here."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from proof.bench.pages import browser as bench_browser, figures
from proof.bench.pages.main import table
from tests.browser.fill import Filler
from tests.browser.place import ADMIN, Place

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_each_figure_of_a_list_and_of_the_feed_can_be_taken(
    browser: Browser, site: tuple[Place, Filler], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = site
    for module in (figures, bench_browser):
        monkeypatch.setattr(module, "TOKEN", ADMIN)
    found = [figures.script_bytes(), *await figures.first_list(browser, place.url, 1)]
    task = {"type": "crawl.site", "payload": {"site": "pixel.example"}}
    found.append(await figures.event_to_pixel(browser, place.url, 1, task))
    found.append(await figures.streams(browser, place.url, 2))
    found.append(await figures.matrix(browser, place.url, 500, 1))
    names = [one.name for one in found]
    assert names[:3] == ["initial script", "first list", "failed ones"]
    assert all(one.value > 0 for one in found)
    written = table(found)
    assert all(name in written for name in names)
