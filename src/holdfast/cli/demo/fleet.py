"""The second part of the demo: one command on 1,000 simulated hosts over a bad network.

Promises: the server is a real process, started as a user would start it; people act through its API with
their own tokens. Each step waits for a condition, not for a time. The server ends on every way out. Nothing
is executed: the hosts are simulated.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any, Final, TextIO

from holdfast.cli.commands.fleet.progress import LiveDisplay, PlainDisplay, Snapshot
from holdfast.cli.commands.server import new_admin_token
from holdfast.cli.demo.display import PlainDisplay as Notes
from holdfast.cli.demo.fleet_checks import EXTERNAL_ID, FleetRun, SeenExecution
from holdfast.cli.worker.signals import PARENT_VARIABLE
from holdfast.client.calls import path_of
from holdfast.client.http import Http, fresh_ids
from holdfast.client.issued import issued
from holdfast.clock import Clock
from holdfast.core.errors import SelfApproval
from holdfast.core.fleet.model import JobStatus
from holdfast.errors import HoldfastError

HOSTS: Final = 1_000
FAULTS: Final = (
    *("--loss", "2%", "--delay", "0.01..0.05", "--duplicate", "2%", "--crash", "1%"),
    *("--broken", "1%", "--seed", "7"),
)
SAID: Final = "2 % of the messages are lost, 2 % arrive twice, 1 % of the agents are killed"
OPERATOR: Final = "mira"
APPROVER: Final = "jonas"
PEOPLE: Final = {OPERATOR: ["operator", "approver"], APPROVER: ["approver"]}
RACK: Final = "rack=r07"
JOB: Final = {
    "command_type": "exec",
    "command": "systemctl restart nginx",
    "selector": "*",
    "external_id": EXTERNAL_ID,
    "reason": "new certificates, change 118",
    "rollout": {
        "waves": [5, "rest"],
        "max_in_flight": 200,
        "budget": {"failed": "5%", "lost": "5%"},
        "canary_budget": 2,
    },
}
PAGE: Final = 1_000
POLL_SECONDS: Final = 0.5
SECONDS_MAX: Final = 90.0
END_SECONDS: Final = 10.0
LOG_NAME: Final = "server.log"


class FleetFailed(HoldfastError):
    """The second part could not run to its end."""


class FleetServer:
    """`holdfast server --simulated-hosts`, as a process."""

    def __init__(self, url: str, folder: Path) -> None:
        self._store = url
        self._pipe = -1
        self._process: Process | None = None
        self.log = folder / LOG_NAME
        self.token = new_admin_token()
        self.url = ""

    async def start(self) -> None:
        """Returns when it answers. It stops when this process ends, however it ends: the pipe closes."""
        child_end, self._pipe = os.pipe()
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "holdfast", "server", "--url", self._store),
                *("--port", "0", "--grpc-port", "-1", "--simulated-hosts", str(HOSTS), *FAULTS),
                cwd=self.log.parent,
                pass_fds=(child_end,),
                env={
                    **os.environ,
                    PARENT_VARIABLE: str(child_end),
                    "HOLDFAST_ADMIN_TOKEN": self.token,
                },
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                process_group=0,
            )
        os.close(child_end)
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode().split()
        if len(line) < 4:
            raise FleetFailed(f"the server did not start: see {self.log}")
        self.url = line[3]

    async def stop(self) -> int | None:
        """The exit code of a graceful stop, or None if it did not start."""
        if self._process is None:
            return None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        return await self._process.wait()


class FleetDemo:
    """One run of the second part."""

    def __init__(self, url: str, folder: Path, stream: TextIO, clock: Clock) -> None:
        self.url = url
        self._server = FleetServer(url, folder)
        self._stream = stream
        self._clock = clock
        self._began = clock.monotonic()
        self._notes = Notes(stream, lambda: clock.monotonic() - self._began)
        self._by: dict[str, Http] = {}

    async def run(self) -> FleetRun:
        """Runs the steps. The claims are those of `fleet_checks`."""
        try:
            async with asyncio.timeout(SECONDS_MAX):
                seen = await self._run()
        except TimeoutError:
            text = f"the job did not end within {SECONDS_MAX:g} s: see {self._server.log}"
            raise FleetFailed(text) from None
        finally:
            for http in self._by.values():
                await http.close()
            exit_code = await self._server.stop()
        seen.exit_code = exit_code
        seen.seconds = self._clock.monotonic() - self._began
        return seen

    async def _run(self) -> FleetRun:
        await self._server.start()
        self._note(f"a server with {HOSTS:,} simulated hosts is up: {SAID}")
        await self._invite()
        rack = await self._call(OPERATOR, "GET", "hosts", "select", query={"selector": RACK})
        block = {"selector": RACK, "reason": "new switches", "expires_in_seconds": 3_600}
        await self._call(OPERATOR, "POST", "blocks", body=block)
        self._note(f"{OPERATOR} blocked {rack['count']} hosts of {RACK}: new switches")
        made = await self._call(OPERATOR, "POST", "webhook", "jobs", body=JOB)
        self._note(f"{OPERATOR} asked for '{JOB['command']}' on {made['hosts']:,} hosts: it waits")
        run = FleetRun(made["job_id"], made["hosts"], blocked=sorted(rack["hosts"]))
        await self._approve(made, run)
        job = await self._follow(run.job_id)
        run.status, run.counts = job["status"], {k: n for k, n in job["counts"].items() if n}
        run.executions = await self._executions(run.job_id)
        return run

    def _note(self, text: str) -> None:
        self._notes.note(text)

    async def _invite(self) -> None:
        self._by["admin"] = self._as(self._server.token)
        for name, roles in PEOPLE.items():
            body = {"name": name, "roles": roles, "expires_in_seconds": 3_600}
            answer = await issued(self._by["admin"], path_of("tokens"), body)
            self._by[name] = self._as(answer["token"])

    async def _approve(self, made: dict[str, Any], run: FleetRun) -> None:
        job = ("jobs", run.job_id)
        run.waited = made["status"] == JobStatus.WAIT_APPROVAL
        before = await self._call(OPERATOR, "GET", *job)
        run.before = {status: n for status, n in before["counts"].items() if n}
        vote = {"reason": "change 118", "expect_digest": made["digest"]}
        try:
            await self._call(OPERATOR, "POST", *job, "approve", body=vote)
        except SelfApproval:
            run.refused_requester = True
        self._note(f"{OPERATOR} may not approve the job; {APPROVER} approves it, by its digest")
        await self._call(APPROVER, "POST", *job, "approve", body=vote)

    async def _follow(self, job_id: str) -> dict[str, Any]:
        is_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        with LiveDisplay() if is_terminal else PlainDisplay(self._stream) as display:
            while True:
                job: dict[str, Any] = await self._call(OPERATOR, "GET", "jobs", job_id)
                display.show(Snapshot(job))
                if job["finished_at"] is not None:
                    return job
                await self._clock.sleep(max(POLL_SECONDS, display.seconds))

    async def _executions(self, job_id: str) -> list[SeenExecution]:
        found: list[SeenExecution] = []
        after: str | None = None
        while True:
            query: dict[str, object] = {"limit": PAGE, "after": after}
            page = await self._call(OPERATOR, "GET", "jobs", job_id, "executions", query=query)
            found += [
                SeenExecution(
                    shown["host"],
                    shown["status"],
                    shown["kind"],
                    has_started=shown["started_at"] is not None,
                    reason=shown["reason"] or "",
                )
                for shown in page["items"]
            ]
            after = page["next"]
            if after is None:
                return found

    def _as(self, token: str) -> Http:
        return Http([self._server.url], token, self._clock, fresh_ids())

    async def _call(
        self,
        by: str,
        method: str,
        *parts: str,
        body: object = None,
        query: dict[str, object] | None = None,
    ) -> Any:
        return (await self._by[by].call(method, path_of(*parts), body, query=query)).body
