"""`ctx.decide`: the handler gives its worker back, and goes on with the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import BlockingContext, Context, Status, Task, TaskQueue
from holdfast.core.decision import Decision, DecisionState
from holdfast.errors import AlreadyDecided, DecisionExpired, InvalidInput, StoreUnavailable
from holdfast.store.decisions import DecisionStore
from holdfast.testing import Harness, harness


async def open_decision(queue: TaskQueue) -> Decision:
    decisions = await queue.decisions(state="open")
    assert len(decisions) == 1
    return decisions[0]


async def test_a_question_without_a_deadline_gets_the_one_of_the_settings(queue: TaskQueue) -> None:
    async def deploy(task: Task, ctx: Context) -> Any:
        deadline = task.payload
        return (await ctx.decide("Deploy?", deadline=deadline)).choice

    queue.register_handler("deploy", deploy)
    async with harness(queue, decision_deadline=90.0) as h:
        for own, seconds in ((None, 90.0), (5.0, 5.0)):
            handle = await queue.enqueue("deploy", own)
            await h.run_until_idle()
            decision = await open_decision(queue)
            assert decision.deadline_at == decision.created_at + seconds
            await queue.cancel(handle.id)


async def test_a_default_counts_at_the_deadline_of_the_settings(queue: TaskQueue) -> None:
    async def deploy(task: Task, ctx: Context) -> Any:
        return (await ctx.decide("Deploy?", default="no")).choice

    queue.register_handler("deploy", deploy, max_attempts=1)
    async with harness(queue, decision_deadline=90.0) as h:
        handle = await queue.enqueue("deploy")
        await h.advance(80)
        assert (await handle.get()).status is Status.PAUSED
        await h.advance(20)
        assert (await handle.get()).result == "no"


async def test_a_default_without_any_deadline_is_refused(queue: TaskQueue) -> None:
    async def deploy(task: Task, ctx: Context) -> Any:
        return (await ctx.decide("Deploy?", default="no")).choice

    queue.register_handler("deploy", deploy, max_attempts=1)
    async with harness(queue) as h:
        handle = await queue.enqueue("deploy")
        await h.run_until_idle()
        failure = (await handle.get()).failure
        assert failure is not None
        assert "give a deadline too" in failure.message


async def test_a_handler_waits_without_a_worker_and_goes_on(queue: TaskQueue) -> None:
    runs: list[int] = []

    async def deploy(task: Task, ctx: Context) -> Any:
        runs.append(ctx.fence)
        answer = await ctx.decide("Deploy?", options=["yes", "no"], data={"hosts": 14})
        return [answer.choice, answer.by, answer.reason]

    queue.register_handler("deploy", deploy)
    queue.register_handler("other", lambda task: "done")
    async with harness(queue, max_workers=1) as h:
        handle = await queue.enqueue("deploy")
        await h.run_until_idle()
        task = await handle.get()
        assert (task.status, task.attempts) == (Status.PAUSED, 0)
        other = await queue.enqueue("other")  # The only worker is free.
        await h.run_until_idle()
        assert (await other.get()).status is Status.COMPLETED
        decision = await open_decision(queue)
        assert (decision.key, decision.question) == ("#1", "Deploy?")
        await queue.decide(decision.id, "yes", actor="user:ann", reason="green")
        await h.run_until_idle()
        task = await handle.get()
        assert (task.result, task.attempts) == (["yes", "user:ann", "green"], 1)
        with pytest.raises(AlreadyDecided):
            await queue.decide(decision.id, "no", actor="user:bob")
    assert len(runs) == 2


async def test_questions_are_named_by_key_or_position(queue: TaskQueue) -> None:
    async def ask(task: Task, ctx: Context) -> Any:
        first = await ctx.decide("One?")
        second = await ctx.decide("Two?", key="two")
        return [first.choice, second.choice, (await ctx.decide("One?", key="again")).choice]

    queue.register_handler("ask", ask)
    async with harness(queue) as h:
        handle = await queue.enqueue("ask")
        for n, key in enumerate(["#1", "two", "again"]):
            await h.run_until_idle()
            decision = await open_decision(queue)
            assert decision.key == key
            await queue.decide(decision.id, n)
        await h.run_until_idle()
        assert (await handle.get()).result == [0, 1, 2]


async def test_the_default_counts_at_the_deadline(queue: TaskQueue) -> None:
    async def ask(task: Task, ctx: Context) -> Any:
        answer = await ctx.decide("Go?", options=["yes", "no"], deadline=60, default="no")
        return [answer.choice, answer.by]

    queue.register_handler("ask", ask)
    async with harness(queue) as h:
        handle = await queue.enqueue("ask")
        await h.advance(59)
        assert (await handle.get()).status is Status.PAUSED
        await h.advance(12)
        assert (await handle.get()).result == ["no", "deadline"]


@pytest.mark.parametrize("catches", [True, False])
async def test_an_expired_decision_raises(queue: TaskQueue, catches: bool) -> None:
    async def ask(task: Task, ctx: Context) -> str:
        try:
            await ctx.decide("Go?", deadline=60)
        except DecisionExpired:
            if not catches:
                raise
            return "no answer"
        return "answered"

    queue.register_handler("ask", ask, max_attempts=5)
    async with harness(queue) as h:
        handle = await queue.enqueue("ask")
        await h.advance(72)
        task = await handle.get()
        if catches:
            assert task.result == "no answer"
        else:
            assert task.status is Status.FAILED
            assert task.attempts == 1  # Another attempt would get the same.


async def test_a_handler_that_catches_everything_still_ends(queue: TaskQueue) -> None:
    async def ask(task: Task, ctx: Context) -> str:
        try:
            return str((await ctx.decide("Go?")).choice)
        except BaseException:
            return "went on"

    queue.register_handler("ask", ask)
    async with harness(queue) as h:
        handle = await queue.enqueue("ask")
        await h.run_until_idle()
        assert (await handle.get()).status is Status.PAUSED
        await queue.decide((await open_decision(queue)).id, "go")
        await h.run_until_idle()
        assert (await handle.get()).result == "go"
        kinds = [event.kind for event in await queue.history(handle.id)]
        assert "task.late" not in kinds


async def test_an_abort_cancels_the_decision(queue: TaskQueue) -> None:
    async def ask(task: Task, ctx: Context) -> None:
        await ctx.decide("Go?")

    queue.register_handler("ask", ask)
    async with harness(queue) as h:
        handle = await queue.enqueue("ask")
        await h.run_until_idle()
        decision = await open_decision(queue)
        await queue.cancel(handle.id)
        assert (await queue.decisions())[0].state is DecisionState.CANCELLED
        with pytest.raises(AlreadyDecided):
            await queue.decide(decision.id, "go")


async def test_a_question_is_checked(queue: TaskQueue) -> None:
    problems: list[str] = []

    async def ask(task: Task, ctx: Context) -> None:
        for fields in (
            {"options": ["a", "a"]},
            {"options": "ab"},
            {"options": ["a"], "default": "a"},
            {"options": ["a"], "default": "b", "deadline": 5},
            {"options": ["a"], "schema": {"type": "string"}},
            {"schema": {"pattern": "x"}},
            {"assignees": ["ann"]},
            {"key": "#1"},
            {"deadline": -1},
        ):
            try:
                await ctx.decide("Go?", **fields)
            except InvalidInput as error:
                problems.append(str(error))

    queue.register_handler("ask", ask)
    async with harness(queue) as h:
        await queue.enqueue("ask")
        await h.run_until_idle()
    assert len(problems) == 9


async def test_an_outage_while_asking_costs_no_attempt(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(task: Task, ctx: Context) -> Any:
        return (await ctx.decide("Go?")).choice

    queue.register_handler("ask", ask)
    async with harness(queue) as h:
        ask_once, failures = DecisionStore.ask, [1, 1]

        async def lose_answers(store: DecisionStore, *args: Any) -> Any:
            answer = await ask_once(store, *args)  # Committed, but the answer is lost.
            if failures:
                failures.pop()
                raise StoreUnavailable("away")
            return answer

        monkeypatch.setattr(DecisionStore, "ask", lose_answers)
        handle = await queue.enqueue("ask")
        await h.advance(30)
        await queue.decide((await open_decision(queue)).id, "go")
        await h.advance(30)
        task = await handle.get()
        assert (task.result, task.attempts) == ("go", 1)


async def test_a_plain_handler_asks() -> None:
    def ask(task: Task, ctx: BlockingContext) -> Any:
        return ctx.decide("Go?", options=["yes", "no"]).choice

    queue = TaskQueue("sqlite://")
    queue.register_handler("ask", ask)
    async with queue:
        handle = await queue.enqueue("ask")
        asked = asyncio.Event()

        def seen(event: Any) -> None:
            if event.kind == "checkpoint.hitl_required":
                asked.set()

        queue.on_event(seen)
        if not await queue.decisions(state="open"):
            await asyncio.wait_for(asked.wait(), 10)
        await queue.decide((await open_decision(queue)).id, "yes")
        assert await handle.result(10) == "yes"


async def test_a_reserved_task_is_claimed_by_its_node(queue: TaskQueue) -> None:
    queue.register_handler("work", lambda task: "done")
    async with harness(queue) as h:
        handle = await queue.enqueue("work", delay=5)
        node = (await queue.get_nodes())[0].id
        await queue.intervene(handle.id, "REASSIGN", "there", args={"to_node": node})
        await h.advance(15)
        assert (await handle.get()).result == "done"


async def test_an_intervention_is_applied_when_the_handler_has_stopped(queue: TaskQueue) -> None:
    async def slow(task: Task, ctx: Context) -> None:
        try:
            await h.clock.sleep(1_000)
        finally:
            await h.clock.sleep(2)

    queue.register_handler("slow", slow, timeout=None)
    h: Harness
    async with harness(queue) as h:
        handle = await queue.enqueue("slow")
        await h.advance(1)
        made = await queue.intervene(handle.id, "ABORT", "enough")
        assert made.state == "issued"
        await h.advance(1)
        get = queue.parts.interventions.get
        assert (await get(made.id)).state == "delivered"
        await h.advance(4)
        ended = await get(made.id)
        assert (ended.state, ended.detail) == ("applied", "the handler has stopped")
