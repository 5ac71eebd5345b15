"""Hosts and groups over the API, with a prefix and without."""

from __future__ import annotations

from typing import Any

from tests.integration.gateway.support import ADMIN, Site, problem

WEB = {"name": "web-1", "labels": {"role": "web"}}


async def add(site: Site, name: str, **labels: str) -> dict[str, Any]:
    answer = await site.ask("POST", "/hosts", {"name": name, "labels": labels})
    assert answer.status_code == 201, answer.text
    host: dict[str, Any] = answer.json()
    return host


async def test_a_host_lives_over_the_api(memory_site: Site) -> None:
    made = await memory_site.ask("POST", "/hosts", WEB)
    assert made.status_code == 201
    assert made.headers["etag"] == '"v1"'
    got = await memory_site.ask("GET", "/hosts/web-1")
    host = got.json()
    assert (host["name"], host["driver"], host["labels"]) == ("web-1", "agent", {"role": "web"})
    assert (host["agent"], host["slot"], host["groups"], host["facts"]) == (None, None, [], {})
    assert (await memory_site.ask("GET", f"/hosts/{host['id']}")).json() == host

    change = {"labels": {"env": "prod", "role": None}, "state": "cordoned"}
    changed = await memory_site.ask("PATCH", "/hosts/web-1", change, headers={"If-Match": '"v1"'})
    assert (changed.json()["labels"], changed.json()["state"]) == ({"env": "prod"}, "cordoned")
    stale = await memory_site.ask("PATCH", "/hosts/web-1", change, headers={"If-Match": '"v1"'})
    assert problem(stale) == (412, "precondition-failed")
    stale = await memory_site.ask("PATCH", "/hosts/web-1", {**change, "expected_version": 1})
    assert problem(stale) == (409, "version-conflict")

    gone = await memory_site.ask("DELETE", "/hosts/web-1", reason="sold")
    assert gone.json()["state"] == "gone"
    assert problem(await memory_site.ask("GET", "/hosts/web-1")) == (404, "not-found")
    again = await add(memory_site, "web-1")
    assert again["id"] == host["id"]


async def test_the_same_calls_stand_without_a_prefix(memory_site: Site) -> None:
    headers = {"Authorization": f"Bearer {ADMIN}"}
    made = await memory_site.client.post("/hosts", json=WEB, headers=headers)
    assert made.status_code == 201
    one = await memory_site.client.get("/hosts/web-1", headers=headers)
    assert one.json()["name"] == "web-1"
    page = await memory_site.client.get("/hosts", headers=headers)
    assert [host["name"] for host in page.json()["items"]] == ["web-1"]
    assert problem(await memory_site.client.get("/hosts")) == (401, "unauthenticated")
    assert problem(await memory_site.client.get("/hostess", headers=headers)) == (404, "not-found")


async def test_pages_of_hosts_have_each_once(memory_site: Site) -> None:
    for number in range(5):
        await add(memory_site, f"web-{number}", rack=f"r{number % 2}")
    names, after = [], None
    while True:
        params: dict[str, Any] = {"limit": 2} | ({} if after is None else {"after": after})
        body = (await memory_site.ask("GET", "/hosts", **params)).json()
        names += [host["name"] for host in body["items"]]
        after = body["next"]
        if after is None:
            break
    assert names == [f"web-{number}" for number in range(5)]
    by_label = await memory_site.ask("GET", "/hosts", selector="rack=r1")
    assert [host["name"] for host in by_label.json()["items"]] == ["web-1", "web-3"]
    by_part = await memory_site.ask("GET", "/hosts", q="b-4")
    assert [host["name"] for host in by_part.json()["items"]] == ["web-4"]
    silent = await memory_site.ask("GET", "/hosts", silent="true")
    assert silent.json() == {"items": [], "next": None}
    both = await memory_site.ask("GET", "/hosts", silent="true", q="b-4")
    assert problem(both) == (422, "invalid-input")


async def test_a_selector_is_shown_folded(memory_site: Site) -> None:
    for number in range(1, 4):
        await add(memory_site, f"web-{number}", role="web")
    answer = await memory_site.ask("GET", "/hosts/select", selector="role=web!web-2")
    assert answer.json() == {
        "selector": "role=web!web-2",
        "count": 2,
        "folded": "web-[1,3]",
        "hosts": ["web-1", "web-3"],
    }
    wrong = await memory_site.ask("GET", "/hosts/select", selector="role=")
    assert problem(wrong) == (422, "bad-selector")
    unknown = await memory_site.ask("GET", "/hosts/select", selector="web-9")
    assert problem(unknown) == (422, "unknown-host")


