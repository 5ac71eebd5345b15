"""The figures of the pages, each by itself: a number with its unit and its bound."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx2
from playwright.async_api import Browser, Route

from holdfast.web.files import DIST
from proof.bench.gateway import TOKEN
from proof.bench.pages.browser import LIVE, log_in, renderer_seconds

ROW = ".tasktable tbody tr"
SLOW_SECONDS = 30.0
"""How long a page may take to open on a busy machine: the job goes on for longer."""
PIXEL: Mapping[str, Any] = {"type": "pixel"}
CLICKED = """
([link, row, word]) => new Promise((done) => {
  const began = performance.now();
  const look = () => {
    const first = document.querySelector(row);
    if (first && first.textContent.includes(word)) done(performance.now() - began);
    else requestAnimationFrame(look);
  };
  document.querySelector(link).click();
  look();
})
"""
SEEN = """
() => {
  window.seen = {};
  const look = () => {
    for (const cell of document.querySelectorAll('.tasktable td.m.dim'))
      window.seen[cell.textContent] ??= Date.now();
  };
  new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
}
"""


class Figure(NamedTuple):
    name: str
    value: float
    unit: str
    bound: float
    note: str = ""


def script_bytes() -> Figure:
    """What a browser loads before the first screen is there, compressed."""
    sizes = json.loads((DIST / "manifest.json").read_text("utf-8"))["sizes"]
    return Figure(
        "initial script", sizes["script"] / 1_000, "kB gzip", 90, "application and largest screen"
    )


async def first_list(browser: Browser, url: str, rounds: int) -> list[Figure]:
    """From a click to the first row: all tasks, then the failed ones."""
    page = await log_in(browser, url)
    await page.goto(f"{url}/tasks")
    await page.wait_for_selector(ROW)
    spent: dict[str, list[float]] = {"first list": [], "failed ones": []}
    for _ in range(rounds):
        await page.locator('nav.nav a[href$="/queues"]').click()
        await page.wait_for_selector(ROW, state="detached")
        spent["first list"].append(
            await page.evaluate(CLICKED, ["nav.nav a[href$='/tasks']", ROW, ""])
        )
        button = ".fac button:nth-of-type(7)"
        await page.wait_for_selector(button)
        spent["failed ones"].append(await page.evaluate(CLICKED, [button, ROW, "failed"]))
    await page.context.close()
    return [
        Figure(name, statistics.median(ms), "ms", 300, f"median of {rounds}, worst {max(ms):.0f}")
        for name, ms in spent.items()
    ]


async def event_to_pixel(
    browser: Browser, url: str, events: int, task: Mapping[str, Any] = PIXEL
) -> Figure:
    """From before the request that makes a task until its row is in the list."""
    page = await log_in(browser, url)
    await page.goto(f"{url}/tasks")
    await page.wait_for_selector(LIVE)
    await page.evaluate(SEEN)
    sent: dict[str, float] = {}
    async with httpx2.AsyncClient(base_url=f"{url}/api/v1", headers=_headers()) as client:
        for _ in range(events):
            began = time.time() * 1_000
            made = await client.post("/tasks", json={**task, "delay_seconds": 3_600})
            short = str(made.json()["task"]["id"])[-8:]
            sent[short] = began
            await page.locator(ROW).filter(has_text=short).wait_for()
    seen: dict[str, float] = await page.evaluate("() => window.seen")
    await page.context.close()
    spent = sorted(seen[short] - began for short, began in sent.items())
    p99 = spent[min(len(spent) - 1, round(0.99 * len(spent)))]
    return Figure(
        "event to pixel, p99", p99, "ms", 500, f"{events} events, p50 {spent[len(spent) // 2]:.0f}"
    )


async def streams(browser: Browser, url: str, tabs: int) -> Figure:
    page = await log_in(browser, url)
    for _ in range(tabs - 1):
        other = await page.context.new_page()
        await other.goto(f"{url}/queues")
        await other.wait_for_selector(LIVE)
    async with httpx2.AsyncClient(headers=_headers()) as client:
        text = (await client.get(f"{url}/metrics")).text
    found = re.search(r'holdfast_ws_clients{transport="ws"} (\d+)', text)
    await page.context.close()
    assert found is not None, text[:500]
    return Figure(f"streams of {tabs} tabs", float(found[1]), "", 1)


async def matrix(browser: Browser, url: str, hosts: int, rounds: int) -> Figure:
    """One picture of all hosts of a job. The gateway has a small job; its answer is made large here."""
    async with httpx2.AsyncClient(base_url=f"{url}/api/v1", headers=_headers()) as client:
        body = {"command_type": "ping", "selector": "sim-0001", "external_id": "matrix"}
        job = (await client.post("/jobs", json=body)).json()["job_id"]
    page = await log_in(browser, url)
    await page.route("**/matrix*", lambda route: _large(route, job, hosts))
    await page.goto(f"{url}/fleet/jobs/{job}")
    group = page.get_by_role("group", name="Group by")
    await group.get_by_role("button", name="Outcome").wait_for()
    for _ in range(rounds):
        for button in await group.get_by_role("button").all():
            await button.click()
    read = "() => performance.getEntriesByName('matrix').map((one) => one.duration)"
    drawn: list[float] = await page.evaluate(read)
    await page.context.close()
    note = f"median of {len(drawn)}, worst {max(drawn):.1f}"
    return Figure(f"redraw of {hosts:,} cells", statistics.median(drawn), "ms", 16, note)


async def live_job(browser: Browser, url: str, hosts: int, seconds: float) -> Figure:
    """CPU of the renderer while a job on all simulated hosts is under way all the time."""
    page = await log_in(browser, url)
    job = await _started(url, hosts / (2 * seconds + SLOW_SECONDS))
    await page.goto(f"{url}/fleet/jobs/{job}")
    await page.get_by_role("application").wait_for()
    before, began = renderer_seconds(), time.perf_counter()
    await asyncio.sleep(seconds)
    share = (renderer_seconds() - before) / (time.perf_counter() - began)
    said = await page.locator(".prog .big").inner_text()
    await page.context.close()
    async with httpx2.AsyncClient(base_url=f"{url}/api/v1", headers=_headers()) as client:
        status = (await client.get(f"/jobs/{job}")).json()["status"]
    if status != "RUNNING":
        raise RuntimeError(f"the job was {status} before the measurement ended: give it more time")
    return Figure(
        "tab with a live job", 100 * share, "% of a core", 15, f"over {seconds:.0f} s; {said}"
    )


async def _started(url: str, rate: float) -> str:
    """A job on all hosts at this many starts a second, approved by a second person."""
    async with httpx2.AsyncClient(base_url=f"{url}/api/v1", headers=_headers()) as client:
        rollout: dict[str, Any] = {"waves": [], "rate_per_second": rate, "canary_budget": None}
        rollout["budget"] = {"failed": None, "timeout": None, "lost": None, "unreachable": None}
        body = {"command_type": "restart", "command": "nginx", "selector": "*", "rollout": rollout}
        made = (await client.post("/jobs", json=body)).json()
        if made["status"] != "WAIT_APPROVAL":
            return str(made["job_id"])
        token = await client.post("/tokens", json={"name": "second", "roles": ["approver"]})
        headers = {"Authorization": f"Bearer {token.json()['token']}"}
        path = f"/jobs/{made['job_id']}/approve"
        vote = {"expect_digest": made["digest"], "reason": "to measure it"}
        voted = await client.post(path, json=vote, headers=headers)
        assert voted.status_code == 200, voted.text
    return str(made["job_id"])


async def _large(route: Route, job: str, hosts: int) -> None:
    body = {
        "job_id": job,
        "version": 1,
        "kinds": {"a": "succeeded", "b": "failed", "c": "running", "d": "awaiting_wave"},
        "cells": (("a" * 20 + "bccdd") * (hosts // 25 + 1))[:hosts],
        "hosts": [f"r{n // 24}-n{n:05}" for n in range(hosts)],
        "waves": [3 * n // hosts + 1 for n in range(hosts)],
        "labels": {"zone": [f"z{n % 7}" for n in range(hosts)]},
    }
    await route.fulfill(content_type="application/json", body=json.dumps(body))


def _headers() -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}"}
