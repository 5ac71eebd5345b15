"""The comparison of type options between nodes."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given, strategies as st

from holdfast import Task, TaskQueue, Unique
from holdfast.core import codec
from holdfast.core.node import definitions, difference
from holdfast.engine.handlers import Defaults, for_task
from holdfast.engine.type_conflicts import TypeConflicts, options_of
from holdfast.queue.define import TypeOptions, type_config
from holdfast.store.rows import NodeRow
from holdfast.testing import harness

OPTIONS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2) | st.text(max_size=2))
OTHERS: dict[str, Any] = {
    "queue": "mail",
    "priority": "high",
    "max_attempts": 7,
    "timeout": None,
    "retry_delay": 5,
    "max_retry_delay": 600,
    "max_deaths": 9,
    "progress_timeout": 30,
    "rate": "10/m",
    "concurrency": 3,
    "key_rate": "1/s",
    "key_concurrency": 2,
    "burst": 4,
    "unique": Unique(until="ended", by="to"),
    "tags": ["mail"],
    "keep_done": 60,
    "fair": True,
}
OF_THE_NODE = {"isolation", "cron", "timezone", "retry_on", "give_up_on"}
"""Options of the node that runs a task, and of the schedule, which are not part of the type's options."""


async def idle(task: Task) -> None: ...


@given(OPTIONS, OPTIONS)
def test_a_difference_is_reported_exactly_when_there_is_one(
    one: dict[str, object], other: dict[str, object]
) -> None:
    assert (difference(one, other) == "") == (one == other)
    assert (difference(other, one) == "") == (one == other)


def test_every_option_of_tasks_is_compared() -> None:
    assert OTHERS.keys() | OF_THE_NODE == TypeOptions.__annotations__.keys()
    for name, value in OTHERS.items():
        base = TypeOptions(rate="2/s") if name == "burst" else TypeOptions()
        changed: Any = {**base, name: value}
        options = difference(
            options_of(type_config(base), Defaults()), options_of(type_config(changed), Defaults())
        )
        assert options.startswith(f"{name} default and "), name


def test_settings_count_for_options_that_the_type_does_not_set() -> None:
    config = type_config(TypeOptions())
    assert options_of(config, Defaults()) == {}
    assert options_of(config, Defaults(max_attempts=8)) == {"max_attempts": 8}


def test_a_node_without_options_or_not_live_is_not_compared(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mine = TypeConflicts("a")
    mine.define([for_task("send", idle, type_config(TypeOptions(max_attempts=5)))], Defaults())
    description = {"types": ["send"], "lease_seconds": 9.0}
    assert definitions(description) == definitions(description | {"type_options": []}) == {}
    silent, spoken = codec.dumps(description), codec.dumps(description | {"type_options": {}})
    with caplog.at_level(logging.WARNING):
        mine.compare([NodeRow("old", 0.0, 100.0, silent), NodeRow("gone", 0.0, 1.0, spoken)], 100.0)
        mine.compare([NodeRow("a", 0.0, 100.0, spoken)], 100.0)
        assert caplog.messages == []
        for _ in range(3):
            mine.compare(
                [NodeRow("b", 0.0, 100.0, spoken), NodeRow("c", 0.0, 100.0, spoken)], 100.0
            )
    assert len(caplog.messages) == 1
    assert "by b with different options: max_attempts 5 and default" in caplog.messages[0]


async def test_changed_options_are_announced_while_running(queue: TaskQueue) -> None:
    queue.register_handler("send", idle, max_attempts=5)
    async with harness(queue) as h:
        queue.register_handler("send", idle, max_attempts=6)
        await h.engine.heartbeat.step()
        [registered] = await (await queue.open()).store.reads.types()
        config = codec.loads_object(registered.config_json)
        assert (registered.name, config["max_attempts"]) == ("send", 6)
        [node] = await queue.get_nodes()
        assert node.type_options == {"send": {"max_attempts": 6}}
