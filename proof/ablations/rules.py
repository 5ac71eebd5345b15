"""Rules of tasks: start order, attempts, retention."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from holdfast.core import (
    claiming,
    command as c,
    decide as deciding,
    runner_rules,
    transition,
    upkeep_rules,
)
from holdfast.core.priority import Share
from holdfast.core.task import Priority, Task
from holdfast.store.fast import sqlite as shortcuts
from proof.ablations.swap import Ablation, Swap, statement

CROWDED: Final = (
    *(("nodes", "1"), ("max_workers", "1"), ("act_seconds", "1.0"), ("clients", "3")),
    *(("holders", "0"), ("traders", ""), ("lock_servers", "0"), ("faults", "slow")),
    *(("hours", "0.06"), ("recover_hours", "1.0")),
)
FORGETFUL: Final = (("keep_seconds", "60"),)


def _due() -> list[Swap]:
    return statement("scan_lane", ("due_at <= :now ", "due_at <= :now + 1e9 "))


def _priority() -> list[Swap]:
    return [(shortcuts, "Priority", tuple(reversed(Priority)))]


def _ageing() -> list[Swap]:
    return [(claiming, "aged_share", lambda counted, batch: Share(0, 0))]


def _runner(kind: type, rule: Any) -> list[Swap]:
    return [(deciding, "_RUNNER", {**deciding._RUNNER, kind: rule})]


def _snooze() -> list[Swap]:
    def dear(task: Task, command: c.Snooze, now: float) -> transition.Transition:
        made = runner_rules.snooze(task, command, now)
        return replace(made, after=replace(made.after, attempts=task.attempts))

    return _runner(c.Snooze, dear)


def _attempts() -> list[Swap]:
    def again(task: Task, command: c.Fail, now: float) -> transition.Transition:
        endless = replace(task, max_attempts=task.attempts + 1)
        made = runner_rules.fail(endless, replace(command, final=False), now)
        return replace(made, before=task, after=replace(made.after, max_attempts=task.max_attempts))

    return _runner(c.Fail, again)


def _deaths() -> list[Swap]:
    def spared(task: Task, command: c.Expire, fence: int | None, now: float) -> Any:
        made = expire(replace(task, deaths=0), command, fence, now)
        if isinstance(made, transition.Transition):
            after = replace(made.after, deaths=task.deaths + 1)
            return replace(made, before=task, after=after)
        return made

    expire = upkeep_rules.expire
    return [(upkeep_rules, "expire", spared)]


def _evidence() -> list[Swap]:
    return [(transition, "evidence", lambda failure: {"failure_json": None, "fingerprint": None})]


def _retention() -> list[Swap]:
    return statement(
        "prune_tasks",
        ("finished_at IS NOT NULL AND finished_at <", "status = 'queued' AND due_at <"),
    )


RULES: Final = (
    Ablation("due", "tasks start before they are due", _due),
    Ablation("priority", "the least urgent comes first", _priority),
    Ablation("ageing", "old tasks have no share of starts", _ageing, CROWDED),
    Ablation("snooze", "a snooze costs an attempt", _snooze),
    Ablation("attempts", "a failure is always tried again", _attempts),
    Ablation("deaths", "deaths are not bounded", _deaths),
    Ablation("evidence", "dead letters have no failure", _evidence),
    Ablation("retention", "waiting tasks are pruned", _retention, FORGETFUL),
)
