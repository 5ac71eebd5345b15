"""Values of handlers in threads and in processes: the same answers and the same errors."""

from __future__ import annotations

from typing import Any

from holdfast import TaskQueue
from holdfast.sync.worker.reads import output_page
from tests.acceptance.apps.jobs import make_queue


async def ended(queue: TaskQueue, kind: str) -> Any:
    task = await (await queue.enqueue(kind)).wait(60)
    assert task.status == "completed", task.why_ended
    return task


async def test_odd_values_get_the_same_answer_in_a_thread_and_in_a_process(url: str) -> None:
    kinds = ("thread_hostile", "process_hostile")
    async with make_queue(url, *kinds) as queue:
        threads, processes = [await ended(queue, kind) for kind in kinds]
        assert processes.result == threads.result
        answers = dict(threads.result)
        typed = {"InvalidInput", "UnserialisablePayload"}
        taken = {name for name, answer in answers.items() if answer.startswith("answered")}
        assert set(answers.values()) - {answers[name] for name in taken} <= typed
        assert taken == {
            "output of a name",
            "metric of the application",
            "progress of the application",
            "saved at last",
            "what is saved",
        }
        store = (await queue.open()).store
        for task in (threads, processes):
            page = await output_page(store, task, "stdout", fence=1, start=0, size=1_000)
            assert page.data == b"named\n"
            assert await store.reads.metrics(task.id) == {"a": 3.5}
            assert (task.progress["done"], task.checkpoint) == (0.5, [1, {"b": 2}])


async def test_a_result_of_the_application_s_types(url: str) -> None:
    kinds = ("thread_named_result", "process_named_result")
    async with make_queue(url, *kinds) as queue:
        threads, processes = [(await ended(queue, kind)).result for kind in kinds]
        assert threads == processes == {"k": [1, [2, 3]]}
