"""Defining tasks: atomic, one function for each type, the same options both ways."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from msgspec.structs import replace

from holdfast import Task, TaskQueue, Unique
from holdfast.core.keywords import EnqueueKeywords, PriorityName
from holdfast.core.limit import LimitRule
from holdfast.core.task import Priority
from holdfast.errors import BadConfig, InvalidInput
from holdfast.queue.define import TypeOptions
from holdfast.queue.types import EnqueueOptions


async def send(task: Task) -> None: ...


async def other(task: Task | None = None) -> None: ...


@pytest.mark.parametrize(
    "options",
    [
        {"cron": "61 * * * *"},
        {"cron": 5},
        {"cron": "* * * * *", "timezone": "Mars/Phobos"},
        {"cron": "* * * * *", "timezone": "Europe"},
        {"isolation": "process"},
        {"isolation": ["loop"]},
        {"retries": 3},
        {"retry_on": "ValueError"},
        {"retry_on": ()},
        {"give_up_on": (ValueError, 3)},
        {"queue": "!mine"},
        {"timeout": float("inf")},
        {"max_attempts": True},
    ],
    ids=str,
)
def test_a_refused_definition_leaves_nothing(queue: TaskQueue, options: dict[str, Any]) -> None:
    def local(task: Task) -> None: ...

    with pytest.raises(InvalidInput):
        queue.task(name="f", **options)(local)
    with pytest.raises(InvalidInput):
        queue.register_handler("f", local, **options)
    assert queue.definitions.handlers.types() == ()
    assert queue.definitions.schedules == []


def _generator() -> Iterator[int]:
    yield 1


async def _async_generator() -> AsyncIterator[int]:
    yield 1


class Mailer:
    """Its method and the class itself are no handlers."""

    def send(self, to: str) -> None: ...


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (_generator, "is a generator: return a list"),
        (_async_generator, "is a generator: return a list"),
        (Mailer, "not the class Mailer"),
        (Mailer.send, "is a method, and the worker has no object"),
        ("send", "the name of the task is given as name='send'"),
        (functools.partial(other, None), "has no name: give the task one with name="),
        (None, None),
    ],
)
def test_what_is_no_handler_is_refused_with_what_to_do(
    queue: TaskQueue, function: Any, why: str | None
) -> None:
    if why is None:
        assert queue.task(function) is not None  # As @queue.task() does.
        return
    with pytest.raises(InvalidInput, match=re.escape(why)):
        queue.task(function)
    assert queue.definitions.handlers.types() == ()


def test_a_bound_method_and_a_named_partial_are_handlers(queue: TaskQueue) -> None:
    queue.task(Mailer().send)
    queue.task(name="later")(functools.partial(other, None))
    assert queue.definitions.handlers.types() == ("later", "send")


def test_hooks_are_called_as_they_are_declared(queue: TaskQueue) -> None:
    """A hook with other parameters would fail when workers start, or, unseen, when they stop."""

    def with_state(state: object) -> None: ...

    def without() -> None: ...

    with pytest.raises(BadConfig, match="a start hook is called with no argument"):
        queue.on_start(with_state)  # type: ignore[type-var]
    with pytest.raises(BadConfig, match="a stop hook is called with one argument, the state"):
        queue.on_stop(without)  # type: ignore[type-var]
    with pytest.raises(BadConfig, match="middleware returns one value"):
        queue.middleware(lambda ctx, call_next: (yield))


def test_a_misspelt_option_names_the_one_that_is_near(queue: TaskQueue) -> None:
    task = queue.task(other)
    assert repr(task) == repr(task.options(delay=1)) == "TaskFunction('other')"
    with pytest.raises(BadConfig, match="no option 'priorty': did you mean 'priority'"):
        queue.task(name="x", priorty="high")(other)  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match="no option 'dely': did you mean 'delay'"):
        task.options(dely=1)  # type: ignore[call-arg]
    with pytest.raises(BadConfig, match="unknown setting 'maxworkers': did you mean 'max_workers'"):
        TaskQueue("sqlite://", maxworkers=3)


async def test_what_is_no_task_of_a_batch_is_refused_with_what_to_give() -> None:
    queue = TaskQueue("sqlite://")
    task = queue.task(other)
    async with queue.producer():
        for given in ([task], [await task.enqueue()]):
            with pytest.raises(InvalidInput, match=r"give `task.request\(\.\.\.\)`"):
                await queue.enqueue_group(given)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=r"call `enqueue` of the function with @queue\.task"):
            await queue.enqueue(task, {})  # type: ignore[arg-type]


def test_a_type_has_one_function(queue: TaskQueue) -> None:
    queue.register_handler("send", send)
    with pytest.raises(BadConfig, match=r"'send'.*test_define\.send.*test_define\.other"):
        queue.register_handler("send", other)
    with pytest.raises(BadConfig, match="another name"):
        queue.task(name="send", cron="* * * * *")(other)
    assert queue.definitions.schedules == []
    queue.register_handler("send", send, max_attempts=9)  # the same again, with other options
    handler = queue.definitions.handlers.get("send")
    assert handler is not None
    assert (handler.function, handler.config.max_attempts) == (send, 9)


def test_two_closures_of_one_name_are_two_functions(queue: TaskQueue) -> None:
    def make() -> Any:
        async def work(task: Task) -> None: ...

        return work

    queue.register_handler("work", make())
    with pytest.raises(BadConfig):
        queue.register_handler("work", make())


def test_a_reloaded_module_replaces_its_functions(
    queue: TaskQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reloaded_tasks.py").write_text("async def work(task): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("reloaded_tasks")
    queue.register_handler("work", module.work, cron="@every 5")
    newer = importlib.reload(module)
    queue.register_handler("work", newer.work, cron="@every 9")
    handler = queue.definitions.handlers.get("work")
    assert handler is not None
    assert handler.function is newer.work
    assert [schedule.spec for schedule in queue.definitions.schedules] == ["@every 9"]
    del sys.modules["reloaded_tasks"]


def test_both_ways_to_define_take_the_same_options(queue: TaskQueue) -> None:
    options: TypeOptions = {
        "queue": "mail",
        "priority": "high",
        "max_attempts": 2,
        "timeout": None,
        "retry_delay": 3.0,
        "max_retry_delay": 4.0,
        "retry_on": (OSError, TimeoutError),
        "give_up_on": ValueError,
        "max_deaths": 5,
        "progress_timeout": 12.0,
        "rate": "6/s",
        "concurrency": 7,
        "key_rate": "8/m",
        "key_concurrency": 9,
        "burst": 10,
        "unique": Unique(until="ended"),
        "tags": ["mail"],
        "keep_done": 60,
        "fair": True,
        "isolation": "loop",
        "cron": "@every 11",
        "timezone": "Europe/Prague",
    }
    assert options.keys() == get_type_hints(TypeOptions).keys()
    queue.task(name="a", **options)(other)
    queue.register_handler("b", other, **options)
    a, b = queue.definitions.handlers.get("a"), queue.definitions.handlers.get("b")
    assert a is not None
    assert b is not None
    assert replace(a.config, arguments=None) == b.config  # the other takes the task
    assert a.config.priority is Priority.HIGH
    assert a.config.limit == LimitRule(7, 6, 1.0, 10)
    assert [
        (schedule.name, schedule.spec, schedule.timezone)
        for schedule in queue.definitions.schedules
    ] == [
        ("a", "@every 11", "Europe/Prague"),
        ("b", "@every 11", "Europe/Prague"),
    ]
    assert set(inspect.signature(queue.register_handler).parameters) == {
        "type",
        "handler",
        "options",
    }


def test_options_of_an_enqueue_are_checked_where_they_are_given(queue: TaskQueue) -> None:
    task = queue.task(name="send")(other)
    with pytest.raises(InvalidInput, match=r"'delai'.*delay"):
        task.options(delai=3)  # type: ignore[call-arg]


def test_the_options_of_an_enqueue_have_types() -> None:
    """Type checkers read `EnqueueKeywords`, the producer reads `EnqueueOptions`."""
    assert {*EnqueueKeywords.__annotations__} == {*EnqueueOptions.__struct_fields__, "id", "tx"}
    assert set(get_args(PriorityName)) == {each.name.lower() for each in Priority}
