"""Fills a gateway through its API with what the pages have to show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from holdfast.client import Node
from tests.browser.texts import HOSTILE


class Filler:
    """Short forms of requests of an administrator."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx2.AsyncClient(base_url=f"{url}/api/v1", headers=headers, timeout=60)

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        response = await self._client.request(method, path, json=body)
        assert response.status_code < 300, response.text
        return response.json()

    async def text(self, path: str) -> str:
        """The answer of a path of the server itself."""
        return (await self._client.get(f"{self.url}{path}")).text

    async def task(self, type: str, payload: object, **options: Any) -> str:
        made = await self.ask("POST", "/tasks", {"type": type, "payload": payload, **options})
        return str(made["task"]["id"])

    async def intervene(self, task_id: str, type: str, reason: str) -> None:
        body = {"type": type, "reason": reason}
        await self.ask("POST", f"/tasks/{task_id}/interventions", body)

    async def until(self, path: str, is_so: Callable[[Any], Any]) -> Any:
        """The answer of a path when it is so. The feed tells when to look again."""
        position = None
        while not is_so(body := await self.ask("GET", path)):
            after = "" if position is None else f"&after={position}"
            position = (await self.ask("GET", f"/events?wait_seconds=5&limit=1000{after}"))["next"]
        return body

    async def close(self) -> None:
        await self._client.aclose()


async def fill(to: Filler, folder: Path) -> None:
    """A living sample: tasks of every status, causes of death, a decision, a conflict, a paused queue."""
    for n in range(12):
        await to.task("email.send", {"to": f"anna.{n}@example.com"})
        lost = {"to": f"bo.{n}@example.com", "fail": "smtp.relay.internal:587"}
        await to.task("email.send", lost, max_attempts=1)
    for n in range(3):
        lost = {"to": f"cy.{n}@example.com", "fail": "dns lookup of relay-b"}
        await to.task("email.send", lost, max_attempts=1)
    await to.task("note.write", {"text": HOSTILE})
    parent = await to.task("invoice.render", {"customer": "customer-7", "for_ever": True})
    await to.task("invoice.mail", {"customer": "customer-7"}, depends_on=[parent])
    await to.task("invoice.render", {"customer": "customer-31"}, priority="high")
    await to.task("ledger.close-month", {"month": "2026-10"})
    await to.task("payout.settle", {"batch": "2026-11-15a"})
    await to.task("crawl.site", {"site": "example.org"})
    later = await to.task("invoice.render", {"customer": "customer-88"}, delay_seconds=3_600)
    await to.intervene(later, "PAUSE", "template fix")
    gone = await to.task("invoice.render", {"customer": "customer-4"}, delay_seconds=3_600)
    await to.intervene(gone, "ABORT", "wrong customer")
    daily = {"spec": "30 2 * * *", "type": "report.render", "payload": {"name": "daily"}}
    await to.ask("PUT", "/schedules/report.daily", {**daily, "timezone": "Europe/Prague"})
    rates = {"spec": "*/5 * * * *", "type": "report.render", "payload": {"name": "fx"}}
    await to.ask("PUT", "/schedules/fx.rates", rates)
    for n in range(4):
        await to.task("report.render", {"name": f"r{n}"}, queue="reports", delay_seconds=1)
    await to.ask("POST", "/queues/reports/pause", {"reason": "month-end load on the replica"})
    await disagree(to, folder)
    await fill_fleet(to)


async def fill_fleet(to: Filler) -> None:
    """Hosts in two places, one of them blocked, a job under way and one that waits for approval."""
    hosts = [
        {"name": f"{site}-n{n:02}", "driver": "simulated", "labels": {"site": site, "role": "web"}}
        for site in ("ams1", "fra1")
        for n in range(1, 31)
    ]
    await to.ask("POST", "/hosts/import", {"hosts": hosts})
    block = {"host": "ams1-n03", "reason": "disk swap", "expires_in_seconds": 7_200}
    await to.ask("POST", "/blocks", block)
    await to.ask("POST", "/groups", {"name": "amsterdam", "selector": "site=ams1"})
    rollout = {"waves": [2, "50%", "rest"], "max_in_flight": 10}
    job = {"selector": "site=ams1,site=fra1", "rollout": rollout, "reason": "change 118"}
    await to.ask("POST", "/jobs", {**job, "external_id": "ping-1", "command_type": "ping"})
    install = {"command_type": "exec", "command": "apt-get install -y openssl"}
    await to.ask("POST", "/jobs", {**job, **install, "external_id": "openssl-3.0.15"})


async def disagree(to: Filler, folder: Path) -> None:
    """Two nodes change the same task without a connection."""
    made = await to.ask("POST", "/join-tokens", {"project": "default", "uses": 2})
    join = made["token"]
    a = await Node.open(folder / "a", gateway=to.url, join_token=join)
    b = await Node.open(folder / "b", gateway=to.url, join_token=join)
    async with a, b:
        a.create("site-plan", payload={"rate": "20/m", "depth": 3, "tags": ["nightly"]})
        await a.sync()
        await b.sync()
        a.edit("site-plan", payload={"rate": "40/m", "depth": 4, "tags": ["nightly"]})
        b.edit("site-plan", payload={"rate": "15/m", "depth": 3, "tags": ["nightly", "eu"]})
        await a.sync()
        await b.sync()


if __name__ == "__main__":
    import sys

    async def main() -> None:
        to = Filler(sys.argv[1], sys.argv[2])
        await fill(to, Path(sys.argv[3]))
        await to.close()

    asyncio.run(main())
