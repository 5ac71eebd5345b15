"""A fleet behind a gateway: hosts, jobs over the API, and hands that do what loops and agents would do."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.conformance.fleet.job_support import FleetBench
from tests.integration.gateway.support import ADMIN, Site


class FleetSite:
    """Short forms of requests about jobs."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.bench = FleetBench(site.services.store, site.services.fleet.rules)

    async def hosts(self, count: int = 3) -> list[str]:
        return await self.bench.add_hosts(count)

    async def post(
        self, body: dict[str, Any], *, token: str = ADMIN, path: str = "/webhook/jobs"
    ) -> httpx2.Response:
        return await self.site.ask("POST", path, body, token=token)

    async def job(self, *, token: str = ADMIN, **fields: Any) -> dict[str, Any]:
        """The answer to a new job on all hosts; one that needs no approval unless the fields say it."""
        body = {
            "command_type": "noop",
            **({} if "hosts" in fields else {"selector": "*"}),
            **fields,
        }
        answer = await self.post(body, token=token)
        assert answer.status_code == 202, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def asked(self, **fields: Any) -> dict[str, Any]:
        """A job that waits for an approval, made by an operator."""
        token = await self.site.token("operator")
        return await self.job(token=token, command_type="shell", command="uptime", **fields)

    async def get(self, path: str, *, token: str = ADMIN, **params: Any) -> Any:
        answer = await self.site.ask("GET", path, token=token, **params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def do(
        self, verb: str, job: dict[str, Any], *, token: str = ADMIN, **fields: Any
    ) -> httpx2.Response:
        """An order about a job."""
        body = {"reason": "r", **fields}
        return await self.site.ask("POST", f"/jobs/{job['job_id']}/{verb}", body, token=token)

    async def run_out(self, job: dict[str, Any], *, failing: str = "") -> None:
        """Runs all hosts of a job. `failing`: the name of the host that fails."""
        executions = await self.bench.executions(job["job_id"])
        bad = {each.task_id for each in executions if each.host == failing}
        await self.bench.run_out(job["job_id"], lambda task: task.id not in bad)
