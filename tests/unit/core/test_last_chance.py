"""Tasks whose next death makes them dead letters start one at a time."""

from __future__ import annotations

from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core.codec import dumps
from holdfast.core.last_chance import APART_SECONDS, is_on_last_chance, to_snooze
from holdfast.core.task import Status, Task
from tests.unit.core.test_decide import task_in

RUNNING = task_in(Status.RUNNING)


def died(deaths: int, max_deaths: int) -> Task:
    options = replace(RUNNING.options, max_deaths=max_deaths)
    return replace(RUNNING, deaths=deaths, options_json=dumps(options))


tasks = st.lists(st.builds(died, st.integers(0, 4), st.integers(1, 4)), max_size=8)


@given(tasks, tasks)
def test_at_most_one_task_on_its_last_chance_joins_the_others(
    claimed: list[Task], owned: list[Task]
) -> None:
    snoozed = [task for task, _ in to_snooze(claimed, owned)]
    last = [task for task in claimed if is_on_last_chance(task)]
    before = sum(map(is_on_last_chance, owned))
    assert snoozed in ([], last)
    if not snoozed:
        assert not last or before + len(last) == 1


@given(tasks, tasks)
def test_snoozed_tasks_return_at_different_times(claimed: list[Task], owned: list[Task]) -> None:
    delays = [snooze.delay_seconds for _, snooze in to_snooze(claimed, owned)]
    first = APART_SECONDS if any(map(is_on_last_chance, owned)) else 0.0
    assert delays == [first + n * APART_SECONDS for n in range(len(delays))]


def test_a_task_without_deaths_is_not_on_its_last_chance() -> None:
    assert not is_on_last_chance(died(0, 1))
    assert not is_on_last_chance(died(1, 3))
    assert is_on_last_chance(died(2, 3))
