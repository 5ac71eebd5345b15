"""Calls of statements, and the indexes that their plans use."""

from __future__ import annotations

from typing import Any

from holdfast.store.script import StatementCall
from tests.conformance.tasks.test_statements import ORDERS

FAIR_LANE: dict[str, Any] = {
    "type": "work",
    "gate": "",
    "queue": "default",
    "project": "default",
    "priority": 2,
}


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

COMMON: list[tuple[str, dict[str, Any], str]] = [
    ("ready_waiters", {"claims": ["a"], "limit": 1, "now": 1.0}, "holdfast_lease_waiter_claim"),
    ("lease_queue", {"resource": "r", "claim_id": "a", "now": 1.0}, "holdfast_lease_waiter_claim"),
    ("leases_after", {"after": "", "limit": 10}, "holdfast_lease_held"),
    ("lease_audit", {"resource": "r", "limit": 10}, "holdfast_lease_audit_resource"),
    ("ending_leases", {"now": 1.0, "limit": 10, "floor": 0.0}, "holdfast_task_lease"),
    (
        "next_upkeep",
        {"floor": 0.0},
        (
            "holdfast_task_lease & holdfast_task_progress & holdfast_task_assigned & "
            "holdfast_decision_deadline & holdfast_intervention_due & holdfast_edge_unlinked"
        ),
    ),
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
            ("next_job_due", {}, "holdfast_job_due"),
            ("jobs_to_look_at", {"limit": 9}, "holdfast_job_due"),
            ("jobs_to_look_at", {"limit": 9}, "holdfast_execution_ended"),
            ("jobs_to_look_at", {"limit": 9}, "holdfast_execution_changed"),
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
                "queues": "\n".join(["default"] * 4),
                "priorities": "0 1 2 3",
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
    "complete_alike": (
        StatementCall(
            "complete_alike",
            {
                "ids": "a",
                "fences": "1",
                "versions": "1",
                "result": "null",
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
    "complete_alike": (
        StatementCall(
            "complete_alike",
            {
                "ids": ["a"],
                "fence": 1,
                "version": 1,
                "result_json": "null",
                "now": 1.0,
                "record_id": "1",
            },
        ),
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
