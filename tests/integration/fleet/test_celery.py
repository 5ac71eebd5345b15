"""The fleet under Celery: real workers and a real beat on a real Redis."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from celery import Celery
from msgspec.structs import replace

from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rules import FleetHosting
from holdfast.errors import MissingExtra, NotRunning
from holdfast.fleet.celery import PREFIX, install
from holdfast.fleet.simulated.registration import entries_of, register
from holdfast.gateway.settings import fleet_options
from proof.lab.processes import ROOT, tied
from proof.lab.servers import Redis
from tests.integration.fleet.celery_app import RULES
from tests.integration.fleet.fleet_site import Site, site

APP = "tests.integration.fleet.celery_app"
HOSTED = replace(RULES, hosting=FleetHosting.CELERY)


class Celeries:
    """Processes of Celery."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        self._env = os.environ | env
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = tied(sys.executable, "-m", "celery", "-A", APP, *arguments)
        with (self._folder / f"{arguments[0]}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=self._env)
        self._processes.append(process)
        return process

    def worker(self) -> subprocess.Popen[bytes]:
        return self.start(
            "worker", "-c", "2", "--without-mingle", "--without-gossip", "--loglevel=INFO"
        )

    def beat(self) -> subprocess.Popen[bytes]:
        return self.start("beat", "-s", str(self._folder / "beat"))

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL to a worker and its pool. What they started on hosts lives on."""
        family = [psutil.Process(process.pid)]
        family += [child for child in family[0].children() if "celery" in " ".join(child.cmdline())]
        for member in family:
            member.kill()
        process.wait(10)

    def stop(self) -> None:
        """A warm shutdown of Celery may wait 30 s for its pool."""
        for process in self._processes:
            if process.poll() is None:
                self.kill(process)


@contextmanager
def celeries(url: str, broker: str, folder: Path) -> Iterator[Celeries]:
    made = Celeries({"STORE": url, "BROKER": broker, "HOSTS": str(folder)}, folder)
    try:
        yield made
    finally:
        made.stop()


def has_started(fleet: Site, count: int) -> Any:
    return lambda: len(fleet.starts()) >= count


async def test_a_job_ends_though_the_broker_is_wiped_and_a_worker_is_killed(
    shared_url: str, redis_url: str, redis_server: Redis, tmp_path: Path
) -> None:
    """Six hosts, two at a time, a command that must not run twice."""
    async with site(shared_url, HOSTED, tmp_path) as fleet:
        hosts = await fleet.add_hosts(6, driver="ssh", address="127.0.0.1")
        job = await fleet.create(hosts, "sleep 0.3", rollout={"max_in_flight": 2})
        with celeries(shared_url, redis_url, tmp_path) as celery:
            celery.beat()
            worker = celery.worker()
            await fleet.until(has_started(fleet, 1))
            redis_server.command("FLUSHALL")
            await fleet.until(has_started(fleet, 3))
            celery.kill(worker)
            celery.worker()
            ended = await fleet.finished(job.id)
        assert ended.status is JobStatus.SUCCESS
        assert sorted(fleet.starts().values()) == [1] * 6, "each host ran the command once"


async def test_messages_that_come_twice_do_nothing(
    shared_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with site(shared_url, HOSTED, tmp_path) as fleet:
        hosts = await fleet.add_hosts(2, driver="ssh", address="127.0.0.1")
        job = await fleet.create(hosts)
        sender = Celery("sender", broker=redis_url)
        with celeries(shared_url, redis_url, tmp_path) as celery:
            celery.worker()
            for _ in range(10):
                sender.send_task(PREFIX + "plan_job", (job.id,))
                sender.send_task(PREFIX + "publish_outbox")
            await fleet.until(has_started(fleet, 2))
            for execution in fleet.starts():
                for _ in range(5):
                    sender.send_task(PREFIX + "run_execution", (execution,))
            celery.beat()
            ended = await fleet.finished(job.id)
        sender.close()
        assert ended.status is JobStatus.SUCCESS
        assert sorted(fleet.starts().values()) == [1, 1]


async def test_simulated_hosts_are_run_by_the_workers(
    shared_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with site(shared_url, HOSTED, tmp_path) as fleet:
        entries = entries_of(5, seed=7)
        await register(fleet.store, entries, heartbeat_seconds=25.0)
        names = [entry.name for entry in entries]
        job = await fleet.create(names, command="echo hello")
        with celeries(shared_url, redis_url, tmp_path) as celery:
            celery.beat()
            celery.worker()
            ended = await fleet.finished(job.id)
        assert ended.status is JobStatus.SUCCESS


def test_the_tasks_are_three_and_acknowledged_late(tmp_path: Path) -> None:
    app = Celery("ops", broker="memory://")
    app.conf.beat_schedule = {"mine": {"task": "mine", "schedule": 60.0}}
    install(app, f"sqlite:///{tmp_path}/holdfast.db", queue="fleet")
    ours = {name: task for name, task in app.tasks.items() if name.startswith(PREFIX)}
    assert sorted(ours) == [
        "holdfast.plan_job",
        "holdfast.publish_outbox",
        "holdfast.run_execution",
    ]
    for task in ours.values():
        assert task.acks_late
        assert task.reject_on_worker_lost
        assert task.ignore_result
    assert set(app.conf.beat_schedule) == {"mine", "holdfast-publish-outbox"}
    entry = app.conf.beat_schedule["holdfast-publish-outbox"]
    assert entry["schedule"] == 1.0
    assert entry["options"]["queue"] == "fleet"


def test_a_process_opens_the_store_with_its_first_task_and_closes_it(tmp_path: Path) -> None:
    fleet = install(Celery("ops", broker="memory://"), f"sqlite:///{tmp_path}/holdfast.db")
    assert not list(tmp_path.iterdir())
    fleet.call(fleet.publish)
    fleet.close()
    fleet.close()
    with pytest.raises(NotRunning):
        fleet.call(fleet.publish)


def test_the_rules_are_those_of_the_server(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_text("[fleet]\nhosting = 'celery'\nmax_in_flight = 7\nsecrets.api.env = 'API'\n")
    options = fleet_options(path, {"HOLDFAST_FLEET__PLAN_BATCH": "9", "API": "x"})
    rules, secrets = options["rules"], options["secrets"]
    assert (rules.hosting, rules.max_in_flight, rules.plan_batch) == ("celery", 7, 9)
    assert secrets.versions == {"api": 1}


def test_without_celery_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "celery", None)
    with pytest.raises(MissingExtra, match=r"holdfast\[celery\]"):
        install(None, "sqlite://")
