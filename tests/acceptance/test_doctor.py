"""`holdfast doctor`: each fault that it names is made here."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from holdfast import TaskQueue
from holdfast.clock import SystemClock
from holdfast.core.claiming import ClaimRequest
from holdfast.engine.lease_keeper import KeptRuns, StoreKeeper
from holdfast.engine.watchdog import Watchdog
from holdfast.queue import worker_checks
from holdfast.queue.check import Check, Level
from holdfast.queue.checks import clock as clock_check, handlers, hints
from holdfast.queue.disk_check import check_disk, judge_disk
from holdfast.store.backends import store_for
from holdfast.store.sql import Migration, load_migrations
from holdfast.store.sqlite import connection
from holdfast.testing import harness
from tests.acceptance.cli_support import Done, run_inside

MIB = 2**20


async def _work(_: object) -> None:
    return None


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/holdfast.db"


@pytest.fixture
async def queue(url: str) -> AsyncIterator[TaskQueue]:
    made = TaskQueue(url)
    yield made
    await made.stop()


def found(done: Done, name: str) -> tuple[str, str]:
    """The level and the text of one check."""
    checks = {item["name"]: item for item in json.loads(done.out)}
    return checks[name]["level"], checks[name]["text"]


async def doctor(folder: Path, *args: str) -> Done:
    """The command makes an event loop."""
    return await asyncio.to_thread(run_inside, folder, "doctor", "-o", "json", *args)


async def test_a_type_without_handlers(queue: TaskQueue) -> None:
    producer = TaskQueue(queue.url)
    producer.register_handler("old", _work)
    await producer.enqueue("old", {})
    await producer.stop()
    queue.register_handler("mail", _work)
    async with queue:
        finding = await worker_checks.unhandled(queue, 0.0)
        assert finding.level is Level.FAIL
        assert "no live worker has a handler for 'old' (1 queued)" in finding.text
    fixed = TaskQueue(queue.url)
    fixed.register_handler("old", _work)
    async with fixed:
        assert (await worker_checks.unhandled(fixed, 0.0)).level is Level.OK


async def test_a_worker_that_serves_no_queue_of_its_types(queue: TaskQueue) -> None:
    queue.register_handler("mail", _work, queue="mails")
    async with harness(queue, queues=("mail",)) as h:
        await h.engine.heartbeat.step()
        finding = await worker_checks.serving(queue, 0.0)
        assert finding.level is Level.WARN
        assert "serves 'mail', and its types are in mails: see --queues" in finding.text
    right = TaskQueue(queue.url)
    right.register_handler("mail", _work, queue="mails")
    async with harness(right) as h:
        await h.engine.heartbeat.step()
        assert "every live worker" in (await worker_checks.serving(right, 0.0)).text


async def test_a_handler_that_has_blocked_the_event_loop(queue: TaskQueue) -> None:
    queue.register_handler("mail", _work)
    async with harness(queue) as h:
        keeper = StoreKeeper(
            *(h.engine.loop_store, KeptRuns(list, lease_seconds=9.0, default_timeout=None), dict),
            node="",
            lease_seconds=9.0,
        )
        h.engine.watchdog = Watchdog(h.clock, lambda _: None, keeper, lease_seconds=9.0)
        h.engine.watchdog.blocks = 2
        await h.engine.heartbeat.step()
        finding = await handlers(queue, 0.0)
    assert finding.level is Level.WARN
    assert "whose event loop was blocked by a handler 2 times since it started" in finding.text


@pytest.mark.parametrize(
    ("size", "free", "total", "is_writable", "level", "word"),
    [
        (MIB, 50 * 2**30, 100 * 2**30, True, Level.OK, "50 GiB free of 100 GiB"),
        (MIB, 2**30 - 1, 2 * 2**30, True, Level.WARN, "free some space"),
        (MIB, 4 * 2**30, 100 * 2**30, True, Level.WARN, "free some space"),
        (MIB, 63 * MIB, 100 * 2**30, True, Level.FAIL, "writes are about to fail"),
        (MIB, 50 * 2**30, 100 * 2**30, False, Level.FAIL, "may not write the file"),
    ],
)
def test_a_disk_that_is_full(
    size: int, free: int, total: int, is_writable: bool, level: Level, word: str
) -> None:
    check = judge_disk(size=size, free=free, total=total, is_writable=is_writable)
    assert (check.level, word in check.text) == (level, True)


async def test_the_disk_of_a_file_is_looked_at(queue: TaskQueue, tmp_path: Path) -> None:
    await queue.open()
    assert "the file has" in check_disk(tmp_path / "holdfast.db").text
    done = await doctor(tmp_path, "--url", queue.url)
    assert found(done, "disk")[1].startswith("the file has")


async def test_a_redis_of_the_settings_that_does_not_answer(
    queue: TaskQueue, tmp_path: Path, redis_url: str
) -> None:
    await queue.open()
    (tmp_path / "holdfast.toml").write_text(f'[server]\nredis = "{redis_url}"\n')
    assert found(await doctor(tmp_path, "--url", queue.url), "redis")[0] == "ok"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        (tmp_path / "holdfast.toml").write_text(
            f'[server]\nredis = "redis://:word@127.0.0.1:{port}"\n'
        )
        done = await doctor(tmp_path, "--url", queue.url)
    level, text = found(done, "redis")
    assert (done.code, level) == (1, "fail")
    assert "does not answer" in text
    assert "word" not in text


async def test_a_store_and_a_schema_that_do_not_fit(queue: TaskQueue, tmp_path: Path) -> None:
    gone = await doctor(tmp_path, "--url", "sqlite:///none.db")
    assert (gone.code, found(gone, "store")[0]) == (1, "fail")
    assert "there is no SQLite file" in found(gone, "store")[1]
    (tmp_path / "text.db").write_text("not a database, but a text of some length " * 100)
    assert (
        "not a sound SQLite"
        in found(await doctor(tmp_path, "--url", "sqlite:///text.db"), "store")[1]
    )
    await queue.open()
    await queue.stop()
    with sqlite3.connect(tmp_path / "holdfast.db") as store:
        store.execute("INSERT INTO holdfast_migration VALUES (999, 'future', 'x')")
    store.close()
    assert "upgrade holdfast" in found(await doctor(tmp_path, "--url", queue.url), "store")[1]


async def test_a_clock_that_is_wrong(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    resources = await queue.open()
    assert (await clock_check(queue, 0.0)).level is Level.OK
    now = resources.store.now
    monkeypatch.setattr(resources.store, "now", lambda: now() - 90.0)
    finding: Check = await clock_check(queue, 0.0)
    assert finding.level is Level.WARN
    assert "ahead of the store: synchronise the clocks" in finding.text


async def test_hints_that_are_polled(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = (await queue.open()).bus
    mode = bus.mode()
    monkeypatch.setattr(
        type(bus),
        "mode",
        lambda _: msgspec.structs.replace(mode, pushing=False, why="the socket is gone"),
    )
    finding = await hints(queue, 0.0)
    assert finding.level is Level.WARN
    assert "polling: the socket is gone; tasks start later" in finding.text


async def make_old(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store as the version before made it."""

    def earlier(package: str) -> list[Migration]:
        return list(load_migrations(package))[:-1]

    with monkeypatch.context() as patch:
        patch.setattr(connection, "load_migrations", earlier)
        old = store_for(url, SystemClock())()
        await old.open()
        await old.close()


