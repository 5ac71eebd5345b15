"""A replay of many dead letters, some of which failed with others of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.gateway.support import Site
from tests.integration.gateway.test_bulk_runs import begin, dead, look


async def dead_tree(site: Site) -> None:
    """A parent that failed, a child and a grandchild that failed with it."""
    await site.task(id="first")
    await site.task(id="parent", depends_on=["first"])
    await site.task(id="child", depends_on=["parent"])
    await site.task(id="grandchild", depends_on=["child"])
    await dead(site, ["parent"])
    assert await statuses(site) == ["failed"] * 3


async def statuses(site: Site) -> list[str]:
    return [await status(site, name) for name in ("parent", "child", "grandchild")]


async def status(site: Site, name: str) -> str:
    return str((await site.ask("GET", f"/tasks/{name}")).json()["status"])


@pytest.mark.parametrize(
    "which", [{"q": "type:mail"}, {"ids": ["grandchild", "child", "parent"]}], ids=["q", "ids"]
)
async def test_dependents_come_back_with_their_parents(site: Site, which: dict[str, Any]) -> None:
    """A replay of their own would start them before their parents have ended."""
    await dead_tree(site)
    body = {"action": "replay", **which}
    foreseen = (await site.ask("POST", "/operations", body | {"dry_run": True})).json()
    assert (foreseen["count"], foreseen["eligible"]) == (1, 1)
    assert foreseen["skipped"] == [{"reason": "returns-with-parent", "count": 2}]
    run = await look(site, (await begin(site, body | {"expect_count": 1}))["id"])
    assert (run["total"], run["done"], run["failed"]) == (1, 1, 0)
    assert await statuses(site) == ["queued", "blocked", "blocked"]


async def test_a_list_has_the_size_of_a_long_patch(site: Site) -> None:
    await dead_tree(site)
    patch = {"text": "x" * 10_000}
    run = await begin(site, {"action": "replay", "q": "type:mail", "args": {"patch": patch}})
    [row] = (await site.ask("GET", "/operations")).json()["items"]
    assert row["args"] == {"patch_chars": 10_011}
    assert (await look(site, run["id"]))["args"] == {"patch": patch}


async def test_a_dependent_whose_parent_stays_dead_is_replayed(site: Site) -> None:
    await dead_tree(site)
    run = await begin(site, {"action": "replay", "ids": ["grandchild", "child"]})
    assert (await look(site, run["id"]))["done"] == 1
    assert await statuses(site) == ["failed", "queued", "blocked"]
