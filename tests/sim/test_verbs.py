"""The simulated workload uses every method of a queue, so that no new method is missed."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.queue.queue import Queue
from holdfast.sim.campaign import Options
from holdfast.sim.world import World

SEEDS_MAX = 24
BUSY = Options(
    hours=0.02,
    nodes=2,
    faults=(),
    changes=(
        *(("act_seconds", "1.0"), ("clients", "3"), ("holders", "0"), ("traders", "")),
        ("lock_servers", "0"),
    ),
)
UNUSED = {
    "before_fork": "part of a fork, which a simulated process cannot do",
    "after_fork_in_parent": "part of a fork",
    "start_over": "part of a fork",
    "task": "the decorator adds arguments and a schedule to what `register_handler` does",
    "middleware": "a definition; handlers of the workload have nothing around them",
    "on_start": "a definition; a simulated process opens nothing that handlers share",
    "on_stop": "a definition, as on_start",
    "producer": "opens and closes the queue, which a simulated process does by itself",
    "run_schedule": "the insert of a firing, without the due time that nodes race for",
    "settings": "an attribute, not an operation",
    "is_paused": "an attribute of a view, not an operation",
}
"""Public names that the workload does not use, with the reason."""


def public(owner: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in inspect.getmembers(owner)
        if not name.startswith("_") and callable(member)
    }


def counted(name: str, member: Callable[..., Any], used: Counter[str]) -> Callable[..., Any]:
    @functools.wraps(member)
    def call(*args: Any, **kwargs: Any) -> Any:
        used[name] += 1
        return member(*args, **kwargs)

    return call


def test_every_method_of_a_queue_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used: Counter[str] = Counter()
    expected = set(UNUSED) & set(public(Queue))

    def unused() -> set[str]:
        return set(public(Queue)) - set(used)

    for name, member in public(Queue).items():
        monkeypatch.setattr(Queue, name, counted(name, member, used))
    for seed in range(SEEDS_MAX):
        World(BUSY.plan(seed)).run()
        if unused() == expected:
            return
    assert unused() == expected
