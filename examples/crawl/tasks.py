"""The tasks: fetch pages of a customer, parse each in a process, and write one report.

holdfast worker tasks:queue --processes 2
"""

import asyncio
import os
import re

from holdfast import BlockingContext, Context, Edge, Reject, TaskQueue

queue = TaskQueue(os.environ.get("HOLDFAST_URL", "sqlite:///crawl.db"))
PAGES = {
    "/": "<title>Home</title><a href='/about'>about</a>",
    "/about": "<title>About us</title>",
    "/flaky": "<title>At the second try</title>",
}


@queue.task(max_attempts=4, retry_delay=0.1, timeout=10, key_concurrency=1, give_up_on=ValueError)
async def fetch(ctx: Context, site: str, path: str) -> str:
    """One page. At most one fetch at a time for each site, which is the key."""
    if not site.startswith("https://"):
        raise ValueError(f"{site} is not https")  # another attempt would not help
    if path == "/flaky" and ctx.attempt == 1:
        raise ConnectionError(f"{site} did not answer")
    await asyncio.sleep(0)  # in place of the network
    if path not in PAGES:
        raise Reject(f"{site}{path} does not exist")
    return PAGES[path]


@queue.task(isolation="process", timeout=20)
def parse(ctx: BlockingContext) -> str:
    """The title of the page. In a process: a page that hangs the parser is killed by the timeout."""
    [page] = ctx.parents().values()
    found = re.search(r"<title>(.*?)</title>", fetch.result_of(page))
    return found[1] if found else ""


@queue.task(priority="high")
async def report(ctx: Context, site: str) -> list[str]:
    """The titles. Pages that failed are left out, and named."""
    titles = []
    parents = (await ctx.parents()).values()
    for number, page in enumerate(parents, start=1):
        titles.append(parse.result_of(page) if page.status == "completed" else "(failed)")
        await ctx.progress(number / len(parents), f"{number} of {len(parents)} pages of {site}")
    return titles


@queue.task(cron="@every 5m", priority="low")
async def remind() -> str:
    """Fires once each five minutes, whatever the number of workers."""
    stats = await queue.get_stats()
    return f"{stats.dead_letter_count} dead letters"


def crawl(site: str, paths: list[str], request_id: str) -> list[dict[str, object]]:
    """The tasks of one crawl, for `enqueue_many`: all of them or none. The report is the last one. The ids
    make a repeated request harmless: its tasks are there already."""
    tasks: list[dict[str, object]] = []
    parsed: list[Edge] = []
    for number, path in enumerate(paths):
        fetch_id, parse_id = f"{request_id}-fetch-{number}", f"{request_id}-parse-{number}"
        tasks.append({**fetch.request(site, path), "id": fetch_id, "key": site})
        tasks.append({**parse.request(), "id": parse_id, "depends_on": [fetch_id]})
        parsed.append(Edge(parse_id, "ignore"))
    tasks.append({**report.request(site), "id": f"{request_id}-report", "depends_on": parsed})
    return tasks
