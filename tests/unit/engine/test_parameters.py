"""Arguments of handlers: which parameter is the context, and payloads that do not fit the function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from holdfast import BlockingContext, Context, DependencyPolicy, Edge, TaskQueue
from holdfast.errors import BadConfig, InvalidInput
from holdfast.testing import harness

if TYPE_CHECKING:
    from holdfast import Context as Later


class Drawing:
    """Another thing that an application calls a context."""


async def ran(queue: TaskQueue, type: str, payload: object) -> Any:
    async with harness(queue) as h:
        handle = await queue.enqueue(type, payload)
        await h.run_until_idle()
        return await handle.result()


async def test_the_context_is_found_by_its_annotation(queue: TaskQueue) -> None:
    @queue.task
    async def first(job: Context, n: int) -> list[object]:
        return [job.attempt, n]

    @queue.task
    async def dotted(n: int, *, job: holdfast.Context) -> list[object]:
        return [job.attempt, n]

    @queue.task
    async def optional(n: int, job: Context | None = None) -> list[object]:
        return [job and job.attempt, n]

    @queue.task
    async def checked(n: int, ctx: Later) -> list[object]:
        return [ctx.attempt, n]

    @queue.task
    def blocking(n: int, job: BlockingContext) -> list[object]:
        return [job.attempt, n]

    @queue.task
    async def by_name(n, context):  # type: ignore[no-untyped-def]
        return [context.attempt, n]

    @queue.task
    async def any_kind(ctx: Any, n: int) -> list[object]:
        return [ctx.attempt, n]

    for type in queue.definitions.handlers.types():
        assert await ran(queue, type, {"n": 5}) == [1, 5], type
    async with harness(queue) as h:
        handle = await first.enqueue(7)  # by position: the context is not counted
        await h.run_until_idle()
        assert await handle.result() == [1, 7]


async def test_a_parameter_with_another_annotation_is_an_argument(queue: TaskQueue) -> None:
    @queue.task
    async def draw(ctx: str, context: Drawing | None = None) -> list[object]:
        return [ctx, context]

    async with harness(queue) as h:
        handle = await draw.enqueue(ctx="a", context=None)
        await h.run_until_idle()
        assert await handle.result() == ["a", None]


async def test_the_context_cannot_be_given(queue: TaskQueue) -> None:
    @queue.task
    async def work(n: int, ctx: Context) -> None: ...

    @queue.task
    async def any_name(ctx: Context, **rest: object) -> None: ...

    async with harness(queue):
        for call in (
            work.enqueue(n=1, ctx=2),
            any_name.enqueue(ctx=2),  # type: ignore[arg-type]
            queue.enqueue("work", {"n": 1, "ctx": 2}),
            queue.enqueue("any_name", {"ctx": 2}),
        ):
            with pytest.raises(InvalidInput, match="'ctx' is the context"):
                await call


def test_two_contexts_are_refused(queue: TaskQueue) -> None:
    with pytest.raises(BadConfig, match="a, b are all the context"):

        @queue.task
        async def work(a: Context, b: Context) -> None: ...


@pytest.mark.parametrize("payload", [[1], "text", 3, None, {}, {"z": 1}, {"n": 1, "z": 1}])
async def test_a_payload_of_a_type_of_this_process_is_checked(
    queue: TaskQueue, payload: object
) -> None:
    @queue.task
    async def work(n: int, label: str = "") -> int:
        return n

    async with harness(queue) as h:
        for call in (
            queue.enqueue("work", payload),
            queue.enqueue_many([{"type": "work", "payload": payload}]),
            queue.enqueue_many(
                [{"type": "work", "payload": {"n": 1}}] * 2 + [{"type": "work", "payload": payload}]
            ),
            queue.schedule("nightly", "0 0 * * *", "work", payload),
        ):
            with pytest.raises(InvalidInput, match="task 'work' cannot be called like this"):
                await call
        await h.refute_enqueued("work")
        assert await queue.get_schedules() == []


async def test_payloads_that_fit_are_accepted(queue: TaskQueue) -> None:
    @queue.task
    async def work(n: int = 0, **rest: object) -> None: ...

    async with harness(queue) as h:
        for payload in (None, {}, {"n": 1}, {"other": 2}):
            await queue.enqueue("work", payload)
            await queue.schedule("nightly", "0 0 * * *", "work", payload)
        assert len(await h.tasks("work")) == 4


def test_a_cron_of_a_task_with_arguments_is_refused(queue: TaskQueue) -> None:
    with pytest.raises(BadConfig, match="calls it without arguments, but needs n"):

        @queue.task(cron="0 0 * * *")
        async def work(n: int) -> None: ...

    assert queue.definitions.handlers.types() == ()

    @queue.task(cron="0 0 * * *")
    async def fine(ctx: Context, n: int = 1, **rest: object) -> None: ...


def test_a_burst_without_a_rate_is_refused(queue: TaskQueue) -> None:
    for options in ({"burst": 5}, {"burst": 5, "concurrency": 2}):
        with pytest.raises(BadConfig, match="burst has no effect without a rate"):
            queue.task(**options)(lambda: None)  # type: ignore[call-overload]


async def test_the_policy_of_an_edge_may_be_a_name(queue: TaskQueue) -> None:
    """A type checker accepts it too."""

    @queue.task(max_attempts=1)
    async def fails() -> None:
        raise ValueError("no")

    @queue.task
    async def goes_on() -> str:
        return "done"

    async with harness(queue) as h:
        first = await fails.enqueue()
        edges = [Edge(first, "ignore")], [Edge(first, DependencyPolicy.IGNORE)]
        handles = [await goes_on.options(depends_on=edge).enqueue() for edge in edges]
        await h.run_until_idle()
        assert [await handle.result() for handle in handles] == ["done", "done"]
