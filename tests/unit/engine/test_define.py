"""Defining tasks: atomic, one function for each type, the same options both ways."""

from __future__ import annotations

import importlib
import inspect
import sys
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
