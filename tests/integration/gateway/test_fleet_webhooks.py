"""Webhooks over the API: sources, endpoints, their secrets and deliveries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.fleet.webhooks import signature
from tests.integration.gateway.fleet_support import FleetSite
from tests.integration.gateway.support import Site, problem

URL = "https://hooks.example/in"


async def add(site: Site, **body: Any) -> dict[str, Any]:
    made = await site.ask("POST", "/webhooks", body)
    assert made.status_code == 201, made.text
    answer: dict[str, Any] = made.json()
    return answer


async def test_a_source_lives_over_the_api(site: Site) -> None:
    fleet = FleetSite(site)
    await fleet.hosts(1)
    made = await site.ask("POST", "/webhooks", {"name": "ci"})
    assert (made.status_code, made.headers["Cache-Control"]) == (201, "no-store")
    source = made.json()
    assert (source["direction"], source["secret"][:6], source["secrets"]) == ("in", "whsec_", 1)
    content = json.dumps({"command_type": "noop", "selector": "*"}).encode()

    async def send(secret: str, id: str) -> int:
        signed = signature.sign([secret], id, site.services.now(), content).headers()
        headers = {**signed, "Content-Type": "application/json"}
        sent = await site.client.post("/webhook/jobs/ci", content=content, headers=headers)
        return sent.status_code

    assert await send(source["secret"], "a") == 202
    rotated = (await site.ask("POST", f"/webhooks/{source['id']}/rotate", {})).json()
    assert (rotated["secrets"], rotated["secret"] != source["secret"]) == (2, True)
    assert [await send(each["secret"], each["secret"]) for each in (source, rotated)] == [202, 202]
    retired = (await site.ask("POST", f"/webhooks/{source['id']}/retire", {})).json()
    assert (retired["secrets"], "secret" in retired) == (1, False)
    assert [await send(each["secret"], "z") for each in (source, rotated)] == [401, 202]
    path = f"/webhooks/{source['id']}"
    got = await site.ask("GET", path)
    assert (got.json()["name"], "secret" in got.json()) == ("ci", False)
    stale = await site.ask("PATCH", path, {"state": "disabled"}, headers={"If-Match": '"v1"'})
    assert problem(stale) == (412, "precondition-failed")
    changed = await site.ask("PATCH", path, {"state": "disabled"})
    assert changed.json()["state"] == "disabled"
    assert await send(rotated["secret"], "y") == 401
    assert (await site.ask("DELETE", path)).json()["id"] == source["id"]
    assert problem(await site.ask("GET", path)) == (404, "not-found")
    audit = (await site.ask("GET", "/audit")).json()["items"]
    acts = [row for row in audit if row["subject"] == source["id"]]
    assert len(acts) == 5
    assert source["secret"] not in json.dumps(audit)
    events = (await site.ask("GET", "/events")).text
    assert source["secret"] not in events
    assert rotated["secret"] not in events


async def test_an_endpoint_and_its_deliveries(site: Site) -> None:
    endpoint = await add(site, url=URL, kinds=["job.*"], project="all")
    assert (endpoint["direction"], endpoint["kinds"]) == ("out", ["job.*"])
    path = f"/webhooks/{endpoint['id']}"
    sent = await site.ask("POST", f"{path}/test", {})
    assert (sent.status_code, sent.json()["type"]) == (202, "webhook.test")
    again = await site.ask("POST", f"{path}/deliveries/{sent.json()['id']}/resend", {})
    assert again.json()["message_id"] == sent.json()["message_id"]
    assert again.json()["resent_of"] == sent.json()["id"]
    rows = (await site.ask("GET", f"{path}/deliveries")).json()["items"]
    assert [row["id"] for row in rows] == [again.json()["id"], sent.json()["id"]]
    assert {row["state"] for row in rows} == {"waiting"}
    page = (await site.ask("GET", f"{path}/deliveries", limit=1)).json()
    rest = await site.ask("GET", f"{path}/deliveries", limit=1, after=page["next"])
    assert [row["id"] for row in rest.json()["items"]] == [sent.json()["id"]]
    for wrong in ("x", "-1", "9" * 30, "0"):
        missing = await site.ask("POST", f"{path}/deliveries/{wrong}/resend", {})
        assert problem(missing) == (404, "not-found")
    listed = await site.ask("GET", "/webhooks", direction="in")
    assert listed.json()["items"] == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid-input"),
        ({"name": "a/b"}, "invalid-input"),
        ({"name": "ci", "kinds": ["job.*"]}, "invalid-input"),
        ({"name": "ci", "project": "all"}, "invalid-input"),
        ({"url": "ftp://x"}, "invalid-input"),
        ({"url": "https://127.0.0.1/x"}, "invalid-input"),
        ({"url": "https://169.254.169.254/latest"}, "invalid-input"),
        ({"url": URL, "kinds": ["no.such"]}, "invalid-input"),
        ({"url": URL, "colour": 1}, "invalid-input"),
    ],
)
async def test_a_wrong_webhook_is_refused(
    memory_site: Site, body: dict[str, Any], code: str
) -> None:
    answer = await memory_site.ask("POST", "/webhooks", body)
    assert problem(answer) == (422, code), answer.text
    assert (await memory_site.ask("GET", "/webhooks")).json()["items"] == []


async def test_webhooks_of_a_foreign_project_look_missing(memory_site: Site) -> None:
    made = await add(memory_site, name="ci", project="shop")
    token = await memory_site.token("admin", projects=("web",))
    for method, suffix, body in (
        ("GET", "", None),
        ("PATCH", "", {"state": "disabled"}),
        ("DELETE", "", None),
        ("POST", "/rotate", {}),
        ("POST", "/test", {}),
        ("GET", "/deliveries", None),
    ):
        path = f"/webhooks/{made['id']}{suffix}"
        foreign = await memory_site.ask(method, path, body, token=token)
        assert problem(foreign) == (404, "not-found"), suffix
    assert (await memory_site.ask("GET", "/webhooks", token=token)).json()["items"] == []
    everything = await memory_site.ask(
        "POST", "/webhooks", {"url": URL, "project": "all"}, token=token
    )
    assert problem(everything)[0] in (403, 404)
