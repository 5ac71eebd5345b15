"""The tasks in virtual time: no database and no waiting."""

import asyncio

from tasks import crawl, fetch, queue, remind

from holdfast import testing


async def run(site: str, *paths: str) -> list[str]:
    async with testing.harness(queue) as h:
        *_, last = await queue.enqueue_many(crawl(site, list(paths), "r1"))
        await h.advance(5)
        titles: list[str] = await last.result()
        return titles


def test_the_titles_of_all_pages_are_reported() -> None:
    assert asyncio.run(run("https://example.com", "/", "/about")) == ["Home", "About us"]


def test_a_page_that_fails_once_is_fetched_again() -> None:
    assert asyncio.run(run("https://example.com", "/flaky")) == ["At the second try"]


def test_a_page_that_does_not_exist_is_named_and_the_others_are_reported() -> None:
    assert asyncio.run(run("https://example.com", "/", "/gone")) == ["Home", "(failed)"]


def test_a_site_without_https_spends_no_further_attempt() -> None:
    async def scenario() -> tuple[str, int]:
        async with testing.harness(queue) as h:
            task = await fetch.enqueue("http://example.com", "/")
            await h.run_until_idle()
            found = await task.get()
            return found.status.value, found.attempts

    assert asyncio.run(scenario()) == ("failed", 1)


def test_the_reminder_comes_every_five_minutes() -> None:
    async def scenario() -> int:
        async with testing.harness(queue) as h:
            await h.advance(16 * 60)
            return len(await h.assert_enqueued(remind))

    assert asyncio.run(scenario()) == 3