async def test_an_import_names_wrong_entries_and_takes_the_rest(memory_site: Site) -> None:
    body = {"hosts": [{"name": "a"}, {"name": "b/c"}, {"name": "a"}, {"name": "d"}]}
    answer = (await memory_site.ask("POST", "/hosts/import", body)).json()
    assert (answer["added"], answer["failed"]) == (2, 2)
    assert [error["nth"] for error in answer["errors"]] == [1, 2]
    again = (await memory_site.ask("POST", "/hosts/import", body)).json()
    assert (again["added"], again["unchanged"]) == (0, 2)


async def test_an_import_of_text_names_its_lines(memory_site: Site) -> None:
    text = "web-[1-3] role=web\nweb-4 role\n"
    body = {"text": text, "format": "text"}
    answer = (await memory_site.ask("POST", "/hosts/import", body)).json()
    assert (answer["added"], answer["failed"], answer["groups"]) == (3, 1, [])
    assert [error["line"] for error in answer["errors"]] == [2]
    inventory = "[front]\nweb-[1:3]\n[back]\ndb-1\n"
    body = {"text": inventory, "format": "ansible"}
    answer = (await memory_site.ask("POST", "/hosts/import", {**body, "groups": True})).json()
    assert (answer["added"], sorted(answer["groups"])) == (1, ["back", "front"])
    again = (await memory_site.ask("POST", "/hosts/import", {**body, "groups": True})).json()
    assert again["groups"] == []
    chosen = await memory_site.ask("GET", "/hosts/select", selector="@front")
    assert chosen.json()["count"] == 3


async def test_an_import_is_either_entries_or_text(memory_site: Site) -> None:
    for body in ({}, {"hosts": [], "text": ""}):
        answer = await memory_site.ask("POST", "/hosts/import", body)
        assert problem(answer) == (422, "invalid-input")
    wrong = await memory_site.ask("POST", "/hosts/import", {"text": "", "format": "yaml"})
    assert problem(wrong) == (422, "invalid-input")
    assert "ansible-json" in wrong.json()["detail"]


async def test_groups_are_named_selectors(memory_site: Site) -> None:
    await add(memory_site, "web-1", role="web")
    await add(memory_site, "db-1", role="db")
    made = await memory_site.ask("POST", "/groups", {"name": "front", "selector": "role=web"})
    assert made.status_code == 201
    assert (await memory_site.ask("GET", "/hosts/web-1")).json()["groups"] == ["front"]
    chosen = await memory_site.ask("GET", "/hosts/select", selector="*!@front")
    assert chosen.json()["hosts"] == ["db-1"]
    changed = await memory_site.ask("PATCH", "/groups/front", {"selector": "role=db"})
    assert (changed.json()["selector"], changed.json()["version"]) == ("role=db", 2)
    rows = (await memory_site.ask("GET", "/groups")).json()["items"]
    assert [row["name"] for row in rows] == ["front"]
    assert (await memory_site.ask("DELETE", "/groups/front")).status_code == 200
    assert problem(await memory_site.ask("GET", "/groups/front")) == (404, "not-found")


async def test_hosts_of_a_foreign_project_look_missing(memory_site: Site) -> None:
    await memory_site.ask("POST", "/hosts", {**WEB, "project": "shop"})
    token = await memory_site.token("operator", projects=("web",))
    hidden = await memory_site.ask("GET", "/hosts/web-1", token=token, project="shop")
    assert problem(hidden) == (404, "not-found")
    own = await memory_site.ask("POST", "/hosts", WEB, token=token)
    assert own.json()["project"] == "web"


async def test_a_repeated_request_with_a_key_is_answered(memory_site: Site) -> None:
    key = {"Idempotency-Key": "k1"}
    first = await memory_site.ask("POST", "/hosts", WEB, headers=key)
    second = await memory_site.ask("POST", "/hosts", WEB, headers=key)
    assert second.status_code == first.status_code == 201
    assert second.headers["Idempotency-Replayed"] == "true"
    assert second.json() == first.json()
    audit = (await memory_site.ask("GET", "/audit")).json()["items"]
    assert [row["operation"] for row in audit if row["subject"] == "host:web-1"] == ["hosts.write"]
