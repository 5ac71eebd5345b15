"""Every screen in both themes, wide and on a phone: nothing throws, nothing is cut off, axe finds nothing.

HOLDFAST_SHOTS=folder pytest tests/browser/test_screens.py      # also takes the pictures
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App, CycloptsError
from playwright.async_api import Browser, Page, expect

from holdfast.cli.main import find
from holdfast.cli.problem import Usage
from holdfast.cli.run import joined_command, load
from tests.browser.fill import Filler
from tests.browser.place import PHONE, WIDE, Place, Sins, open_page
from tests.launcher import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="package")
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
LIVE = "[data-mark=live], [data-mark=caught-up]"
OFFERED = ".cl .cut, .empty code, .well.one"
OFFERING = {
    *("inbox", "task", "task-failed", "task-output", "dead-letters", "schedules", "node", "job"),
    *("job-approval", "job-table", "approval", "new-command", "host", "conflicts", "operations"),
    "start",
}
"""Screens that offer a command whatever the sample has done."""
SHOTS = os.environ.get("HOLDFAST_SHOTS")
DIALOGS = (("palette", "/", "Control+k"), ("keys", "/queues", "?"))
PARTS = 8
"""Tests of the screens in one size and theme: each takes a share of them."""
ALIKE = """() => {
    const left = [];
    const known = new WeakMap();
    const of = (e) => [
        e.tagName,
        e.getAttribute("class"),
        (e.getAttribute("style") ?? "").replace(/[\\d.]+(px|%)/g, "#"),
        e.getAttributeNames().sort(),
        e.textContent.trim() === "",
        [...e.children].map(shape),
    ].join("|");
    const shape = (e) => known.get(e) ?? known.set(e, of(e)).get(e);
    const walk = (parent) => {
        const seen = new Map();
        for (const each of parent.children) {
            const count = (seen.get(shape(each)) ?? 0) + 1;
            seen.set(shape(each), count);
            count > 2 ? left.push(each) : walk(each);
        }
    };
    walk(document.body);
    return left;
}"""
"""Elements that differ only in text and place from two that stand beside them: the other rows of a list."""
JUDGED = """([left, tags]) => axe.run({exclude: left}, {
    runOnly: {type: "tag", values: tags},
    resultTypes: ["violations"],
    preload: false,
})"""


async def paths(to: Filler) -> dict[str, str]:
    """The screens, each with something on it."""

    async def first(path: str, name: str = "id") -> str:
        return str((await to.ask("GET", path))["items"][0][name])

    stuck = await to.until("/tasks?q=status:stuck", lambda body: body["items"])
    node = await to.ask("GET", "/nodes")
    worker = next(one["id"] for one in node["items"] if one["workers"])
    return {
        "overview": "/",
        "inbox": f"/inbox/{await first('/decisions?q=state:open')}",
        "tasks": "/tasks",
        "tasks-none": "/tasks?q=type:nothing",
        "task": f"/tasks/{stuck['items'][0]['id']}",
        "task-failed": f"/tasks/{await first('/tasks?q=type:note.write')}",
        "task-output": f"/tasks/{await first('/tasks?q=status:completed')}?tab=output",
        "dead-letters": f"/dead-letters?cause={await first('/dead-letters/groups', 'fingerprint')}",
        "queues": "/queues",
        "schedules": "/schedules?name=report.daily",
        "nodes": "/nodes?show=all",
        "node": f"/nodes/{worker}",
        "jobs": "/fleet",
        "job": f"/fleet/jobs/{await first('/jobs?q=status:RUNNING')}",
        "job-approval": f"/fleet/jobs/{await first('/approvals', 'job_id')}",
        "job-table": f"/fleet/jobs/{await first('/jobs?q=status:RUNNING')}?view=table&host=ams1-n03",
        "approval": f"/inbox/{await first('/approvals', 'job_id')}",
        "new-command": "/fleet/new?selector=site%3Dams1&type=restart&command=nginx",
        "hosts": "/fleet/hosts",
        "host": "/fleet/hosts/ams1-n03",
        "groups": "/fleet/groups",
        "blocks": f"/fleet/blocks?id={await first('/blocks')}",
        "sync": "/sync",
        "conflicts": f"/conflicts/{await first('/conflicts')}",
        "locks": "/locks",
        "events": "/events",
        "events-found": "/events?q=kind%3Atask.failed%20age%3A%3C1h&kinds=fail",
        "audit": "/events?tab=audit",
        "audit-found": "/events?tab=audit&q=actor%3A~admin",
        "operations": "/operations",
        "settings": "/settings",
        "tokens": "/settings/tokens",
        "roles": "/settings/roles",
        "webhooks": "/settings/webhooks",
        "start": "/start",
        "about": "/settings/about",
    }


def unread(command: str) -> str:
    """Why the command line cannot read a command that a page offers. Empty: it can."""
    try:
        verb, arguments = find(shlex.split(command)[1:])
        app = App(version_flags=())
        app.default(load(verb))
        app.parse_args(joined_command(arguments), exit_on_error=False, print_error=False)
    except (CycloptsError, Usage, ValueError) as error:
        return f"{command}: {error}"
    return ""


async def found_by_axe(page: Page) -> list[str]:
    await page.evaluate(AXE.read_text(encoding="utf-8"))
    result: dict[str, Any] = await page.evaluate(f"({JUDGED})([({ALIKE})(), {json.dumps(RULES)}])")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:160]}"
        for one in result["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("size", "theme"),
    [
        ("wide", "light"),
        ("phone", "dark"),
        *([("wide", "dark"), ("phone", "light")] if SHOTS else []),
    ],
)
async def test_every_screen(
    browser: Browser, site: tuple[Place, Filler], size: str, theme: str, part: int
) -> None:
    place, to = site
    is_phone = size == "phone"
    page = await open_page(
        browser,
        place,
        path="",
        viewport=PHONE if is_phone else WIDE,
        color_scheme=theme,
        reduced_motion="reduce",
        is_mobile=is_phone,
        has_touch=is_phone,
    )
    sins = Sins(place.url)
    sins.watch(page)
    wrong: list[str] = []
    offered: set[str] = set()
    for name, path in [*(await paths(to)).items()][part::PARTS]:
        await show(page, f"{place.url}{path}")
        if SHOTS:
            shot = Path(SHOTS) / f"{name}-{size}-{theme}.png"
            await page.screenshot(path=shot, full_page=not is_phone)
        # The width of a phone's window grows with what overflows: that of its screen does not.
        if await page.evaluate("document.documentElement.scrollWidth > screen.width + 1"):
            wrong.append(f"{name} scrolls sideways")
        wrong += [f"{name} {found}" for found in await found_by_axe(page)]
        found = await page.locator(OFFERED).all_text_contents()
        if name in OFFERING and not found:
            wrong.append(f"{name} offers no command")
        offered.update(found)
    wrong += filter(None, (unread(one) for one in sorted(offered) if one.startswith("holdfast ")))
    for name, path, keys in DIALOGS[part : part + 1]:
        await show(page, f"{place.url}{path}")
        await page.keyboard.press(keys)
        await expect(page.get_by_role("dialog")).to_be_visible()
        wrong += [f"{name} {found}" for found in await found_by_axe(page)]
    await page.context.close()
    assert wrong + sins.found == []


async def show(page: Page, url: str) -> None:
    """Opens a screen and waits until all of it is there."""
    await page.goto(url)
    await page.wait_for_selector(LIVE)
    await page.wait_for_selector(".page h1, .det h1", state="attached")
    await expect(page.locator(".skel")).to_have_count(0)
