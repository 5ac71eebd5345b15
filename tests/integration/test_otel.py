"""The trace of a producer goes on in the handler: with the real SDK and an exporter in memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from holdfast import BlockingContext, Context, Snooze, TaskQueue, Unique
from holdfast.errors import BadConfig, MissingExtra
from holdfast.otel import instrument
from holdfast.tracing import CURRENT, TraceContext, parse_trace, using
from tests.integration.gateway.processes import Process, started

PARENT = "00-" + "1f" * 16 + "-" + "2e" * 8 + "-01"


class Traces:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("tests")

    def spans(self, kind: SpanKind | None = None) -> list[ReadableSpan]:
        found = self.exporter.get_finished_spans()
        return [span for span in found if kind is None or span.kind is kind]

    def one(self, kind: SpanKind) -> ReadableSpan:
        [span] = self.spans(kind)
        return span


@pytest.fixture
def traces() -> Iterator[Traces]:
    made = Traces()
    yield made
    made.provider.shutdown()


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def current() -> str:
    return f"{trace.get_current_span().get_span_context().span_id:016x}"


def spawned() -> str:
    """Runs in a process: which span is current there?"""
    return current()


async def test_a_run_is_a_child_of_the_enqueue(url: str, traces: Traces) -> None:
    queue = TaskQueue(url)
    instrument(queue, tracer_provider=traces.provider)

    @queue.task(queue="mail")
    async def send(to: str) -> str:
        return current()

    async with queue:
        with traces.tracer.start_as_current_span("request") as request:
            handle = await send.enqueue("ann")
        inside = await handle.result(30)
    producer, consumer = traces.one(SpanKind.PRODUCER), traces.one(SpanKind.CONSUMER)
    assert parent(producer) == (
        request.get_span_context().trace_id,
        request.get_span_context().span_id,
    )
    assert parent(consumer) == ids(producer)
    assert inside == f"{ids(consumer)[1]:016x}"
    assert (producer.name, consumer.name) == ("enqueue send", "run send")
    assert consumer.attributes is not None
    assert dict(consumer.attributes) == {
        "messaging.system": "holdfast",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": handle.id,
        "holdfast.task.type": "send",
        "holdfast.task.attempt": 1,
    }
    assert producer.attributes is not None
    assert producer.attributes["messaging.message.id"] == handle.id


async def test_handlers_of_every_kind_go_on_with_the_trace(traces: Traces, tmp_path: Any) -> None:
    queue = TaskQueue(f"sqlite:///{tmp_path / 'q.db'}")
    instrument(queue, tracer_provider=traces.provider)

    @queue.task
    def threaded(ctx: BlockingContext) -> str:
        ctx.enqueue("leaf")
        return current()

    @queue.task
    async def leaf() -> None: ...

    in_process = queue.task(name="in_process", isolation="process")(spawned)
    async with queue:
        for task in (threaded, in_process):
            traces.exporter.clear()
            handle = await task.enqueue()
            inside = await handle.result(60)
            [run] = [s for s in traces.spans(SpanKind.CONSUMER) if s.name == f"run {task.type}"]
            assert inside == f"{ids(run)[1]:016x}", task.type
            if task is threaded:
                [follow_up] = [
                    s for s in traces.spans(SpanKind.PRODUCER) if s.name == "enqueue leaf"
                ]
                assert parent(follow_up) == ids(run)


async def test_errors_are_recorded_with_each_attempt(url: str, traces: Traces) -> None:
    queue = TaskQueue(url, base_retry_delay=0.01)
    instrument(queue, tracer_provider=traces.provider)

    @queue.task(max_attempts=2)
    async def boom() -> None:
        raise ValueError("no such user")

    @queue.task
    async def later(ctx: Context) -> Snooze | None:
        return Snooze(0.0) if ctx.saved is None and not await saved(ctx) else None

    async with queue:
        await (await boom.enqueue()).wait(30)
        runs = traces.spans(SpanKind.CONSUMER)
        assert [span.status.status_code for span in runs] == [StatusCode.ERROR] * 2
        assert {parent(span) for span in runs} == {ids(traces.one(SpanKind.PRODUCER))}
        for span in runs:
            [event] = span.events
            assert event.attributes is not None
            assert event.attributes["exception.type"] == "ValueError"
            assert 'raise ValueError("no such user")' in str(
                event.attributes["exception.stacktrace"]
            )
        traces.exporter.clear()
        await (await later.enqueue()).wait(30)
        assert [s.status.status_code for s in traces.spans(SpanKind.CONSUMER)] == [
            StatusCode.UNSET
        ] * 2


async def test_an_error_that_cannot_be_read_stays_the_outcome(url: str, traces: Traces) -> None:
    queue = TaskQueue(url)
    instrument(queue, tracer_provider=traces.provider)

    class Mute(Exception):
        def __str__(self) -> str:
            raise LookupError

    @queue.task(give_up_on=Mute)
    async def boom() -> None:
        raise Mute

    async with queue:
        ended = await (await boom.enqueue()).wait(30)
    assert ended.failure is not None
    assert (ended.attempts, ended.failure.error_type.rpartition(".")[2]) == (1, "Mute")
    assert traces.one(SpanKind.CONSUMER).status.status_code is StatusCode.ERROR


async def saved(ctx: Context) -> bool:
    await ctx.save(1)
    return False


async def test_a_run_may_begin_a_trace_with_a_link(url: str, traces: Traces) -> None:
    queue = TaskQueue(url)
    instrument(queue, tracer_provider=traces.provider, links=True)

    @queue.task
    async def work() -> None: ...

    async with queue:
        await (await work.enqueue()).wait(30)
    producer, consumer = traces.one(SpanKind.PRODUCER), traces.one(SpanKind.CONSUMER)
    assert consumer.parent is None
    [link] = consumer.links
    assert (link.context.trace_id, link.context.span_id) == ids(producer)


async def test_a_batch_is_one_span_and_tasks_without_a_trace_begin_one(
    url: str, traces: Traces
) -> None:
    queue = TaskQueue(url)

    @queue.task
    async def work(n: int) -> None: ...

    old = await work.enqueue(0)
    instrument(queue, tracer_provider=traces.provider)
    with traces.tracer.start_as_current_span("start of the workers"):
        async with queue:
            handles = await queue.enqueue_many(work.request(n) for n in range(3))
            for handle in [old, *handles]:
                await handle.wait(30)
    producer = traces.one(SpanKind.PRODUCER)
    parents = sorted(parent(s) or (0, 0) for s in traces.spans(SpanKind.CONSUMER))
    assert parents == [(0, 0)] + [ids(producer)] * 3
    with pytest.raises(BadConfig, match="already"):
        instrument(queue)


async def test_the_trace_is_no_part_of_the_request(url: str) -> None:
    queue = TaskQueue(url)
    queue.register_handler("work", lambda payload: payload)
    other = PARENT.replace("2e", "3d")
    async with queue.producer():
        for options in (
            {"idempotency_key": "k"},
            {"unique": Unique(until="ended")},
            {"id": "mine"},
        ):
            found = []
            for parent_id in (PARENT, other):
                with using(parse_trace(parent_id)):
                    found.append(await queue.enqueue("work", {"a": 1}, **options))
            assert [handle.created for handle in found] == [True, False], options
            task = await found[1].get()
            assert task.options.trace == TraceContext(PARENT), "the first one stays"


async def test_concurrent_callers_keep_their_own_traces(url: str) -> None:
    """Their tasks share a commit, and copy one model."""
    queue = TaskQueue(url)
    queue.register_handler("work", lambda payload: payload)
    parents = [f"00-{n:032x}-{n:016x}-01" for n in range(1, 30)]

    async def enqueue(text: str | None) -> TraceContext | None:
        with using(parse_trace(text)):
            handle = await queue.enqueue("work")
        return (await handle.get()).options.trace

    async with queue.producer():
        found = await asyncio.gather(*(enqueue(text) for text in [None, *parents]))
    assert found == [None, *(TraceContext(text) for text in parents)]
    assert CURRENT.get() is None


async def test_a_handler_goes_on_with_the_trace_without_opentelemetry(url: str) -> None:
    queue = TaskQueue(url, max_workers=1)

    @queue.task
    async def leaf() -> None: ...

    @queue.task
    async def branch(ctx: Context) -> list[str]:
        return [(await ctx.enqueue(leaf)).id, (await leaf.enqueue()).id]

    @queue.task
    def plain(ctx: BlockingContext) -> list[str]:
        return [ctx.enqueue(leaf).id]

    async with queue:
        for task in (branch, plain):
            for text in (PARENT, None):  # the same worker has no trace afterwards
                with using(parse_trace(text)):
                    handle = await task.enqueue()
                for child in await handle.result(30):
                    found = await queue.wait_task(child, 30)
                    assert found.options.trace == parse_trace(text), task.type


async def test_the_trace_goes_through_a_gateway(tmp_path: Any, traces: Traces) -> None:
    with started(tmp_path) as server:
        queue = remote(server)
        instrument(queue, tracer_provider=traces.provider)

        @queue.task
        async def work(n: int) -> None: ...

        async with queue:
            await asyncio.gather(*[handle.wait(30) for handle in [await work.enqueue(0)]])
            await asyncio.gather(*[h.wait(30) for h in await queue.enqueue_many([work.request(1)])])
        producers, consumers = traces.spans(SpanKind.PRODUCER), traces.spans(SpanKind.CONSUMER)
        assert [parent(span) for span in consumers] == [ids(span) for span in producers]
        assert len(producers) == 2


def test_the_headers_of_a_request_are_stored(tmp_path: Any) -> None:
    with started(tmp_path) as server:
        server.ask("PUT", "/api/v1/types", json={"definitions_json": '[{"name": "work"}]'})
        body = {"type": "work"}
        own = PARENT.replace("2e", "3d")
        headers = {"traceparent": PARENT, "tracestate": "a=1"}
        of_header = {"traceparent": PARENT, "tracestate": "a=1"}
        for given, sent, kept in (
            (headers, body, of_header),
            (headers, {**body, "traceparent": own}, {"traceparent": own}),
            ({"traceparent": "nonsense"}, body, None),
            ({}, body, None),
        ):
            answer = server.ask("POST", "/api/v1/tasks", json=sent, headers=given).json()
            assert answer["task"]["options"].get("trace") == kept, answer
        many = server.ask(
            "POST", "/api/v1/tasks/batch", json={"tasks": [body]}, headers=headers
        ).json()
        shown = server.ask("GET", f"/api/v1/tasks/{many['items'][0]['id']}").json()
        assert shown["options"]["trace"] == of_header


def test_the_same_key_with_another_trace_is_the_same_request(tmp_path: Any) -> None:
    with started(tmp_path) as server:
        server.ask("PUT", "/api/v1/types", json={"definitions_json": '[{"name": "work"}]'})
        ids = set()
        for text in (PARENT, PARENT.replace("2e", "3d")):
            headers = {"traceparent": text, "idempotency-key": "once"}
            answer = server.ask("POST", "/api/v1/tasks", json={"type": "work"}, headers=headers)
            ids.add(answer.json()["task"]["id"])
        assert len(ids) == 1


def remote(server: Process) -> TaskQueue:
    token = server.auth["Authorization"].removeprefix("Bearer ")
    return TaskQueue(server.url.replace("http", "holdfast", 1), token=token)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find = __import__("importlib.util").util.find_spec

    def missing(name: str, *rest: Any) -> Any:
        return None if name == "opentelemetry" else find(name, *rest)

    monkeypatch.setattr("importlib.util.find_spec", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'holdfast\[otel\]'"):
        instrument(TaskQueue("sqlite://"))


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00",
        PARENT + "x",
        "ff" + PARENT[2:],
        "00-" + "0" * 32 + PARENT[35:],
        PARENT.upper(),
    ],
)
def test_what_is_no_trace_is_ignored(text: str | None) -> None:
    assert parse_trace(text) is None
    assert parse_trace(PARENT, "x" * 513) == TraceContext(PARENT)
    assert parse_trace(PARENT, "ä") == TraceContext(PARENT)


def test_a_queue_imports_no_opentelemetry() -> None:
    program = "import sys, holdfast.app; print('opentelemetry' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert said.stdout == "False\n"
