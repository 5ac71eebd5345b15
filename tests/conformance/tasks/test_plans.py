"""What the databases make of the statements: plans with the named index, and which of them write."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.store.postgres import connection as postgres
from holdfast.store.script import StatementCall
from holdfast.store.sqlite import connection as sqlite
from holdfast.store.sqlite.driver import SqliteDriver
from tests.backends import PostgresBench, SqliteBench
from tests.conformance.tasks.helpers import after, asked, claim, complete, put_plain
from tests.conformance.tasks.test_statements import ORDERS

FAIR_LANE: dict[str, Any] = {
    "type": "work",
    "gate": "",
    "queue": "default",
    "project": "default",
    "priority": 2,
}


COMMON: list[tuple[str, dict[str, Any], str]] = [
    ("ready_waiters", {"claims": ["a"], "limit": 1, "now": 1.0}, "holdfast_lease_waiter_claim"),
    ("lease_queue", {"resource": "r", "claim_id": "a", "now": 1.0}, "holdfast_lease_waiter_claim"),
    ("leases_after", {"after": "", "limit": 10}, "holdfast_lease_held"),
    ("lease_audit", {"resource": "r", "limit": 10}, "holdfast_lease_audit_resource"),
    ("ending_leases", {"now": 1.0, "limit": 10, "floor": 0.0}, "holdfast_task_lease"),
    ("next_due", {"queues": ["default"], "now": 1.0}, "holdfast_task_ready"),
    ("first_due", {"queues": ["default"]}, "holdfast_task_ready"),
    ("parked_tasks", {"gate": "g", "limit": 10}, "holdfast_task_gate"),
    ("fair_keys", {**FAIR_LANE, "first": "", "most": 10, "due": 1.0}, "holdfast_task_fair"),
    ("open_edges", {"ids": ["a"], "limit": 10}, "holdfast_edge_parent"),
    (
        "more_edges",
        {"parent_id": "a", "after_child": "b", "limit": 10},
        "holdfast_edge_parent",
    ),
    (
        "count_dead",
        {"fingerprint": None, "type": None, "queue": None, "before": 1.0},
        "holdfast_task_dead",
    ),
    ("open_limits", {"now": 1.0, "limit": 10}, "holdfast_limit_opens"),
    ("unfinished_entries", {"now": 1.0, "scope": None, "limit": 10}, "holdfast_ledger_lease"),
    *(
        (f"holdfast.fleet:{name}", params, index)
        for name, params, index in (
            (
                "list_hosts",
                {"project": "p", "after": "", "state": None, "part": None, "limit": 9},
                "holdfast_host_name",
            ),
            (
                "forget_hosts",
                {"before": 1.0, "job": "job_1", "slot": "host:", "limit": 9},
                "holdfast_host_gone",
            ),
            ("host_figures", {"since": 1.0, "pushed": "ssh"}, "holdfast_host_standing"),
            ("active_blocks", {"project": "p"}, "holdfast_block_active"),
            ("expired_blocks", {"now": 1.0, "limit": 9}, "holdfast_block_expires"),
            ("silent_agents", {"since": 1.0}, "holdfast_agent_seen"),
            (
                "silent_hosts",
                {"project": "p", "since": 1.0, "after": "", "limit": 9},
                "holdfast_agent_seen",
            ),
            (
                "finished_jobs",
                {"before": 1.0, "after_at": 0.0, "after_id": "", "limit": 9},
                "holdfast_job_finished",
            ),
            ("executions_to_forget", {"job_id": "j", "limit": 9}, "holdfast_execution_job"),
            (
                "claim_deliveries",
                {"webhook": "w", "owner": "o", "now": 1.0, "until": 2.0, "limit": 9},
                "holdfast_outbox_waiting",
            ),
            ("next_delivery", {}, "holdfast_outbox_due"),
            (
                "list_deliveries",
                {"webhook": "w", "before": 9, "limit": 9},
                "holdfast_outbox_subject",
            ),
            ("forget_outbox", {"before": 1.0, "limit": 9}, "holdfast_outbox_done"),
        )
    ),
    *(
        (f"holdfast.fleet.jobs:{name}", params, index)
        for name, params, index in (
            (
                "claim_outbox",
                {"kind": "PLAN_JOB", "owner": "o", "now": 1.0, "until": 2.0, "limit": 9},
                "holdfast_outbox_due",
            ),
            ("next_outbox", {"kind": "PLAN_JOB"}, "holdfast_outbox_due"),
            (
                "job_by_external_id",
                {"project": "p", "external_id": "e"},
                "holdfast_job_external",
            ),
            ("jobs_due", {"now": 1.0, "limit": 9}, "holdfast_job_due"),
            ("next_job_due", {}, "holdfast_job_due"),
            ("jobs_with_ends", {"limit": 9}, "holdfast_execution_ended"),
            ("ended_executions", {"job_id": "j", "limit": 9}, "holdfast_execution_ended"),
            ("ended_facts", {"job_id": "j"}, "holdfast_execution_ended"),
            ("executions_by_nth", {"job_id": "j", "nths": [1]}, "holdfast_execution_job"),
            (
                "unended_executions",
                {"job_id": "j", "after": -1, "limit": 9},
                "holdfast_execution_job",
            ),
            (
                "executions_page",
                {"job_id": "j", "after": -1, "wave": None, "host": None, "limit": 9},
                "holdfast_execution_job",
            ),
            (
                "cells_page",
                {
                    "job_id": "j",
                    "after": -1,
                    "since": 1.0,
                    "pushed": "ssh",
                    "slot": "host:",
                    "limit": 9,
                },
                "holdfast_execution_job",
            ),
            ("target_labels", {"job_id": "j"}, "holdfast_execution_job"),
            (
                "open_standings",
                {"job_id": "j", "since": 1.0, "pushed": "ssh", "made_at": 1.0},
                "holdfast_execution_open",
            ),
            ("window_executions", {"job_id": "j"}, "holdfast_execution_open"),
            (
                "open_facts",
                {"job_id": "j", "since": 1.0, "pushed": "ssh", "slot": "host:"},
                "holdfast_execution_open",
            ),
            (
                "running_executions",
                {"job_id": "j", "after": -1, "limit": 9},
                "holdfast_execution_job",
            ),
            ("running_targets", {"project": "p"}, "holdfast_execution_open"),
            (
                "stopping_blocks",
                {"limit": 9},
                "holdfast_block_active",
            ),
            ("held_executions", {}, "holdfast_execution_held"),
            (
                "held_of_job",
                {"job_id": "j", "block_id": "b", "limit": 9},
                "holdfast_execution_held",
            ),
            ("approvals_due", {"now": 1.0, "limit": 9}, "holdfast_approval_pending"),
            ("break_glass_jobs", {"project": "p", "limit": 9}, "holdfast_job_glass"),
            (
                "jobs_by_external_id",
                {"external_id": "e", "projects": None},
                "holdfast_job_external",
            ),
        )
    ),
    (f"{ORDERS}:page_open_orders", {"after": 0, "limit": 10}, "holdfast_order_open"),
    (
        f"{ORDERS}:page_symbol_orders",
        {"symbol": "s", "after": 0, "limit": 10},
        "holdfast_order_symbol",
    ),
    (f"{ORDERS}:lock_orders", {"ids": ["a"]}, "holdfast_order_name"),
    (f"{ORDERS}:forget_order_answers", {"before": 1.0, "limit": 10}, "holdfast_order_answer_at"),
    ("prune_entries", {"now": 1.0, "limit": 10}, "holdfast_ledger_expiry"),
    (
        "prune_tasks",
        {"before": 1.0, "dead_before": 1.0, "limit": 10, "floor": 0.0},
        "holdfast_task_finished",
    ),
    (
        "prune_output",
        {"before": 1.0, "dead_before": 1.0, "tasks": 10, "limit": 10},
        "holdfast_task_finished",
    ),
    ("ended_kept", {"now": 1.0, "limit": 10}, "holdfast_task_kept"),
]


CALLS = {name: (StatementCall(name, params), index) for name, params, index in COMMON}


TAKING: dict[str, Any] = {
    "now": 1.0,
    "node": "n",
    "lease_seconds": 9.0,
    "claim_id": None,
    "own_lease_seconds": None,
    "projects": None,
    "record_id": "1",
    "event_head": "",
    "event_node": "",
}


POSTGRES_CALLS = CALLS | {
    "claim_plain": (
        StatementCall(
            "claim_plain",
            {
                "queues": ["default"],
                "floors": [0.0] * 4,
                "floor_nths": [0] * 4,
                "types": ["work"],
                "limit": 100,
                **TAKING,
            },
        ),
        "holdfast_task_ready",
    ),
    "claim_next": (
        StatementCall(
            "claim_next",
            {
                "queues": "default",
                "floors": "0.0 0.0 0.0 0.0",
                "floor_nths": "0 0 0 0",
                "types": "work",
                **TAKING,
            },
        ),
        "holdfast_task_ready",
    ),
    "complete_plain": (
        StatementCall(
            "complete_plain",
            {
                "ids": "a",
                "fences": "1",
                "versions": "1",
                "results": "[null]",
                "events_json": "[[]]",
                "deltas_json": "[]",
                "count": 1,
                "now": 1.0,
                "record_id": "1",
            },
        ),
        "holdfast_task_pkey",
    ),
    "read_records": (
        StatementCall("read_records", {"after": 5, "limit": 50}),
        "holdfast_feed_offset",
    ),
    "get_tasks": (StatementCall("get_tasks", {"ids": ["a"]}), "holdfast_task_pkey"),
    "open_parents": (StatementCall("open_parents", {"ids": ["a"]}), "holdfast_edge_pkey"),
    "lock_tasks": (StatementCall("lock_tasks", {"ids": ["a"]}), "holdfast_task_pkey"),
    "lock_queued": (StatementCall("lock_queued", {"ids": ["a"] * 100}), "holdfast_task_pkey"),
    "lock_parked": (
        StatementCall("lock_parked", {"ids": ["a"] * 100, "gate": "g"}),
        "holdfast_task_pkey",
    ),
    "fair_heads": (
        StatementCall("fair_heads", {**FAIR_LANE, "due": 1.0}, [("a", 1)]),
        "holdfast_task_fair",
    ),
    "any_unlinked": (StatementCall("any_unlinked", {"without": ["a"]}), "holdfast_edge_unlinked"),
    "unlinked_edges": (
        StatementCall("unlinked_edges", {"without": ["a"], "limit": 9}),
        "holdfast_edge_unlinked",
    ),
    "lock_free_family": (StatementCall("lock_free_family", {"ids": ["a"]}), "holdfast_task_pkey"),
    "take_held": (StatementCall("take_held", {"parent_id": "a", "limit": 9}), "holdfast_task_pkey"),
    "cascades": (StatementCall("cascades", {"limit": 9}), "holdfast_task_pkey"),
    "lock_unlinked_edges": (
        StatementCall("lock_unlinked_edges", {}, [("a", "b")]),
        "holdfast_edge_p",
    ),
    "extend_leases": (
        StatementCall("extend_leases", {"until": 1.0}, [("a", 1)]),
        "holdfast_task_pkey",
    ),
    "records_by_id": (StatementCall("records_by_id", {"ids": [1]}), "holdfast_feed_pkey"),
}


LANE: dict[str, Any] = {
    "queue": "default",
    "priority": 2,
    "types": ["work"],
    "projects": None,
    "now": 1.0,
    "limit": 10,
}


SQLITE_CALLS = CALLS | {
    "pick_lane": (
        StatementCall(
            "pick_lane",
            LANE,
        ),
        "holdfast_task_ready",
    ),
    "complete_plain": (
        StatementCall("complete_plain", {"now": 1.0, "record_id": "1"}, [("a", 1, 1, "null")]),
        "sqlite_autoindex_holdfast_task_1",
    ),
    "read_records": (
        StatementCall("read_records", {"after": 5, "limit": 50}),
        "INTEGER PRIMARY KEY",
    ),
    "get_tasks": (StatementCall("get_tasks", {"ids": ["a"]}), "sqlite_autoindex_holdfast_task_1"),
    "open_parents": (StatementCall("open_parents", {"ids": ["a"]}), "SEARCH e USING"),
    "records_by_id": (StatementCall("records_by_id", {"ids": [1]}), "SEARCH holdfast_feed USING"),
    "scan_lane": (
        StatementCall(
            "scan_lane",
            LANE,
        ),
        "holdfast_task_ready",
    ),
}


@pytest.fixture
async def pg(clock: VirtualClock, pg_dsn: str) -> AsyncIterator[postgres.Connection]:
    bench = PostgresBench(clock, pg_dsn)
    store = await bench.open()
    ids = await put_plain(store, 50)
    await store.insert([asked(store, depends_on=after(parent)) for parent in ids])
    for task in await claim(store, 30):
        await complete(store, task)
    await bench.close()
    connection = await postgres.connect(pg_dsn)
    yield connection
    await connection.close()


async def test_postgres_plans_use_the_index_that_is_named(pg: postgres.Connection) -> None:
    """Plans statements with the settings of the driver and generic plans, regardless of statistics."""
    for analysed in (False, True):
        if analysed:
            await pg.execute("ANALYZE")
        for name, (call, index) in POSTGRES_CALLS.items():
            prepared = postgres.statements()[name]
            rows = await explained(pg, prepared.text, postgres.bind(prepared, call))
            plan = "\n".join(rows)
            assert index in plan, f"{name}: {plan}"
            assert "Seq Scan on holdfast_task" not in plan, f"{name}: {plan}"
            assert "Seq Scan on holdfast_feed " not in plan, f"{name}: {plan}"
            assert "Seq Scan on holdfast_edge " not in plan, f"{name}: {plan}"


CHANGES = re.compile(r"(?:Insert|Update|Delete|Merge) on ")


HARMLESS = {
    # They set an option, take a lock, send a hint, or query the server. They change no row.
    *("set_config", "pg_notify", "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared"),
    "pg_try_advisory_xact_lock_shared",
    *("pg_control_system", "pg_current_wal_lsn", "pg_is_in_recovery"),
}


async def test_statements_marked_as_reads_change_nothing(pg: postgres.Connection) -> None:
    """A transaction that only reads stores no proof of its commit."""
    volatile = {
        row[0] for row in await pg.fetch("SELECT proname FROM pg_proc WHERE provolatile = 'v'")
    }
    prepared = postgres.statements()
    assert prepared[f"{ORDERS}:write_orders"].writes
    for name, statement in prepared.items():
        plan = "\n".join(await explained(pg, statement.text, (None,) * len(statement.names)))
        called = set(re.findall(r"\b(\w+)\(", statement.text)) & volatile - HARMLESS
        changes = CHANGES.search(plan) is not None or bool(called)
        assert statement.writes == changes, name
    assert prepared["number_records"].writes, "it calls a function that writes"
    assert not prepared["lock_tasks"].writes, "a lock is no change"


async def explained(pg: postgres.Connection, text: str, values: tuple[Any, ...]) -> list[str]:
    transaction = pg.transaction()
    await transaction.start()
    try:
        return [row[0] for row in await pg.fetch(f"EXPLAIN {text}", *values)]
    finally:
        await transaction.rollback()


async def test_sqlite_plans_use_the_index_that_is_named(clock: VirtualClock) -> None:
    bench = SqliteBench(clock, "")
    store = await bench.open()
    await put_plain(store, 50)
    driver = store._driver
    assert isinstance(driver, SqliteDriver)
    assert driver._writer is not None
    for name, (call, index) in SQLITE_CALLS.items():
        statement = sqlite.statements()[name]
        rows = driver._writer.execute(
            f"EXPLAIN QUERY PLAN {statement.text}", sqlite.bind(statement, call)
        ).fetchall()
        plan = "\n".join(str(row[3]) for row in rows)
        assert index in plan, f"{name}: {plan}"
        assert not re.search(r"SCAN (holdfast_task|t|holdfast_feed|f)\b(?! USING)", plan), plan
    await bench.close()
