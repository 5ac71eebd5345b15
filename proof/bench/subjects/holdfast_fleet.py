"""Holdfast's fleet: one server with simulated hosts in its process, and jobs by HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import httpx2
import psutil

from proof.bench.gateway import TOKEN, Gateway
from proof.lab.subject import Subject, main

SETTINGS = """[fleet]
max_in_flight = 10000
[fleet.command_types.check]
argv = ["{command}"]
approval = "none"
"""
"""A type that needs no approval, whatever the number of hosts."""
POLL_SECONDS = 0.02
READY_SECONDS = 240.0
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


class HoldfastFleet(Subject):
    """`holdfast server --simulated-hosts N`."""

    def start(self, hosts: int) -> None:
        """Starts the server and waits until all agents have started. Without `hosts` there are none."""
        self.folder = TemporaryDirectory()
        Path(self.folder.name, "holdfast.toml").write_text(SETTINGS)
        flags = ("--simulated-hosts", str(hosts)) if hosts else ()
        self.gateway = Gateway(self.options.url, *flags, folder=self.folder.name)
        self.server = psutil.Process(self.gateway.process.pid)
        if not hosts:
            return
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            if self.ping(hosts):
                return
        raise RuntimeError("the simulated hosts did not start")

    def ping(self, hosts: int) -> bool:
        """Whether a first job on all hosts succeeds: it also warms the server up."""
        try:
            job = self.ask("POST", "/webhook/jobs", {"command_type": "noop", "selector": "*"})
            succeeded: int = self.finished(job["job_id"])["counts"].get("SUCCESS", 0)
        except OSError:  # while very many agents start, the store may have no time
            time.sleep(1.0)
            return False
        return succeeded == hosts

    def finished(self, job_id: str) -> dict[str, Any]:
        """The job when it has ended."""
        while True:
            job = self.ask("GET", f"/jobs/{job_id}")
            if job["finished_at"] is not None:
                return job
            time.sleep(POLL_SECONDS)

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.gateway.url + path, data, HEADERS, method=method)) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def close(self) -> None:
        if hasattr(self, "gateway"):
            self.gateway.stop()
            self.folder.cleanup()

    def cpu_seconds(self) -> float:
        times = self.server.cpu_times()
        return float(times.user + times.system)

    def op_fleet(self, n: int) -> dict[str, float | None]:
        """Seconds from the request until all hosts have ended, and processor time for each."""
        self.start(n)
        cpu, began = self.cpu_seconds(), time.perf_counter()
        body = {"command_type": "check", "command": "true", "selector": "*"}
        job = self.finished(self.ask("POST", "/webhook/jobs", body)["job_id"])
        seconds = time.perf_counter() - began
        assert job["counts"]["SUCCESS"] == n, job["counts"]
        used = self.cpu_seconds() - cpu
        return {"seconds": seconds, "cpu": used / n * 1e6, "rate": n / seconds}

    def op_agents_idle(self, n: int, seconds: float) -> dict[str, float | None]:
        """Processor time of a server whose agents have nothing to do, in per cent of a core."""
        self.start(n)
        time.sleep(5.0)
        cpu, began = self.cpu_seconds(), time.perf_counter()
        time.sleep(seconds)
        return {"cpu": (self.cpu_seconds() - cpu) / (time.perf_counter() - began) * 100}

    async def op_webhook(self, n: int, hosts: int, rate: float) -> dict[str, float | None]:
        """``n`` jobs at a fixed rate, whatever the answers: ms from the time of a request to its answer."""
        self.start(0)
        entries = [{"name": f"web-{nth:03}"} for nth in range(hosts)]
        self.ask("POST", "/hosts/import", {"hosts": entries})
        body = json.dumps({"command_type": "noop", "selector": "*"}).encode()
        waits: list[float] = []
        async with httpx2.AsyncClient(base_url=self.gateway.url, headers=HEADERS) as client:
            await client.post("/webhook/jobs", content=body)
            began = time.perf_counter()

            async def send(at: float) -> None:
                answer = await client.post("/webhook/jobs", content=body)
                assert answer.status_code == 202, answer.text
                waits.append(time.perf_counter() - began - at)

            sending = []
            for nth in range(n):
                await asyncio.sleep(max(0.0, began + nth / rate - time.perf_counter()))
                sending.append(asyncio.create_task(send(nth / rate)))
            await asyncio.gather(*sending)
        waits.sort()
        return {
            "p50": waits[len(waits) // 2] * 1e3,
            "p99": waits[int(len(waits) * 0.99)] * 1e3,
        }


if __name__ == "__main__":
    main(HoldfastFleet)
