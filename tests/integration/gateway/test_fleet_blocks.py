"""Blocks over the API."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.token import TokenKind
from tests.integration.gateway.support import Site, problem


async def host(site: Site, name: str = "web-1", **labels: str) -> dict[str, Any]:
    made = await site.ask("POST", "/hosts", {"name": name, "labels": labels})
    answer: dict[str, Any] = made.json()
    return answer


async def block(site: Site, **fields: Any) -> dict[str, Any]:
    made = await site.ask("POST", "/blocks", {"reason": "disk swap", **fields})
    assert made.status_code == 201, made.text
    answer: dict[str, Any] = made.json()
    return answer


async def test_a_block_lives_over_the_api(site: Site) -> None:
    machine = await host(site)
    made = await block(site, host="web-1", command_type="restart", expires_in_seconds=3600)
    assert (made["host"], made["host_id"], made["selector"]) == ("web-1", machine["id"], None)
    assert (made["active"], made["owner"], made["effect"]) == (True, "user:admin", "refuse")
    assert 3500 < made["remaining_seconds"] <= 3600
    got = await site.ask("GET", f"/blocks/{made['id']}")
    assert (got.json()["affects"], got.json()["folded"]) == (1, "web-1")
    assert got.headers["etag"] == '"v1"'
    assert (await site.ask("GET", "/hosts/web-1")).json()["blocks"] == [made["id"]]

    change = {"effect": "hold", "expires_in_seconds": None, "reason": "longer"}
    match = {"If-Match": '"v1"'}
    changed = await site.ask("PATCH", f"/blocks/{made['id']}", change, headers=match)
    assert (changed.json()["effect"], changed.json()["expires_at"]) == ("hold", None)
    stale = await site.ask("PATCH", f"/blocks/{made['id']}", change, headers=match)
    assert problem(stale) == (412, "precondition-failed")

    lifted = await site.ask("DELETE", f"/blocks/{made['id']}", reason="done")
    assert (lifted.json()["active"], lifted.json()["lifted_by"]) == (False, "user:admin")
    again = await site.ask("DELETE", f"/blocks/{made['id']}", reason="done")
    assert again.json() == lifted.json()
    late = await site.ask("PATCH", f"/blocks/{made['id']}", {"reason": "x"})
    assert problem(late) == (409, "conflict")
    assert (await site.ask("GET", "/hosts/web-1")).json()["blocks"] == []
    assert (await site.ask("GET", "/blocks")).json()["items"] == []
    old = (await site.ask("GET", "/blocks", lifted="true")).json()["items"]
    assert [row["id"] for row in old] == [made["id"]]
    audit = (await site.ask("GET", "/audit")).json()["items"]
    acts = [row["operation"] for row in audit if row["subject"] == made["id"]]
    assert set(acts) == {"blocks.write"}


async def test_a_selector_shows_what_it_is_about(memory_site: Site) -> None:
    for number in (1, 2, 3):
        await host(memory_site, f"web-{number}", rack=f"r{number % 2}")
    made = await block(memory_site, selector="rack=r1", expires_at="2999-01-01T00:00:00Z")
    got = (await memory_site.ask("GET", f"/blocks/{made['id']}")).json()
    assert (got["affects"], got["folded"]) == (2, "web-[1,3]")
    assert got["expires_at"] == "2999-01-01T00:00:00.000Z"
    of_one = (await memory_site.ask("GET", "/blocks", host="web-2")).json()["items"]
    assert of_one == []
    of_other = (await memory_site.ask("GET", "/blocks", host="web-3")).json()["items"]
    assert [row["id"] for row in of_other] == [made["id"]]


async def test_a_block_says_when_it_counts_and_what_may_be_a_mistake(memory_site: Site) -> None:
    window = {"rrule": "FREQ=DAILY;BYHOUR=1", "duration_seconds": 108_000, "timezone": "UTC"}
    made = await block(memory_site, selector="*", command_type="rstart", window=window)
    assert made["warnings"][0].startswith("no command type matches 'rstart' now: ")
    assert "exec" in made["warnings"][0]
    assert "always counts" in made["warnings"][1]
    assert len(made["next_windows"]) == 3
    assert made["next_windows"][0].endswith("T01:00:00.000Z")
    assert made["until"] > made["next_windows"][0]
    right = await block(memory_site, selector="*", command_type="re*")
    assert (right["warnings"], right["next_windows"], right["until"]) == ([], [], None)


async def test_pages_of_blocks_have_each_once(memory_site: Site) -> None:
    ids = {(await block(memory_site, selector="*"))["id"] for _ in range(5)}
    found, after = [], None
    while True:
        params: dict[str, Any] = {"limit": 2} | ({} if after is None else {"after": after})
        body = (await memory_site.ask("GET", "/blocks", **params)).json()
        found += [row["id"] for row in body["items"]]
        after = body["next"]
        if after is None:
            break
    assert (len(found), set(found)) == (5, ids)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "invalid-input"),
        ({"host": "web-1", "selector": "*"}, "invalid-input"),
        ({"host": "none"}, "unknown-host"),
        ({"selector": "((("}, "bad-selector"),
        ({"selector": "*", "reason": ""}, "invalid-input"),
        ({"selector": "*", "effect": "explode"}, "invalid-input"),
        ({"selector": "*", "expires_at": "tomorrow"}, "invalid-input"),
        ({"selector": "*", "expires_at": "2999-01-01T00:00:00"}, "invalid-input"),
        ({"selector": "*", "expires_at": "2001-01-01T00:00:00Z"}, "invalid-input"),
        ({"selector": "*", "expires_in_seconds": -1}, "invalid-input"),
        ({"selector": "*", "expires_in_seconds": 1e300}, "invalid-input"),
        ({"selector": "*", "expires_in_seconds": 1, "expires_at": "2999-01-01T00:00:00Z"}, "invalid-input"),
        ({"selector": "*", "window": {"rrule": "FREQ=NEVER", "duration_seconds": 1}}, "invalid-input"),
        ({"selector": "*", "window": {"rrule": "FREQ=DAILY"}}, "invalid-input"),
    ],
)  # fmt: skip
async def test_a_wrong_block_is_refused(
    memory_site: Site, fields: dict[str, Any], code: str
) -> None:
    await host(memory_site)
    answer = await memory_site.ask("POST", "/blocks", {"reason": "r", **fields})
    assert problem(answer) == (422, code), answer.text
    assert (await memory_site.ask("GET", "/blocks")).json()["items"] == []


async def test_blocks_of_a_foreign_project_look_missing(memory_site: Site) -> None:
    made = await block(memory_site, selector="*", project="shop")
    token = await memory_site.token("operator", projects=("web",))
    for method, body in (("GET", None), ("PATCH", {"reason": "x"}), ("DELETE", None)):
        foreign = await memory_site.ask(method, f"/blocks/{made['id']}", body, token=token)
        absent = await memory_site.ask(method, "/blocks/blk_none", body, token=token)
        assert problem(foreign) == problem(absent) == (404, "not-found")
        assert foreign.json()["detail"].replace(made["id"], "blk_none") == absent.json()["detail"]
    listed = await memory_site.ask("GET", "/blocks", token=token, project="shop")
    assert problem(listed) == (404, "not-found")


async def test_an_agent_reads_the_blocks_of_its_host(memory_site: Site) -> None:
    mine = await host(memory_site, "web-1")
    await host(memory_site, "web-2")
    ours = await block(memory_site, host="web-1")
    theirs = await block(memory_site, host="web-2")
    token = await memory_site.token("agent", kind=TokenKind.AGENT, node_id=mine["id"])
    rows = (await memory_site.ask("GET", "/blocks", token=token)).json()["items"]
    assert [row["id"] for row in rows] == [ours["id"]]
    assert (await memory_site.ask("GET", f"/blocks/{ours['id']}", token=token)).status_code == 200
    hidden = await memory_site.ask("GET", f"/blocks/{theirs['id']}", token=token)
    assert problem(hidden) == (404, "not-found")
