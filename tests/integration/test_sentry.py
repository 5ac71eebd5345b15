"""Errors of handlers reach Sentry once, with their traceback: with the real SDK and a local transport."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from holdfast import TaskQueue


class Kept(Transport):
    """Keeps what the SDK would send."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        event = envelope.get_event()
        if event is not None:
            self.events.append(event)


@pytest.fixture
def sentry() -> Iterator[Kept]:
    kept = Kept()
    sentry_sdk.get_isolation_scope().clear()
    sentry_sdk.init(dsn="http://key@127.0.0.1:9/1", transport=kept, shutdown_timeout=0)
    yield kept
    sentry_sdk.get_client().close()
    sentry_sdk.init()


async def test_a_dead_letter_reaches_sentry_once_by_the_log(url: str, sentry: Kept) -> None:
    queue = TaskQueue(url, base_retry_delay=0.01)

    @queue.task(max_attempts=2)
    async def charge(order: str) -> None:
        raise ValueError(f"order {order} has no address")

    async with queue:
        handle = await charge.enqueue("o-1")
        await handle.wait(30)
    [event] = sentry.events
    assert event["level"] == "error"
    assert event["logger"] == "holdfast.tasks"
    said = event["logentry"]["formatted"]
    assert f"task {handle.id} (charge) attempt 2 of 2 failed" in said
    assert 'raise ValueError(f"order {order} has no address")' in said
    assert event["extra"]["task_id"] == handle.id
    assert event["extra"]["error_type"] == "ValueError"
    [crumb] = [one for one in event["breadcrumbs"]["values"] if one["category"] == "holdfast.tasks"]
    assert crumb["level"] == "warning"
    assert "next attempt in" in crumb["message"]


async def test_a_task_that_succeeds_sends_nothing(url: str, sentry: Kept) -> None:
    queue = TaskQueue(url)

    @queue.task
    async def work() -> int:
        return 1

    async with queue:
        assert await (await work.enqueue()).result(30) == 1
    assert sentry.events == []