async def test_a_fix_upgrades_an_old_schema(
    queue: TaskQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_old(tmp_path, queue.url, monkeypatch)
    foreseen = await doctor(tmp_path, "--url", queue.url, "--fix", "--dry-run")
    assert (foreseen.code, foreseen.said) == (
        1,
        "would mend schema: upgrade the tables, as `holdfast db migrate`\n",
    )
    assert "schema-mismatch" in found(foreseen, "store")[1]
    fixed = await doctor(tmp_path, "--url", queue.url, "--fix")
    assert fixed.said.startswith("mend schema: upgrade the tables")
    assert found(fixed, "schema")[0] == "ok"
    again = await doctor(tmp_path, "--url", queue.url, "--fix")
    assert (again.code, again.said) == (0, "nothing has a safe mend\n")


async def test_a_fix_ends_runs_that_no_sweeper_takes_back(queue: TaskQueue, tmp_path: Path) -> None:
    queue.register_handler("mail", _work)
    handle = await queue.enqueue("mail", {})
    store = (await queue.open()).store
    claimed = await store.claim(
        ClaimRequest(node="gone", queues=("default",), types=("mail",), limit=1, lease_seconds=1.0)
    )
    assert [task.id for task in claimed.tasks] == [handle.id]
    await queue.stop()
    with sqlite3.connect(tmp_path / "holdfast.db") as file:
        file.execute("UPDATE holdfast_task SET lease_until = lease_until - 3600")
    file.close()
    level, text = found(await doctor(tmp_path, "--url", queue.url), "leases")
    assert level == "warn"
    assert text.startswith("1 run lost the lease up to 59m")
    foreseen = await doctor(tmp_path, "--url", queue.url, "--fix", "--dry-run")
    assert foreseen.said.startswith("would mend leases: end the runs whose lease has ended")
    assert found(foreseen, "leases")[0] == "warn"
    fixed = await doctor(tmp_path, "--url", queue.url, "--fix")
    assert "mended leases: 1 run has ended" in fixed.said
    assert found(fixed, "leases")[0] == "ok"
    async with TaskQueue(queue.url).producer() as again:
        task = await again.get_task(handle.id)
    assert task is not None
    assert (task.status, task.deaths) == ("queued", 1)


async def test_a_fix_makes_no_store_and_needs_no_fault(tmp_path: Path) -> None:
    gone = await doctor(tmp_path, "--url", "sqlite:///none.db", "--fix")
    assert (gone.code, gone.said) == (1, "nothing has a safe mend\n")
    assert not (tmp_path / "none.db").exists()
    usage = await doctor(tmp_path, "--url", "sqlite:///none.db", "--dry-run")
    assert usage.code == 2
    assert "--dry-run is for --fix" in usage.said
