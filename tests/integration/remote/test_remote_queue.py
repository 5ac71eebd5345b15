"""A queue without a database: the same handlers and calls, through a gateway."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, TaskQueue, Unique
from holdfast.app import use_gateway
from holdfast.core.task import Status
from holdfast.errors import IllegalTransition, InvalidInput, NotSupported, TaskFailed, UnknownType
from holdfast.remote.channel import WebSocketChannel
from holdfast.remote.grpc_channel import GrpcChannel
from tests.integration import around_app
from tests.integration.remote.app import in_thread
from tests.integration.remote.support import (
    ADMIN,
    SECONDS,
    Server,
    engine_of,
    marked,
    queue_with_handlers,
    server,
    worker,
)
from tests.integration.retry_app import ASKING, FUNCTIONS, pause, pauses


async def test_handlers_of_every_kind_run_over_the_wire(gateway: Server) -> None:
    async with queue_with_handlers(gateway.address) as queue:
        handles = {
            "add": await queue.enqueue("add", {"a": 1, "b": 2}),
            "in_thread": await queue.enqueue("in_thread", {"n": 4}),
            "in_process": await queue.enqueue("in_process", {"n": 5}),
            "second_time": await queue.enqueue("second_time", {}),
            "large": await queue.enqueue("large", {"size": 300_000}),
        }
        parent = await queue.enqueue("add", {"a": 3, "b": 4})
        child = await queue.enqueue("with_steps", {}, depends_on=[parent])
        results = {name: await handle.result(SECONDS) for name, handle in handles.items()}
        assert results["add"] == 3
        assert results["in_thread"] == 8
        assert results["in_process"][0] == 15
        assert results["second_time"] == [2, {"seen": 1}]
        assert results["large"] == "\n" * 300_000
        assert await child.result(SECONDS) == [["done", "done"], ["once"], [7]]
        task = await handles["in_thread"].get()
        assert task.progress == {"done": 0.5, "note": "half"}


async def test_pauses_and_moments_go_over_the_wire(gateway: Server) -> None:
    made = TaskQueue("sqlite://", base_retry_delay=900, max_retry_delay=900)
    made.task(name="ask")(ASKING["loop"])
    made.task(name="fail", retry_delay=pause)(FUNCTIONS["thread"])
    use_gateway(made, gateway.address, ADMIN)
    moment = datetime.now(UTC) + timedelta(days=3)
    async with made as queue:
        found = await pauses(
            queue,
            {
                "handler": {"type": "ask", "payload": {"how": "from an error"}},
                "type": {"type": "fail", "payload": {"name": "temporary"}},
                "usual": {"type": "fail", "payload": {"name": "permanent"}},
            },
        )
        assert {name: each[:2] for name, each in found.items()} == {
            "handler": (1_800.0, "Temporary"),
            "type": (3_600.0, "Temporary"),
            "usual": (900.0, "Permanent"),
        }
        options: dict[str, Any] = {"run_at": moment, "timeout": timedelta(minutes=2)}
        task = await (await queue.enqueue("ask", {"how": "raised"}, **options)).get()
        assert task.due_at == pytest.approx(moment.timestamp(), abs=0.01)
        assert task.options.timeout_seconds == 120
        await queue.schedule("often", timedelta(minutes=5), "ask", {"how": "raised"})
        assert [each.spec for each in await queue.get_schedules()] == ["@every 300"]


async def test_unique_windows_go_over_the_wire(gateway: Server) -> None:
    made = TaskQueue("sqlite://")
    made.task(name="ask", unique=Unique(until="ended"))(ASKING["loop"])
    use_gateway(made, gateway.address, ADMIN)
    async with made.producer():
        requests: list[dict[str, Any]] = [{}, {}, {"unique": None}]
        requests += [{"unique": Unique(period=60, by=("how",))}] * 2
        payload = {"how": "returned"}
        handles = [await made.enqueue("ask", payload, **each) for each in requests]
    assert [handle.created for handle in handles] == [True, False, True, True, False]
    body = {"type": "ask", "payload": payload, "unique": {"until": "started"}}
    assert (await gateway.ask("POST", "/tasks", json=body))["created"] is False


async def test_tags_go_over_the_wire(gateway: Server) -> None:
    made = TaskQueue("sqlite://")

    @made.task(tags=["mail"])
    async def tags_of(ctx: Context) -> list[str]:
        return [*ctx.task.tags, str(ctx.task.metadata["tenant"])]

    use_gateway(made, gateway.address, ADMIN)
    async with made as queue:
        options = tags_of.options(tags=["vip"], metadata={"tenant": "acme"})
        handle = await options.enqueue()
        assert await handle.result(SECONDS) == ["mail", "vip", "acme"]
        [task] = await queue.find_tasks(q="tag:vip OR tag:none", type="tags_of")
        assert (task.id, task.tags) == (handle.id, ("mail", "vip"))


async def test_middleware_and_hooks_work_behind_a_gateway(gateway: Server) -> None:
    made, said = around_app.wrapped(TaskQueue("sqlite://")), list[str]()
    use_gateway(made, gateway.address, ADMIN)
    async with made as queue:
        assert await around_app.results(queue, ("loop", "thread", "process")) == around_app.SEEN
    hooked = around_app.hooked(TaskQueue("sqlite://"), said)
    use_gateway(hooked, gateway.address, ADMIN)
    async with hooked as queue:
        found = await around_app.results(queue, ("loop", "thread"))
    assert found == {"loop": True, "thread": True}
    assert said == ["opened", "plain start", "stop with 7, open True", "closed"]


async def test_the_transport_of_the_address_is_used(sqlite_gateway: Server) -> None:
    async with queue_with_handlers(sqlite_gateway.address) as queue:
        kinds = {"holdfast": WebSocketChannel, "grpc": GrpcChannel}
        assert type(engine_of(queue).link._channel) is kinds[sqlite_gateway.transport]


async def test_a_gateway_without_grpc_is_reached_by_websocket(tmp_path: Path) -> None:
    """Whether it announces none, or its port is not reached."""
    url = f"sqlite:///{tmp_path}/holdfast.db"
    async with server(tmp_path, url, grpc_port=-1) as without, server(tmp_path, url) as closed:
        dead = socket.create_server(("127.0.0.1", 0))
        port = dead.getsockname()[1]
        dead.close()
        without.transport = closed.transport = "grpc"
        for address in (without.address, f"{closed.address}?grpc_port={port}"):
            async with queue_with_handlers(address) as queue:
                assert type(engine_of(queue).link._channel) is WebSocketChannel
                handle = await queue.enqueue("add", {"a": 1, "b": 2})
                assert await handle.result(SECONDS) == 3


async def test_a_schedule_of_the_code_fires_through_a_gateway(sqlite_gateway: Server) -> None:
    queue = TaskQueue(sqlite_gateway.address, token=ADMIN, lease_seconds=6.0)
    fired = asyncio.Event()

    @queue.task(cron="@every 0.2")
    async def beat() -> None:
        fired.set()

    async with queue:
        await asyncio.wait_for(fired.wait(), SECONDS)
        [schedule] = await queue.get_schedules()
        assert (schedule.name, schedule.owner, schedule.project) == ("beat", "remote", "default")


async def test_limits_hold_and_many_tasks_end(gateway: Server) -> None:
    async with queue_with_handlers(gateway.address) as queue:
        items = [{"type": "limited", "payload": {"n": n}} for n in range(60)]
        handles = await queue.enqueue_many(items)
        assert await asyncio.gather(*(h.result(SECONDS) for h in handles)) == list(range(60))
        stats = await queue.get_stats()
        assert (stats.completed, stats.registered_handlers[0]) == (60, "add")
        assert await queue.get_queue_size() == 0


async def test_a_refused_enqueue_does_not_fail_those_of_other_callers(gateway: Server) -> None:
    """They share a request."""
    async with queue_with_handlers(gateway.address) as queue:
        await queue.enqueue("add", {"a": 1, "b": 2}, id="mine")
        asked: list[Any] = [queue.enqueue("add", {"a": n, "b": 0}) for n in range(8)]
        asked.insert(2, queue.enqueue("add", {"a": 2, "b": 2}, id="mine"))
        asked.insert(5, queue.enqueue("no-such-type", {}))
        asked.insert(6, queue.enqueue("add", {"a": 1, "b": 2}, depends_on=["none"]))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [type(each).__name__ for each in answers if isinstance(each, Exception)]
        assert refused == ["DuplicateTask", "UnknownType", "UnknownDependency"]
        made = [each for each in answers if not isinstance(each, BaseException)]
        assert [await each.result(SECONDS) for each in made] == list(range(8))
        assert (await queue.get_stats()).completed == 9


async def test_a_process_of_the_command_line_runs_tasks(gateway: Server, tmp_path: Path) -> None:
    queue = queue_with_handlers(gateway.address)
    async with worker(tmp_path, gateway.address, await gateway.joining()) as process:
        handle = await queue.enqueue("in_process", {"n": 2})
        assert (await handle.result(SECONDS))[0] == 6
        nodes = await queue.get_nodes()
        assert any("in_process" in node.types for node in nodes)
        process.terminate()
        assert await process.wait() == 0
    await queue.stop()


async def test_operators_calls(sqlite_gateway: Server) -> None:
    queue = queue_with_handlers(sqlite_gateway.address)
    try:
        waiting = await queue.enqueue("add", {"a": 1, "b": 1}, delay=500.0)
        assert [task.id for task in await queue.find_tasks(type="add")] == [waiting.id]
        assert (await queue.why(waiting)).status is Status.QUEUED
        edited = await queue.edit_task(waiting, {"a": 5}, merge=True)
        assert edited.payload == {"a": 5, "b": 1}
        assert (await waiting.cancel(reason="no")).status is Status.ABORTED
        with pytest.raises(IllegalTransition):
            await queue.cancel(waiting)
        assert await queue.get_task("missing") is None
        kinds = [event.kind for event in await queue.history(waiting)]
        audited = ["intervention.issued", "intervention.applied"]
        assert kinds == ["task.enqueued", "task.edited", "task.aborted", *audited]
        events = [event.kind async for event in queue.events(follow=False)]
        assert "task.aborted" in events
        with pytest.raises(UnknownType):
            await queue.enqueue("unheard-of")
        with pytest.raises(NotSupported, match="transaction"):
            await queue.enqueue("add", {"a": 1, "b": 1}, tx=object())
    finally:
        await queue.stop()


async def test_dead_letters_and_steps_in_a_transaction(sqlite_gateway: Server) -> None:
    async with queue_with_handlers(sqlite_gateway.address) as queue:
        handle = await queue.enqueue("in_transaction", {})
        with pytest.raises(TaskFailed, match="no database"):
            await handle.result(SECONDS)
        assert [task.id for task in await queue.get_dead_tasks()] == [handle.id]
        assert (await queue.get_dead_groups())[0].count == 1
        replayed = await queue.replay_dead_task(handle.id)
        assert replayed.id == handle.id
        assert (await handle.wait(SECONDS)).status is Status.FAILED


async def test_a_question_is_answered_and_the_task_goes_on(sqlite_gateway: Server) -> None:
    async with queue_with_handlers(sqlite_gateway.address) as queue:
        asked: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def watch(event: object) -> None:
            if getattr(event, "kind", "") == "checkpoint.hitl_required" and not asked.done():
                asked.set_result(event.data["decision_id"])  # type: ignore[attr-defined]

        queue.on_event(watch)
        await queue.position()
        handle = await queue.enqueue("asks", {})
        decision = await asyncio.wait_for(asked, SECONDS)
        await sqlite_gateway.ask("POST", f"/decisions/{decision}", json={"choice": "yes"})
        assert await handle.result(SECONDS) == "yes"


async def test_an_abort_cancels_the_handler(sqlite_gateway: Server) -> None:
    async with queue_with_handlers(sqlite_gateway.address) as queue:
        handle = await queue.enqueue("forever", {"name": "abort"})
        await marked("abort started")
        assert (await queue.cancel(handle)).status is Status.ABORTED
        await marked("abort cancelled")


@pytest.mark.parametrize("is_embedded", [False, True], ids=["remote", "embedded"])
async def test_a_running_handler_learns_of_an_operator_before_its_renewal(
    gateway: Server, url: str, is_embedded: bool
) -> None:
    """The next renewal comes after the test has failed."""
    beside = TaskQueue(url) if is_embedded else queue_with_handlers(gateway.address)
    lease = 12 * SECONDS
    made = queue_with_handlers(gateway.address, lease_seconds=lease, shutdown_timeout=0.1)
    async with made as queue:
        for name, change in (("cancel", beside.cancel), ("pause", beside.pause_task)):
            handle = await queue.enqueue("forever", {"name": name})
            await marked(f"{name} started")
            await change(handle.id, reason="enough")
            await marked(f"{name} cancelled")
        [paused] = await queue.find_tasks(status=Status.PAUSED)
        assert (await beside.resume_task(paused.id)).status is Status.QUEUED
        issued = await queue.parts.interventions.list(paused.id)
        assert [row.type.value for row in issued] == ([] if is_embedded else ["RESUME", "PAUSE"])
    await beside.stop()


async def test_a_stop_gives_running_tasks_back(sqlite_gateway: Server) -> None:
    # With a short lease, a machine that stalls loses the run before the stop can give it back.
    queue = queue_with_handlers(sqlite_gateway.address, shutdown_timeout=0.1, lease_seconds=60.0)
    await queue.start()
    handle = await queue.enqueue("forever", {"name": "stop"})
    await marked("stop started")
    await queue.stop()
    task = await handle.get()
    assert (task.status, task.attempts) == (Status.QUEUED, 0)
    await queue.stop()


async def test_a_queue_starts_again_after_a_stop(sqlite_gateway: Server) -> None:
    queue = queue_with_handlers(sqlite_gateway.address, token=ADMIN)
    for n in range(2):
        async with queue:
            assert await (await queue.enqueue("add", {"a": n, "b": 1})).result(SECONDS) == n + 1


async def test_interventions_are_read_page_by_page(sqlite_gateway: Server) -> None:
    queue = queue_with_handlers(sqlite_gateway.address)
    async with queue:
        task = await queue.enqueue("add", {"a": 1, "b": 2}, delay=900)
        for type in ("PAUSE", "RESUME", "PAUSE", "RESUME", "PAUSE"):
            await queue.parts.interventions.intervene(task.id, type, "why")
        whole = [each.id for each in await queue.parts.interventions.list(task.id)]
        pages: list[str] = []
        while page := await queue.parts.interventions.list(
            task.id, after=pages[-1] if pages else None, limit=2
        ):
            pages += [each.id for each in page]
        assert pages == whole
        assert len(pages) == 5


async def test_handlers_of_every_kind_enqueue_over_the_wire(gateway: Server) -> None:
    async with queue_with_handlers(gateway.address) as queue:
        for n, kind in enumerate(("follow_up", "follow_up_thread", "follow_up_process")):
            assert await (await queue.enqueue(kind, {"n": n})).result(SECONDS) == n + 1


async def test_a_producer_and_blocking_calls_through_a_gateway(sqlite_gateway: Server) -> None:
    queue = TaskQueue(sqlite_gateway.address, token=ADMIN)
    double = queue.task(name="double")(in_thread.function)
    for _ in range(2):
        async with queue.producer(), queue.producer():
            await double.enqueue(1)
        assert not queue.is_running()

    def blocking() -> list[object]:
        """In several threads at once, beside enqueues in the event loop."""
        handle = double.enqueue_sync(2)
        many = queue.sync.enqueue_many([double.request(3), double.request(4)])
        cancelled = queue.sync.cancel(many[1], reason="enough").status
        return [handle.get().payload, len(many), cancelled]

    async with queue.producer():
        there = [asyncio.to_thread(blocking) for _ in range(3)]
        *found, _ = await asyncio.gather(*there, double.enqueue(5))
        assert found == [[{"n": 2}, 2, Status.ABORTED]] * 3
        assert await queue.get_queue_size() == 2 + 3 * 2 + 1
        await asyncio.to_thread(queue.sync.close)
        assert await asyncio.to_thread(queue.sync.get_queue_size) == 9
        await asyncio.to_thread(queue.sync.close)


async def test_arguments_are_checked_by_the_gateway(gateway: Server) -> None:
    """A producer without the handler: the store has the arguments of the type."""
    producer = TaskQueue(gateway.address, token=ADMIN)
    async with queue_with_handlers(gateway.address):
        for payload, why in (
            ({"a": 1}, "no field 'b'"),
            ({"a": 1, "b": "2"}, "payload.b is '2'"),
            ({"a": 1, "b": 2, "c": 3}, "the field 'c'"),
        ):
            with pytest.raises(InvalidInput, match=f"'add' cannot be called like this.*{why}"):
                await producer.enqueue("add", payload)
            with pytest.raises(InvalidInput, match=why):
                await producer.enqueue_many([{"type": "add", "payload": payload}])
        assert await (await producer.enqueue("add", {"a": 1, "b": 2})).result(SECONDS) == 3
    await producer.stop()


async def test_task_groups_go_over_the_wire(gateway: Server) -> None:
    async with queue_with_handlers(gateway.address) as queue:
        group = await queue.enqueue_group(
            [{"type": "add", "payload": {"a": n, "b": 1}} for n in range(3)]
        )
        assert await group.results(SECONDS) == [1, 2, 3]
        found = await queue.get_group(group.id)
        assert found.task_ids == group.task_ids
        assert (await found.progress()).counts == {Status.COMPLETED: 3}
        child = await queue.enqueue("add", {"a": 0, "b": 0}, depends_on=[found])
        assert await child.result(SECONDS) == 0
        late = [{"type": "add", "payload": {"a": 1, "b": 1}, "delay": 900}]
        named = [await queue.enqueue_group(late, id="nightly") for _ in range(2)]
        assert named[0].task_ids == named[1].task_ids
        assert await named[0].cancel(reason="wrong") == 1
        assert (await named[1].wait(SECONDS)).counts == {Status.ABORTED: 1}
        with pytest.raises(TaskFailed):
            await named[0].results(SECONDS)
