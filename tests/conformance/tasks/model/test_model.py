"""Both stores and the model agree, after every verb there is.

Longer: HOLDFAST_MODEL_EXAMPLES=500 pytest tests/conformance/tasks/model
"""

from __future__ import annotations

import asyncio
import inspect
import os
import random
from typing import get_args

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from holdfast.core import command as c
from holdfast.core.ids import Ids
from holdfast.store.postgres.dialect import PostgresDialect
from holdfast.store.postgres.driver import PostgresDriver
from holdfast.store.store import Store
from tests.conformance.tasks.model.machine import BATCHES, PARTS, WatchedStore
from tests.conformance.tasks.model.tour import Machine, tour
from tests.test_docs import emitted

EXAMPLES = int(os.environ.get("HOLDFAST_MODEL_EXAMPLES", "16"))
RULES = {
    *(
        "insert",
        "insert_alone",
        "insert_plain",
        "insert_and_claim",
        "insert_child",
        "insert_child of the dead",
    ),
    *("insert_family", "insert_limited", "repeat", "repeat refused", "schedule", "fire"),
    *(
        "unschedule",
        "hold_schedule",
        "claim",
        "claim_next",
        "claim_aged",
        "complete",
        "fail",
        "bury",
        "bury_all",
        "snooze",
    ),
    *("release", "cancel", "report", "stale", "heartbeat", "expire", "link", "wait", "open_gates"),
    *("abort", "discard", "pause", "resume", "replay", "edit", "pause_queue", "resume_queue"),
    *("look", "prune", "prune the dead", "settle"),
    *(
        "hold",
        "reserve",
        "claim_reserved",
        "get_stuck",
        "stall",
        "admit",
        "suspend",
        "unlock",
        "retry",
        "force",
    ),
}
ELSEWHERE = {
    # Within a caller's own connection, which the two databases do not share: tests/integration.
    "run_in_tx",
    # Called by `link` and by inserts with parents: tests/integration/postgres/test_held_open.py.
    *("links.link_these", "links.link_new"),
    "close",
    # Nothing to see: tests/integration/test_dispatch.py.
    "warm_up",
    # One by one, when a sweep fails: tests/unit/engine/test_outcomes.py.
    "runs.expired",
    # A new epoch ends what the model knows of the feed: tests/conformance/tasks/test_feed_whole.py.
    "feed.new_epoch",
    # Output, totals and named checkpoints of a run: tests/conformance/live.
    *("runs.report", "runs.save_point"),
}
READS_OF_TASKS = {"reads.get", "reads.find"}
OF_TASKS = ("task.", "queue.", "schedule.")
"""Other events have tests of their own, e.g. tests/conformance/live, tests/conformance/locks."""
KINDS_ELSEWHERE = {
    # Output, metrics and deletions by nodes: tests/conformance/worker, tests/conformance/sync. The name of a
    # frame: tests/unit/gateway.
    *("task.output", "task.metrics", "task.deleted", "task.status_changed"),
}
BY_THEMSELVES = {
    # Commands that follow from others, and the events that they leave.
    c.Settle: "task.unblocked",
    c.Revive: "task.revived",
    c.ChangeCause: "task.blamed",
}


def test_stores_and_model_agree_and_every_verb_succeeds(pg_dsn: str) -> None:
    with asyncio.Runner() as runner:
        Machine.dsn = pg_dsn
        Machine.loop = runner.get_loop()
        driver = PostgresDriver(pg_dsn, Machine.clock, server_time=False, size=2)
        ids = Ids(random.Random(2))
        Machine.over_postgres = lambda batch: WatchedStore(
            driver, PostgresDialect(Machine.clock.monotonic, batch), ids
        )
        runner.run(Machine.over_postgres(BATCHES[0]).open())
        for batch in BATCHES:
            tour(Machine(), batch)
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=50,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
            ),
        )
        runner.run(driver.close())
    assert RULES - set(Machine.done) == set(), "rules that never succeeded"
    assert set(Machine.done) - RULES == set(), "rules that are not required"
    assert verbs() - ELSEWHERE - set(WatchedStore.seen) == set(), (
        "verbs of the store that never succeeded"
    )
    commands = set(get_args(c.Command)) - set(BY_THEMSELVES)
    assert commands - set(+Machine.commands) == set(), "commands that were never carried out"
    kinds = {kind for kind in emitted() if kind.startswith(OF_TASKS)} | set(BY_THEMSELVES.values())
    assert kinds - KINDS_ELSEWHERE - set(Machine.kinds) == set(), "events that never came"


def verbs() -> set[str]:
    """Those of the store, and those of its parts as `part.verb`. Of the reads only those of tasks."""
    owners = {"": Store, **{f"{part}.": owner for part, owner in PARTS.items()}}
    names = {
        prefix + name
        for prefix, owner in owners.items()
        for name, _ in inspect.getmembers(owner, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    return {name for name in names if name.partition(".")[0] != "reads"} | READS_OF_TASKS
