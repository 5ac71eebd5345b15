"""`Retry(after=…)`, `retry_delay` functions, `run_at` and timedeltas, in handlers of every kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Context, Status, TaskQueue
from holdfast.errors import BadConfig, IdempotencyConflict, InvalidInput
from tests.integration.retry_app import ASKING, FUNCTIONS, pause, pauses

KINDS = ("loop", "thread", "process")


@pytest.mark.parametrize("isolation", KINDS)
async def test_a_handler_names_its_pause(url: str, isolation: str) -> None:
    queue = TaskQueue(url, base_retry_delay=900, max_retry_delay=900)
    define: Any = queue.task
    define(name="ask", isolation=isolation, give_up_on=Exception)(ASKING[isolation])
    hows = ("returned", "raised", "from an error", "without a time", "too late")
    async with queue:
        found = await pauses(queue, {how: {"type": "ask", "payload": {"how": how}} for how in hows})
    assert found == {
        "returned": (3_600.0, "Retry", "not yet"),
        "raised": (7_200.0, "Retry", "not yet"),
        "from an error": (1_800.0, "Temporary", "no route"),
        "without a time": (900.0, "Retry", "soon"),
        "too late": (0.0, "Retry", "not yet"),
    }


@pytest.mark.parametrize("isolation", KINDS)
async def test_a_function_of_the_type_gives_the_pause(
    url: str, isolation: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = TaskQueue(url, base_retry_delay=900, max_retry_delay=900)
    define: Any = queue.task
    define(name="fail", isolation=isolation, retry_delay=pause)(FUNCTIONS[isolation])
    names = ("temporary", "connection", "permanent", "value")
    async with queue:
        found = await pauses(queue, {n: {"type": "fail", "payload": {"name": n}} for n in names})
    assert {name: each[0] for name, each in found.items()} == {
        "temporary": 3_600.0,
        "connection": 7_200.0,
        "permanent": 900.0,
        "value": 900.0,
    }
    assert "the retry_delay of type 'fail' did not give a pause" in caplog.text
    assert "LookupError: no pause for this" in caplog.text


async def test_the_last_attempt_is_not_tried_again(url: str) -> None:
    queue = TaskQueue(url)
    queue.task(name="ask", max_attempts=1)(ASKING["loop"])
    async with queue:
        task = await (await queue.enqueue("ask", {"how": "raised"})).wait(60)
    assert (task.status, task.attempts) == (Status.FAILED, 1)


def test_a_process_must_be_able_to_import_the_function() -> None:
    queue = TaskQueue()
    define: Any = queue.task
    with pytest.raises(BadConfig, match="top level of a module"):
        define(isolation="process", retry_delay=lambda attempt, error: 3)(FUNCTIONS["process"])


async def test_a_moment_and_lengths_of_time(url: str) -> None:
    queue = TaskQueue(url)

    @queue.task(
        timeout=timedelta(minutes=2),
        progress_timeout=timedelta(seconds=30),
        retry_delay=timedelta(seconds=3),
        max_retry_delay=timedelta(hours=1),
    )
    async def work() -> None: ...

    moment = datetime.now(UTC) + timedelta(days=3)
    async with queue.producer():
        at = await work.options(run_at=moment).enqueue()
        later = await work.options(delay=timedelta(hours=1), timeout=timedelta(hours=2)).enqueue()
        past = await work.options(run_at=datetime(2020, 1, 1, tzinfo=UTC)).enqueue()
        tasks = [await handle.get() for handle in (at, later, past)]
        await queue.schedule("often", timedelta(minutes=5), "work")
        specs = [schedule.spec for schedule in await queue.get_schedules()]
    assert tasks[0].due_at == pytest.approx(moment.timestamp(), abs=1e-6)
    assert tasks[1].due_at - tasks[1].created_at == pytest.approx(3_600)
    assert tasks[2].due_at == tasks[2].created_at
    assert [task.options.timeout_seconds for task in tasks] == [120, 7_200, 120]
    assert tasks[0].progress_timeout_seconds == 30
    assert (tasks[0].options.retry_base_seconds, tasks[0].options.retry_cap_seconds) == (3, 3_600)
    assert specs == ["@every 300"]


async def test_a_moment_is_part_of_the_request(url: str) -> None:
    queue = TaskQueue(url)
    queue.register_handler("work", lambda task: None)
    moment = datetime.now(UTC) + timedelta(days=3)
    async with queue.producer():
        first = await queue.enqueue("work", run_at=moment, idempotency_key="k")
        again = await queue.enqueue("work", run_at=moment, idempotency_key="k")
        assert (first.id, again.created) == (again.id, False)
        with pytest.raises(IdempotencyConflict):
            await queue.enqueue("work", run_at=moment + timedelta(hours=1), idempotency_key="k")
        with pytest.raises(InvalidInput, match="delay and run_at are both given"):
            await queue.enqueue("work", run_at=moment, delay=3)
        with pytest.raises(InvalidInput, match="has no time zone"):
            await queue.enqueue("work", run_at=moment.replace(tzinfo=None))
        with pytest.raises(InvalidInput, match="10 years away"):
            await queue.enqueue("work", run_at=datetime(2999, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("isolation", ["loop", "process"])
async def test_a_handler_enqueues_for_later(url: str, isolation: str) -> None:
    from tests.integration import retry_app

    queue = TaskQueue(url)
    define: Any = queue.task

    async def follow(ctx: Context, at: float) -> str:
        return await retry_app.enqueued(ctx, at)

    define(name="follow", isolation=isolation)(
        follow if isolation == "loop" else retry_app.follows_in_process
    )
    queue.register_handler("work", lambda task: None)
    moment = datetime.now(UTC) + timedelta(days=1)
    async with queue:
        made = await (await queue.enqueue("follow", {"at": moment.timestamp()})).result(60)
        task = await queue.get_task(made)
    assert task is not None
    assert task.due_at == pytest.approx(moment.timestamp(), abs=1e-3)
    assert task.options.timeout_seconds == 60
