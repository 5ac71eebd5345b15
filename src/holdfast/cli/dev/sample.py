"""What the sample of `holdfast dev` has: made through the API, by people and programs that have tokens.

Promises: a store that has the sample is left as it is, so a second start goes on from there. The person at
the browser made nothing of it, so that person may approve and decide everything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from holdfast.app import TaskQueue
from holdfast.cli.dev.handlers import PARTNER, Shop
from holdfast.client.calls import path_of
from holdfast.client.http import Http, fresh_ids
from holdfast.client.issued import issued
from holdfast.client.node.node import Node
from holdfast.clock import Clock
from holdfast.core.fleet.model import JobStatus

OPERATOR: Final = "mira"
APPROVER: Final = "jonas"
PEOPLE: Final = {OPERATOR: "operator", APPROVER: "approver"}
SCHEDULE: Final = "report.nightly"
"""It is made last: a store that has it has the whole sample."""
DEAD: Final = 12
DECLINED: Final = 3
DRAFTS: Final = 8
DAY_SECONDS: Final = 86_400.0
SMALL: Final = "rack=r03"
"""A selector of so few hosts that no second person has to approve."""
WAIT_SECONDS: Final = 30.0
ROLLOUT: Final = {
    "waves": [5, "10%", "rest"],
    "bake_seconds": 5,
    "max_in_flight": 25,
    "rate_per_second": 4.0,
    "budget": {"failed": "5%"},
    "canary_budget": 2,
}
WAITS: Final = JobStatus.WAIT_APPROVAL.value
BLOCKED: Final = "sim-0042"
SMALL_HOSTS: Final = 1_000
"""With this many hosts each rack has some."""


class Sample:
    """Fills a server that has just started."""

    def __init__(
        self,
        url: str,
        token: str,
        queue: TaskQueue,
        shop: Shop,
        *,
        clock: Clock,
        folder: Path,
    ) -> None:
        """`folder`: for the files of two nodes that work offline."""
        self._url, self._queue, self._shop, self._clock = url, queue, shop, clock
        self._folder = folder
        self._admin = self._as(token)
        self._by: dict[str, Http] = {}

    def _as(self, token: str) -> Http:
        return Http([self._url], token, self._clock, fresh_ids())

    async def fill(self, *, hosts: int) -> bool:
        """Whether it made the sample. False: the store has it."""
        try:
            made = await self._call(self._admin, "GET", "schedules")
            if any(each["name"] == SCHEDULE for each in made["items"]):
                return False
            for name, role in PEOPLE.items():
                body = {"name": name, "roles": [role], "expires_in_seconds": DAY_SECONDS}
                answer = await issued(self._admin, path_of("tokens"), body)
                self._by[name] = self._as(answer["token"])
            await self._tasks()
            await self._withdraw()
            await self._disagree()
            if hosts:
                await self._fleet(hosts)
            await self._schedule()
            return True
        finally:
            for http in (self._admin, *self._by.values()):
                await http.close()

    async def _call(self, by: Http, method: str, *parts: str, body: object = None) -> Any:
        return (await by.call(method, path_of(*parts), body)).body

    async def _mira(self, method: str, *parts: str, body: object = None) -> Any:
        return await self._call(self._by[OPERATOR], method, *parts, body=body)

    async def _task(self, type: str, payload: object, **options: object) -> str:
        body = {"type": type, "payload": payload, **options}
        return str((await self._mira("POST", "tasks", body=body))["task"]["id"])

    async def _tasks(self) -> None:
        """A relay that was down for a while, an import, a question, a paused queue."""
        self._shop.is_relay_down = True
        lost = [
            await self._task(
                "email.send",
                {"to": f"buyer.{n}@{PARTNER}", "template": "invoice"},
                queue="mail",
                max_attempts=1,
            )
            for n in range(DEAD)
        ]
        lost += [
            await self._task(
                "order.charge",
                {"order": f"A-{900 + n}", "declined": True},
                queue="orders",
                max_attempts=1,
            )
            for n in range(DECLINED)
        ]
        await self._task("catalogue.import", {"catalogue": "spring"})
        await self._task("ledger.close-month", {"month": "2026-10"})
        reason = {"reason": "month-end load on the replica"}
        await self._mira("POST", "queues", "reports", "pause", body=reason)
        for region in ("north", "south", "east"):
            await self._task("report.render", {"name": f"sales {region}"}, queue="reports")
        for task_id in lost:
            await self._queue.wait_task(task_id, WAIT_SECONDS)
        self._shop.is_relay_down = False

    async def _withdraw(self) -> None:
        """An operation that has ended: a newsletter that was taken back before it was due."""
        drafts = [
            await self._task(
                "email.send",
                {"to": f"list.{n}@example.com", "template": "newsletter"},
                queue="mail",
                delay_seconds=DAY_SECONDS,
            )
            for n in range(DRAFTS)
        ]
        body = {"action": "abort", "ids": drafts, "reason": "wrong price in the newsletter"}
        await self._mira("POST", "operations", body=body)

    async def _disagree(self) -> None:
        """Two nodes edit the same task while they are offline."""
        join = {"project": "default", "uses": 2}
        token = (await issued(self._admin, path_of("join-tokens"), join))["token"]
        opened = [
            await Node.open(
                self._folder / name, gateway=self._url, join_token=token, node_id=f"laptop-{name}"
            )
            for name in ("north", "south")
        ]
        north, south = opened
        async with north, south:
            north.create("price-list", payload={"currency": "EUR", "rebate": 5})
            await north.sync()
            await south.sync()
            north.edit("price-list", payload={"currency": "EUR", "rebate": 10})
            south.edit("price-list", payload={"currency": "EUR", "rebate": 7})
            await north.sync()
            await south.sync()

    async def _fleet(self, hosts: int) -> None:
        """A block, a job under way on all hosts, two that end at once, one that waits for approval."""
        if hosts >= int(BLOCKED.removeprefix("sim-")):
            block = {"host": BLOCKED, "reason": "disk swap", "expires_in_seconds": 7_200}
            await self._mira("POST", "blocks", body=block)
        job = {"command_type": "restart", "rollout": ROLLOUT, "retry": {"max_retries": 1}}
        nginx = {"command": "nginx", "selector": "*", "external_id": "nginx-certificates"}
        made = await self._mira(
            "POST", "jobs", body={**job, **nginx, "reason": "new certificates, change 118"}
        )
        if made["status"] == WAITS:
            vote = {"reason": "change 118 is planned"}
            await self._call(
                self._by[APPROVER], "POST", "jobs", made["job_id"], "approve", body=vote
            )
        if hosts >= SMALL_HOSTS:
            ping = {"command_type": "ping", "selector": SMALL, "external_id": "ping-r03"}
            version = {"command_type": "exec", "command": "echo nginx/1.26.2", "selector": SMALL}
            for small in (ping, {**version, "external_id": "nginx-version"}):
                await self._mira("POST", "jobs", body=small)
        postgres = {"command": "postgresql", "selector": "role=db", "external_id": "postgres-minor"}
        await self._mira(
            "POST", "jobs", body={**job, **postgres, "reason": "minor version, change 121"}
        )

    async def _schedule(self) -> None:
        carts = {"to": "carts@example.com", "template": "reminder"}
        news = {"to": "readers@example.com", "template": "newsletter"}
        every = {"type": "email.send", "queue": "mail"}
        await self._mira(
            "PUT",
            "schedules",
            "cart.reminder",
            body={**every, "spec": "*/5 * * * *", "payload": carts},
        )
        weekly = {**every, "spec": "0 8 * * 1", "timezone": "Europe/Prague", "payload": news}
        await self._mira("PUT", "schedules", "newsletter.weekly", body=weekly)
        nightly = {"spec": "30 2 * * *", "type": "report.render", "payload": {"name": "nightly"}}
        await self._mira("PUT", "schedules", SCHEDULE, body=nightly)
