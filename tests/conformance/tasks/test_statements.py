"""The statements: the same names in both dialects, all in use, with the index that they rely on."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from holdfast.core.task import Task
from holdfast.store import sql
from holdfast.store.columns import COLUMNS, TASK_COLUMNS
from holdfast.store.conditions import CONDITIONS
from holdfast.store.postgres import connection as postgres
from holdfast.store.sql import Statement, load_migrations, load_statements
from holdfast.store.sqlite import connection as sqlite

SRC = Path(__file__).parents[3] / "src" / "holdfast"
ORDERS = "holdfast.orders.sqlstore"
PARTS = (
    ORDERS,
    "holdfast.sync",
    "holdfast.sync.access",
    "holdfast.sync.worker",
    "holdfast.fleet",
    "holdfast.fleet.jobs",
    "holdfast.fleet.agents",
    "holdfast.fleet.ssh",
)
DIALECTS = ("sqlite", "postgres")
OWN = {
    # With one writer, reads in a transaction need no locks, and rows are claimed by row id.
    "sqlite": {
        *(
            "adjust_counters",
            "changed_by",
            "forget_before",
            "forget_steps",
            "get_rows",
        ),
        *("forget_checkpoints", "forget_decisions", "forget_interventions"),
        *("forget_members", "forget_metrics", "forget_output", "forget_windows"),
        *(
            "mark_counted",
            "next_offset",
            "pick_lane",
            "scan_lane",
            "start_one",
            "take_rows",
        ),
    },
    # Verbs of one statement, and offsets that are assigned when the feed is read.
    "postgres": {
        *(
            "adopt_feed",
            "claim_next",
            "claim_plain",
            "hint",
            "insert_part",
            "number_records",
            "pick_aged",
        ),
        *(
            "identity",
            "identity_here",
            "mark_commit",
            "may_identify",
            "probe_commit",
            "probe_record",
        ),
    },
}
BLOCK = re.compile(r"^-- name: *(\w+)\n(.*?)(?=^-- name:|\Z)", re.MULTILINE | re.DOTALL)
CREATED = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+)")
TABLES = re.compile(r"CREATE TABLE (\w+)")


class Text(NamedTuple):
    name: str
    text: str
    relies_on: str | None


def texts(dialect: str) -> dict[str, Text]:
    texts = {}
    for package, folder in packages(dialect):
        for file in files(package).joinpath(folder).iterdir():
            for name, body in BLOCK.findall(file.read_text("utf-8")):
                index = re.search(r"^-- index: *(.*)$", body, re.MULTILINE)
                texts[name] = Text(name, body, index[1] if index else None)
    return texts


def packages(dialect: str) -> list[tuple[str, str]]:
    """The statements of the store, and those of packages above it."""
    return [
        (f"holdfast.store.{dialect}", "statements"),
        *((package, f"statements/{dialect}") for package in PARTS),
    ]


def loaded(dialect: str) -> dict[str, Statement]:
    statements: dict[str, Statement] = {}
    for package, folder in packages(dialect):
        statements |= load_statements(package, lambda _: "r", folder)
    return statements


def names(dialect: str) -> set[str]:
    return set(loaded(dialect))


def test_both_dialects_know_the_same_statements() -> None:
    sqlite_names, postgres_names = names("sqlite"), names("postgres")
    assert sqlite_names - postgres_names == OWN["sqlite"]
    assert postgres_names - sqlite_names == OWN["postgres"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_is_used(dialect: str) -> None:
    code = "\n".join(path.read_text("utf-8") for path in SRC.rglob("*.py"))
    assert [name for name in sorted(names(dialect)) if f'"{name}"' not in code] == []


def test_same_results_under_the_same_names() -> None:
    ours, theirs = loaded("sqlite"), loaded("postgres")
    # A shortcut may return what suits its dialect.
    differing = {"insert_plain", "insert_alike", "insert_one", "complete_plain", "complete_alike"}
    differing |= {"count_records", "prune_feed", "prune_tasks"}
    for name in (ours.keys() & theirs.keys()) - differing:
        assert ours[name].returns == theirs[name].returns, name
        assert [c.name for c in ours[name].columns] == [c.name for c in theirs[name].columns], name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_that_finds_rows_names_its_index(dialect: str) -> None:
    """Tables of one row and lists that are read as a whole need no index."""
    whole = {
        *(
            "adopt_feed",
            "feed_position",
            "forget_before",
            "hint",
            "wait_briefly",
            "identity",
            "identity_here",
            "may_identify",
        ),
        "durability",
        *(
            "mark_counted",
            "nodes",
            "latest_seen",
            "live_positions",
            "lock_names",
            "share_names",
            "share_starts",
            "hold_starts",
            "schema_number",
            "projects",
            "prune_nodes",
            "queues",
            "schedules",
            "types",
        ),
    }
    if dialect == "sqlite":
        whole.add("prune_marks")  # It has none.
    missing = {text.name for text in texts(dialect).values() if text.relies_on is None}
    assert missing <= whole
    made = "\n".join(m.text for m in load_migrations(f"holdfast.store.{dialect}"))
    names = {*CREATED.findall(made), *TABLES.findall(made)}
    names |= {f"{table}_pkey" for table in TABLES.findall(made)}
    for text in texts(dialect).values():
        for word in re.findall(r"holdfast_\w+", text.relies_on or ""):
            assert word in names, f"{text.name} relies on {word}, which does not exist"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_value_in_a_statement_is_a_parameter(dialect: str) -> None:
    for text in texts(dialect).values():
        holes = [
            hole
            for hole in re.findall(r"\{[^}]*\}", text.text)
            if not re.match(rf"\{{(?:rows:|(?:{'|'.join([*COLUMNS, *CONDITIONS])})\W)", hole)
        ]
        assert holes == [], text.name


def test_both_dialects_have_the_same_migrations() -> None:
    ours, theirs = (
        [(m.number, m.name) for m in load_migrations(f"holdfast.store.{dialect}")]
        for dialect in DIALECTS
    )
    assert ours == theirs
    numbers = [number for number, _ in ours]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_columns_are_the_fields_of_a_task() -> None:
    assert Task.__struct_fields__ == TASK_COLUMNS


def test_both_dialects_have_the_same_tables_and_columns() -> None:
    made = {
        dialect: "\n".join(m.text for m in load_migrations(f"holdfast.store.{dialect}"))
        for dialect in DIALECTS
    }
    own = "holdfast_commit"  # The answer of a commit to a file cannot be lost.
    locking = "holdfast_lease_fence"  # A transaction locks the whole file.
    shared = [name for name in TABLES.findall(made["postgres"]) if name != own]
    assert TABLES.findall(made["sqlite"]) == shared
    assert CREATED.findall(made["sqlite"]) == [
        name
        for name in CREATED.findall(made["postgres"])
        if not name.startswith("holdfast_feed_") and name != locking
    ]
    for dialect, text in made.items():
        table = text[text.index("CREATE TABLE holdfast_task") :]
        table = table[: table.index("\n)")]
        columns = re.findall(
            r"^    (\w+) +(text|integer|bigint|smallint|real|double precision)", table, re.MULTILINE
        ) + re.findall(
            r"ALTER TABLE holdfast_task ADD COLUMN (\w+) (text|real|double precision)", text
        )
        assert [name for name, _ in columns if name in TASK_COLUMNS] == list(TASK_COLUMNS)
        if dialect == "postgres":
            assert set(COLUMNS["task"]) <= set(columns)


@pytest.mark.parametrize(
    "text",
    [
        "insert into t values (1)",
        "WITH gone AS (delete from t RETURNING id) SELECT id FROM gone",
        "UPDATE\n t SET a = 1",
        "MERGE INTO t USING r ON true WHEN MATCHED THEN DELETE",
        "SELECT holdfast_number()",
        "SELECT id FROM t FOR UPDATE; UPDATE t SET a = 1",
        "TRUNCATE t",
        "CALL anything()",
        "DO $$ BEGIN END $$",
        "",
    ],
)
def test_other_statements_count_as_writes(text: str) -> None:
    assert not sql.only_reads(text)


def test_the_columns_of_the_fleet_are_those_of_its_tables() -> None:
    tables = {
        **{name: f"holdfast_{name}" for name in ("host", "block", "job", "execution", "approval")},
        **{name: f"holdfast_{name}" for name in ("vote", "agent", "webhook", "outbox")},
        "group": "holdfast_host_group",
    }
    made = "\n".join(m.text for m in load_migrations("holdfast.store.postgres"))
    for name, table in tables.items():
        body = made[made.index(f"CREATE TABLE {table} (") :]
        columns = re.findall(
            r"^    ([a-z_0-9]+) +(text|bigint|double precision)",
            body[: body.index("\n)")],
            re.MULTILINE,
        )
        added = rf"ALTER TABLE {table} ADD COLUMN ([a-z_0-9]+) (text|bigint|double precision)"
        columns += re.findall(added, made)
        assert [tuple(column) for column in COLUMNS[name]] == columns, name


def test_a_statement_that_stands_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "_texts", lambda *_: iter(["-- name: a\nSELECT 1;\n"] * 2))
    with pytest.raises(ValueError, match="defined twice"):
        load_statements("holdfast.store.sqlite", lambda _: "r")


@pytest.mark.parametrize("dialect", [sqlite, postgres], ids=DIALECTS)
def test_a_part_brings_its_own_statements(dialect: ModuleType) -> None:
    loaded = dialect.statements()
    with pytest.raises(KeyError):
        loaded["lock_orders"]
    with pytest.raises(KeyError):
        loaded[f"{ORDERS}:claim"]
    assert "holdfast_order" in loaded[f"{ORDERS}:lock_orders"].text
    assert f"{ORDERS}:write_orders" in loaded
