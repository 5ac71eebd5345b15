"""Errors of handlers reach Sentry once, with their traceback: with the real SDK and a local transport."""

from __future__ import annotations

from collections import Counter
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


async def test_dead_letters_of_other_types_and_errors_are_other_issues(
    url: str, sentry: Kept
) -> None:
    """Sentry groups events of the log by the template of their message."""
    queue = TaskQueue(url, default_max_attempts=1)

    @queue.task
    async def charge(order: str) -> None:
        raise KeyError(order) if order == "o-1" else ValueError(order)

    @queue.task(name="100%s")
    async def send(to: str) -> None:
        raise ValueError(to)

    async with queue:
        for handle in [
            *[await charge.enqueue(order) for order in ("o-1", "o-2", "o-3")],
            await send.enqueue("a@example.com"),
        ]:
            await handle.wait(30)
    issues = Counter(event["logentry"]["message"] for event in sentry.events)
    assert sorted(issues.values()) == [1, 1, 2]
    assert all("order" not in issue and "o-" not in issue for issue in issues)
    assert any(
        "(100%s) attempt 1 of 1" in event["logentry"]["formatted"] for event in sentry.events
    )


async def test_a_task_that_succeeds_sends_nothing(url: str, sentry: Kept) -> None:
    queue = TaskQueue(url)

    @queue.task
    async def work() -> int:
        return 1

    async with queue:
        assert await (await work.enqueue()).result(30) == 1
    assert sentry.events == []
